"""Arithmetic on shapes, as exporters write it where lengths are open: one function serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import segment
from circlet.runtime.ops.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LogicalAnd,
    LogicalOr,
    NotEqual,
    SelectV2,
)
from circlet.runtime.ops.elements import ScatterElements, ScatterSlices
from circlet.runtime.ops.elementwise import Add, Div, FloorDiv, FloorMod, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, Where
from circlet.runtime.ops.layout import (
    Concatenation,
    Pack,
    ReverseSequence,
    ReverseV2,
    Slice,
    Split,
    SplitV,
    StridedSlice,
    Transpose,
)
from circlet.runtime.ops.pad import Pad, PadV2, StablehloPad, Tile
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ReduceMax, ReduceProd
from circlet.runtime.ops.shape import BroadcastArgs, BroadcastTo, ExpandDims, Fill, OneHot, Range, Reshape, ShapeOf
from circlet.runtime.ops.spatial import BatchToSpaceND, SpaceToBatchND
from circlet.runtime.ops.spectral import Dft
from circlet.runtime.ops.unary import Abs, Ceil, Floor, LogicalNot, Neg, Relu, ZerosLike
from tests.native.test_lengths import Graph, floats
from tests.ops.cases import check
from tests.passes.specialized import specializer_of
from tests.passes.test_divide_down import added_down, divided_down

I32 = DType.INT32
LENGTHS = (8, 5, 64, 33, 12, 150)


def shape_of(g: Graph, x: Value) -> Value:
    return g(ShapeOf(I32), x, dtype=I32)


def ints(g: Graph, op: Any, *inputs: Value) -> Value:
    return g(op, *inputs, dtype=I32)


def length(g: Graph, x: Value) -> Value:
    return g.length(x, 0)


def several(g: Graph, op: Any, count: int, *inputs: Value) -> Sequence[Value]:
    """The results of an operator that has several, of integers."""
    return g.builder.op(op, *inputs, outputs=[Tensor("", I32, (), has_rank=False)] * count)


def whole_fours(g: Graph, x: Value) -> Value:
    """As many rows as fill fours: (n, 6) to (n // 4, 4, 6)."""
    n = length(g, x)
    rows = ints(g, Sub(), n, ints(g, FloorMod(), n, g.number(4)))
    cut = g(Slice(), x, g.ints(0, 0), ints(g, Pack(2), rows, g.number(6)))
    return g(Reshape(), cut, g.ints(-1, 4, 6))


def halves(g: Graph, x: Value) -> Value:
    """Every row but the last n / 2."""
    rest = ints(g, Neg(), ints(g, Div(), length(g, x), g.number(2)))
    return g(StridedSlice(begin_mask=3, end_mask=2), x, g.ints(0, 0), ints(g, Pack(2), rest, g.number(0)), g.ints(1, 1))


def strides(g: Graph, x: Value) -> Value:
    """Zeros for the steps of 2 that there are from the third row on, by integers divided towards zero."""
    count = ints(g, Div(), ints(g, Sub(), length(g, x), g.number(3)), g.number(2))
    return g(Fill(), ints(g, Pack(2), count, g.number(6)), g.number(0.5))


def by_fours(g: Graph, x: Value) -> Value:
    """Zeros, as often as there are fours for each four, divided towards zero: nothing says that there is one."""
    fours = ints(g, FloorDiv(), length(g, x), g.number(4))
    each = ints(g, Div(), ints(g, Mul(), fours, ints(g, FloorDiv(), length(g, x), g.number(2))), fours)
    return g(Fill(), ints(g, Pack(2), each, g.number(6)), g.number(0.5))


def repeated(g: Graph, x: Value) -> Value:
    """As many copies as there are rows, by a number for one axis and 1 for the others, and all of them as rows."""
    times = ints(g, OneHot(), g.number(0), g.number(3), length(g, x), g.number(1))
    copies = g(Tile(), g(ExpandDims(), x, g.number(0)), times)
    rows = ints(g, Mul(), length(g, x), length(g, x))
    return g(Reshape(), copies, ints(g, Pack(2), rows, g.number(-1)))


def merged(g: Graph, x: Value) -> Value:
    """(n, 6) as (6 n,), by products of segments of its shape, as einsums have them."""
    joined = ints(g, segment.UnsortedSegmentProd(), shape_of(g, x), g.ints(0, 0), g.number(1))
    return g(Reshape(), x, joined)


def summed(g: Graph, x: Value) -> Value:
    """A range of n + 6 numbers."""
    total = ints(g, segment.UnsortedSegmentSum(), shape_of(g, x), g.ints(0, 0), g.number(2))
    return ints(g, Range(), g.number(0), ints(g, Reshape(), ints(g, Slice(), total, g.ints(0), g.ints(1)), g.ints()),
                g.number(1))


def turned(g: Graph, x: Value) -> Value:
    """(n, 6) under the shape (6, n)."""
    return g(Reshape(), x, ints(g, ReverseV2(), shape_of(g, x), g.ints(0)))


def in_parts(g: Graph, x: Value) -> Value:
    """(n, 6) as (6, n), the shape cut by both splits."""
    rows, columns = several(g, SplitV(2), 2, shape_of(g, x), g.ints(1, 1), g.number(0))
    back = ints(g, Concatenation(0), columns, rows)
    one, other = several(g, Split(2), 2, g.number(0), back)
    return g(Reshape(), x, ints(g, Concatenation(0), one, other))


def in_columns(g: Graph, x: Value) -> Value:
    """(n, 6) with n % 2 rows more, by what PyTorch's `pad` becomes in OpenVINO: pairs that are cut in columns."""
    odd = ints(g, Reshape(), ints(g, FloorMod(), length(g, x), g.number(2)), g.ints(1))
    pairs = ints(g, Reshape(), ints(g, Concatenation(0), g.ints(0, 0, 0), odd), g.ints(2, 2))
    before, after = several(g, Split(2), 2, g.number(1), pairs)
    columns = ints(g, Concatenation(1), *(ints(g, Gather(), each, g.ints(1, 0)) for each in (before, after)))
    padded = g(PadV2(), x, columns, g.number(0.0))
    return g(Reshape(), padded, g.ints(-1, 2, 6))


def expanded(g: Graph, x: Value) -> Value:
    """(n, 6) as (3, n, 6), by what PyTorch makes of `expand(3, -1, -1)`."""
    wanted = ints(g, Concatenation(0), g.ints(3), shape_of(g, x))
    ones = ints(g, Fill(), g.ints(3), g.number(1))
    any_ = g(Equal(), wanted, ints(g, Mul(), ones, g.number(-1)), dtype=DType.BOOL)
    chosen = ints(g, SelectV2(), any_, ones, wanted)
    return g(BroadcastTo(), x, ints(g, BroadcastArgs(), shape_of(g, x), chosen))


def kept(g: Graph, x: Value) -> Value:
    """(n, 6) under a shape of which zeros stand for what x has, as ONNX's Reshape."""
    wanted = ints(g, Pack(2), length(g, x), g.number(0))
    found = ints(g, StridedSlice(), ints(g, Concatenation(0), shape_of(g, x), ints(g, ZerosLike(), wanted)), g.ints(0),
                 g.ints(2), g.ints(1))
    is_zero = g(Equal(), wanted, g.number(0), dtype=DType.BOOL)
    return g(Reshape(), x, ints(g, SelectV2(), is_zero, found, wanted))


def grouped(g: Graph, x: Value) -> Value:
    """(n, 6) as (n, 2, 3): halves if 6 is no 2 and 2 divides it, as attention of grouped heads asks of their number."""
    heads, groups = ints(g, Gather(0), shape_of(g, x), g.ints(1)), g.ints(2)
    is_one = g(Equal(), heads, groups, dtype=DType.BOOL)
    divides = g(Equal(), ints(g, FloorMod(), heads, groups), g.number(0), dtype=DType.BOOL)
    both = g(LogicalAnd(), g(LogicalNot(), is_one, dtype=DType.BOOL), divides, dtype=DType.BOOL)
    either = g(LogicalOr(), both, is_one, dtype=DType.BOOL)
    found = ints(g, SelectV2(), either, groups, g.ints(1))
    return g(Reshape(), x, ints(g, Concatenation(0), g.ints(-1), found, ints(g, Div(), heads, found)))


def numbered(g: Graph, x: Value) -> Value:
    """Rows from the third on times their number: a mask by a range."""
    rows = ints(g, Range(), g.number(2), ints(g, Add(), length(g, x), g.number(2)), g.number(1))
    late = g(GreaterEqual(), rows, g.number(4), dtype=DType.BOOL)
    return g(SelectV2(), g(Reshape(), late, g.ints(-1, 1), dtype=DType.BOOL), x, g.number(-1.0))


def backwards(g: Graph, x: Value) -> Value:
    """Every third number from 3 n + 1 downwards."""
    begin = ints(g, Add(), ints(g, Mul(), length(g, x), g.number(3)), g.number(1))
    return ints(g, Range(), begin, g.number(0), g.number(-3))


def dilated(g: Graph, x: Value) -> Value:
    """Every other row together, filled up to an even number of rows, and back, as dilated convolutions have it."""
    x = g(Reshape(), x, g.ints(1, -1, 6))
    n = ints(g, Reshape(), g.length(x, 1), g.ints(1))
    left = ints(g, FloorMod(), ints(g, Sub(), g.ints(2), ints(g, FloorMod(), n, g.ints(2))), g.ints(2))
    margins = ints(g, Reshape(), ints(g, Concatenation(0), g.ints(0), left), g.ints(1, 2))
    margins = ints(g, StridedSlice(begin_mask=3, end_mask=3), margins, g.ints(0, 0), g.ints(0, 0), g.ints(1, 1))
    apart = g(SpaceToBatchND(), x, g.ints(2), margins)
    return g(BatchToSpaceND(), g(Mul(), apart, apart), g.ints(2), margins)


def odd_rows_behind(g: Graph, x: Value) -> Value:
    """(n, 6) with n % 2 rows more, by amounts that are padded to those of all axes themselves."""
    odd = ints(g, Reshape(), ints(g, FloorMod(), length(g, x), g.number(2)), g.ints(1, 1))
    margins = ints(g, PadV2(), ints(g, Pad(), odd, g.builder.constant(np.array([[0, 0], [1, 0]], np.int32))),
                   g.builder.constant(np.array([[0, 1], [0, 0]], np.int32)), g.number(0))
    return g(Reshape(), g(Pad(), x, margins), g.ints(-1, 2, 6))


def fours_rounded_up(g: Graph, x: Value) -> Value:
    """Zeros for the rows that there would be in full fours."""
    fours = ints(g, FloorDiv(), ints(g, Add(), length(g, x), g.number(3)), g.number(4))
    return g(Fill(), ints(g, Pack(2), ints(g, Mul(), fours, g.number(4)), g.number(6)), g.number(0.5))


def columns_first(g: Graph, x: Value) -> Value:
    """Margins of n % 4 rows behind and one column before, transposed from what PyTorch writes: befores, then afters."""
    rest = ints(g, Reshape(), ints(g, FloorMod(), length(g, x), g.number(4)), g.ints(1))
    apart = ints(g, Reshape(), ints(g, Concatenation(0), g.ints(0, 1), rest, g.ints(0)), g.ints(2, 2))
    return g(Pad(), x, ints(g, Transpose(), apart, g.ints(1, 0)))


def times_nothing(g: Graph, x: Value) -> Value:
    """(n, 6) as (6 n, 1), the 1 as the product of no lengths."""
    rest = ints(g, StridedSlice(end_mask=1), shape_of(g, x), g.ints(2), g.ints(0), g.ints(1))
    ones = ints(g, ReduceProd(), rest, g.ints(0))
    return g(Reshape(), x, ints(g, Pack(2), ints(g, ReduceProd(), shape_of(g, x), g.ints(0)), ones))


def cast(g: Graph, x: Value, dtype: DType) -> Value:
    return g(Cast(), x, dtype=dtype)


def steps(g: Graph, x: Value) -> Value:
    """From n - 1 down to 1 - n, as often as a quotient of floats says."""
    n = length(g, x)
    begin, end = cast(g, ints(g, Sub(), n, g.number(1)), DType.FLOAT32), cast(g, ints(g, Neg(), n), DType.FLOAT32)
    count = g(Relu(), g(Ceil(), g(Div(), g(Sub(), end, begin), g.number(-1.0))))
    return ints(g, Range(), g.number(0), cast(g, count, I32), g.number(1))


def scaled(g: Graph, x: Value) -> Value:
    """floor(1.25 n) + ceil(n / 3) - 2 numbers."""
    n = cast(g, length(g, x), DType.FLOAT32)
    more = cast(g, g(Floor(), g(Mul(), n, g.number(1.25))), I32)
    third = cast(g, g(Ceil(), g(Div(), n, g.number(3.0))), I32)
    return ints(g, Range(), g.number(2), ints(g, Add(), more, third), g.number(1))


def halved_as_by_jax(g: Graph, x: Value) -> Value:
    """The first (n - 3) // 2 + 1 rows, for which JAX writes a quotient rounded towards zero, less one if need be."""
    def apply(op: Op, *inputs: Value) -> Value:
        return g(op, *inputs, dtype=DType.BOOL if isinstance(op, (NotEqual, LogicalAnd)) else I32)

    less = ints(g, Sub(), length(g, x), g.number(3))
    count = ints(g, Add(), divided_down(apply, less, g.number(2), g.number(1), g.number(0)), g.number(1))
    return g(Slice(), x, g.ints(0, 0), ints(g, Pack(2), count, g.number(6)))


def quartered_as_by_openvino(g: Graph, x: Value) -> Value:
    """All rows but n // 4, for which OpenVINO adds -1 to a quotient rounded towards zero if need be."""
    def apply(op: Op, *inputs: Value) -> Value:
        return g(op, *inputs, dtype=DType.BOOL if isinstance(op, (NotEqual, LogicalAnd, Less)) else I32)

    zero, is_negative = g.number(0), g.builder.constant(np.bool_(False))
    begin = added_down(apply, length(g, x), g.number(4), g.number(-1), zero, is_less=(zero, is_negative))
    return g(Slice(), x, ints(g, Pack(2), begin, zero), g.ints(-1, 6))


def around_rows(g: Graph, x: Value) -> Value:
    """(n, 6) as (n, 13), more columns than some inputs have rows."""
    return g(StablehloPad((0, 1), (0, 1), (0, 1)), x, g.number(0.5))


def without_sign(g: Graph, x: Value) -> Value:
    """(n, 6) as (|n - 3 n|, 3)."""
    less = ints(g, Sub(), length(g, x), ints(g, Mul(), length(g, x), g.number(3)))
    return g(Reshape(), x, ints(g, Pack(2), ints(g, Abs(), less), g.number(3)))


def reversed_ahead(g: Graph, x: Value) -> Value:
    """(n, 6) as (6, n), as TensorFlow's converter to ONNX reverses what of a shape is the matrix."""
    sizes = ints(g, Reshape(), ints(g, Concatenation(0), shape_of(g, x), g.ints(1)), g.ints(1, 3))
    turned = ints(g, ReverseSequence(1, 0), sizes, g.ints(2))
    flat = ints(g, Reshape(), turned, g.ints(3))
    return g(Reshape(), x, ints(g, StridedSlice(), flat, g.ints(0), g.ints(2), g.ints(1)))


def from_what_a_value_says(g: Graph, x: Value) -> Value:
    """All columns, with as many more as the last one of n numbers is less than itself, from there on, squared."""
    n = ints(g, Reshape(), length(g, x), g.ints(1))
    numbers = ints(g, Range(), g.number(0), length(g, x), g.number(1))
    last = ints(g, StridedSlice(), numbers, ints(g, Sub(), n, g.ints(1)), n, g.ints(1))
    less = ints(g, Sub(), ints(g, ReduceMax(keep_dims=True), last, g.ints(0)), last)
    wide = g(Pad(), x, ints(g, Reshape(), ints(g, Concatenation(0), g.ints(0, 0, 0), less), g.ints(2, 2)))
    columns = g(StridedSlice(), wide, ints(g, Concatenation(0), g.ints(0), less), shape_of(g, wide), g.ints(1, 1))
    return g(Mul(), g(Reshape(), g(Mul(), columns, columns), g.ints(-1, 3, 2)), g.number(0.5))


def exchanged(g: Graph, x: Value) -> Value:
    """The first column (n, 1) as (n, 3), for which one number of x's shape is exchanged."""
    sizes = ints(g, DynamicUpdateSlice(), shape_of(g, x), g.ints(3), g.ints(1))
    return g(BroadcastTo(), g(Slice(), x, g.ints(0, 0), g.ints(-1, 1)), sizes)


def scattered(g: Graph, x: Value) -> Value:
    """The spectra of columns that are filled up, to a length in a shape of which one number is exchanged by an index
    that counts from the end, as OpenVINO writes of PyTorch's `irfft`."""
    count = ints(g, Mul(), ints(g, Gather(0), shape_of(g, x), g.ints(0)), g.ints(2))
    sizes = ints(g, ScatterSlices(), shape_of(g, x), g.builder.constant(np.array([[-2]], np.int32)), count)
    length = ints(g, Gather(0), sizes, g.number(0))
    return g(Dft(onesided=True), g(ExpandDims(), x, g.number(2)), length, g.number(0))


def put_back(g: Graph, x: Value) -> Value:
    """Rows that begin with a positive number doubled, as exporters write `x[rows] = 2 * x[rows]`."""
    positive = g(Greater(), g(Gather(1), x, g.number(0)), g.number(0.0), dtype=DType.BOOL)
    found = g(Where(), positive, dtype=DType.INT64)
    doubled = g(Mul(), g(Gather(0), x, g(Reshape(), found, g.ints(-1), dtype=DType.INT64)), g.number(2.0))
    count = ints(g, StridedSlice(), shape_of(g, found), g.ints(0), g.ints(1), g.ints(1))
    sizes = ints(g, DynamicUpdateSlice(), shape_of(g, x), count, g.ints(0))
    return g(ScatterElements(0), x, g(BroadcastTo(), found, sizes, dtype=DType.INT64), doubled)


CASES: Sequence[Callable[[Graph, Value], Value]] = (
    whole_fours, halves, strides, by_fours, repeated, merged, summed, turned, in_parts, in_columns, expanded, kept,
    numbered, grouped, backwards, dilated, odd_rows_behind, fours_rounded_up, columns_first, times_nothing, steps,
    scaled, halved_as_by_jax, quartered_as_by_openvino, around_rows, without_sign, reversed_ahead,
    from_what_a_value_says, exchanged, scattered, put_back)


@pytest.mark.parametrize("write", CASES, ids=lambda write: str(write.__name__))
def test_shapes_are_computed_for_all_lengths(write: Callable[[Graph, Value], Value], folder: object,
                                             compiled: list[str]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(write(g, g.builder.input("x", DType.FLOAT32, (-1, 6))))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for n in LENGTHS:
        given = floats(n, 6)
        check(native.invoke(0, [given])[0], cpu.invoke(0, [given])[0], None)
    assert len(compiled) == 1


@pytest.mark.parametrize("write", [without_sign, reversed_ahead, scattered])
def test_lengths_are_not_left_to_the_run(write: Callable[[Graph, Value], Value]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(write(g, g.builder.input("x", DType.FLOAT32, (-1, 6))))
    scope = Scope([8])
    found = specializer_of(b.build()).at(0, ((scope.symbol(0), 6),), scope)
    assert found.is_static
    assert not found.told.values
