"""Random models with open lengths: steps by operators that fit each other at any lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops.comparison import Greater, Less, SelectV2
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.index import Gather, GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Slice, Split, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import LogSoftmax, Softmax
from circlet.runtime.ops.pad import MirrorPad, Pad, Tile
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ArgMax, Cumsum, Mean, ReduceMax, ReduceMin, Sum
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.shape import BroadcastTo, ExpandDims, Fill, Range, Reshape, ShapeOf, Squeeze
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Abs, Logistic, Neg, Relu, Tanh
from tests.native.open_further import FURTHER, is_image
from tests.native.open_programs import Dim, M, Made, N, Open, Program, Step, computed, fixed, is_fixed, told


def unary(p: Program, x: Made) -> Made | None:
    if not x.is_float:
        return replace(x, value=p.g(p.r.choice((Neg, Abs))(), x.value, dtype=x.dtype))
    return replace(x, value=p.g(p.r.choice((Tanh, Neg, Abs, Relu, Logistic))(), x.value))


def binary(p: Program, x: Made) -> Made | None:
    """With a value of the same lengths, or with one where it differs."""
    y = p.other(lambda each: each.dtype is x.dtype and len(each.dims) <= len(x.dims) and all(
        a == b or b == fixed(1) for a, b in zip(x.dims[::-1], each.dims[::-1], strict=False)))
    pair = [x.value, y.value] if y else [x.value, x.value]
    p.r.shuffle(pair)
    return replace(x, value=p.g(p.r.choice((Add, Sub, Mul, Maximum, Minimum))(), *pair, dtype=x.dtype))


def with_constant(p: Program, x: Made) -> Made | None:
    if not x.is_float or not x.dims or not is_fixed(x.dims[-1]):
        return None
    return replace(x, value=p.g(p.r.choice((Add, Mul))(), x.value, p.constant(x.dims[-1][0])))


def reduction(p: Program, x: Made) -> Made | None:
    if not x.dims:
        return None
    axis, keeps = p.axis(x), p.r.random() < 0.6
    kinds = (Sum, Mean, ReduceMax, ReduceMin) if x.is_float else (Sum, ReduceMax)
    dims = [*x.dims]
    dims[axis:axis + 1] = [fixed(1)] if keeps else []
    axes = p.g.ints(axis - p.r.choice((0, len(x.dims))))
    value = p.g(p.r.choice(kinds)(keep_dims=keeps), x.value, axes, dtype=x.dtype)
    return replace(x, value=value, dims=tuple(dims))


def transposed(p: Program, x: Made) -> Made | None:
    order = list(range(len(x.dims)))
    p.r.shuffle(order)
    if len(order) < 2:
        return None
    return replace(x, value=p.g(Transpose(), x.value, p.g.ints(*order), dtype=x.dtype),
                   dims=tuple(x.dims[each] for each in order))


def joined(p: Program, x: Made) -> Made | None:
    if not x.dims:
        return None
    axis = p.axis(x)
    y = p.other(lambda each: each.dtype is x.dtype and len(each.dims) == len(x.dims) and all(
        a == b for k, (a, b) in enumerate(zip(x.dims, each.dims, strict=True)) if k != axis))
    if y is None:
        return None
    pair = [x, y]
    p.r.shuffle(pair)
    dims = [*x.dims]
    dims[axis] = computed(lambda a, b: a + b, x.dims[axis], y.dims[axis])
    return replace(x, value=p.g(Concatenation(axis), *(each.value for each in pair), dtype=x.dtype), dims=tuple(dims))


CUTS = (slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1), slice(-2, None), slice(None, 3),
        slice(1, -1), slice(None, -3), slice(1, None, 3), slice(-1, None, -2))


def cut(p: Program, x: Made) -> Made | None:
    """Of one axis, as Python cuts a list."""
    if not x.dims:
        return None
    axis, rank, taken = p.axis(x), len(x.dims), p.r.choice(CUTS)
    begins, ends, steps = ([0] * rank, [0] * rank, [1] * rank)
    begins[axis], ends[axis], steps[axis] = taken.start or 0, taken.stop or 0, taken.step or 1
    whole = ((1 << rank) - 1) & ~(1 << axis)
    op = StridedSlice(begin_mask=whole | (taken.start is None) << axis, end_mask=whole | (taken.stop is None) << axis)
    dims = [*x.dims]
    dims[axis] = computed(lambda n: len(range(*taken.indices(n))), x.dims[axis])
    return replace(x, value=p.g(op, x.value, *(p.g.ints(*each) for each in (begins, ends, steps)), dtype=x.dtype),
                   dims=tuple(dims))


def rest(p: Program, x: Made) -> Made | None:
    if not x.dims:
        return None
    axis = p.axis(x)
    begins, dims = [0] * len(x.dims), [*x.dims]
    begins[axis], dims[axis] = 1, computed(lambda n: n - 1, x.dims[axis])
    return replace(x, value=p.g(Slice(), x.value, p.g.ints(*begins), p.g.ints(*[-1] * len(dims)), dtype=x.dtype),
                   dims=tuple(dims))


def flat(p: Program, x: Made) -> Made | None:
    """All axes, or all but a last one of fixed length, as one."""
    if len(x.dims) < 2:
        return None
    keeps = is_fixed(x.dims[-1]) and p.r.random() < 0.7
    merged = x.dims[:-1] if keeps else x.dims
    dims = (computed(lambda *sizes: int(np.prod(sizes)), *merged), *(x.dims[-1:] if keeps else ()))
    return replace(x, value=p.g(Reshape(), x.value, p.g.ints(-1, *(x.dims[-1][:1] if keeps else ())), dtype=x.dtype),
                   dims=dims)


def shape_of(p: Program, x: Made) -> list[Value]:
    """The lengths of a value, scalars."""
    return [p.g.length(x.value, k) for k in range(len(x.dims))]


def split_up(p: Program, x: Made) -> Made | None:
    """An axis of fixed even length as two, by a shape that is computed."""
    halves = [k for k, each in enumerate(x.dims) if is_fixed(each) and each[0] and each[0] % 2 == 0]
    if not halves or len(x.dims) > 3:
        return None
    axis, parts = p.r.choice(halves), shape_of(p, x)
    half = x.dims[axis][0] // 2
    parts[axis:axis + 1] = [p.g.number(2), p.g.number(half)]
    dims = [*x.dims]
    dims[axis:axis + 1] = [fixed(2), fixed(half)]
    return replace(x, value=p.g(Reshape(), x.value, p.g(Pack(len(parts)), *parts, dtype=DType.INT32), dtype=x.dtype),
                   dims=tuple(dims))


def merged(p: Program, x: Made) -> Made | None:
    """Two neighbouring axes as one, by a shape that is computed."""
    if len(x.dims) < 2:
        return None
    axis, parts = p.r.randrange(len(x.dims) - 1), shape_of(p, x)
    parts[axis:axis + 2] = [p.g(Mul(), *parts[axis:axis + 2], dtype=DType.INT32)]
    dims = [*x.dims]
    dims[axis:axis + 2] = [computed(lambda a, b: a * b, *x.dims[axis:axis + 2])]
    return replace(x, value=p.g(Reshape(), x.value, p.g(Pack(len(parts)), *parts, dtype=DType.INT32), dtype=x.dtype),
                   dims=tuple(dims))


def padded(p: Program, x: Made) -> Made | None:
    if not 0 < len(x.dims) < 5:
        return None
    axis, before, after = p.axis(x), p.r.randrange(3), p.r.randrange(3)
    amounts = np.zeros((len(x.dims), 2), np.int32)
    amounts[axis] = before, after
    dims = [*x.dims]
    dims[axis] = computed(lambda n: n + before + after, x.dims[axis])
    op = MirrorPad() if p.r.random() < 0.3 and min(x.dims[axis]) > 3 else Pad()
    return replace(x, value=p.g(op, x.value, p.g.builder.constant(amounts), dtype=x.dtype), dims=tuple(dims))


def tiled(p: Program, x: Made) -> Made | None:
    if not 0 < len(x.dims) < 5:
        return None
    axis, times = p.axis(x), [1] * len(x.dims)
    times[axis] = p.r.choice((2, 3))
    dims = [*x.dims]
    dims[axis] = computed(lambda n: n * times[axis], x.dims[axis])
    return replace(x, value=p.g(Tile(), x.value, p.g.ints(*times), dtype=x.dtype), dims=tuple(dims))


def gathered(p: Program, x: Made) -> Made | None:
    """By constants, or by places of what is greatest along another axis."""
    if not x.dims:
        return None
    axis, dims = p.axis(x), [*x.dims]
    if p.r.random() < 0.5 or len(dims) < 2 or not x.is_float:
        dims[axis] = fixed(3)
        return replace(x, value=p.g(Gather(axis), x.value, p.g.ints(0, 1, 0), dtype=x.dtype), dims=tuple(dims))
    places = p.g(ArgMax(output_type=DType.INT32), x.value, p.g.ints(axis), dtype=DType.INT32)
    places = p.g(Reshape(), places, p.g.ints(-1), dtype=DType.INT32)
    dims[axis] = computed(lambda *sizes: int(np.prod(sizes)), *dims[:axis], *dims[axis + 1:])
    return replace(x, value=p.g(Gather(axis), x.value, places), dims=tuple(dims))


def normalized(p: Program, x: Made) -> Made | None:
    if not x.is_float or not x.dims:
        return None
    return replace(x, value=p.g(p.r.choice((Softmax(1.0), LogSoftmax())), x.value))


def so_far(p: Program, x: Made) -> Made | None:
    if not x.dims:
        return None
    op = Cumsum(p.r.random() < 0.3, p.r.random() < 0.3)
    return replace(x, value=p.g(op, x.value, p.g.number(p.axis(x)), dtype=x.dtype))


def places(p: Program, x: Made) -> Made | None:
    """Of what is greatest, as integers."""
    if len(x.dims) < 2 or not x.is_float:
        return None
    axis = p.axis(x)
    return Made(p.g(ArgMax(output_type=DType.INT32), x.value, p.g.ints(axis), dtype=DType.INT32),
                x.dims[:axis] + x.dims[axis + 1:], DType.INT32)


def product(p: Program, x: Made) -> Made | None:
    """A value by itself, turned."""
    if not x.is_float or not 2 <= len(x.dims) < 5:
        return None
    adjoined = p.r.random() < 0.5
    kept = x.dims[-1] if adjoined else x.dims[-2]
    return replace(x, value=p.g(Tanh(), p.g(BatchMatMul(adjoined, not adjoined), x.value, x.value)),
                   dims=(*x.dims[:-2], kept, kept))


def layer(p: Program, x: Made) -> Made | None:
    if not x.is_float or len(x.dims) < 2 or not is_fixed(x.dims[-1]) or not x.dims[-1][0]:
        return None
    size = p.r.choice((1, 4, 6))
    value = p.g(FullyConnected(keep_num_dims=True), x.value, p.constant(size, x.dims[-1][0]), p.constant(size))
    return replace(x, value=value, dims=(*x.dims[:-1], fixed(size)))


def chosen(p: Program, x: Made) -> Made | None:
    """The rows whose sum is positive, as many as a run finds."""
    if not x.is_float or len(x.dims) != 2:
        return None
    positive = p.g(Greater(), p.g(Sum(), x.value, p.g.ints(1)), p.g.number(0.0), dtype=DType.BOOL)
    return replace(x, value=p.g(GatherNd(), x.value, p.g(Where(), positive, dtype=DType.INT64)),
                   dims=(told(), x.dims[1]))


def numbered(p: Program, x: Made) -> Made | None:
    """The numbers of an axis, and a value filled to its shape: integers."""
    if not x.dims:
        return None
    axis = p.axis(x)
    length = p.g.length(x.value, axis)
    if p.r.random() < 0.6:
        return Made(p.g(Range(), p.g.number(0), length, p.g.number(1), dtype=DType.INT32), (x.dims[axis],), DType.INT32)
    return Made(p.g(Fill(), p.g(ShapeOf(DType.INT32), x.value, dtype=DType.INT32), length, dtype=DType.INT32), x.dims,
                DType.INT32)


def by_length(p: Program, x: Made) -> Made | None:
    """Divided by a length, as means are computed by hand."""
    if not x.dims or not x.is_float:
        return None
    length = p.g(Cast(), p.g.length(x.value, p.axis(x)))
    return replace(x, value=p.g(Mul(), x.value, p.g(Tanh(), length)))


def real(p: Program, x: Made) -> Made | None:
    return None if x.is_float else Made(p.g(Tanh(), p.g(Cast(), x.value)), x.dims)


def selected(p: Program, x: Made) -> Made | None:
    y = p.other(lambda each: each.dtype is x.dtype and each.dims == x.dims)
    if y is None:
        return None
    which = p.g(p.r.choice((Less, Greater))(), x.value, y.value, dtype=DType.BOOL)
    return replace(x, value=p.g(SelectV2(), which, x.value, y.value, dtype=x.dtype))


def longer(p: Program, x: Made) -> Made | None:
    """With an axis of one more, or one less."""
    ones = [k for k, each in enumerate(x.dims) if each == fixed(1)]
    if ones and p.r.random() < 0.5:
        axis = p.r.choice(ones)
        return replace(x, value=p.g(Squeeze((axis,)), x.value, dtype=x.dtype), dims=x.dims[:axis] + x.dims[axis + 1:])
    if len(x.dims) > 3:
        return None
    axis = p.r.randrange(len(x.dims) + 1)
    return replace(x, value=p.g(ExpandDims(), x.value, p.g.number(axis), dtype=x.dtype),
                   dims=(*x.dims[:axis], fixed(1), *x.dims[axis:]))


def spread(p: Program, x: Made) -> Made | None:
    """To the shape of another value."""
    y = p.other(lambda each: len(each.dims) >= len(x.dims) and each is not x and all(
        a in (b, fixed(1)) for a, b in zip(x.dims[::-1], each.dims[::-1], strict=False)))
    if y is None:
        return None
    shape = p.g(ShapeOf(DType.INT32), y.value, dtype=DType.INT32)
    return replace(x, value=p.g(BroadcastTo(), x.value, shape, dtype=x.dtype), dims=y.dims)


def halved(p: Program, x: Made) -> Made | None:
    axes = [k for k, each in enumerate(x.dims) if is_fixed(each) and each[0] and each[0] % 2 == 0]
    if not axes:
        return None
    axis = p.r.choice(axes)
    both = p.g.builder.op(Split(2), p.g.number(axis), x.value, outputs=[
        Tensor("", x.dtype, (), has_rank=False) for _ in range(2)])
    dims = [*x.dims]
    dims[axis] = fixed(dims[axis][0] // 2)
    return replace(x, value=p.r.choice(both), dims=tuple(dims))


def backwards(p: Program, x: Made) -> Made | None:
    return replace(x, value=p.g(ReverseV2(), x.value, p.g.ints(p.axis(x)), dtype=x.dtype)) if x.dims else None


def greatest(p: Program, x: Made) -> Made | None:
    if not x.dims or not x.is_float or min(x.dims[-1]) < 2:
        return None
    values, _ = p.g.builder.op(TopKV2(), x.value, p.g.number(2), outputs=[
        Tensor("", each, (), has_rank=False) for each in (x.dtype, DType.INT32)])
    return replace(x, value=values, dims=(*x.dims[:-1], fixed(2)))


def windowed(p: Program, x: Made) -> Made | None:
    if not is_image(x):
        return None
    channels, stride, size = x.dims[3][0], p.r.choice((1, 2)), p.r.choice((1, 2, 3))
    padding = p.r.choice((Padding.SAME, Padding.VALID))
    kind, made = p.r.randrange(4), channels
    if kind == 0:
        made = p.r.choice((1, 4, 8))
        value = p.g(Conv2D(padding, stride, stride), x.value, p.constant(made, size, size, channels), p.constant(made))
    elif kind == 1:
        weights, bias = p.constant(1, size, size, channels), p.constant(channels)
        value = p.g(DepthwiseConv2D(padding, stride, stride, depth_multiplier=1), x.value, weights, bias)
    else:
        pool = (AveragePool2D, MaxPool2D)[kind - 2]
        value = p.g(pool(padding, stride, stride, filter_width=size, filter_height=size), x.value)
    less = size - 1 if padding is Padding.VALID else 0
    sides = (computed(lambda n: -(-(n - less) // stride), each) for each in x.dims[1:3])
    return replace(x, value=value, dims=(x.dims[0], *sides, fixed(made)))


def resized(p: Program, x: Made) -> Made | None:
    """To twice the size, which is computed."""
    if not is_image(x):
        return None
    sides = [p.g(Mul(), p.g.length(x.value, k), p.g.number(2), dtype=DType.INT32) for k in (1, 2)]
    op = p.r.choice((ResizeBilinear(half_pixel_centers=True), ResizeNearestNeighbor()))
    dims = (computed(lambda n: 2 * n, each) for each in x.dims[1:3])
    return replace(x, value=p.g(op, x.value, p.g(Pack(2), *sides, dtype=DType.INT32)),
                   dims=(x.dims[0], *dims, x.dims[3]))


KEEPING: Sequence[Step] = (unary, binary, with_constant, normalized, so_far, backwards, by_length, selected)
"""What keeps lengths."""
PLAIN: Sequence[Step] = (
    *KEEPING, binary, reduction, reduction, transposed, joined, joined, cut, cut, rest, flat, split_up, merged, padded,
    tiled, gathered, places, product, layer, chosen, numbered, real, longer, spread, halved, greatest, windowed,
    windowed, resized)


def branches(p: Program, x: Made) -> Made | None:
    """Either of two programs, by the sign of a sum."""
    if not x.is_float or not x.dims:
        return None
    inner = []
    for name in ("then", "else"):
        each = Program(p.model, p.r, f"{name}{p.r.random()}")
        each.input(x.dims)
        each.grow(p.r.randrange(1, 4), PLAIN if p.r.random() < 0.3 else KEEPING)
        found = [made for made in each.made if made.is_float and len(made.dims) == len(x.dims)]
        each.g.builder.output(found[-1].value)
        inner.append((each.g.builder.index, found[-1].dims))
    total = p.g(Sum(), x.value, p.g.ints(*range(len(x.dims))))
    value = p.g(If(inner[0][0], inner[1][0]), p.g(Greater(), total, p.g.number(0.0), dtype=DType.BOOL), x.value)
    dims = tuple(a if a == b else told() for a, b in zip(inner[0][1], inner[1][1], strict=True))
    return replace(x, value=value, dims=dims)


def turns(p: Program, x: Made) -> Made | None:
    """A loop of a few turns; what it carries may grow along an axis."""
    if not x.is_float or not x.dims:
        return None
    cond, body = (Program(p.model, p.r, f"{name}{p.r.random()}") for name in ("cond", "body"))
    grows, axis = p.r.random() < 0.4, p.axis(x)
    dims = tuple(told() if grows and k == axis else each for k, each in enumerate(x.dims))
    numbers = []
    for each in (cond, body):
        numbers.append(each.g.builder.input("k", DType.INT32, ()))
        each.input(dims)
        each.input(x.dims)
    cond.g.builder.output(cond.g(Less(), numbers[0], cond.g.number(p.r.randrange(4)), dtype=DType.BOOL))
    body.made.reverse()
    first, same = body.made[1], body.made[0]
    body.grow(p.r.randrange(1, 4), KEEPING)
    found = [made for made in body.made if made.dims == dims][-1].value
    if grows:
        found = body.g(Concatenation(axis), found, same.value)
    else:
        found = body.g(Tanh(), body.g(Add(), found, first.value))
    body.g.builder.output(body.g(Add(), numbers[1], body.g.number(1), dtype=DType.INT32), found, same.value)
    carried = [Tensor("", each, (), has_rank=False) for each in (DType.INT32, DType.FLOAT32, DType.FLOAT32)]
    results = p.g.builder.op(While(cond.g.builder.index, body.g.builder.index), p.g.number(0), x.value, x.value,
                             outputs=carried)
    return replace(x, value=results[1], dims=dims)


ALL: Sequence[Step] = (*PLAIN, *FURTHER, branches, turns)
INPUTS: Sequence[tuple[tuple[Dim, ...], DType]] = tuple((dims, dtype) for dims, dtype in (
    ((N, fixed(4)), DType.FLOAT32), ((M, fixed(4)), DType.FLOAT32), ((N,), DType.FLOAT32), ((N, M), DType.FLOAT32),
    ((fixed(2), N, fixed(4)), DType.FLOAT32), ((fixed(1), N, M, fixed(3)), DType.FLOAT32),
    ((N, fixed(8), fixed(8), fixed(2)), DType.FLOAT32), ((N,), DType.INT32), ((M, N), DType.INT32),
    ((N, M, fixed(2)), DType.FLOAT32), ((N, N), DType.FLOAT32)))


def program(seed: int) -> Open:
    """The model of a number; it is always the same."""
    r = Random(seed)
    builder = ModelBuilder()
    p = Program(builder, r, "main")
    inputs = tuple(r.choice(INPUTS) for _ in range(r.choice((1, 2, 2))))
    for each in inputs:
        p.input(*each)
    p.grow(r.randrange(2, 14), ALL)
    results = p.made[len(inputs):][-3:] or p.made
    p.g.builder.output(*{each.value.index: each.value for each in results}.values())
    return Open(builder.build(), inputs)
