"""The canonical loop against its definition, for each of its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from circlet.runtime.ops.loop_options import (
    Base,
    Carried,
    CondUse,
    Feed,
    Mode,
    Order,
    Overrun,
    Position,
    ScanInput,
    ScanOutput,
    ShapePolicy,
    TripPolicy,
)
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.shape import Fill, Reshape, ShapeOf
from circlet.runtime.ops.unary import LogicalNot
from tests.ops.loop_cases import Array, LoopCase, Operands, arguments, expected, loop_model

I32, I64, F32, BOOL = DType.INT32, DType.INT64, DType.FLOAT32, DType.BOOL
TRUE, FALSE = np.array(True), np.array(False)
ROW = np.array([1, -2], np.int32)
TABLE = np.arange(12, dtype=np.int32).reshape(4, 3)
CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def i32(value: object) -> Array:
    return np.array(value, np.int32)


def i64(value: object) -> Array:
    return np.array(value, np.int64)


def constant(s: SubgraphBuilder, value: object, dtype: DType = I32) -> Value:
    return s.constant(np.array(value, dtype.numpy))


def add(s: SubgraphBuilder, one: Value, other: Value | int) -> Value:
    return s.apply(Add(), one, constant(s, other) if isinstance(other, int) else other)


def total(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    """(n, x) -> (x + n + 1)"""
    return [add(s, add(s, v[1], v[0]), 1)]


def guarded(limit: int) -> Callable[[SubgraphBuilder, Sequence[Value]], list[Value]]:
    """(n, c, x) -> (n < limit, x + n + 1)"""
    def formula(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        return [s.apply(Less(), v[0], constant(s, limit)), *total(s, [v[0], v[2]])]

    return formula


def negated(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    """(n, c, x) -> (not c, x + n + 1)"""
    return [s.apply(LogicalNot(), v[1]), *total(s, [v[0], v[2]])]


def forwarded(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    """(n, c, x) -> (c, x + n + 1)"""
    return [v[1], *total(s, [v[0], v[2]])]


TOTAL = Loop(iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=(ScanOutput(0),))
TOTAL_KINDS = ((I32, ()), (I32, (2,)))
GUARDED = Loop(iteration=Feed(0), cond_input=Feed(1), cond_output=0, carried=(Carried(2, 1),),
               scan_outputs=(ScanOutput(1),))
GUARDED_KINDS = ((I32, ()), (BOOL, ()), (I32, (2,)))


def trips(*counts: Array | None) -> tuple[Operands, ...]:
    return tuple((count, None, ROW) for count in counts)


COUNTS = [
    LoopCase("trip count", TOTAL, total, TOTAL_KINDS, trips(i32(3), i32(0), i32(5), i32(-1))),
    LoopCase("trip count of int64", TOTAL, total, TOTAL_KINDS, trips(i64(3), i64(1))),
    LoopCase("trip count of rank 2", TOTAL, total, TOTAL_KINDS, trips(i32([[4]]))),
    LoopCase("iteration of int64 and rank 1", replace(TOTAL, iteration=Feed(0, 1)),
             lambda s, v: [add(s, s.op(Cast(I64, I32), v[0], outputs=[Tensor("n", I32, (1,))])[0], v[1])],
             ((I64, (1,)), (I32, (2,))),
             trips(i32(3), i32(0))),
    LoopCase("negative is infinite", replace(GUARDED, trip_policy=TripPolicy.NEGATIVE_IS_INFINITE), guarded(3),
             GUARDED_KINDS, ((i32(-1), TRUE, ROW), (i32(2), TRUE, ROW), (i32(0), TRUE, ROW))),
    LoopCase("huge trip count", GUARDED, guarded(3), GUARDED_KINDS,
             ((i64(2**63 - 1), TRUE, ROW), (i64(2**31 - 1), None, ROW), (i64(-2**63), None, ROW))),
]

CONDITIONS = [
    LoopCase("condition alone", GUARDED, guarded(3), GUARDED_KINDS, ((None, TRUE, ROW), (None, FALSE, ROW))),
    LoopCase("condition and trip count", GUARDED, guarded(3), GUARDED_KINDS,
             ((i32(2), TRUE, ROW), (i32(9), TRUE, ROW), (i32(9), FALSE, ROW), (i32(0), TRUE, ROW))),
    LoopCase("condition of shape (1, 1) and body input of rank 1", replace(GUARDED, cond_input=Feed(1, 1)),
             lambda s, v: [s.apply(Less(), v[0], constant(s, [2])), v[2]], ((I32, ()), (BOOL, (1,)), (I32, (2,))),
             ((i32(9), np.array([[True]]), ROW),)),
    LoopCase("absent condition is honoured", GUARDED, guarded(0), GUARDED_KINDS, ((i32(5), None, ROW),)),
    LoopCase("absent condition is ignored", replace(GUARDED, cond_use=CondUse.IGNORE), negated, GUARDED_KINDS,
             ((i32(5), None, ROW), (i32(0), None, ROW))),
    LoopCase("forwarded condition", GUARDED, forwarded, GUARDED_KINDS,
             ((i32(4), TRUE, ROW), (i32(4), FALSE, ROW), (i32(4), None, ROW))),
    LoopCase("first condition alone", TOTAL, total, TOTAL_KINDS,
             ((i32(4), TRUE, ROW), (i32(4), FALSE, ROW))),
    LoopCase("own condition", replace(TOTAL, invariants=(2,)), lambda s, v: total(s, v), (*TOTAL_KINDS, (I32, ())),
             ((i32(9), None, ROW, i32(5)), (None, None, ROW, i32(20)), (None, None, ROW, i32(-5))),
             cond=lambda s, v: [s.apply(Less(), s.apply(Sum(), v[0], constant(s, [0])), v[1])]),
]


def swap(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    return [v[1], v[0]]


CARRIED = [
    LoopCase("swap", Loop(carried=(Carried(0, 0), Carried(1, 1))), swap, ((I32, (2,)), (I32, (2,))),
             tuple((i32(n), None, ROW, ROW + 5) for n in (0, 1, 2, 3))),
    LoopCase("shift", Loop(carried=(Carried(0, 0), Carried(1, 1), Carried(2, 2))),
             lambda s, v: [add(s, v[0], 1), v[0], v[1]], ((I32, ()),) * 3,
             tuple((i32(n), None, i32(10), i32(20), i32(30)) for n in (1, 4))),
    LoopCase("one result twice", Loop(carried=(Carried(0, 0), Carried(1, 0)), scan_outputs=(ScanOutput(0),) * 2),
             lambda s, v: [add(s, v[0], v[1])], ((I32, (2,)),) * 2, ((i32(3), None, ROW, ROW),)),
    LoopCase("body inputs in another order",
             Loop(iteration=Feed(2), carried=(Carried(3, 1), Carried(0, 0)), invariants=(1,)),
             lambda s, v: [add(s, v[0], v[1]), add(s, v[3], v[2])], ((I32, ()),) * 4,
             ((i32(3), None, i32(1), i32(2), i32(7)),)),
    LoopCase("growing", Loop(carried=(Carried(0, 0),)),
             lambda s, v: s.op(Concatenation(), v[0], constant(s, [7])), ((I32, (-1,)),),
             ((i32(3), None, i32([1])), (i32(0), None, i32([])), (i32(2), None, i32([]))), open=True),
    LoopCase("rank grows", Loop(carried=(Carried(0, 0, ShapePolicy.FREE),)),
             lambda s, v: s.op(Reshape(), v[0], constant(s, [1, -1])), ((I32, (-1,)),), ((i32(1), None, i32([1, 2])),),
             open=True),
    LoopCase("fixed shape", Loop(carried=(Carried(0, 0, ShapePolicy.FIXED), Carried(1, 1, ShapePolicy.FIXED_RANK))),
             lambda s, v: [add(s, v[0], 1), *s.op(Concatenation(), v[1], constant(s, [7]))],
             ((I32, (2,)), (I32, (-1,))), ((i32(3), None, ROW, ROW),), open=True),
    LoopCase("constant result", Loop(carried=(Carried(0, 0),), scan_outputs=(ScanOutput(0),)),
             lambda s, v: [constant(s, [5, 6])], ((I32, (2,)),), ((i32(0), None, ROW), (i32(2), None, ROW))),
    LoopCase("strings",
             Loop(carried=(Carried(0, 0),), scan_outputs=(ScanOutput(0), ScanOutput(0, order=Order.PREPEND))),
             lambda s, v: [s.constant(np.array([b"a", b"b"], object), DType.STRING)], ((DType.STRING, (2,)),),
             ((i32(0), None, np.array([b"x", b"y"], object)), (i32(2), None, np.array([b"x", b"y"], object)))),
]


def collecting(*outputs: ScanOutput) -> Loop:
    return Loop(iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=outputs)


MATRIX = TABLE[:2]
FORMS = (ScanOutput(0), ScanOutput(0, 1), ScanOutput(0, -1), ScanOutput(0, -3, order=Order.PREPEND),
         ScanOutput(0, 2, order=Order.PREPEND), ScanOutput(0, 0, Mode.CONCAT, part=2),
         ScanOutput(0, -1, Mode.CONCAT, Order.PREPEND, part=3), ScanOutput(0, 1, Mode.CONCAT, part=3))
LENGTHS = tuple(ScanOutput(0, axis, order=order, has_length=True) for axis in (0, 1) for order in Order)


def stopping(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    """(n, x, limit) -> (x + n + 1, n < limit)"""
    return [*total(s, v), s.apply(Less(), v[0], v[2])]


def filled(s: SubgraphBuilder, v: Sequence[Value], shape: tuple[int, ...] | None) -> Sequence[Value]:
    """n -> [3] * n, a tensor of which the rank may be declared."""
    declared = Tensor("x", I32, (), has_rank=False) if shape is None else Tensor("x", I32, shape, (-1,) * len(shape))
    return s.op(Fill(), s.apply(Reshape(), v[0], constant(s, [1])), constant(s, 3), outputs=[declared])


COLLECTED = [
    LoopCase("scan outputs, counted", collecting(*FORMS), total, ((I32, ()), (I32, (2, 3))),
             tuple((i32(n), None, MATRIX) for n in (3, 0, 1))),
    LoopCase("scan outputs, open", replace(collecting(*FORMS), cond_output=1, invariants=(2,)), stopping,
             ((I32, ()), (I32, (2, 3)), (I32, ())),
             tuple((i32(count), TRUE, MATRIX, i32(n)) for count, n in ((100, 2), (100, 0), (100, 40), (0, 3)))),
    LoopCase("scan outputs with lengths", collecting(*LENGTHS), total, ((I32, ()), (I32, (2, 3))),
             ((i32(3), None, MATRIX, i32(3), i64(3), i32(5), i32(4)), (i32(0), None, MATRIX, *[i32(2)] * 4),
              (i32(0), None, MATRIX, *[i32(0)] * 4))),
    LoopCase("scan outputs with lengths, open", replace(collecting(*LENGTHS), cond_output=1, invariants=(2,)), stopping,
             ((I32, ()), (I32, (2, 3)), (I32, ())), ((None, None, MATRIX, i32(1), *[i32(4)] * 4),)),
    LoopCase("scalar elements", replace(collecting(ScanOutput(1), ScanOutput(0, -1, order=Order.PREPEND))),
             lambda s, v: [*total(s, v), v[0]], ((I32, ()), (I32, ())), tuple((i32(n), None, i32(4)) for n in (3, 0))),
    LoopCase("many open elements",
             Loop(iteration=Feed(0), cond_output=0, scan_outputs=(ScanOutput(1), ScanOutput(1, order=Order.PREPEND)),
                  invariants=(1, 2)),
             lambda s, v: [s.apply(Less(), v[0], v[1]), add(s, v[2], v[0])], ((I32, ()), (I32, ()), (I32, (4096,))),
             ((None, None, i32(40), np.arange(4096, dtype=np.int32)),)),
    LoopCase("rank of the element from data",
             Loop(invariants=(0,), scan_outputs=(ScanOutput(0), ScanOutput(0, 1)), last_outputs=(0,)),
             lambda s, v: filled(s, v, None), ((I32, ()),),
             ((i32(3), None, i32(2)), (i32(3), None, i32(0)), (i32(0), None, i32(2)))),
    LoopCase("shape of the element from data",
             Loop(invariants=(0,), scan_outputs=(ScanOutput(0), ScanOutput(0, 1, order=Order.PREPEND)),
                  last_outputs=(0,)),
             lambda s, v: filled(s, v, (1,)), ((I32, ()),), ((i32(3), None, i32(2)), (i32(0), None, i32(2)))),
    LoopCase("last outputs", Loop(iteration=Feed(0), last_outputs=(0, 1), carried=(Carried(1, 1),)),
             lambda s, v: [v[0], *total(s, v)], ((I32, ()), (I32, (2,))),
             tuple((i32(n), None, ROW) for n in (3, 0))),
]


def scanning(*inputs: ScanInput, **options: object) -> Loop:
    """Collects each slice that a body sees."""
    return Loop(scan_inputs=inputs, scan_outputs=tuple(ScanOutput(k) for k in range(len(inputs))),
                **options)  # type: ignore[arg-type]


def keep(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    return [add(s, each, 0) for each in v]


BACK = Position(-1, Base.END)
SLICED = [
    LoopCase("slices", scanning(ScanInput(0), ScanInput(1, -1, keep_axis=True), count_from_scan=True), keep,
             ((I32, (3,)), (I32, (4, 1))), ((None, None, TABLE, np.ascontiguousarray(TABLE[:, :1]).repeat(4, 1)),)),
    LoopCase("reversed slices", scanning(ScanInput(0, 1, BACK, -1), count_from_scan=True), keep, ((I32, (2, 4)),),
             ((None, None, CUBE),)),
    LoopCase("no slices", scanning(ScanInput(0), count_from_scan=True), keep, ((I32, (3,)),),
             ((None, None, TABLE[:0]),)),
    LoopCase("parts", scanning(ScanInput(0, 2, size=2, step=2, keep_axis=True),
                               ScanInput(1, 2, Position(-2, Base.END), -2, 2, keep_axis=True), count_from_scan=True),
             keep, ((I32, (2, 3, 2)), (I32, (2, 3, 2))), ((None, None, CUBE, CUBE),)),
    LoopCase("parts of a part", scanning(
        ScanInput(0, 2, Position(1), 1, keep_axis=True, end=BACK),
        ScanInput(1, 2, Position(2), -1, keep_axis=True, end=Position(1)), count_from_scan=True),
        keep, ((I32, (2, 3, 1)), (I32, (2, 3, 1))), ((None, None, CUBE, CUBE),)),
    LoopCase("fewer iterations than slices", scanning(ScanInput(0), ScanInput(1, 0, Position(-1, Base.TRIP), -1)), keep,
             ((I32, (3,)),) * 2, tuple((i32(n), None, TABLE, TABLE) for n in (2, 0, 4))),
    LoopCase("last slice held", scanning(ScanInput(0), ScanInput(1, 0, BACK, -1),
                                         ScanInput(2, 0, step=3, size=2, keep_axis=True), overrun=Overrun.HOLD_LAST),
             keep, ((I32, (3,)), (I32, (3,)), (I32, (2, 3))), ((i32(6), None, TABLE, TABLE, TABLE),)),
]

CASES = [*COUNTS, *CONDITIONS, *CARRIED, *COLLECTED, *SLICED]


def run(model: Model, arrays: Sequence[Array], backend: str, elide: bool = True) -> list[Array]:
    return list(circlet.Session(model, backend=backend, copy_elision=elide).invoke(0, arrays))


def assert_equal(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    assert [each.shape for each in found] == [each.shape for each in wanted]
    assert [each.dtype for each in found] == [each.dtype for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def id_of(case: LoopCase) -> str:
    return case.name.replace(" ", "_")


def check_runs(case: LoopCase, backend: str, elide: bool = True) -> None:
    """Runs a case; operands that are there in the same runs are inputs of one session."""
    sessions: dict[tuple[bool, ...], circlet.Session] = {}
    for operands in case.runs:
        present = tuple(each is not None for each in operands)
        model = loop_model(case, operands)
        session = sessions.setdefault(present, circlet.Session(model, backend=backend, copy_elision=elide))
        assert_equal(session.invoke(0, arguments(operands)), expected(model, operands))


@pytest.mark.parametrize("elide", [True, False], ids=["elided", "copying"])
@pytest.mark.parametrize("case", CASES, ids=id_of)
def test_cpu(case: LoopCase, elide: bool) -> None:
    check_runs(case, "cpu", elide)


@pytest.mark.parametrize("case", [case for case in CASES if "from data" not in case.name], ids=id_of)
def test_constant_operands(case: LoopCase) -> None:
    """More is known before the run: room for scan outputs, and the body's constants."""
    for operands in case.runs:
        constants = range(len(operands))
        model = loop_model(case, operands, constants)
        assert_equal(run(model, [], "cpu"), expected(model, operands))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=id_of)
