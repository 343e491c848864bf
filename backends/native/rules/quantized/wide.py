"""Native rules of products of integers that dot products of bytes do not take: with unsigned bytes, 16-bit integers or
packed weights.

Both factors are kept as 16-bit integers around zero. That their sums fit into 32 bits is found from the weights. Where
they do not, as where int16 has many weights, halves of its elements are multiplied: one is 256 times its upper byte and
the lower one. Rows of each have sums that fit; of these one of 64 bits is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import reduced_multipliers
from circlet.backends.arithmetic.quantization import unpack_int4
from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.dot_products import OFFSET
from circlet.backends.native.gemm.grouped import ALONE, Group, each_group
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Direct, Filtered, Left, Put, Result
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.figures.figure import offset, quantization
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.preferences import INTEGER
from circlet.backends.native.rules.quantized.conv import Taps, images, requantization, requantized, rescaling
from circlet.backends.native.rules.quantized.fully_connected import (
    BYTES,
    I16,
    PAIRS,
    Form,
    Source,
    each_element,
    known,
    largest_bias,
    multiply_integers,
    rows_of,
    scaled,
    stage,
)
from circlet.backends.native.rules.quantized.requantize import (
    SUMS_BELOW,
    Requantization,
    clamped,
    rescale_by,
)
from circlet.backends.native.rules.refusals import constant_inputs, outputs_only, sums_below
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal, Target
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.matmul import FullyConnected

_INTEGERS = frozenset({DType.INT8, DType.UINT8, DType.INT16})
"""What images and results may be stored as."""
_MOST_TAPS = 64
"""Of the window of a depthwise convolution, which are written out one by one: a choice, which bounds the code; 8 x
8."""
_HALF = 8
"""Bits of a half."""
_LONG_SUMS_BELOW = 1 << 47
"""Sums as large are multiplied by a mantissa of 16 bits in 64, and are doubles."""


def weights_of(tensor: Tensor) -> Array:
    """Constant weights around zero, as int16."""
    assert tensor.data is not None, "the rules refuse other weights"
    stored = unpack_int4(tensor.data, tensor.shape) if tensor.dtype is DType.INT4 else tensor.data
    found: Array = np.subtract(stored, quantization(tensor).zero_point, dtype=np.int16)
    return found


def bits_of(tensor: Tensor) -> int:
    """Of an element of weights."""
    return 4 if tensor.dtype is DType.INT4 else 8


def takes(data: int = 0, bias: int = 2, channels: int = 0, fits: Refusal | None = None) -> Refusal:
    """Refuses all calls but those whose input `data` and weights, input 1, are quantised integers, and weights and bias
    constants such that sums fit, or as `fits` says; the weights' axis `channels` is that of the result."""
    return all_of(constant_inputs(1, bias), only(_INTEGERS, data), partial(_made_of, data),
                  only((DType.INT8, DType.UINT8, DType.INT4), 1), fits or partial(_fits, data, bias, channels))


def _made_of(data: int, call: Call) -> str | None:
    """Refuses results of another type than input `data`."""
    return outputs_only(call.input(data).dtype)(call)


def _fits(data: int, bias: int, channels: int, call: Call) -> str | None:
    """Refuses sums that may reach `SUMS_BELOW`."""
    return sums_below(SUMS_BELOW, _reach(data, bias, channels, call))


def _fits_by_halves(call: Call) -> str | None:
    """Refuses sums that `_fits` does, and that cannot be made of those of halves."""
    if _is_scaled_by_64(call) and _fit(call, _total(0, call)):
        return None
    return _fits(0, 2, 0, call)


def _is_scaled_by_64(call: Call) -> bool:
    """Whether sums are multiplied as doubles or as integers of 64 bits."""
    kind = call.input(2).dtype if call.has(2) else getattr(call.op, "quantized_bias_type", None)
    return isinstance(call.op, FullyConnected) or kind is not DType.INT32


def _fit(call: Call, total: int) -> bool:
    """Whether sums can be made of those of halves, where magnitudes of weights are added up to so much at most."""
    given, weights = call.input(0), call.input(1)
    return (given.dtype is DType.INT16 and weights.dtype in (DType.INT8, DType.INT4)
            and not any(quantization(weights).zero_points) and total << _HALF < SUMS_BELOW
            and (total << 2 * _HALF) + largest_bias(call) < _LONG_SUMS_BELOW)


