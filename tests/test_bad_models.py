"""What operators cannot compute ends the run with an error that names the place; the session then goes on.

The operators run as they stand, in a branch and in the body of a loop, with results of declared and of open shapes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.run import MOST_FRAMES
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DimensionSparsity, DType, Sparsity
from circlet.runtime.ops import controlflow, elementwise, index, layout, matmul, pad, reduce, resample, shape, sort
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, Array, f32, i32

SECONDS = 30.0
SIX = np.arange(6, dtype=np.float32)
GRID = SIX.reshape(2, 3)


@dataclass(frozen=True)
class Case:
    """An operator, operands that it can compute with, and others that it cannot."""

    op: Op
    operands: Sequence[Array]
    result: Array
    wrong: Sequence[Array | None]
    """What takes the place of the operands; None leaves one as it is."""
    message: str
    loose: bool = False
    """Whether the lengths of the operands are open."""
    error: type[circlet.CircletError] = circlet.ExecutionError

    def __str__(self) -> str:
        return f"{self.op.name}-{self.message[:24]}"


def i64(value: Any) -> Array:
    return np.array(value, np.int64)


HUGE = 1 << 50
"""A length that no machine has memory for; so many elements are more than any memory holds if squared."""
TOO_LARGE = "more than this machine has|more elements than any memory holds"


def large(op: Op, operands: Sequence[Array], result: Array, wrong: Sequence[Array | None]) -> Case:
    return Case(op, operands, result, wrong, TOO_LARGE, error=circlet.LimitError)


CASES = [
    Case(shape.Reshape(), [SIX, i32([2, 3])], GRID, [None, i32([4, 2])], r"cannot reshape \(6,\) \(6 elements\)"),
    Case(shape.Reshape(), [SIX, i32([2, 3])], GRID, [None, i32([-1, -1])], "at most one -1"),
    Case(shape.Reshape(), [SIX, i32([2, 3])], GRID, [None, i32([-2, -3])], "not negative"),
    Case(shape.Reshape(), [SIX, i32([2, 3])], GRID, [None, i32([1 << 30, 1 << 30])], "cannot reshape"),
    Case(shape.ExpandDims(), [SIX, i32(0)], SIX[None], [None, i32(3)], "axis: expected -2 to 1 .* found 3"),
    Case(shape.Fill(), [i32([2]), f32(1)], f32([1, 1]), [i32([-2]), None], "not negative"),
    Case(shape.Range(), [i32(0), i32(3), i32(1)], i32([0, 1, 2]), [None, None, i32(0)], "delta.*found 0"),
    Case(shape.Range(), [i32(0), i32(3), i32(1)], i32([0, 1, 2]), [None, None, i32(-1)], "delta.*found -1"),
    Case(shape.Range(), [f32(0), f32(2), f32(1)], f32([0, 1]), [None, f32(np.inf), None], "limit.*found inf"),
    Case(shape.Range(), [f32(0), f32(2), f32(1)], f32([0, 1]), [None, None, f32(np.nan)], "delta.*found nan"),
    Case(shape.BroadcastTo(), [f32([1]), i32([2])], f32([1, 1]), [None, i32([-1])], "not negative"),
    Case(resample.Resample((0,)), [SIX, f32([0.5])], f32([0, 2, 4]), [None, f32([np.inf])], "cannot resize"),
    Case(resample.Resample((0,)), [SIX, f32([0.5])], f32([0, 2, 4]), [None, f32([np.nan])], "cannot resize"),
    Case(shape.OneHot(axis=-1), [i32([0]), i32(2), f32(1), f32(0)], f32([[1, 0]]), [None, i32(-1), None, None],
         "depth.*found -1"),
    Case(pad.Tile(), [SIX, i32([1])], SIX, [None, i32([-1])], "not negative"),
    Case(pad.Pad(), [SIX, i32([[0, 0]])], SIX, [None, i32([[-1, 0]])], "not negative"),
    large(shape.Fill(), [i64([2]), f32(1)], f32([1, 1]), [i64([HUGE]), None]),
    large(shape.Fill(), [i64([1, 2]), f32(1)], f32([[1, 1]]), [i64([HUGE, HUGE]), None]),
    large(shape.Range(), [i64(0), i64(3), i64(1)], i64([0, 1, 2]), [None, i64(HUGE), None]),
    large(shape.Range(), [i64(0), i64(3), i64(1)], i64([0, 1, 2]), [i64(-(1 << 63)), i64((1 << 63) - 1), None]),
    large(shape.BroadcastTo(), [f32([1]), i64([2])], f32([1, 1]), [None, i64([HUGE])]),
    large(shape.OneHot(axis=-1), [i32([0]), i64(2), f32(1), f32(0)], f32([[1, 0]]), [None, i64(HUGE), None, None]),
    large(pad.Tile(), [SIX, i64([1])], SIX, [None, i64([HUGE])]),
    large(pad.Pad(), [SIX, i64([[0, 0]])], SIX, [None, i64([[HUGE, HUGE]])]),
    Case(index.Gather(), [SIX, i32([5, 0])], f32([5, 0]), [None, i32([0, 6])], "index 6 is out of range"),
    Case(index.Gather(), [SIX, i32([5, 0])], f32([5, 0]), [None, i32([-1, 0])], "index -1 is out of range"),
    Case(index.Gather(), [SIX, i32(5)], f32(5), [None, i32(-(1 << 31))], "index -2147483648 is out of range"),
    Case(index.Gather(axis=1), [GRID, i32([2])], f32([[2], [5]]), [None, i32([3])], "index 3 is out of range"),
    Case(index.GatherNd(), [GRID, i32([[1, 2]])], f32([5]), [None, i32([[1, 3]])], r"index \[1, 3\] is out of range"),
    Case(index.GatherNd(), [GRID, i32([[1, 2]])], f32([5]), [None, i32([[-1, 0]])], r"index \[-1, 0\] is out of range"),
    Case(index.ScatterNd(), [i32([[1]]), f32([7]), i32([3])], f32([0, 7, 0]), [i32([[3]]), None, None],
         "index 3 is out of range"),
    Case(index.ScatterNd(), [i32([[1]]), f32([7]), i32([3])], f32([0, 7, 0]), [None, None, i32([-3])], "not negative"),
    Case(layout.Slice(), [SIX, i32([1]), i32([2])], f32([1, 2]), [None, i32([5]), None], "begin|size"),
    Case(layout.Slice(), [SIX, i32([1]), i32([2])], f32([1, 2]), [None, i32([-1]), None], "begin|size"),
    Case(layout.Slice(), [SIX, i32([1]), i32([2])], f32([1, 2]), [None, None, i32([6])], "begin|size"),
    Case(layout.StridedSlice(), [SIX, i32([1]), i32([3]), i32([1])], f32([1, 2]), [None, None, None, i32([0])],
         "stride"),
    Case(layout.StridedSlice(shrink_axis_mask=1), [SIX, i32([1]), i32([2]), i32([1])], f32(1),
         [None, i32([6]), i32([7]), None], "6"),
    Case(layout.Transpose(), [GRID, i32([0, 1])], GRID, [None, i32([0, 0])], "perm"),
    Case(layout.Concatenation(), [SIX[:, None], SIX[:, None]], np.concatenate([SIX, SIX])[:, None],
         [None, GRID], r"\(6, 1\).*\(2, 3\)", loose=True),
    Case(layout.ReverseV2(), [SIX, i32([0])], SIX[::-1], [None, i32([1])], "axes"),
    Case(sort.TopKV2(), [SIX, i32(1)], f32([5]), [None, i32(7)], "expected 0 to 6.*found 7"),
    Case(reduce.Sum(), [SIX, i32([0])], f32(15), [None, i32([1])], "axis|axes"),
    Case(elementwise.Add(), [SIX, SIX], SIX + SIX, [None, SIX[:5]], r"\(6,\) and \(5,\) do not broadcast", loose=True),
    Case(elementwise.Div(), [i32([6, 4]), i32([3, 2])], i32([2, 2]), [None, i32([3, 0])], "division by zero"),
    Case(elementwise.FloorDiv(), [i32([6, 4]), i32([3, 2])], i32([2, 2]), [None, i32([3, 0])], "division by zero"),
    Case(elementwise.FloorMod(), [i32([6, 4]), i32([4, 3])], i32([2, 1]), [None, i32([0, 3])], "division by zero"),
    Case(matmul.FullyConnected(), [SIX[None], SIX[None]], f32([[55]]), [None, f32([[1, 2, 3, 4]])], "rows", loose=True),
    Case(matmul.BatchMatMul(), [GRID, GRID.T], GRID @ GRID.T, [None, GRID], "do not multiply", loose=True),
]


def results(case: Case, is_declared: bool) -> list[Tensor]:
    """The declared tensors of an operator's results; of TOPK_V2 the values alone are used."""
    dtype, count = DType.of(case.result.dtype), case.op.results.least
    shapes = [case.result.shape] * count
    dtypes = [dtype, *[DType.INT32] * (count - 1)]
    return [Tensor(f"result_{k}", kind, size if is_declared else (), has_rank=is_declared)
            for k, (kind, size) in enumerate(zip(dtypes, shapes, strict=True))]


