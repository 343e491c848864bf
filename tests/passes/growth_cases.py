"""Loops that append a row to a cache in every turn, and compute the row from all rows that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less, SelectV2
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Div, FloorDiv, Maximum, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Slice, Split, StridedSlice, Transpose, Unpack
from circlet.runtime.ops.matmul import BatchMatMul, EmbeddingLookup, FullyConnected
from circlet.runtime.ops.normalize import LogSoftmax, Softmax
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import (
    ArgMax,
    ArgMin,
    Mean,
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    Sum,
)
from circlet.runtime.ops.shape import BroadcastTo, ExpandDims, Fill, Range, Reshape, ShapeOf, Squeeze
from circlet.runtime.ops.unary import Tanh

WIDTH = 4
F32, I32, BOOL = DType.FLOAT32, DType.INT32, DType.BOOL


class Body:
    """A body under construction; -1 in a shape is what grows."""

    def __init__(self, s: SubgraphBuilder) -> None:
        self.s = s

    def __call__(self, op: Op, *inputs: Value | None, shape: Sequence[int], dtype: DType = F32) -> Value:
        return self.several(op, *inputs, shape=shape, dtype=dtype)[0]

    def several(self, op: Op, *inputs: Value | None, shape: Sequence[int], dtype: DType = F32,
                count: int = 1) -> tuple[Value, ...]:
        return self.s.op(op, *inputs, outputs=[declared("value", dtype, shape)] * count)

    def i32(self, *values: int) -> Value:
        return self.s.constant(np.array(values, np.int32))

    def scalar(self, value: int) -> Value:
        return self.s.constant(np.array(value, np.int32))

    def length(self, x: Value, rank: int = 2, axis: int = 0) -> Value:
        """How long a tensor is, a scalar, as TensorFlow's converter spells it."""
        shape = self(ShapeOf(I32), x, shape=(rank,), dtype=I32)
        return self(StridedSlice(shrink_axis_mask=1), shape, self.i32(axis), self.i32(axis + 1), self.i32(1), shape=(),
                    dtype=I32)


def declared(name: str, dtype: DType, shape: Sequence[int]) -> Tensor:
    return Tensor(name, dtype, tuple(max(each, 1) for each in shape), tuple(shape) if -1 in shape else None)


Read = Callable[[Body, Value, Value], Value]
"""The next row (1, 4), from the cache (n, 4) and the last row."""
ReadAll = Callable[[Body, Sequence[Value], Value], Value]
"""The same from several caches."""


def rows(b: Body, cache: Value, x: Value) -> Value:
    scores = b(FullyConnected(), x, cache, None, shape=(1, -1))
    weights = b(Softmax(1.0), scores, shape=(1, -1))
    return b(BatchMatMul(), weights, cache, shape=(1, WIDTH))


def doubles(b: Body, cache: Value, x: Value) -> Value:
    """By an operator that has no native rule."""
    wide = b(Cast(), cache, shape=(-1, WIDTH), dtype=DType.FLOAT64)
    powers = b(Cast(), b(Tanh(), wide, shape=(-1, WIDTH), dtype=DType.FLOAT64), shape=(-1, WIDTH))
    return b(Sum(True), powers, b.i32(0), shape=(1, WIDTH))


def reduced(op: Callable[[bool], Op], axes: Sequence[int] = (0,)) -> Read:
    def read(b: Body, cache: Value, x: Value) -> Value:
        small = b(Tanh(), cache, shape=(-1, WIDTH))
        if len(axes) == 2:
            return b(op(False), small, b.i32(*axes), shape=())
        return b(op(True), small, b.i32(*axes), shape=(1, WIDTH))

    return read


def logical(op: Callable[[bool], Op]) -> Read:
    def read(b: Body, cache: Value, x: Value) -> Value:
        flags = b(Less(), cache, x, shape=(-1, WIDTH), dtype=BOOL)
        found = b(op(True), flags, b.i32(0), shape=(1, WIDTH), dtype=BOOL)
        return b(Cast(BOOL, F32), found, shape=(1, WIDTH))

    return read