def _by_halves(call: Call) -> bool:
    """Whether sums do not fit into 32 bits."""
    return _reach(0, 2, 0, call) >= SUMS_BELOW


def _reach(data: int, bias: int, channels: int, call: Call) -> int:
    """A magnitude that no sum exceeds."""
    given = call.input(data)
    zero, limits = quantization(given).zero_point, given.dtype.numpy
    reach = max(np.iinfo(limits).max - zero, zero - np.iinfo(limits).min)
    return _total(channels, call) * reach + largest_bias(call, data, bias)


def _total(channels: int, call: Call) -> int:
    """What the magnitudes of weights that may meet in a sum add up to at most."""
    found = np.abs(weights_of(call.input(1)))
    others = tuple(axis for axis in range(found.ndim) if axis != channels)
    totals = (each.sum(axis=others, dtype=np.int64) for each in _together(call.op, found))
    return max((int(each.max(initial=0)) for each in totals), default=0)


def _together(op: Op, weights: Array) -> Iterator[Array]:
    """The weights that may meet in a sum: of a transposed convolution those that are a stride apart."""
    if not isinstance(op, TransposeConv):
        yield weights
        return
    for row in range(op.stride_h):
        for column in range(op.stride_w):
            yield weights[:, row::op.stride_h, column::op.stride_w]


