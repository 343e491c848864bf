"""Random programs on matrices, in a loop and before it: native code, with elision and without, is what numpy is.

They mix operators that fuse in different ways: element by element, by moved indices, as nests with what is computed
before and after, over buffers that a loop reuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater, SelectV2
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Slice, Split, Transpose
from circlet.runtime.ops.pad import Pad, Tile
from circlet.runtime.ops.reduce import ArgMax, Cumsum, ReduceMax, ReduceMin, Sum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import TopKV2
from tests.exec import graphs as g
from tests.exec.graphs import i32

ROWS, COLUMNS = 3, 4
MATRIX = (DType.INT32, (ROWS, COLUMNS))
Build: TypeAlias = Callable[[SubgraphBuilder, Value, Value, int], Value]
"""A matrix from two others and a number from 0 to 3."""


def binary(op: Op) -> Build:
    return lambda s, a, b, k: s.apply(op, a, b)


def reshaped(s: SubgraphBuilder, a: Value, *shape: int) -> Value:
    return s.apply(Reshape(), a, s.constant(i32(shape)))


def transposed(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return reshaped(s, s.apply(Transpose(), a, s.constant([1, 0])), ROWS, COLUMNS)


def summed(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(Add(), b, s.apply(Sum(keep_dims=True), a, s.constant(i32([k % 2]))))


def scaled_by_extreme(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    axes = s.constant(i32([[0, 1], [0], [1], [0, 1]][k]))
    return s.apply(Mul(), b, s.apply((ReduceMax, ReduceMin)[k % 2](keep_dims=True), a, axes))


def sum_of_products(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    total = s.apply(Sum(), s.apply(Mul(), a, b), s.constant(i32([1])))
    return s.apply(Sub(), b, reshaped(s, total, ROWS, 1))


def place_of_greatest(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    found = s.apply(ArgMax(DType.INT32), s.apply(Sub(), a, b), s.constant(k % 2))
    return s.apply(Add(), a, reshaped(s, found, *((1, COLUMNS) if k % 2 == 0 else (ROWS, 1))))


def cumulated(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(Cumsum(exclusive=k > 1, reverse=k == 1), s.apply(Add(), a, b), s.constant(k % 2))


def part(s: SubgraphBuilder, a: Value, begin: Sequence[int], size: Sequence[int]) -> Value:
    return s.apply(Slice(), a, s.constant(i32(begin)), s.constant(i32(size)))


def joined(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    left, right = part(s, a, [0, 0], [ROWS, k]), part(s, b, [0, k], [ROWS, COLUMNS - k])
    return s.apply(Concatenation(1), left, right) if k else right


def halves_exchanged(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    first, second = s.op(Split(2), s.constant(1), a, count=2)
    return s.apply(Concatenation(1), second, first)


def shifted(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    padded = s.apply(Pad(), a, s.constant(i32([[1, 1], [1, 2]])))
    return part(s, padded, [k % 3, k], [ROWS, COLUMNS])


def gathered(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(Gather(1), a, s.constant(i32([k, 3, 0, k])))


def gathered_by_value(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    """Columns named by the lowest bits of a row."""
    row = reshaped(s, part(s, b, [k % ROWS, 0], [1, COLUMNS]), COLUMNS)
    return s.apply(Gather(1), a, g.modulo(s, row, COLUMNS))


def selected(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(SelectV2(), s.apply(Greater(), a, b), a, g.plus(s, b, k))


def row_replaced(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    row = part(s, b, [k % ROWS, 0], [1, COLUMNS])
    return s.apply(DynamicUpdateSlice(), a, row, s.constant(i32([(k + 1) % ROWS, 0])))


def row_replaced_by_value(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    """The place is what an element says, clamped."""
    place = reshaped(s, part(s, b, [0, k], [1, 1]), 1)
    start = s.apply(Concatenation(0), place, s.constant(i32([0])))
    return s.apply(DynamicUpdateSlice(), a, part(s, a, [0, 0], [1, COLUMNS]), start)


def packed(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(Sum(), s.apply(Pack(3, 2), a, b, a), s.constant(i32([2])))


def tiled(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    return s.apply(Add(), a, s.apply(Tile(), part(s, b, [0, k], [1, 1]), s.constant(i32([ROWS, COLUMNS]))))


def sorted_rows(s: SubgraphBuilder, a: Value, b: Value, k: int) -> Value:
    values, places = s.op(TopKV2(), a, s.constant(COLUMNS))
    return s.apply(Add(), values, places) if k else values


BUILD: dict[str, Build] = {
    "add": binary(Add()), "sub": binary(Sub()), "mul": binary(Mul()), "max": binary(Maximum()),
    "min": binary(Minimum()), "reverse": lambda s, a, b, k: s.apply(ReverseV2(), a, s.constant(i32([k % 2]))),
    "constant": lambda s, a, b, k: s.constant(np.arange(12, dtype=np.int32).reshape(ROWS, COLUMNS) - k),
    **{each.__name__: each for each in (
        transposed, summed, scaled_by_extreme, sum_of_products, place_of_greatest, cumulated, joined,
        halves_exchanged, shifted, gathered, gathered_by_value, selected, row_replaced, row_replaced_by_value, packed,
        tiled, sorted_rows)},
}


@dataclass(frozen=True)
class Instruction:
    """One entry of `BUILD`, on two earlier values."""

    name: str
    a: int
    b: int
    k: int


@dataclass(frozen=True)
class Program:
    """Instructions over the inputs and each other's results, then what it returns."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    def emit(self, s: SubgraphBuilder, inputs: Sequence[Value]) -> list[Value]:
        values = list(inputs)
        for each in self.instructions:
            values.append(BUILD[each.name](s, values[each.a], values[each.b], each.k))
        return [values[k] for k in self.outputs]