def chosen(op: Callable[[DType], Op]) -> Read:
    def read(b: Body, cache: Value, x: Value) -> Value:
        places = b(op(I32), cache, b.scalar(0), shape=(WIDTH,), dtype=I32)
        row = b(Cast(I32, F32), places, shape=(WIDTH,))
        return b(Reshape(), row, b.i32(1, WIDTH), shape=(1, WIDTH))

    return read


def transposed(b: Body, cache: Value, x: Value) -> Value:
    columns = b(Transpose(), cache, b.i32(1, 0), shape=(WIDTH, -1))
    logs = b(LogSoftmax(), columns, shape=(WIDTH, -1))
    total = b(ReduceMax(), logs, b.i32(1), shape=(WIDTH,))
    return b(ExpandDims(), total, b.scalar(0), shape=(1, WIDTH))


def pairs(b: Body, cache: Value, x: Value) -> Value:
    """Every row meets every row: two axes grow."""
    scores = b(BatchMatMul(adj_y=True), cache, cache, shape=(-1, -1))
    mixed = b(BatchMatMul(), b(Softmax(1.0), scores, shape=(-1, -1)), cache, shape=(-1, WIDTH))
    return b(Mean(True), mixed, b.i32(0), shape=(1, WIDTH))


def causal(b: Body, cache: Value, x: Value) -> Value:
    """A mask of places, which are counted up to the length."""
    places = b(Range(), b.scalar(0), b.length(cache), b.scalar(1), shape=(-1,), dtype=I32)
    down = b(ExpandDims(), places, b.scalar(1), shape=(-1, 1), dtype=I32)
    seen = b(Less(), places, down, shape=(-1, -1), dtype=BOOL)
    scores = b(BatchMatMul(adj_y=True), cache, cache, shape=(-1, -1))
    kept = b(SelectV2(), seen, scores, b.s.constant(np.float32(-1)), shape=(-1, -1))
    return b(ReduceMin(True), b(BatchMatMul(), kept, cache, shape=(-1, WIDTH)), b.i32(0), shape=(1, WIDTH))


def heads(b: Body, cache: Value, x: Value) -> Value:
    """Two heads: axes are split, moved and joined."""
    split = b(Reshape(), cache, b.i32(-1, 2, 2), shape=(-1, 2, 2))
    keys = b(Transpose(), split, b.i32(1, 0, 2), shape=(2, -1, 2))
    query = b(Reshape(), x, b.i32(2, 1, 2), shape=(2, 1, 2))
    weights = b(Softmax(0.5), b(BatchMatMul(adj_y=True), query, keys, shape=(2, 1, -1)), shape=(2, 1, -1))
    return b(Reshape(), b(BatchMatMul(), weights, keys, shape=(2, 1, 2)), b.i32(1, WIDTH), shape=(1, WIDTH))


def computed_shapes(b: Body, cache: Value, x: Value) -> Value:
    """Shapes made of the length, as TensorFlow makes them of tensordot and the like."""
    length = b.length(cache)
    flat = b(Reshape(), cache, b(Pack(3), length, b.scalar(1), b.scalar(WIDTH), shape=(3,), dtype=I32),
             shape=(-1, 1, WIDTH))
    shape = b(ShapeOf(I32), flat, shape=(3,), dtype=I32)
    first = b(Gather(), shape, b.i32(0, 1), shape=(2,), dtype=I32)
    total = b(ReduceProd(), first, b.i32(0), shape=(), dtype=I32)
    again = b(Pack(2), total, b.scalar(WIDTH), shape=(2,), dtype=I32)
    back = b(Reshape(), flat, again, shape=(-1, WIDTH))
    dropped = b(Squeeze((1,)), b(ExpandDims(), back, b.scalar(1), shape=(-1, 1, WIDTH)), shape=(-1, WIDTH))
    ones = b(Fill(), b(Concatenation(), b(Reshape(), length, b.i32(1), shape=(1,), dtype=I32), b.i32(1), shape=(2,),
                       dtype=I32), b.s.constant(np.float32(2)), shape=(-1, 1))
    wide = b(BroadcastTo(), x, b(Slice(), again, b.i32(0), b.i32(2), shape=(2,), dtype=I32), shape=(-1, WIDTH))
    return b(Sum(True), b(Mul(), b(Maximum(), dropped, wide, shape=(-1, WIDTH)), ones, shape=(-1, WIDTH)), b.i32(0),
             shape=(1, WIDTH))


