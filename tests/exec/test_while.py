"""WHILE: upstream's cases, the traps that peers fall into, and what must be refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Mul
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, Array, Formula, f32, i32


@dataclass(frozen=True)
class Loop:
    """A loop, its initial values and what it gives; None where upstream leaves an output open."""

    id: str
    cond: Formula
    body: Formula
    inputs: Sequence[Array]
    outputs: Sequence[Array | None]
    loose: bool = False
    exported: Sequence[int] | None = None


def full(value: int, count: int) -> Array:
    return np.full(count, value, np.int32)


MILLION = 1_000_000

UPSTREAM = [
    Loop("with_xnnpack", g.below(100.0), g.doubled, [f32([1]), f32([1])], [f32([256]), f32([256])]),
    Loop("input_is_output", g.at_most(3), g.forwarded, [i32([1]), i32([1]), i32([1])],
         [i32([4]), i32([4]), i32([1])]),
    Loop("input_is_output_but_different", g.at_most(3), g.forwarded_elsewhere, [i32([1]), i32([2])],
         [i32([5]), i32([8])]),
    Loop("custom_output", g.at_most(3), lambda b, v: [g.plus(b, v[0]), g.plus(b, v[1])], [i32([1]), i32([2, 3])],
         [i32([4]), i32([5, 6])]),
    Loop("counter_only", g.at_most(3), g.counter, [i32([1])], [i32([4])]),
    Loop("all_cases", g.at_most(3), g.all_in_place, [i32([2]), i32([1]), i32([2]), i32([2]), i32([1])],
         [i32([4]), i32([5]), full(2, 6), full(4, 6), i32([1])], loose=True),
    Loop("static_unconsumed_outputs", g.at_most(3), g.forwarded, [i32([1]), i32([2]), i32([2])],
         [i32([4]), i32([8])], exported=[0, 1]),
    Loop("static_unconsumed_outputs_resized", g.at_most(3), g.forwarded, [i32([1]), i32([2, 2]), i32([2, 2])],
         [i32([4]), i32([8, 8])], exported=[0, 1]),
    Loop("dynamic_op_triggers_allocation_of_unused_input", g.at_most(2), g.unused_input_allocated,
         [i32([2]), i32([1]), i32([2])], [i32([3]), i32([4, 4]), i32([2, 2])], loose=True),
    Loop("static_in_place_large", g.at_most(60000), g.large, [i32(1), full(1, 10000)],
         [i32(100_100_000), full(70014, 10000)], loose=True),
    Loop("pad_loop", g.at_most(4), g.pad(1, 2), [i32([1]), i32([5, 7])],
         [i32([5]), i32([0, 0, 0, 0, 5, 7, 0, 0, 0, 0, 0, 0, 0, 0])], loose=True),
    Loop("dynamic_body_with_sharing_early_exit", g.at_most(0), g.increasing,
         [i32([1]), i32([1, 2, 3]), full(1, MILLION), full(2, MILLION)],
         [i32([1]), i32([1, 2, 3]), full(1, MILLION), full(2, MILLION)], loose=True),
    Loop("dynamic_body_with_sharing", g.at_most(3), g.increasing,
         [i32([1]), i32([1, 2, 3]), full(1, MILLION), full(2, MILLION)],
         [i32([4]), np.tile(i32([4, 5, 6]), 6), full(7, MILLION), full(8, MILLION)], loose=True),
    Loop("dynamic_body_with_sharing_and_aliases", g.at_most(0), g.aliases,
         [i32([0]), i32([1]), i32([2]), i32([3]), i32([4])], [i32([1]), i32([11]), i32([12]), i32([13]), i32([13])]),
    Loop("output_not_consumed", g.greatest_at_most(11), g.not_consumed, [i32([1]), i32([2]), i32([3])],
         [i32([18, 18, 18])], loose=True, exported=[0]),
    Loop("pad_loop_with_sharing", g.at_most(3), g.large_pad(1, 2), [i32([1]), i32([2]), i32([3, 4])],
         [i32([5]), i32([4, 9, 10, 4, 4]), i32([0, 4, 9, 10, 4, 4, 0, 0])], loose=True),
    Loop("pad_loop_with_shallow_copy", g.at_most(3), g.pad(1, 2), [i32([1]), full(1, MILLION)],
         [i32([4]), np.pad(full(1, MILLION), (3, 6))], loose=True),
    Loop("loop_with_dynamic_tensor", g.at_most(3, slot=2), g.string_fill, [g.text(b"A"), g.text([b"A"]), i32([1])],
         [g.text(b"A"), g.text([b"A"] * 4), i32([4])], loose=True),
    *(Loop(f"static_in_place_{k}", g.at_most(k + 1), g.deep, [i32([0]), i32([1])], [i32([k + 2]), i32([value])])
      for k, value in enumerate((6, 10, 15, 21, 28))),
    *(Loop(f"triangular_number_{k}", g.at_most(k), g.accumulate, [i32([1]), i32([1])], [i32([k + 1]), i32([value])])
      for k, value in enumerate((1, 3, 6, 10, 15, 21, 28))),
]

ONE, TWO, THREE = f32([1, 2, 3]), f32([4, 5, 6]), f32([7, 8, 9])


def swap(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), v[2], v[1]]


def rotate(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), v[2], v[3], v[1]]


def fibonacci_shift(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), g.add(b, v[1], v[2]), v[1]]


def fibonacci_push(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), v[2], g.add(b, v[1], v[2])]


def duplicate(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    total = g.add(b, v[1], v[2])
    return [g.plus(b, v[0]), total, total]


def constant(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), b.constant(f32([9, 9, 9])), g.add(b, v[1], v[2])]


def read_late(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Slot 1 is written before it is last read, slot 2 reads it late."""
    first = g.add(b, v[1], v[2])
    return [g.plus(b, v[0]), first, b.apply(Mul(), v[1], first)]


