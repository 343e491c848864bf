"""Further steps of random models with open lengths: computed bounds, rows that are scattered, layers, 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.comparison import Greater, NotEqual
from circlet.runtime.ops.conv import Conv2D, TransposeConv
from circlet.runtime.ops.elementwise import Add, FloorDiv, FloorMod, Maximum, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, ScatterNd
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseSequence, Slice, StridedSlice, Unpack
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.normalize import L2Normalization
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.pool import AveragePool2D
from circlet.runtime.ops.quantize import Cast, Dequantize, Quantize
from circlet.runtime.ops.recurrent import UnidirectionalSequenceLstm
from circlet.runtime.ops.reduce import ArgMin, Mean, ReduceAny, ReduceMax, Sum
from circlet.runtime.ops.segment import UnsortedSegmentSum
from circlet.runtime.ops.shape import BroadcastTo, OneHot, Range, Reshape, ShapeOf
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.spatial import DepthToSpace, SpaceToDepth
from circlet.runtime.ops.unary import LogicalNot, Tanh
from tests.native.open_programs import Made, Program, Step, computed, fixed, is_fixed

SCALE, POINT = 1 / 16, -3


def half_of(p: Program, x: Made, axis: int) -> Value:
    """Half the length of an axis, (1,)."""
    shape = p.g(ShapeOf(DType.INT32), x.value, dtype=DType.INT32)
    length = p.g(StridedSlice(), shape, p.g.ints(axis), p.g.ints(axis + 1), p.g.ints(1), dtype=DType.INT32)
    return p.g(FloorDiv(), length, p.g.ints(2), dtype=DType.INT32)


def half(p: Program, x: Made) -> Made | None:
    """The first or the second half of the first axis, by a length that is computed."""
    if not x.dims:
        return None
    rank, at, is_first = len(x.dims), half_of(p, x, 0), p.r.random() < 0.5
    zeros = [p.g.ints(*[0] * (rank - 1))] if rank > 1 else []
    bound = p.g(Concatenation(0), at, *zeros, dtype=DType.INT32) if zeros else at
    whole, none = ((1 << rank) - 1) & ~1, p.g.ints(*[0] * rank)
    op = StridedSlice(begin_mask=whole | is_first, end_mask=whole | (not is_first))
    value = p.g(op, x.value, none if is_first else bound, bound if is_first else none, p.g.ints(*[1] * rank),
                dtype=x.dtype)
    return replace(x, value=value, dims=(
        computed(lambda n: n // 2 if is_first else n - n // 2, x.dims[0]), *x.dims[1:]))


def cut_to_half(p: Program, x: Made) -> Made | None:
    """From the second element on, as many as are half."""
    if len(x.dims) != 1:
        return None
    return replace(x, value=p.g(Slice(), x.value, p.g.ints(1), half_of(p, x, 0), dtype=x.dtype),
                   dims=(computed(lambda n: n // 2, x.dims[0]),))


def every_other(p: Program, x: Made) -> Made | None:
    """Rows of even numbers, which are counted."""
    if not x.dims:
        return None
    numbers = p.g(Range(), p.g.number(0), p.g.length(x.value, 0), p.g.number(2), dtype=DType.INT32)
    return replace(x, value=p.g(Gather(), x.value, numbers, dtype=x.dtype),
                   dims=(computed(lambda n: -(-n // 2), x.dims[0]), *x.dims[1:]))


def wrapped(p: Program, x: Made) -> Made | None:
    """Rows by numbers that are computed from integers, modulo how many there are."""
    y = p.other(lambda each: each.dtype is DType.INT32 and len(each.dims) == 1)
    if y is None or not x.dims:
        return None
    count = p.g(Maximum(), p.g.length(x.value, 0), p.g.number(1), dtype=DType.INT32)
    rows = p.g(FloorMod(), y.value, count, dtype=DType.INT32)
    return replace(x, value=p.g(Gather(), x.value, rows, dtype=x.dtype), dims=(*y.dims, *x.dims[1:]))


def scattered(p: Program, x: Made) -> Made | None:
    """Rows in the order of numbers, in a result of their shape."""
    if not x.dims:
        return None
    numbers = p.g(Range(), p.g.number(0), p.g.length(x.value, 0), p.g.number(1), dtype=DType.INT32)
    last = p.g(Sub(), p.g.length(x.value, 0), p.g.number(1), dtype=DType.INT32)
    rows = p.g(Reshape(), p.g(Sub(), last, numbers, dtype=DType.INT32), p.g.ints(-1, 1), dtype=DType.INT32)
    shape = p.g(ShapeOf(DType.INT32), x.value, dtype=DType.INT32)
    return replace(x, value=p.g(ScatterNd(), rows, x.value, shape, dtype=x.dtype))


def summed_by_place(p: Program, x: Made) -> Made | None:
    if len(x.dims) != 2 or not x.is_float:
        return None
    places = p.g(ArgMin(output_type=DType.INT32), x.value, p.g.ints(1), dtype=DType.INT32)
    kinds = p.g(FloorMod(), places, p.g.number(3), dtype=DType.INT32)
    return replace(x, value=p.g(UnsortedSegmentSum(), x.value, kinds, p.g.number(3)), dims=(fixed(3), x.dims[1]))


def one_hot(p: Program, x: Made) -> Made | None:
    if x.is_float or len(x.dims) > 3:
        return None
    value = p.g(OneHot(axis=-1), x.value, p.g.number(5), p.g.number(1.0), p.g.number(0.0))
    return Made(value, (*x.dims, fixed(5)))


def unpacked(p: Program, x: Made) -> Made | None:
    """Slices along an axis, put together in another order, or along another axis."""
    axes = [k for k, each in enumerate(x.dims) if is_fixed(each) and 0 < each[0] < 7]
    if not axes:
        return None
    axis, to = p.r.choice(axes), p.axis(x)
    count = x.dims[axis][0]
    parts = list(p.g.builder.op(Unpack(count, axis), x.value, outputs=[
        Tensor("", x.dtype, (), has_rank=False) for _ in range(count)]))
    p.r.shuffle(parts)
    dims = [*x.dims[:axis], *x.dims[axis + 1:]]
    dims.insert(to, fixed(count))
    return replace(x, value=p.g(Pack(count, to), *parts, dtype=x.dtype), dims=tuple(dims))


def written_over(p: Program, x: Made) -> Made | None:
    """The first row, over the last."""
    if not x.dims:
        return None
    rank = len(x.dims)
    row = p.g(StridedSlice(begin_mask=(1 << rank) - 1, end_mask=((1 << rank) - 1) & ~1), x.value,
              p.g.ints(*[0] * rank), p.g.ints(1, *[0] * (rank - 1)), p.g.ints(*[1] * rank), dtype=x.dtype)
    return replace(x, value=p.g(DynamicUpdateSlice(), x.value, row, p.g.ints(1 << 20, *[0] * (rank - 1)),
                                dtype=x.dtype))


def partly_backwards(p: Program, x: Made) -> Made | None:
    """The first half of each row."""
    if len(x.dims) < 2 or not is_fixed(x.dims[1]) or not x.dims[1][0]:
        return None
    lengths = p.g(BroadcastTo(), p.g.number(x.dims[1][0] // 2), p.g(
        StridedSlice(), p.g(ShapeOf(DType.INT32), x.value, dtype=DType.INT32), p.g.ints(0), p.g.ints(1), p.g.ints(1),
        dtype=DType.INT32), dtype=DType.INT32)
    return replace(x, value=p.g(ReverseSequence(1, 0), x.value, lengths, dtype=x.dtype))


def is_image(x: Made) -> bool:
    return x.is_float and len(x.dims) == 4 and is_fixed(x.dims[3]) and x.dims[3][0] > 0


def in_blocks(p: Program, x: Made) -> Made | None:
    """An image of even sides, which padding makes, into blocks; or blocks into an image."""
    if not is_image(x):
        return None
    n, h, w, c = x.dims
    if c[0] % 4 == 0 and p.r.random() < 0.5:
        return replace(x, value=p.g(DepthToSpace(2), x.value), dims=(
            n, *(computed(lambda k: 2 * k, each) for each in (h, w)), fixed(c[0] // 4)))
    twice = p.g(DepthToSpace(2), p.g(Concatenation(3), *[x.value] * 4))
    return replace(x, value=p.g(SpaceToDepth(2), twice), dims=(n, h, w, fixed(4 * c[0])))


def enlarged(p: Program, x: Made) -> Made | None:
    """A transposed convolution to twice the size, which is computed."""
    if not is_image(x):
        return None
    made, size, channels = p.r.choice((1, 4)), p.r.choice((2, 3)), x.dims[3][0]
    sides = [p.g(Mul(), p.g.length(x.value, k), p.g.number(2), dtype=DType.INT32) for k in (1, 2)]
    shape = p.g(Pack(4), p.g.length(x.value, 0), *sides, p.g.number(made), dtype=DType.INT32)
    value = p.g(TransposeConv(Padding.SAME, 2, 2), shape, p.constant(made, size, size, channels), x.value)
    return replace(x, value=value, dims=(
        x.dims[0], *(computed(lambda k: 2 * k, each) for each in x.dims[1:3]), fixed(made)))


def over_sides(p: Program, x: Made) -> Made | None:
    """The mean, sum or maximum over two axes."""
    if len(x.dims) < 3 or not x.is_float:
        return None
    op = p.r.choice((Mean, Sum, ReduceMax))
    return replace(x, value=p.g(op(), x.value, p.g.ints(1, 2)), dims=(x.dims[0], *x.dims[3:]))


def of_unit_length(p: Program, x: Made) -> Made | None:
    return replace(x, value=p.g(L2Normalization(), x.value)) if x.is_float and x.dims else None


def has_any(p: Program, x: Made) -> Made | None:
    if not x.dims:
        return None
    axis = p.axis(x)
    truths = p.g(NotEqual() if x.dtype is DType.INT32 else Greater(), x.value,
                 p.g.number(0 if x.dtype is DType.INT32 else 0.0), dtype=DType.BOOL)
    found = p.g(LogicalNot(), p.g(ReduceAny(), truths, p.g.ints(axis), dtype=DType.BOOL), dtype=DType.BOOL)
    return Made(p.g(Cast(), found, dtype=DType.INT32), x.dims[:axis] + x.dims[axis + 1:], DType.INT32)


def as_many(p: Program, x: Made) -> Made | None:
    """The greatest, half as many as there are."""
    if len(x.dims) != 1 or not x.is_float:
        return None
    count = p.g(Reshape(), half_of(p, x, 0), p.g.builder.constant(np.zeros(0, np.int32)), dtype=DType.INT32)
    values, _ = p.g.builder.op(TopKV2(), x.value, count, outputs=[
        Tensor("", each, (), has_rank=False) for each in (x.dtype, DType.INT32)])
    return replace(x, value=values, dims=(computed(lambda n: n // 2, x.dims[0]),))


def recurrent(p: Program, x: Made) -> Made | None:
    """An LSTM over the second axis, of a batch of one or two."""
    if not x.is_float or len(x.dims) != 3 or not is_fixed(x.dims[2]) or not x.dims[2][0] or not (
            is_fixed(x.dims[0]) and x.dims[0][0] in (1, 2)):
        return None
    units, taken = 4, x.dims[2][0]
    states = [p.g.builder.tensor(Tensor(f"state{len(p.made)}{k}", DType.FLOAT32, (x.dims[0][0], units),
                                        is_variable=True)) for k in range(2)]
    gates = [*(p.constant(units, taken) for _ in range(4)), *(p.constant(units, units) for _ in range(4))]
    none, bias = (None,) * 4, [p.constant(units) for _ in range(4)]
    (value,) = p.g.builder.op(
        UnidirectionalSequenceLstm(fused_activation_function=Activation.TANH), x.value, *gates, *none[:3], *bias,
        *none[:2], *states, *none, outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)])
    return replace(x, value=value, dims=(*x.dims[:2], fixed(units)))


def eight_bits(p: Program, op: Op, *inputs: Value | None, scale: float = SCALE) -> Value:
    """Applies an operator that gives int8."""
    result = Tensor("", DType.INT8, (), has_rank=False, quantization=Quantization((scale,), (POINT,)))
    return p.g.builder.op(op, *inputs, outputs=[result])[0]


def quantized(p: Program, x: Made) -> Made | None:
    """Through an operator on int8."""
    if not x.is_float or not x.dims:
        return None
    given, dims = eight_bits(p, Quantize(), p.g(Tanh(), x.value)), [*x.dims]
    weights = np.random.default_rng(p.r.randrange(1 << 30))
    kind, depth = p.r.randrange(5), x.dims[-1][0]
    scaled = Quantization((1 / 64,), (0,))
    if kind == 0:
        made = eight_bits(p, Add(), given, given, scale=1 / 8)
    elif kind == 1:
        dims[-1] = computed(lambda n: 2 * n, dims[-1])
        made = eight_bits(p, Concatenation(len(dims) - 1), given, given)
    elif kind == 2 and is_image(x):
        made = eight_bits(p, AveragePool2D(Padding.SAME, 1, 1, filter_width=3, filter_height=3), given)
    elif kind == 3 and len(dims) > 1 and is_fixed(dims[-1]) and depth:
        matrix = p.g.builder.constant(weights.integers(-9, 9, (6, depth)).astype(np.int8), quantization=scaled)
        made, dims[-1] = eight_bits(p, FullyConnected(keep_num_dims=True), given, matrix), fixed(6)
    elif kind == 4 and is_image(x):
        filters = p.g.builder.constant(weights.integers(-9, 9, (5, 3, 3, depth)).astype(np.int8), quantization=scaled)
        made, dims[-1] = eight_bits(p, Conv2D(Padding.SAME, 1, 1), given, filters), fixed(5)
    else:
        pads = np.zeros((len(dims), 2), np.int32)
        pads[0] = 1, 2
        dims[0] = computed(lambda n: n + 3, dims[0])
        made = eight_bits(p, Pad(), given, p.g.builder.constant(pads))
    return replace(x, value=p.g(Dequantize(), made), dims=tuple(dims))


FURTHER: Sequence[Step] = (
    half, half, cut_to_half, every_other, wrapped, scattered, summed_by_place, one_hot, unpacked, written_over,
    partly_backwards, in_blocks, enlarged, over_sides, of_unit_length, has_any, as_many, recurrent, quantized,
    quantized)