def test_native(case: LoopCase) -> None:
    check_runs(case, "native")


def nested_model() -> tuple[Model, list[Array], list[Array]]:
    """Rows that a loop in a loop makes, the inner one as often as the outer one has turned; inputs, and results."""
    b = circlet.ModelBuilder()
    main, outer, inside = b.subgraph("main"), b.subgraph("outer"), b.subgraph("inner")
    inside.output(*total(inside, [inside.input("n", I32), inside.input("x", I32, (2,))]))
    n, x = outer.input("n", I32), outer.input("x", I32, (2,))
    rows = add_loop(outer, replace(TOTAL, body_subgraph_index=inside.index), inside, trip_count=outer.constant(3),
                    carried=[x])
    again = add_loop(outer, replace(TOTAL, body_subgraph_index=inside.index, scan_outputs=()), inside, trip_count=n,
                     carried=rows.carried)
    outer.output(again.carried[0], rows.scans[0])
    op = Loop(outer.index, iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=(ScanOutput(1),))
    results = add_loop(main, op, outer, trip_count=main.constant(4), carried=[main.input("x", I32, (2,))])
    main.output(*results.carried, *results.scans)
    value, collected = ROW, []
    for turn in range(4):
        collected.append(np.stack([value + 1, value + 3, value + 6]))
        value = value + 6 + turn * (turn + 1) // 2
    return b.build(), [ROW], [value, np.stack(collected)]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=pytest.mark.slow)])