@dataclass(frozen=True)
class Program:
    """A model around an operator, the place of the operator, and what the inputs are besides its operands."""

    model: Model
    place: str
    before: Sequence[Array] = ()


def kinds(case: Case) -> list[tuple[DType, tuple[int, ...]]]:
    return [g.kind(each, case.loose) for each in case.operands]


def straight(case: Case, is_declared: bool) -> Program:
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [main.input(f"x{k}", *kind) for k, kind in enumerate(kinds(case))]
    main.output(main.op(case.op, *given, outputs=results(case, is_declared))[0])
    return Program(b.build(), place(0, "main", 0, case))


def branch(case: Case, is_declared: bool) -> Program:
    """The branch not taken gives a constant."""
    b = ModelBuilder()
    main = b.subgraph("main")
    op = controlflow.If(
        g.define(b, "then", lambda s, v: [s.op(case.op, *v, outputs=results(case, is_declared))[0]], kinds(case)),
        g.define(b, "else", lambda s, v: [s.constant(case.result)], kinds(case)))
    cond = main.input("cond", DType.BOOL)
    given = [main.input(f"x{k}", *kind) for k, kind in enumerate(kinds(case))]
    main.output(*main.op(op, cond, *given, outputs=results(case, is_declared)[:1]))
    return Program(b.build(), place(1, "then", 0, case), [np.array(True)])


