"""Convolutions of float32 images with windows whose elements lie far apart: those that meet padding alone, which a run
may find of small images, are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Direct, Grid, Left
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import Wanted, multiply
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.image import Image, empty_image, image_of
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.product import FloatProduct
from circlet.backends.native.rules.rule import Node, Sink
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.window import Window

FLOAT = DType.FLOAT32
_FAR = 4
"""How far apart elements of a window are of which some are left out: a choice, as images that are not longer than that
are computed soon anyway."""
_DEEP = 64
"""Channels that make up for sums being read and written for each element of the window: where nothing is left out,
images of 32 take a tenth longer so, and images of 128 as long."""
_SHARE = 16
"""Of an image of known lengths, the part that padding in front of it is, from which on elements are left out: a choice;
12 before 65 save a sixth."""

Range: TypeAlias = "tuple[ir.Value, ir.Value]"
"""The first and the end of some numbers."""


def is_sparse(e: Emitter, windows: Sequence[Window], channels: int) -> bool:
    """Whether elements of the window may meet padding alone, and it is worth it to leave them out."""
    if e.target.goal is not Goal.HERE or channels < _DEEP:
        return False
    return any(each.dilation >= _FAR and each.size > 1 and _is_wide(each) for each in windows)


def _is_wide(window: Window) -> bool:
    """Whether there is much padding beside the image, as far as is known."""
    if is_open((window.length, window.count, window.before)):
        return window.is_padded
    return window.before * _SHARE >= max(window.length, 1)


def convolve_dilated(node: Node[Conv2D], e: Emitter, sink: Sink, windows: Sequence[Window]) -> None:
    """Of images (n, h, w, c) and a known filter (o, kh, kw, c): (n, i, j, o). Loops over the images and the elements of
    the window that meet any of an image: for each a product of i j positions, as deep as c, and o columns, which is
    added to the sums."""
    image, (tall, wide), size = image_of(node, node.input(0)), windows, prod(node.shape[1:])
    product = FloatProduct(node, e, node.shape[1:], image.channels, node.shape[:1])
    plan, start, weights = product.plan, product.start(node.optional(2)), _elements(node, product.plan)
    rows, columns = (_met(e, each) for each in windows)
    padded = _with_margins(node, e, image, windows, (rows, columns))
    places = node.function.reserve(plan.rows * e.index_dtype.numpy.itemsize)
    Grid.of(node.shape[1:3], (tall.stride * padded.row, wide.stride * padded.column)).write(e, places)
    sums = sink.memory or node.function.reserve(size * WORD)
    with rolled(e, image.count) as number:
        begin = e.number(0) if sink.memory is None else e.builder.mul(number, e.number(size))
        target = e.address(sums, ir.FloatType(), begin)
        with rolled(e, plan.rows) as row:
            step = e.builder.mul(row, e.number(plan.columns * WORD))
            e.copy(e.address(target, I8, step), start, plan.columns * WORD)
        with _numbers(e, rows) as k, _numbers(e, columns) as m:
            element = e.builder.add(e.builder.mul(k, e.number(wide.size)), m)
            panels = e.address(weights, I8, e.builder.mul(element, e.number(plan.panels * plan.panel_bytes)))
            line = padded.at(e, number, e.builder.mul(k, e.number(tall.dilation)))
            memory = e.address(line, I8, e.builder.mul(m, e.number(wide.dilation * padded.column)))
            multiply(e, plan, Left(memory, places, None, padded.column), plan.packed(panels), target,
                     Direct(target, plan.columns * WORD, adds=True), _wanted(e, windows, (k, m)))
        _deliver(node, e, sink, number, target)


@contextmanager
def _numbers(e: Emitter, numbers: Range) -> Iterator[ir.Value]:
    """A loop over numbers."""
    first, end = numbers
    with rolled(e, e.builder.sub(end, first)) as k:
        yield e.builder.add(first, k)


def _met(e: Emitter, window: Window) -> Range:
    """The elements of a window that meet any of an image, those between them, and one at least."""
    before, last = e.number(window.before), e.number((window.count - 1) * window.stride)
    first = _quotient(e, e.builder.sub(before, last), window.dilation)
    end = _quotient(e, e.builder.add(before, e.number(window.length)), window.dilation)
    first = e.intrinsic("smin", first, e.number(window.size - 1))
    end = e.intrinsic("smin", end, e.number(window.size))
    return first, e.intrinsic("smax", end, e.builder.add(first, e.number(1)))


def _wanted(e: Emitter, windows: Sequence[Window], element: Sequence[ir.Value]) -> Wanted:
    """Whether an element of the window meets the image at any of some positions in a row; where these go on in the next
    row of the result, as far as rows tell it."""
    rows, columns = (_positions(e, each, k) for each, k in zip(windows, element, strict=True))

    def wanted(e: Emitter, first: ir.Value, count: ir.Value) -> ir.Value:
        b, width = e.builder, e.number(windows[1].count)
        last = b.sub(b.add(first, count), e.number(1))
        (above, left), (below, right) = ((b.udiv(each, width), b.urem(each, width)) for each in (first, last))
        is_along = b.or_(_overlap(e, (left, right), columns), b.icmp_unsigned("!=", above, below))
        return b.and_(_overlap(e, (above, below), rows), is_along)

    return wanted


def _overlap(e: Emitter, ends: Range, numbers: Range) -> ir.Value:
    """Whether any number from the first to the last is one of some."""
    return e.builder.and_(e.builder.icmp_signed(">=", ends[1], numbers[0]),
                          e.builder.icmp_signed("<", ends[0], numbers[1]))


def _positions(e: Emitter, window: Window, element: ir.Value) -> Range:
    """The positions at which an element of a window meets the image."""
    b = e.builder
    first = b.sub(e.number(window.before), b.mul(element, e.number(window.dilation)))
    stride = window.stride
    return _quotient(e, first, stride), _quotient(e, b.add(first, e.number(window.length)), stride)


def _quotient(e: Emitter, value: ir.Value, by: int) -> ir.Value:
    """Rounded up; 0 where there is nothing to divide."""
    whole = e.intrinsic("smax", value, e.number(0))
    return e.builder.udiv(e.builder.add(whole, e.number(by - 1)), e.number(by))


def _margins(e: Emitter, window: Window, met: Range) -> tuple[Range, Range]:
    """The padding in front of an image, and that behind it, that elements of a window meet."""
    b, (first, end) = e.builder, met
    behind, far = e.number(window.before + window.length), e.number(window.dilation)
    last = b.mul(b.sub(end, e.number(1)), far)
    beyond = b.add(last, e.number((window.count - 1) * window.stride + 1))
    front = e.intrinsic("smin", b.mul(first, far), e.number(window.before))
    return (front, e.number(window.before)), (behind, e.intrinsic("smax", beyond, behind))


def _with_margins(node: Node[Conv2D], e: Emitter, image: Image, windows: Sequence[Window],
                  met: tuple[Range, Range]) -> Image:
    """The images with padding around them, of which only what is met is zeros; copied row by row, shared out."""
    made, (tall, wide), b = empty_image(node, image.count, windows, image.channels), windows, e.builder
    above, below, left, right = (each for pair in map(partial(_margins, e), windows, met) for each in pair)

    def clear(memory: ir.Value, margin: Range, distance: int) -> None:
        first, end = margin
        begin = e.address(memory, I8, b.mul(first, e.number(distance)))
        e.fill(begin, 0, b.mul(b.sub(end, first), e.number(distance)))

    with rolled(e, image.count) as number:
        for margin in (above, below):
            clear(made.at(e, number), margin, made.row)
        with parallel(e, image.height, image.size) as y:
            line = made.at(e, number, b.add(y, e.number(tall.before)))
            clear(line, left, made.column)
            e.copy(e.address(line, I8, wide.before * made.column), image.at(e, number, y), image.row)
            clear(line, right, made.column)
    return made


def _elements(node: Node[Conv2D], plan: Plan) -> ir.Value:
    """The filter (o, h, w, c) as a packed matrix for each element of the window."""
    filter = node.input(1).known
    assert filter is not None, "weights are known"

    def pack(filter: Array) -> Array:
        count = filter.shape[1:3]
        packed = node.function.blocks.allocate((*count, plan.panels, plan.depth, plan.panel), filter.dtype)
        for each in np.ndindex(*count):
            packed[each] = plan.pack(filter[:, each[0], each[1]])
        return packed

    return node.function.external(node.function.derived(filter, ("apart", plan.panel), pack))


def _deliver(node: Node[Conv2D], e: Emitter, sink: Sink, number: ir.Value, sums: ir.Value) -> None:
    """Activates the sums of an image, and passes them on."""
    activation, columns = node.op.fused_activation_function, node.shape[3]
    if sink.memory is not None and activation is Activation.NONE:
        return
    rows = prod(node.shape[1:3])
    with parallel(e, rows, 2 * rows * columns * WORD) as row:
        index = [number, *e.delinear(row, node.shape[1:3])]
        begin = e.builder.mul(row, e.number(columns))
        with independent(e, columns, lanes(e.target)) as column:
            value = e.load(sums, FLOAT, e.builder.add(begin, column))
            sink(e, [*index, column], activate(e, value, FLOAT, activation))