def test_nested(backend: str) -> None:
    model, arrays, wanted = nested_model()
    assert_equal(run(model, arrays, backend), wanted)


def test_sizes_from_outside_are_known_inside() -> None:
    """A body that is given the shape of a tensor, and a trip count that is its length, has fixed shapes."""
    b = circlet.ModelBuilder()
    main, body = b.subgraph("main"), b.subgraph("body")
    x = main.input("x", I32, (-1, 2))
    shape = main.op(ShapeOf(I64), x, outputs=[Tensor("shape", I64, (2,))])[0]
    length = main.op(Gather(), shape, main.constant(0), outputs=[Tensor("length", I64, ())])[0]
    y, size = body.input("y", I32, (-1,)), body.tensor(Tensor("size", I64, (2,)))
    body.feed(size)
    square = body.op(Reshape(), y, size, outputs=[Tensor("square", I32, (1, 1), (-1, -1))])[0]
    body.output(add(body, y, 1), square)
    op = Loop(body.index, carried=(Carried(0, 0),), invariants=(1,), scan_outputs=(ScanOutput(1),))
    flat = main.op(Reshape(), x, main.constant([-1]), outputs=[Tensor("flat", I32, (1,), (-1,))])[0]
    results = add_loop(main, op, body, trip_count=length, carried=[flat], invariants=[shape])
    main.output(*results.scans)
    session = circlet.Session(b.build(), backend="cpu")
    assert all(each.bytes is not None for each in session.copies())
    value = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert_equal(session.invoke(0, [value]), [np.stack([value, value + 1, value + 2])])