def body(case: Case, is_declared: bool) -> Program:
    """Each of two turns computes the result from the same operands."""
    b = ModelBuilder()
    main = b.subgraph("main")
    carried = [(DType.INT32, ()), g.kind(case.result, not is_declared), *kinds(case)]

    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), s.op(case.op, *v[2:], outputs=results(case, is_declared))[0], *v[2:]]

    op = controlflow.While(g.define(b, "cond", g.at_most(1), carried), g.define(b, "body", turn, carried))
    given = [main.input(f"x{k}", *kind) for k, kind in enumerate(carried)]
    outputs = [Tensor(f"y{k}", dtype, tuple(map(abs, size)), size) for k, (dtype, size) in enumerate(carried)]
    main.output(main.op(op, *given, outputs=outputs)[1])
    return Program(b.build(), place(2, "body", 1, case), [i32(0), np.zeros_like(case.result)])


def place(subgraph: int, name: str, operator: int, case: Case) -> str:
    return rf"^subgraph {subgraph} \('{name}'\), operator {operator} \({case.op.name}\): "


@pytest.mark.parametrize("elide", ELISION, ids=["elision", "copies"])
@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "open"])
@pytest.mark.parametrize("around", [straight, branch, body])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_that_an_operator_cannot_compute_with(case: Case, around: Callable[[Case, bool], Program],
                                                     is_declared: bool, elide: bool) -> None:
    program = around(case, is_declared)
    session = circlet.Session(program.model, copy_elision=elide)
    good = [*program.before, *case.operands]
    bad = [*program.before, *(one if other is None else other
                              for one, other in zip(case.operands, case.wrong, strict=True))]
    error = circlet.ExecutionError if is_declared else case.error
    g.assert_equal(g.run(session, good), [case.result])
    for _ in range(2):
        begin = time.perf_counter()
        with pytest.raises(error, match=f"{program.place}.*(?:{case.message}|the model declares)"):
            g.run(session, bad)
        assert time.perf_counter() - begin < SECONDS
        g.assert_equal(g.run(session, good), [case.result])


@pytest.mark.parametrize("elide", ELISION)
def test_a_branch_not_taken_may_be_wrong(elide: bool) -> None:
    case = Case(shape.StablehloIota(iota_dimension=3), [], f32([7, 7]), [], "iota_dimension.*found 3")
    program = branch(case, True)
    session = circlet.Session(program.model, copy_elision=elide)
    for _ in range(2):
        g.assert_equal(g.run(session, [np.array(False)]), [f32([7, 7])])
        with pytest.raises(circlet.ExecutionError, match=f"{program.place}{case.message}"):
            g.run(session, [np.array(True)])


@pytest.mark.parametrize("elide", ELISION)
def test_a_body_without_turns_may_be_wrong(elide: bool) -> None:
    case = Case(shape.StablehloIota(iota_dimension=3), [], f32([7, 7]), [], "iota_dimension.*found 3")
    program = body(case, True)
    session = circlet.Session(program.model, copy_elision=elide)
    for _ in range(2):
        g.assert_equal(g.run(session, [i32(5), f32([1, 2])]), [f32([1, 2])])
        with pytest.raises(circlet.ExecutionError, match=f"{program.place}{case.message}"):
            g.run(session, [i32(0), f32([1, 2])])


