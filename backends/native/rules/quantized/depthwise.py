"""Native rule of the depthwise convolution of int8 images.

Channels are worked on in blocks of 64, 32 or 16. Dot products of four bytes serve here too: the bytes that four rows
of the window see in a column are *interleaved*, channel by channel, once for each column and row of results; then a
result takes a dot product for each column of the window. Interleaving works within parts of 16 bytes of a vector, as
processors do it, which puts the channels of a block into an order of its own, see `_order`; all that belongs to
channels is packed in that order, and packing sums into bytes restores the channels' own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import Int32s
from circlet.backends.native.emit.emitter import I8, I32, POINTER, Emitter
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.parallel import length, portion
from circlet.backends.native.gemm.dot_products import OFFSET
from circlet.backends.native.gemm.finish import Finish
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import INT8
from circlet.backends.native.rules.quantized.conv import Rescaling, images, requantization, rescaling
from circlet.backends.native.rules.quantized.depthwise_in_place import InPlace
from circlet.backends.native.rules.quantized.fully_connected import (
    BYTES,
    SIGNED,
    Source,
    constant,
    each_element,
    fits,
    form_of,
    reach,
    stage,
    start,
    stored_data,
    takes_integers,
)
from circlet.backends.native.rules.quantized.requantize import Requantization
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.constants import Uniform, shuffle_mask
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.conv import DepthwiseConv2D
from circlet.runtime.ops.window import Window
from circlet.runtime.records import dataclass

PART = 16
"""Bytes that processors interleave among themselves: PUNPCKLBW and its kin work within lanes of 128 bits."""
_POSITIONS = 16
"""Results along the width whose sums are kept in memory at a time. Of 1, 4, 8, 16, 32 and 64 for four layers with 72 to
576 channels, 32 and 64 are the best: 16 takes up to 4 % longer with filters of 3 x 3, and 11 and 24 % with 5 x 5 and 28
columns, on AVX2 and AVX-512."""
_UNROLLED = 12
"""Dot products of a result that are written out one by one: a filter of 3 x 3 has 3, of 5 x 5 10. On AVX2 writing out 3
takes 13 to 17 % less time and 10 a fifth less; on AVX-512 3 take 2 to 5 % more and 10 a quarter more."""

Read: TypeAlias = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]
"""Emits a result, given its number in the part, its lane in the block and its channel."""


@dataclass(frozen=True)
class Blocks:
    """Channels that are worked on block by block.

    Attributes:
        first: the first of them.
        size: channels of a block: a multiple of `PART`, of which a vector takes a fourth.
        number: how many blocks.
        count: the channels of a block that there are results for.
    """

    first: int
    size: int
    number: int
    count: int

    @property
    def lanes(self) -> int:
        """Words in a vector."""
        return self.size // WORD

    @property
    def channels(self) -> slice:
        """The channels that there are results for."""
        return slice(self.first, self.first + (self.number - 1) * self.size + self.count)

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """The channels in the order of the lanes."""
        channels = np.arange(self.number * self.size, dtype=np.int64).reshape(self.number, -1, WORD, WORD)
        order: npt.NDArray[np.int64] = channels.swapaxes(1, 2).reshape(-1)
        return order


def blocks(channels: int, largest: int) -> Iterator[Blocks]:
    """Blocks for all channels, each as large as can be; the last one is filled up."""
    first, size = 0, largest
    while first < channels:
        number = (channels - first) // size
        if number or size == PART:
            yield Blocks(first, size, max(number, 1), min(size, channels - first))
            first += max(number, 1) * size
        size = max(size // 2, PART)


@dataclass(frozen=True)
class Geometry:
    """The windows over an image of (n, h, w, c)."""

    image: Shape
    tall: Window
    wide: Window

    @property
    def groups(self) -> int:
        """Into which the rows of the window are divided, four each."""
        return -(-self.tall.size // WORD)

    def rows(self, group: int) -> range:
        """The rows of a group."""
        return range(group * WORD, min((group + 1) * WORD, self.tall.size))

    @property
    def columns(self) -> int:
        """Columns of the image with its margins."""
        return self.wide.before + self.wide.length + self.wide.after


def _large(call: Call) -> str | None:
    """Refuses windows that make sums too large."""
    return fits(call, prod(call.input(1).shape[1:3]))


def _sums_to(call: Call) -> int:
    """A magnitude that no sum exceeds."""
    return reach(call, prod(call.input(1).shape[1:3]))


def _bias(call: Call) -> Array:
    """What is added to the sums of each channel."""
    return stored_data(call.input(2)).reshape(-1) if call.has(2) else np.zeros(call.input(1).shape[3], np.int32)


def _first(call: Call) -> Array:
    """What the sums of each channel start with, of images moved up."""
    filter = stored_data(call.input(1))
    return start(filter.reshape(-1, filter.shape[3]).T, quantization(call.input(0)).zero_point, _bias(call))


def _quantized_as(call: Call, target: Target) -> Hashable:
    """What the code is made of but for shapes and types."""
    by = requantization(call, call.input(1).shape[3], _sums_to(call))
    return quantization(call.input(0)).zero_point, by.looks


@nest(DepthwiseConv2D, all_of(takes_integers, _large), frozenset({0, 1, 2}), name=INT8, opaque=frozenset({1, 2}),
      quantized_as=_quantized_as)
def depthwise_conv_2d(node: Node[DepthwiseConv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (1, kh, kw, c m), int8: (n, i, j, c m). For each size of blocks a loop over
    blocks and rows of results; channels are repeated m times first. Where constants are to stay as they are, or vectors
    are too short to be interleaved, all is read where it lies."""
    weights, given = constant(node.input(1)), node.input(0)
    channels, zero = weights.shape[3], quantization(node.call.input(0)).zero_point
    filter, shape = Made(node.call, lambda call: stored_data(call.input(1))[0]), images(given)
    tall, wide = node.op.windows(shape, weights.shape)
    geometry = Geometry((*shape[:3], channels), tall, wide)
    by = rescaling(node, channels, _sums_to)
    if e.target.vector_bytes < PART or form_of(e.target, prod(node.shape[:-1]), weights) is SIGNED:
        memory = node.function.pointer(given) if channels == shape[3] else _repeated(node)
        InPlace(geometry.image, memory, (tall, wide), filter, Made(node.call, _bias), zero, by).emit(node, e, sinks[0])
        return
    is_ready = channels == shape[3] and channels % PART == 0
    memory = node.function.pointer(given) if is_ready else _repeated(node)
    first = Made(node.call, _first)
    for each in blocks(channels, e.target.vector_bytes):
        part = itemgetter((..., each.channels))
        nest = _Nest(node, geometry, each, memory, zero)
        nest.emit(filter.then(part), first.then(part), by.part(each.channels), sinks[0])