def start(limit: int, *state: Array) -> tuple[Formula, list[Array]]:
    return g.at_most(limit - 1), [i32(0), *state]


def trap(id: str, turns: int, body: Formula, state: Sequence[Array], expected: Sequence[Array]) -> Loop:
    cond, inputs = start(turns, *state)
    return Loop(id, cond, body, inputs, [i32(turns), *expected])


TRAPS = [
    trap("swap_once", 1, swap, [ONE, TWO], [TWO, ONE]),
    trap("swap_twice", 2, swap, [ONE, TWO], [ONE, TWO]),
    trap("swap_never", 0, swap, [ONE, TWO], [ONE, TWO]),
    trap("rotate_once", 1, rotate, [i32(1), i32(2), i32(3)], [i32(2), i32(3), i32(1)]),
    trap("rotate_twice", 2, rotate, [ONE, TWO, THREE], [THREE, ONE, TWO]),
    trap("rotate_thrice", 3, rotate, [ONE, TWO, THREE], [ONE, TWO, THREE]),
    trap("fibonacci_shift", 10, fibonacci_shift, [i32(1), i32(0)], [i32(89), i32(55)]),
    trap("fibonacci_push", 10, fibonacci_push, [i32(0), i32(1)], [i32(55), i32(89)]),
    trap("duplicate", 3, duplicate, [i32(1), i32(2)], [i32(12), i32(12)]),
    trap("constant", 2, constant, [ONE, TWO], [f32([9, 9, 9]), f32([14, 16, 18])]),
    trap("read_late", 3, read_late, [i32(1), i32(2)], [i32(24), i32(144)]),
]


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("case", [*UPSTREAM, *TRAPS], ids=lambda case: case.id)
def test_loop(case: Loop, elide: bool) -> None:
    model = g.while_model(case.cond, case.body, case.inputs, case.loose, case.exported)
    session = circlet.Session(model, copy_elision=elide)
    for _ in range(2):
        g.assert_equal(g.run(session, case.inputs), [each for each in case.outputs if each is not None])