def test_a_branch_not_taken_may_be_too_large() -> None:
    case = Case(shape.Fill(), [i64([2]), f32(1)], f32([1, 1]), [], "")
    session = circlet.Session(branch(case, False).model)
    g.assert_equal(g.run(session, [np.array(False), i64([HUGE]), f32(1)]), [case.result])


def test_an_error_of_numpy_becomes_one_with_a_place() -> None:
    """A kernel whose declared result cannot be what it computes: nothing foresees how numpy refuses that."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [main.input("indices", DType.INT32, (1, 1)), main.input("updates", DType.FLOAT32, (1, 2)),
             main.input("shape", DType.INT32, (2,))]
    main.output(*main.op(index.ScatterNd(), *given, outputs=[Tensor("y", DType.FLOAT32, (3, 5))]))
    session = circlet.Session(b.build())
    with pytest.raises(circlet.ExecutionError, match=r"operator 0 \(SCATTER_ND\): .*reshape") as caught:
        g.run(session, [i32([[0]]), f32([[1, 2]]), i32([3, 2])])
    assert caught.value.place is not None
    assert isinstance(caught.value.__cause__, ValueError)


def chain(calls: int, ways: int = 1) -> Model:
    """Subgraphs each of which invokes the next one, and adds up what it gives, in so many ways."""
    b = ModelBuilder()
    for level in range(calls):
        s = b.subgraph(f"level_{level}")
        x = s.input("x", DType.FLOAT32, (2,))
        outputs = [[Tensor(f"y{k}", DType.FLOAT32, (2,))] for k in range(ways)]
        found = [s.op(controlflow.CallSubgraph(level + 1), x, outputs=each)[0] for each in outputs]
        s.output(found[0] if ways == 1 else g.add(s, *found))
    last = b.subgraph("last")
    last.output(g.plus(last, last.input("x", DType.FLOAT32, (2,)), 1.0))
    return b.build()


@pytest.mark.parametrize("elide", ELISION)
def test_nested_calls(elide: bool) -> None:
    session = circlet.Session(chain(100), copy_elision=elide)
    g.assert_equal(g.run(session, [f32([1, 2])]), [f32([2, 3])])


@pytest.mark.parametrize("in_thread", [False, True])
def test_calls_nested_too_deeply(in_thread: bool) -> None:
    """Python's stack is what bounds them; a subgraph that is not nested so deeply still runs."""
    session = circlet.Session(chain(2000))
    errors: list[circlet.CircletError] = []

    def run() -> None:
        for _ in range(2):
            try:
                g.run(session, [f32([1, 2])])
            except circlet.CircletError as error:
                errors.append(error)

    if in_thread:
        thread = Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    assert [type(each) for each in errors] == [circlet.UnsupportedError] * 2
    assert "too deeply" in str(errors[0])
    g.assert_equal(session.invoke(1980, [f32([1, 2])]), [f32([2, 3])])


def test_calls_that_multiply() -> None:
    """Where each subgraph invokes the next one twice, not all invocations are bound ahead; they still are right."""
    levels = MOST_FRAMES.bit_length()
    session = circlet.Session(chain(levels, ways=2))
    for x in (f32([1, 2]), f32([0, 5])):
        g.assert_equal(g.run(session, [x]), [(x + np.float32(1)) * np.float32(1 << levels)])


@pytest.mark.parametrize("elide", ELISION)
def test_calls_that_multiply_without_end(elide: bool) -> None:
    """Forty subgraphs invoke the last one 2 ** 40 times, without any loop."""
    session = circlet.Session(chain(40, ways=2), copy_elision=elide, limits=circlet.Limits(deadline=0.5))
    with pytest.raises(circlet.LimitError, match=r"CALL.*deadline"):
        g.run(session, [f32([1, 2])])
    session.limits = circlet.Limits()
    g.assert_equal(session.invoke(37, [f32([1, 2])]), [f32([8 * 2, 8 * 3])])
    assert len(session.copies()) < 1000


def test_sparse_constants() -> None:
    """They are kept as bytes, which are no operands."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 2))
    sparse = Tensor("w", DType.FLOAT32, (2, 2), data=np.zeros(8, np.uint8), sparsity=Sparsity((0, 1), (), (
        DimensionSparsity(2), DimensionSparsity(0, (0, 1, 2), (0, 1)))))
    main.output(*main.op(elementwise.Add(), x, main.tensor(sparse), outputs=[Tensor("y", DType.FLOAT32, (2, 2))]))
    with pytest.raises(circlet.UnsupportedError, match=r"ADD .*input 1 is sparse, .*operator 0"):
        circlet.Session(b.build())