def centred(value: Value, tensor: Tensor) -> Source:
    """The elements of a tensor without its zero point."""

    def run(e: Emitter, image: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        each_element(e, PAIRS, target, count, lambda k: e.builder.trunc(
            offset(e, value.linear(e, e.builder.add(position, k)), tensor), I16))

    return Source(lambda e, image: PAIRS.constant(0), run)


def _form_of_halves(target: Target) -> Form:
    """What halves and weights are multiplied as."""
    return PAIRS if target.dot_bytes(lanes(target)) is None else BYTES


def _halves(form: Form, value: Value) -> tuple[Source, Source]:
    """The upper bytes of an int16 tensor's elements, moved up to be unsigned, and the lower ones."""
    return _part(form, value, _HALF), _part(form, value, 0)


def _part(form: Form, value: Value, shift: int) -> Source:
    """The bytes of elements from some bit on; of the upper ones the sign is moved up."""
    def run(e: Emitter, image: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        b = e.builder

        def make(k: ir.Value) -> ir.Value:
            element = value.linear(e, b.add(position, k))
            if shift:
                moved = b.xor(element, ir.Constant(element.type, -1 << 15))
                found = b.lshr(moved, ir.Constant(element.type, shift))
            else:
                found = b.and_(element, ir.Constant(element.type, (1 << _HALF) - 1))
            return found if form.element == element.type else b.trunc(found, form.element)

        each_element(e, form, target, count, make)

    return Source(lambda e, image: form.constant(OFFSET if shift else 0), run)


def _multiply_halves(function: Function, form: Form, rows: int, lefts: tuple[Left, Left], weights: Array, put: Put,
                    bits: int, group: Group = ALONE) -> None:
    """Emits the product of rows of int16 with weights, which gives (rows, columns) i64.

    Args:
        function: where.
        form: of the halves.
        rows: how many.
        lefts: where the upper and the lower halves are.
        weights: an array of shape (columns, taps, elements), int8.
        put: where the sums go.
        bits: of the weights in the model.
        group: whose columns are multiplied; the weights are those of all groups.
    """
    columns = len(weights) // group.count
    upper = function.reserve(rows * columns * WORD)
    moved = -OFFSET * weights.sum(axis=(1, 2), dtype=np.int32)

    def joined(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        b = e.builder
        above = e.load(upper, DType.INT32, b.add(b.mul(row, e.number(columns)), column))
        put(e, row, column, b.add(b.shl(b.sext(above, I64), e.wide(_HALF)), b.sext(value, I64)))

    results: tuple[Callable[[Plan, ir.Value], Result], ...] = (
        lambda plan, scratch: Direct(upper, columns * WORD), lambda plan, scratch: Filtered(scratch, joined))
    for left, first, result in zip(lefts, (moved, np.zeros_like(moved)), results, strict=True):
        multiply_integers(function, form, rows, left, Made.fixed(weights), Made.fixed(first), result, bits, group)


def _with_bias(e: Emitter, value: ir.Value, bias: Value | None, column: ir.Value) -> ir.Value:
    """A sum of 64 bits and the bias of its column."""
    if bias is None:
        return value
    return e.builder.add(value, _widened(e, bias.linear(e, column)))


def _widened(e: Emitter, value: ir.Value) -> ir.Value:
    return e.builder.sext(value, I64) if value.type == I32 else value


def first_sums(columns: int, bias: Value | None) -> Array:
    """What the sum of each column starts with."""
    found = known(bias)
    return np.zeros(columns, np.int32) if found is None else found.reshape(-1).astype(np.int32)


@nest(FullyConnected, takes(fits=_fits_by_halves), frozenset({0, 1, 2}), name=INTEGER)
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k) and weights (n, k), integers: (..., n). Rows are staged as pairs, multiplied, and each sum scaled
    by itself."""
    if _by_halves(node.call):
        _long_rows(node, sinks[0])
        return
    weights, function, rows = weights_of(node.call.input(1)), node.function, prod(node.shape[:-1])
    units, depth = weights.shape
    memory = stage(function, PAIRS, (1, 1, rows, depth), centred(node.input(0), node.call.input(0)))
    put = scaled(node, sinks[0])
    multiply_integers(function, PAIRS, rows, rows_of(function, PAIRS, memory, depth), Made.fixed(weights[:, None]),
                      Made.fixed(first_sums(units, node.optional(2))), lambda plan, scratch: Filtered(scratch, put),
                      bits_of(node.call.input(1)))


def _long_rows(node: Node[FullyConnected], sink: Sink) -> None:
    """`fully_connected` of rows whose sums have 64 bits."""
    weights, function, rows = weights_of(node.call.input(1)).astype(np.int8), node.function, prod(node.shape[:-1])
    if not function.e.target.has_doubles:
        raise Unlowerable(f"{node.place}: sums of 64 bits, where there are no doubles")
    depth, form, scale = weights.shape[1], _form_of_halves(function.e.target), scaled(node, sink)

    def left(source: Source) -> Left:
        return rows_of(function, form, stage(function, form, (1, 1, rows, depth), source), depth)

    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        scale(e, row, column, _with_bias(e, value, node.optional(2), column))

    upper, lower = _halves(form, node.input(0))
    _multiply_halves(function, form, rows, (left(upper), left(lower)), weights[:, None], put,
                    bits_of(node.call.input(1)))


@nest(Conv2D, takes(fits=_fits_by_halves), frozenset({0, 1, 2}), name=INTEGER)
def conv_2d(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c / groups), integers: (n, i, j, o). As that of int8, by pairs;
    sums of int16 are rescaled one by one."""
    if _by_halves(node.call):
        _long_windows(node, e, sinks[0])
        return
    image, weights, function = node.input(0), weights_of(node.call.input(1)), node.function
    shape = images(image)
    taps = Taps(PAIRS, shape, node.op.windows(shape, weights.shape), weights.shape[3])
    memory = stage(function, PAIRS, shape, centred(image, node.call.input(0)), taps.margins)
    runs, first = taps.runs(weights), first_sums(len(weights), node.optional(2))
    left = taps.left(function, memory)
    if image.dtype is DType.INT16:
        result = _one_by_one(node, sinks[0])
    else:
        result = partial(requantized, function, sinks[0], node.shape,
                         rescaling(node, len(weights), partial(_reach, 0, 2, 0)))
    with each_group(e, taps.groups) as group:
        multiply_integers(function, PAIRS, prod(node.shape[:-1]), taps.of(e, left, group), Made.fixed(runs),
                          Made.fixed(first), result(group), bits_of(node.call.input(1)), group)


def _long_windows(node: Node[Conv2D], e: Emitter, sink: Sink) -> None:
    """`conv_2d` of windows whose sums have 64 bits."""
    image, weights, function = node.input(0), weights_of(node.call.input(1)).astype(np.int8), node.function
    shape, form = images(image), _form_of_halves(e.target)
    taps = Taps(form, shape, node.op.windows(shape, weights.shape), weights.shape[3])
    upper, lower = (taps.left(function, stage(function, form, shape, each, taps.margins))
                    for each in _halves(form, image))
    finish, bias = Finish(node, node.shape[-1]), node.optional(2)
    with each_group(e, taps.groups) as group:
        begin = group.begin(e, node.shape[-1] // group.count)

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            channel = e.builder.add(column, begin)
            total = _with_bias(e, value, bias, channel)
            sink(e, [*e.delinear(row, node.shape[:-1]), channel], finish.stored(e, total, channel))

        _multiply_halves(function, form, prod(node.shape[:-1]), (taps.of(e, upper, group), taps.of(e, lower, group)),
                        taps.runs(weights), put, bits_of(node.call.input(1)), group)


def _one_by_one(node: Node[Any], sink: Sink) -> Callable[[Group], Callable[[Plan, ir.Value], Result]]:
    """Takes the sums of the channels of a group."""
    finish = Finish(node, node.shape[-1])

    def of_group(group: Group) -> Callable[[Plan, ir.Value], Result]:
        begin = group.begin(node.function.e, node.shape[-1] // group.count)

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            channel = e.builder.add(column, begin)
            sink(e, [*e.delinear(row, node.shape[:-1]), channel], finish.stored(e, value, channel))

        return lambda plan, scratch: Filtered(scratch, put)

    return of_group


class Finish:
    """Makes single sums of a convolution its results."""

    def __init__(self, node: Node[Any], channels: int, data: int = 0, bias: int = 2) -> None:
        is_small = node.function.e.target.goal is not Goal.HERE
        self._by: Requantization = requantization(node.call, channels, 0, data, is_small)
        self._dtype = node.call.outputs[0].dtype
        kind = node.call.input(bias).dtype if node.call.has(bias) else getattr(node.op, "quantized_bias_type", None)
        self._is_wide = self._dtype is DType.INT16 and kind is not DType.INT32
        external = node.function.external
        if self._is_wide:
            factors, shifts = reduced_multipliers(self._by.multipliers, self._by.shifts)
            self._tables = external(factors.astype(np.int32)), external(shifts.astype(np.int32))
        else:
            self._tables = external(self._by.multipliers), external(self._by.shifts)

    def stored(self, e: Emitter, value: ir.Value, channel: ir.Value) -> ir.Value:
        """A stored value from the sum, an i32 or, if scaled as such, an i64, of a channel."""
        b, by = e.builder, self._by
        one, other = (e.load(table, DType.INT32, channel) for table in self._tables)
        if not self._is_wide:
            value = rescale_by(e, value, one, other)
        else:
            bits = b.sext(other, I64)
            half = b.ashr(b.shl(e.wide(1), bits), e.wide(1))
            long = value if value.type == I64 else b.sext(value, I64)
            value = b.trunc(b.ashr(b.add(b.mul(long, b.sext(one, I64)), half), bits), I32)
        value = clamped(e, b.add(value, ir.Constant(I32, by.zero_point)), by.low, by.high)
        return b.trunc(value, register_type(self._dtype))


def many_taps(call: Call) -> str | None:
    """Refuses depthwise convolutions that `window_sums` does not take."""
    taps = prod(call.input(1).shape[:3])
    return None if taps <= _MOST_TAPS else f"a window of {taps} elements (supported: up to {_MOST_TAPS})"


_refuses_int8 = only(_INTEGERS - {DType.INT8})
"""Leaves int8 to dot products of bytes."""


@nest(DepthwiseConv2D, all_of(_refuses_int8, takes(channels=3), many_taps), frozenset({0, 1, 2}), name=INTEGER)
def depthwise_conv_2d(node: Node[DepthwiseConv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (1, kh, kw, c m), integers: (n, i, j, c m). `window_sums`, each rescaled by
    itself."""
    weights, channels = weights_of(node.call.input(1))[0], node.shape[3]
    start, finish = node.function.external(first_sums(channels, node.optional(2))), Finish(node, channels)

    def put(e: Emitter, index: Index, total: ir.Value) -> None:
        total = e.builder.add(total, e.load(start, DType.INT32, index[3]))
        sinks[0](e, index, finish.stored(e, total, index[3]))

    window_sums(node, e, centred(node.input(0), node.call.input(0)), weights, put)


def window_sums(node: Node[DepthwiseConv2D], e: Emitter, source: Source, weights: Array,
                put: Callable[[Emitter, Index, ir.Value], None]) -> None:
    """The sums of a depthwise convolution, i32, channel by channel; the taps of a window are written out. A loop over
    n, i and j around one over the channels, of which LLVM makes vectors.

    Args:
        node: the operator.
        e: writes the code.
        source: writes the image as pairs.
        weights: int16, of shape (h, w, channels).
        put: takes the index of a result and its sum.
    """
    (tall, across, channels), image, b = weights.shape, images(node.input(0)), e.builder
    if not may_differ(prod(node.shape), 0):
        return
    windows = node.op.windows(image, node.input(1).shape)
    if channels != image[3] and e.target.goal is Goal.HERE:
        image, source = (*image[:3], channels), _repeated(source, channels // image[3])
    memory = stage(node.function, PAIRS, image, source, [(each.before, each.after) for each in windows])
    shape = (image[0], *(each.before + each.length + each.after for each in windows), image[3])
    filter = _elements(node.function, weights, bits_of(node.call.input(1)))
    with e.nest(node.shape[:3]) as (number, i, j):
        corner = [b.mul(each, e.number(window.stride)) for each, window in zip((i, j), windows, strict=True)]
        with independent(e, channels) as channel:
            given = channel if channels == image[3] else b.udiv(channel, e.number(channels // image[3]))
            total: ir.Value = ir.Constant(I32, 0)
            for k, m in np.ndindex(tall, across):
                at = [b.add(each, e.number(tap * window.dilation))
                      for each, tap, window in zip(corner, (k, m), windows, strict=True)]
                x = e.load(memory, DType.INT16, e.linear([number, *at, given], shape))
                w = filter(e, b.add(channel, e.number((k * across + m) * channels)))
                total = b.add(total, b.mul(b.sext(x, I32), w))
            put(e, [number, i, j, channel], total)


def _repeated(source: Source, times: int) -> Source:
    """Each element so many times, for as many channels that read it, so that vectors of these load vectors."""
    def run(e: Emitter, row: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        b, width, all_of_them = e.builder, lanes(e.target), e.number(times)
        few = b.udiv(e.register(count), all_of_them)
        source.run(e, row, b.udiv(position, all_of_them), target, few)
        whole = b.mul(b.udiv(few, e.number(width)), e.number(width))
        _spread_back(e, target, whole, b.sub(few, whole), 1, times)
        _spread_back(e, target, e.number(0), b.udiv(few, e.number(width)), width, times)

    return Source(source.begin, run)


def _spread_back(e: Emitter, memory: ir.Value, first: ir.Value, count: ir.Value, width: int, times: int) -> None:
    """Writes each of some int16 so many times, in place: vectors of a width, of which there are so many from one
    element on, the last one first, as what they take the place of is behind what is still to be read."""
    b, kind = e.builder, ir.VectorType(I16, width)
    with rolled(e, count) as turn:
        place = b.add(first, b.mul(b.sub(b.sub(count, turn), e.number(1)), e.number(width)))
        x = b.load(e.address(memory, I16, place), typ=kind, align=I16.width // 8)
        begin = b.mul(place, e.number(times))
        for k in range(times):
            order = ir.Constant(ir.VectorType(I32, width), [(k * width + lane) // times for lane in range(width)])
            made = e.address(memory, I16, b.add(begin, e.number(k * width)))
            b.store(b.shuffle_vector(x, ir.Constant(kind, ir.Undefined), order), made, align=I16.width // 8)


def _elements(function: Function, weights: Array, bits: int) -> Callable[[Emitter, ir.Value], ir.Value]:
    """What loads weights, int16, one by one as i32; where constants are to be small, they have so many bits."""
    if function.e.target.goal is Goal.HERE:
        memory = function.external(np.ascontiguousarray(weights))
        return lambda e, place: e.builder.sext(e.load(memory, DType.INT16, place), I32)
    kept, flat = Integers.of(1, bits, weights), weights.reshape(-1)
    stored = function.external(kept.elements(flat))
    return lambda e, place: kept.element(e, stored, place)