@pytest.mark.parametrize("elide", ELISION)
def test_zero_trips_then_many(elide: bool) -> None:
    session = circlet.Session(g.while_model(g.at_most(9), g.counter, [i32(0)]), copy_elision=elide)
    assert [g.run(session, [i32(n)])[0].item() for n in (100, 10, 3, 10, 3)] == [100, 10, 10, 10, 10]


@pytest.mark.parametrize("elide", ELISION)
def test_two_calls_share_a_body_with_different_shapes(elide: bool) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    loose = [(DType.INT32, ()), (DType.FLOAT32, (-1,))]
    op = While(g.define(b, "cond", g.at_most(2), loose),
               g.define(b, "body", lambda s, v: [g.plus(s, v[0]), g.plus(s, v[1], 1.0)], loose))
    short, long = main.input("short", DType.FLOAT32, (2,)), main.input("long", DType.FLOAT32, (5,))
    main.output(*(main.op(op, main.constant(0), each, outputs=[_declared("i", DType.INT32, ()),
                                                               _declared("x", DType.FLOAT32, shape)])[1]
                  for each, shape in ((short, (2,)), (long, (5,)))))
    session = circlet.Session(b.build(), copy_elision=elide)
    for _ in range(2):
        g.assert_equal(g.run(session, [f32([1, 2]), f32([0] * 5)]), [f32([4, 5]), f32([3] * 5)])


def _declared(name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, dtype, shape)


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("loose", [False, True])
def test_condition_of_several_elements_is_refused(elide: bool, loose: bool) -> None:
    inputs = [i32([1, 2])]
    with pytest.raises(circlet.CircletError, match=r"cond.*exactly one element.*\(2,\)"):
        g.run(circlet.Session(g.while_model(g.at_most(3), g.counter, inputs, loose), copy_elision=elide), inputs)


@pytest.mark.parametrize("elide", ELISION)
def test_condition_that_grows_is_refused(elide: bool) -> None:
    """Upstream's TestOutputNotConsumed as it stands: its condition comes to have three elements."""
    inputs = [i32([1]), i32([2]), i32([3])]
    session = circlet.Session(g.while_model(g.at_most(11), g.not_consumed, inputs, True, [0]), copy_elision=elide)
    with pytest.raises(circlet.ExecutionError, match=r"exactly one element.*\(3,\)"):
        g.run(session, inputs)


@pytest.mark.parametrize("elide", ELISION)
def test_nested_loops_whose_inner_one_makes_no_turn(elide: bool) -> None:
    """The inner loop counts up to the outer counter, so its first entry makes no turn."""
    b = ModelBuilder()
    main = b.subgraph("main")
    inner_kinds = [(DType.INT32, ()), (DType.INT32, ()), (DType.INT32, ())]
    inner = While(g.define(b, "inner_cond", lambda s, v: [s.apply(Less(), v[0], v[1])], inner_kinds),
                  g.define(b, "inner_body", lambda s, v: [g.plus(s, v[0]), v[1], g.plus(s, v[2], 10)], inner_kinds))

    def outer_body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        result = s.op(inner, s.constant(0), v[0], v[1], count=3)
        return [g.plus(s, v[0]), result[2]]

    kinds = [(DType.INT32, ()), (DType.INT32, ())]
    outer = While(g.define(b, "outer_cond", g.at_most(3), kinds), g.define(b, "outer_body", outer_body, kinds))
    results = main.op(outer, main.constant(0), main.input("x", DType.INT32), count=2)
    main.output(*results)
    session = circlet.Session(b.build(), copy_elision=elide)
    for x in (0, 5):
        g.assert_equal(g.run(session, [i32(x)]), [i32(4), i32(60 + x)])