def mean_by_length(b: Body, cache: Value, x: Value) -> Value:
    """The length as a number."""
    more = b(Add(), b.length(cache), b.scalar(1), shape=(), dtype=I32)
    total = b(Sum(True), cache, b.i32(0), shape=(1, WIDTH))
    return b(Div(), total, b(Cast(I32, F32), more, shape=()), shape=(1, WIDTH))


def positions(op: str) -> Read:
    """As many rows of a table as there are."""
    def read(b: Body, cache: Value, x: Value) -> Value:
        table = b.s.constant(np.linspace(-1, 1, 100 * WIDTH, dtype=np.float32).reshape(100, WIDTH))
        end = b(Pack(2), b.length(cache), b.scalar(-1 if op == "slice" else 0), shape=(2,), dtype=I32)
        begin = b.i32(0, 0)
        part = (b(Slice(), table, begin, end, shape=(-1, WIDTH)) if op == "slice" else
                b(StridedSlice(begin_mask=3, end_mask=2), table, begin, end, b.i32(1, 1), shape=(-1, WIDTH)))
        return b(Mean(True), b(Add(), cache, part, shape=(-1, WIDTH)), b.i32(0), shape=(1, WIDTH))

    return read


def last(b: Body, cache: Value, x: Value) -> Value:
    """The last row, and the last but for its rows' ends."""
    row = b(StridedSlice(shrink_axis_mask=1, end_mask=2, begin_mask=2), cache, b.i32(-1, 0), b.i32(0, 0), b.i32(1, 1),
            shape=(WIDTH,))
    tail = b(StridedSlice(end_mask=3, begin_mask=2), cache, b.i32(-1, 0), b.i32(0, 0), b.i32(1, 1), shape=(-1, WIDTH))
    total = b(Sum(True), tail, b.i32(0), shape=(1, WIDTH))
    return b(Add(), b(Reshape(), row, b.i32(1, WIDTH), shape=(1, WIDTH)), total, shape=(1, WIDTH))


def parts(b: Body, cache: Value, x: Value) -> Value:
    """Columns cut, stacked and joined again."""
    left, right = b.several(Split(2), b.scalar(1), cache, shape=(-1, 2), count=2)
    stacked = b(Pack(2, 1), left, right, shape=(-1, 2, 2))
    one, two = b.several(Unpack(2, 2), stacked, shape=(-1, 2), count=2)
    joined = b(Concatenation(1), one, two, shape=(-1, WIDTH))
    cut = b(Slice(), joined, b.i32(0, 1), b.i32(-1, 3), shape=(-1, 3))
    return b(Sum(True), b(Sum(True), cut, b.i32(1), shape=(-1, 1)), b.i32(0), shape=(1, 1))


def columns(b: Body, cache: Value, x: Value) -> Value:
    """Other columns of a table that grows, by number."""
    found = b(Gather(1), cache, b.i32(2, 0, 0, 1), shape=(-1, WIDTH))
    return b(Sum(True), found, b.i32(0), shape=(1, WIDTH))


def looked_up(op: Op) -> Read:
    """A table's rows, by numbers made of the cache."""
    def read(b: Body, cache: Value, x: Value) -> Value:
        first = b(ReduceMax(), b(Tanh(), cache, shape=(-1, WIDTH)), b.i32(1), shape=(-1,))
        place = b(Cast(F32, I32), b(Add(), first, b.s.constant(np.float32(1)), shape=(-1,)), shape=(-1,), dtype=I32)
        table = b.s.constant(np.arange(3 * WIDTH, dtype=np.float32).reshape(3, WIDTH) / 8 - 1)
        operands = (table, place) if isinstance(op, Gather) else (place, table)
        return b(Mean(True), b(op, *operands, shape=(-1, WIDTH)), b.i32(0), shape=(1, WIDTH))

    return read