SLOTS = 3


@st.composite
def programs(draw: st.DrawFn, most: int = 7) -> Program:
    instructions = []
    for k in range(draw(st.integers(1, most))):
        earlier = st.integers(0, SLOTS + k - 1)
        instructions.append(Instruction(draw(st.sampled_from(sorted(BUILD))), draw(earlier), draw(earlier),
                                        draw(st.integers(0, 3))))
    results = st.integers(0, SLOTS + len(instructions) - 1)
    return Program(tuple(instructions), tuple(draw(results) for _ in range(SLOTS)))


def loop_model(before: Program, body: Program) -> Model:
    """`m = before(m); for i in range(n): m = body(m)` of three matrices."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, ()), (DType.INT32, ()), *[MATRIX] * SLOTS]
    loop = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], kinds),
                 g.define(b, "body", lambda s, v: [g.plus(s, v[0]), v[1], *body.emit(s, v[2:])], kinds))
    given_matrices = [main.input(f"m{k}", *MATRIX) for k in range(SLOTS)]
    n = main.input("n", DType.INT32)
    main.output(*main.op(loop, main.constant(0), n, *before.emit(main, given_matrices), count=len(kinds))[2:])
    return b.build()


@settings(max_examples=40, deadline=None)
@given(programs(), programs(), st.integers(0, 2**32 - 1))
def test_native_programs_are_numpy_programs(before: Program, body: Program, seed: int) -> None:
    model = loop_model(before, body)
    matrices = list(np.random.default_rng(seed).integers(-9, 9, (SLOTS, ROWS, COLUMNS), np.int32))
    cpu = circlet.Session(model, backend="cpu")
    sessions = [circlet.Session(model, backend="native", copy_elision=elide) for elide in g.ELISION]
    for turns in (2, 0, 3):
        wanted = g.run(cpu, [*matrices, i32(turns)])
        for session in sessions:
            g.assert_equal(g.run(session, [*matrices, i32(turns)]), wanted)