def _repeated(node: Node[Any]) -> ir.Value:
    """The image with each channel as often as there are filters for it, in memory that may be read beyond its end."""
    given, channels = node.input(0), node.shape[3]
    every, source = images(given)[3], node.function.pointer(given)
    pixels, times = given.size // every, channels // every

    def run(e: Emitter, image: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        def make(k: ir.Value) -> ir.Value:
            pixel, channel = e.delinear(e.builder.add(position, k), (pixels, channels))
            return e.load(source, DType.INT8,
                          e.linear([pixel, e.builder.udiv(channel, e.number(times))], (pixels, every)))

        if times == 1:
            e.copy(target, e.address(source, I8, position), count)
        else:
            each_element(e, BYTES, target, count, make)

    return stage(node.function, BYTES, (1, 1, pixels, channels), Source(lambda e, image: ir.Constant(I8, 0), run))


class _Nest:
    """The loops over blocks of channels."""

    def __init__(self, node: Node[Any], geometry: Geometry, blocks: Blocks, memory: ir.Value, zero: int) -> None:
        self._e = node.function.e
        self._function = node.function
        self._shape = node.shape
        self._geometry = geometry
        self._blocks = blocks
        self._memory = memory
        self._zero = zero
        self._column = WORD * blocks.size
        self._group = geometry.columns * self._column
        self._mixed = node.function.scratch(geometry.groups * self._group)
        self._sums, self._stored = (node.function.scratch(_POSITIONS * blocks.size * width) for width in (WORD, 1))

    def emit(self, weights: Made, first: Made, rescaling: Rescaling, sink: Sink) -> None:
        """Given the weights (kh, kw, channels), what sums start with and how they are requantised: a loop over blocks,
        n and i, shared out, which interleaves the rows of the image that a row of results sees, and sums them up."""
        e, blocks = self._e, self._blocks
        taps = self._geometry.groups * self._geometry.wide.size
        terms = rescaling.made(lambda by: by.table(blocks.lanes, blocks.number * blocks.size, blocks.order))
        begin = first.then(lambda first: self._filled(first)[blocks.order])
        bases = [each.memory(self._function) for each in (weights.then(self._packed), begin, terms)]
        strides = (taps * WORD * blocks.size, WORD * blocks.size, WORD * rescaling.by.vector_bytes(blocks.lanes))
        margin = self._function.external(np.full(blocks.size, self._zero, np.int8))
        turns = (blocks.number, self._shape[0], self._geometry.tall.count)
        window = self._geometry.tall.size * self._geometry.wide.size
        work = prod(turns) * self._geometry.wide.count * blocks.count * window
        with portion(e, prod(turns), work) as (begin, end):
            self._fill_margins()
            with rolled(e, length(e, begin, end, prod(turns))) as k:
                number, image, row = e.delinear(e.builder.add(begin, k), turns)
                places = [e.address(base, I8, e.builder.mul(number, e.number(each)))
                          for base, each in zip(bases, strides, strict=True)]
                channel = e.builder.add(e.builder.mul(number, e.number(blocks.size)), e.number(blocks.first))
                for group in range(self._geometry.groups):
                    self._interleave(group, image, row, channel, margin)
                self._results(places, rescaling, sink, (image, row, channel))

    def _packed(self, weights: Array) -> Array:
        """As (blocks, groups, kw, lanes in order, rows of a group)."""
        blocks, groups, (tall, across, _) = self._blocks, self._geometry.groups, weights.shape
        packed = np.zeros((groups * WORD, across, blocks.number * blocks.size), np.int8)
        packed[:tall, :, :weights.shape[2]] = weights
        divided = packed[..., blocks.order].reshape(groups, WORD, across, blocks.number, blocks.size)
        return np.ascontiguousarray(divided.transpose(3, 0, 2, 4, 1))

    def _filled(self, each: Int32s) -> Int32s:
        """Filled up to whole blocks with zeros."""
        filled = np.zeros(self._blocks.number * self._blocks.size, np.int32)
        filled[:len(each)] = each
        return filled

    def _fill_margins(self) -> None:
        """Puts the zero point into the columns before and after the image, in each group of rows of the scratch
        memory."""
        e, wide = self._e, self._geometry.wide
        with rolled(e, self._geometry.groups) as group:
            begin = e.address(self._mixed, I8, e.builder.mul(group, e.number(self._group)))
            for first, count in ((0, wide.before), (wide.before + wide.length, wide.after)):
                e.fill(e.address(begin, I8, first * self._column), self._zero + OFFSET, count * self._column)

    def _interleave(self, group: int, image: ir.Value, row: ir.Value, channel: ir.Value, margin: ir.Value) -> None:
        """The columns of the image for a row of results: (groups, columns, channels of a block, 4) bytes in scratch
        memory; rows outside the image are a row of zero points."""
        e, b, (tall, wide) = self._e, self._e.builder, (self._geometry.tall, self._geometry.wide)
        _, height, width, channels = self._geometry.image
        places, steps = [], []
        for k in self._geometry.rows(group):
            at = b.add(b.mul(row, e.number(tall.stride)), e.number(k * tall.dilation - tall.before))
            pixel = b.mul(b.add(b.mul(image, e.number(height)), at), e.number(width * channels))
            inside = b.icmp_unsigned("<", at, e.number(height))
            places.append(e.select(inside, e.address(self._memory, I8, b.add(pixel, channel)), margin))
            steps.append(e.select(inside, e.number(channels), e.number(0)))
        out = e.address(self._mixed, I8, group * self._group + wide.before * self._column)
        function = _interleaving(e, self._blocks.size, len(places))
        b.call(function, [out, e.number(width), *places, *steps])

    def _results(self, tables: Sequence[ir.Value], rescaling: Rescaling, sink: Sink, index: Sequence[ir.Value]) -> None:
        """A row of results, part by part; `tables` are those of the weights, of what sums start with and of how they
        are rescaled."""
        by = rescaling.by
        e, (wide, size), (image, row, channel) = self._e, (self._geometry.wide, self._blocks.size), index
        distances = (wide.stride * self._column, wide.dilation * self._column, self._group)
        finish = by.finish_packed(self._blocks.lanes, self._blocks.count) if by.is_finishable else None
        function = _summing(e, size, self._geometry.groups, wide.size, finish)
        with rolled(e, -(-wide.count // _POSITIONS)) as part:
            position = e.builder.mul(part, e.number(_POSITIONS))
            count = e.intrinsic("smin", e.builder.sub(e.number(wide.count), position), e.number(_POSITIONS))
            begin = e.address(self._mixed, I8, e.builder.mul(position, e.number(distances[0])))
            place = (image, row, position, channel)
            out, step = self._target(sink, place, by)
            e.builder.call(function, [out, begin, *tables, count, *map(e.number, (*distances, step))])
            if finish is None:
                self._pass_on(sink, place, count, self._one_by_one(rescaling))
            elif sink.memory is None:
                self._pass_on(sink, place, count, self._from_stored)

    def _target(self, sink: Sink, index: Sequence[ir.Value], by: Requantization) -> tuple[ir.Value, int]:
        """Where a part of a row of results goes, and the distance of two results in bytes: sums, if they are not
        finished with the others of their block."""
        if not by.is_finishable:
            return self._sums, self._blocks.size * WORD
        if sink.memory is None:
            return self._stored, self._blocks.size
        return self._e.address(sink.memory, I8, self._e.linear(index, self._shape)), self._shape[-1]

    def _pass_on(self, sink: Sink, index: Sequence[ir.Value], count: ir.Value, read: Read) -> None:
        """Loops over results and channels of a block, and passes each result on."""
        e, b, (image, row, position, channel) = self._e, self._e.builder, index
        with rolled(e, count) as k, independent(e, self._blocks.count) as lane:
            value = read(k, lane, b.add(channel, lane))
            sink(e, [image, row, b.add(position, k), b.add(channel, lane)], value)

    def _from_stored(self, number: ir.Value, lane: ir.Value, channel: ir.Value) -> ir.Value:
        """A result that is finished, in scratch memory."""
        place = self._e.linear([number, lane], (_POSITIONS, self._blocks.size))
        return self._e.load(self._stored, DType.INT8, place)

    def _one_by_one(self, rescaling: Rescaling) -> Read:
        """Requantises each sum by itself; the sums are in the order of lanes."""
        e, blocks, by = self._e, self._blocks, rescaling.by
        places = self._function.external(np.argsort(blocks.order[:blocks.size]).astype(e.index_dtype.numpy))
        multipliers, shifts = rescaling.each(self._function)

        def read(number: ir.Value, lane: ir.Value, channel: ir.Value) -> ir.Value:
            at = e.linear([number, e.load(places, e.index_dtype, lane)], (_POSITIONS, blocks.size))
            mine = e.builder.sub(channel, e.number(blocks.first))
            return by.element(e, e.load(self._sums, DType.INT32, at), multipliers, shifts, mine)

        return read


def _interleaving(e: Emitter, size: int, rows: int) -> ir.Function:
    """`void(out, columns, row..., step...)`: interleaves up to four rows of bytes, made unsigned, column by column."""
    name = f"interleave_{rows}x{size}"
    found = e.module.globals.get(name)
    if found is not None:
        return found
    function = internal_function(e, name, [POINTER, e.index, *[POINTER] * rows, *[e.index] * rows], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    b, (out, columns, *rest) = inner.builder, function.args
    kind = ir.VectorType(I8, size)
    sign = Uniform(kind, -OFFSET)
    with rolled(inner, columns) as column:
        found = []
        for place, step in zip(rest[:rows], rest[rows:], strict=True):
            value = b.load(inner.address(place, I8, b.mul(column, step)), typ=kind, align=1)
            found.append(b.xor(value, sign))
        found += [Uniform(kind, 0)] * (WORD - rows)
        begin = b.mul(column, inner.number(WORD * size))
        for k, mixed in enumerate(_interleaved(inner, found, size)):
            b.store(mixed, inner.address(out, I8, b.add(begin, inner.number(k * size))), align=WORD)
    b.ret_void()
    return function


def _interleaved(e: Emitter, rows: Sequence[ir.Value], size: int) -> list[ir.Value]:
    """Four vectors of words of four bytes, one from each row, in the order of `Blocks.order`."""
    pairs = [_zipped(e, rows[k], rows[k + 1], 1, high, size) for k in (0, 2) for high in (False, True)]
    low, high = (pairs[0], pairs[2]), (pairs[1], pairs[3])
    return [_zipped(e, *each, 2, upper, size) for each in (low, high) for upper in (False, True)]


def _zipped(e: Emitter, one: ir.Value, other: ir.Value, unit: int, is_high: bool, size: int) -> ir.Value:
    """Units of bytes of two vectors by turns, those of the lower or the higher half of each part."""
    half = PART // 2
    return e.builder.shuffle_vector(one, other, shuffle_mask(*(
        source + part + is_high * half + k + byte for part in range(0, size, PART) for k in range(0, half, unit)
        for source in (0, size) for byte in range(unit))))


def _summing(e: Emitter, size: int, groups: int, across: int, finish: Finish | None) -> ir.Function:
    """`void(out, mixed, weights, start, terms, count, position, column, group, step)`: `count` results, or sums if they
    are not finished, given the distances in bytes: in `mixed` of two results, two columns of the window and two groups
    of its rows, and of two results where they go.

    A loop over results keeps four vectors of sums, the channels of a block, in registers.
    """
    name = f"depthwise_{size}_{groups}x{across}{'' if finish is None else f'_{finish.name}'}"
    found = e.module.globals.get(name)
    if found is not None:
        return found
    function = internal_function(e, name, [POINTER] * 5 + [e.index] * 5)
    inner = Emitter(e.module, function, e.target)
    b, (out, mixed, weights, first, terms, count, position, column, group, step) = inner.builder, function.args
    out.add_attribute("noalias")
    kind = ir.VectorType(I32, size // WORD)

    def vectors(base: ir.Value) -> list[ir.Value]:
        return [b.load(inner.address(base, I8, k * size), typ=kind, align=WORD) for k in range(WORD)]

    def add(begin: ir.Value, number: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
        factors = vectors(inner.address(weights, I8, b.mul(number, inner.number(WORD * size))))
        multiply_add = BYTES.arithmetic.multiply_add
        return [multiply_add(inner, *each) for each in zip(vectors(begin), factors, totals, strict=True)]

    with rolled(inner, count) as k:
        begin = inner.address(mixed, I8, b.mul(k, position))
        totals = vectors(first)

        def turn(number: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            i, j = inner.delinear(number, (groups, across))
            place = b.add(b.mul(i, group), b.mul(j, column))
            return add(inner.address(begin, I8, place), number, totals)

        if groups * across <= _UNROLLED:
            for number in range(groups * across):
                totals = turn(inner.number(number), totals)
        else:
            totals = carry(inner, inner.number(groups * across), totals, turn)
        target = inner.address(out, I8, b.mul(k, step))
        if finish is not None:
            finish.begin(inner, terms)(totals, target)
        else:
            for v, total in enumerate(totals):
                b.store(total, inner.address(target, I8, v * size), align=WORD)
    b.ret_void()
    return function