def whole_division(b: Body, cache: Value, x: Value) -> Value:
    """Zeros beyond the length would be divided by."""
    whole = b(Cast(F32, I32), b(Add(), b(Tanh(), cache, shape=(-1, WIDTH)), b.s.constant(np.float32(3)),
                                shape=(-1, WIDTH)), shape=(-1, WIDTH), dtype=I32)
    parts = b(FloorDiv(), b.scalar(7), whole, shape=(-1, WIDTH), dtype=I32)
    return b(Cast(I32, F32), b(ReduceMax(True), parts, b.i32(0), shape=(1, WIDTH), dtype=I32), shape=(1, WIDTH))


def reversed_rows(b: Body, cache: Value, x: Value) -> Value:
    """An operator without a rule."""
    return b(Sum(True), b(ReverseV2(), cache, b.i32(0), shape=(-1, WIDTH)), b.i32(0), shape=(1, WIDTH))


def row_by_length(b: Body, cache: Value, x: Value) -> Value:
    """The row of a table with as many above it as there are, an error where there is none."""
    table = b.s.constant(np.eye(3, WIDTH, dtype=np.float32))
    place = b(Reshape(), b.length(cache), b.i32(1), shape=(1,), dtype=I32)
    return b(Add(), b(Gather(), table, place, shape=(1, WIDTH)), rows(b, cache, x), shape=(1, WIDTH))


PADDED: Mapping[str, Read] = {
    "attention": rows, "sum": reduced(Sum), "sum of all": reduced(Sum, (0, 1)), "mean": reduced(Mean),
    "mean of all": reduced(Mean, (0, 1)), "max": reduced(ReduceMax), "min": reduced(ReduceMin),
    "product": reduced(ReduceProd), "any": logical(ReduceAny), "all": logical(ReduceAll), "argmax": chosen(ArgMax),
    "argmin": chosen(ArgMin), "transposed": transposed, "pairs": pairs, "causal": causal, "heads": heads,
    "computed shapes": computed_shapes, "mean by length": mean_by_length, "positions": positions("strided"),
    "first rows": positions("slice"), "last": last, "parts": parts, "columns": columns, "gather": looked_up(Gather()),
    "embedding": looked_up(EmbeddingLookup()), "doubles": doubles,
}
"""Bodies that are padded."""
KEPT: Mapping[str, Read] = {"whole division": whole_division, "reversed": reversed_rows}
"""Bodies that stay as they are."""


@dataclass(frozen=True)
class Shape:
    """How a loop begins and grows."""

    first: int = 1
    """Rows of the cache before the first turn; -1: as many as a caller passes."""
    more: int = 1
    """How many rows every turn appends."""
    prepends: bool = False


def growing(read: Read, shape: Shape = Shape()) -> circlet.Model:
    """`(n, x (1, 4), cache (first, 4)) -> (x, cache)`: n turns that append `x = tanh(read(cache, x) + c)`."""
    return growing_together(lambda b, caches, x: read(b, caches[0], x), shape)


def growing_together(read: ReadAll, shape: Shape, count: int = 1) -> circlet.Model:
    """The same with several caches, to each of which the row is appended."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    caches = [(f"cache_{k}", F32, (-1, WIDTH)) for k in range(count)]
    kinds = [("i", I32, ()), ("n", I32, ()), ("x", F32, (1, WIDTH)), *caches]
    i, n, *_ = (cond.input(*each) for each in kinds)
    cond.output(*cond.op(Less(), i, n, outputs=[declared("goes_on", BOOL, ())]))
    i, n, x, *given = (body.input(*each) for each in kinds)
    within = Body(body)
    offset = body.constant(np.linspace(0.1, 0.4, WIDTH, dtype=np.float32)[None])
    row = within(Tanh(), within(Add(), read(within, given, x), offset, shape=(1, WIDTH)), shape=(1, WIDTH))
    new = [[row, each] if shape.prepends else [each, *[row] * shape.more] for each in given]
    body.output(within(Add(), i, within.scalar(1), shape=(), dtype=I32), n, row,
                *(within(Concatenation(), *each, shape=(-1, WIDTH)) for each in new))
    inputs = [main.constant(0), main.input("n", I32), main.input("x", F32, (1, WIDTH))]
    inputs += [main.input(name, dtype, (shape.first, WIDTH)) for name, dtype, _ in caches]
    results = main.op(While(cond.index, body.index), *inputs, outputs=[declared(*each) for each in kinds])
    main.output(*results[2:])
    return b.build()
