"""Native rules of the convolutions of float32 images.

A convolution is a product: its rows are the positions of the window, as deep as the window has elements, which need
not be brought together: each row of the window is a run of contiguous memory, a tap of the product's row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled, rolled_nest, spread
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Direct, Grid, Left, table
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.image import BYTES, Image, Volume, empty_image, image_of, repeated, with_margins
from circlet.backends.native.rules.real.depthwise import depthwise
from circlet.backends.native.rules.real.dilated import convolve_dilated, is_sparse
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.few_columns import are_few_columns, multiply_columns
from circlet.backends.native.rules.real.product import FloatProduct, packed_each, refuses
from circlet.backends.native.rules.real.taps import all_finite, convolve_by_taps
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_length, is_open, may_differ
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.conv import BiasedTransposeConv, Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.window import Window

FLOAT = DType.FLOAT32
"""What the rules compute with."""
SMALL = 1 << 10
"""Positions of an image that is convolved together with others: a choice. The table of where they begin takes 8 bytes
for each."""
WIDEST = 32
"""Columns of the filters that are unrolled: a choice, which bounds the code. A tile has an instruction for each column
of the filter and each of up to 8 positions, and hardly any model has filters of more than 11."""


def grouped(call: Call) -> str | None:
    """Refuses convolutions in groups, and those of which it is not declared whether they are."""
    channels, taken = (call.input(k).signature[-1:] for k in range(2))
    if not channels or not taken or -1 in channels + taken:
        return "channels that are not declared"
    if channels == taken:
        return None
    return f"a filter of {list(taken)} channels for an image of {list(channels)}"


@nest(Conv2D, all_of(refuses, grouped), opaque=frozenset({1, 2}))
def conv_2d(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c): (n, i, j, o). A product, unless padding may meet a weight
    that is not finite: zero times that is no number. A filter that is no constant is looked at in each run."""
    image, filter = node.input(0), node.input(1)
    if image.shape[3] != filter.shape[3]:
        raise Unlowerable(f"{node.place}: a convolution in groups")
    windows = node.op.windows(image.shape, filter.shape)
    is_padded = any(each.is_padded for each in windows)
    if not is_padded or (filter.known is not None and np.isfinite(filter.known).all()):
        if filter.known is not None and is_sparse(e, windows, image.shape[3]):
            convolve_dilated(node, e, sinks[0], windows)
        else:
            _product(node, e, sinks[0], windows)
    elif filter.known is not None:
        convolve_by_taps(node, e, sinks[0], windows)
    else:
        with e.builder.if_else(all_finite(e, filter)) as (then, otherwise):
            with then:
                _product(node, e, sinks[0], windows)
            with otherwise:
                convolve_by_taps(node, e, sinks[0], windows)


def _product(node: Node[Conv2D], e: Emitter, sink: Sink, windows: tuple[Window, ...]) -> None:
    """The convolution as a product of n i j positions, as deep as kh kw c, and o columns; images get margins of zeros
    first. Where the window has one element and moves by one, or images are small, all of them are one product."""
    filter, is_even = node.input(1), all(each.size == each.stride == 1 for each in windows)

    def product_of(outer: Shape) -> FloatProduct:
        return FloatProduct(node, e, node.shape[len(outer):], prod(filter.shape[1:]), outer)

    product, outer = product_of(()), node.shape[:1]
    if is_even and are_few_columns(node, product.plan, filter):
        multiply_columns(e, product.plan, node.function.pointer(node.input(0)), node.function.pointer(filter),
                         product.put(sink, node.op.fused_activation_function), node.optional(2))
        return
    if is_even or _together(e, node.shape, product.plan):
        outer = ()
    else:
        product = product_of(outer)
    plan, start = product.plan, product.start(node.optional(2))
    if filter.known is not None:
        panels = product.known(filter.known)
    else:
        panels = product.packed(node.function.pointer(filter), product.reserve(), is_transposed=True)
    image = image_of(node, node.input(0))
    if not is_even:
        image = with_margins(node, e, image, windows)
        left_of = positions(node, e, image, windows, image.channels, together=not outer)
    with e.nest(outer) as index:
        left = Left.even(e, plan.split, image.memory, image.column, image.column) if is_even else (
            left_of(*index or (e.number(0),)))
        product.multiply(left, panels, start, product.result(sink, node.op.fused_activation_function, index))


def _together(e: Emitter, shape: Shape, plan: Plan) -> bool:
    """Whether images (n, i, j, o) are convolved as one: they are small, or the weights are so large that they are not
    to be read for each of them. Where code is for elsewhere, no table of positions is made, and more axes are more to
    compute for each tile."""
    count, area = shape[0], prod(shape[1:3])
    if not may_differ(count, 1) or e.target.goal is not Goal.HERE:
        return False
    return plan.fetches if is_length(area) else area <= SMALL


def positions(node: Node[Any], e: Emitter, image: Image | Volume, windows: Sequence[Window], taken: int,
              together: bool = False) -> Callable[..., Left]:
    """The elements under the window, position by position, given the number of an image and where in a column the
    channels begin, in bytes: a table of where each position begins, and one of its rows. These stand for an
    indirection buffer (Dukhan 2019, "The Indirect Convolution Algorithm"), which has an address for each position and
    element of the window; nothing is copied as by im2col. Where lengths are open, the tables are written first.

    Args:
        node: the operator.
        e: writes them.
        image: with margins.
        windows: along each axis, the last of which is the width.
        taken: how many channels are read.
        together: whether those of all images are wanted, given the number of the first.
    """
    *outer, wide = windows
    *far, column = image.distances
    steps = tuple(each.stride * distance for each, distance in zip(windows, image.distances, strict=True))
    shape = tuple(each.count for each in windows)
    if together:
        steps, shape = (image.size, *steps), (image.count, *shape)
    is_run = wide.dilation == 1 and taken == image.channels
    columns = [0] if is_run else [k * wide.dilation * column for k in range(wide.size)]
    rows_of_window = itertools.product(*([k * each.dilation * distance for k in range(each.size)]
                                         for each, distance in zip(outer, far, strict=True)))
    taps = [sum(row) + each for row in rows_of_window for each in columns]
    run = taken * BYTES * (wide.size if is_run else 1)
    rows: ir.Value | None = None
    if is_open((*steps, *shape, *taps)):
        rows = node.function.reserve(prod(shape) * e.index_dtype.numpy.itemsize)
        Grid.of(shape, steps).write(e, rows)
        offsets = _stored(node, e, taps)
    else:
        offsets = table(e, taps)
        if e.target.goal is Goal.HERE:
            found = reduce(np.add.outer, (np.arange(count) * step for count, step in zip(shape, steps, strict=True)))
            rows = node.function.external(found.reshape(-1).astype(e.index_dtype.numpy))

    grid = None if rows is not None else Grid.of(shape, steps)

    def left(number: ir.Value, begin: ir.Value | None = None) -> Left:
        memory = image.at(e, number)
        memory = memory if begin is None else e.address(memory, I8, begin)
        return Left(memory, rows, None, run, (offsets, len(taps)), grid)

    return left


def _stored(node: Node[Any], e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """Scratch memory with a table of indices."""
    memory = node.function.reserve(len(numbers) * e.index_dtype.numpy.itemsize)
    for position, number in enumerate(numbers):
        e.store(e.number(number), memory, e.index_dtype, position)
    return memory


def _wide(call: Call) -> str | None:
    """Refuses filters whose rows are too long to be unrolled."""
    width = max(call.input(1).signature[2:3], default=0)
    return None if width <= WIDEST else f"a filter {width} columns wide (supported: up to {WIDEST})"


@nest(DepthwiseConv2D, all_of(refuses, _wide), opaque=frozenset({1, 2}))
def depthwise_conv_2d(node: Node[DepthwiseConv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (1, kh, kw, c m): (n, i, j, c m); channels are repeated m times first."""
    filter = node.input(1)
    windows = node.op.windows(node.input(0).shape, filter.shape)
    image = image_of(node, node.input(0))
    depthwise(node, e, repeated(node, e, image, filter.shape[3] // max(image.channels, 1)), windows, sinks[0])


@nest(TransposeConv, partial(refuses, first=1), None, frozenset({0}))
def transpose_conv(node: Node[TransposeConv], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c): (n, i, j, o); the result's shape is told."""
    _transposed(node, e, sinks[0], node.input(2), node.optional(3))


@nest(BiasedTransposeConv, refuses, None)
def biased_transpose_conv(node: Node[BiasedTransposeConv], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """As `transpose_conv`, where the result's shape follows from that of the images."""
    _transposed(node, e, sinks[0], node.input(0), node.input(2))


_Transposed: TypeAlias = "Node[TransposeConv] | Node[BiasedTransposeConv]"


def _transposed(node: _Transposed, e: Emitter, sink: Sink, images: Value, bias: Value | None) -> None:
    """For so many elements of the filter side by side as the stride is, each row of the image gives products
    (w, stride o), which are added where they belong, in scratch memory with margins; for each element, if the stride
    does not divide how many there are."""
    filter, image = node.input(1), image_of(node, images)
    tall, wide = windows = node.op.windows(node.shape, filter.shape)
    channels, beside = filter.shape[0], wide.stride if wide.size % wide.stride == 0 else 1
    product = FloatProduct(node, e, (image.width, beside * channels), image.channels)
    plan = product.plan
    made = empty_image(node, 1, windows, channels, behind=plan.panel * BYTES)
    weights = _elements(node, e, plan, beside)
    with rolled(e, image.count) as number:
        e.fill(made.memory, 0, made.size)
        with rolled(e, tall.size) as k, rolled(e, wide.size // beside) as m, rolled(e, image.height) as y:
            element = e.builder.add(e.builder.mul(k, e.number(wide.size // beside)), m)
            panels = e.address(weights, I8, e.builder.mul(element, e.number(plan.panels * plan.panel_bytes)))
            row = e.builder.add(e.builder.mul(y, e.number(tall.stride)), k)
            target = e.address(made.at(e, e.number(0), row), I8, e.builder.mul(m, e.number(beside * made.column)))
            left = Left.even(e, plan.split, image.at(e, number, y), image.column, image.column)
            multiply(e, plan, left, plan.packed(panels), target,
                     Direct(target, wide.stride * made.column, adds=True))
        _deliver(node, e, made, windows, number, sink, bias)


def _elements(node: _Transposed, e: Emitter, plan: Plan, beside: int) -> ir.Value:
    """The filter (o, h, w, c) as packed matrices, of so many elements side by side each."""
    value = node.input(1)
    outputs, height, width, depth = value.shape
    count = (height, width // beside)

    def pack(filter: Array) -> Array:
        packed = node.function.blocks.allocate((*count, plan.panels, plan.depth, plan.panel), filter.dtype)
        parts = filter.transpose(1, 2, 0, 3).reshape(*count, beside * outputs, depth)
        for each in np.ndindex(*count):
            packed[each] = plan.pack(parts[each])
        return packed

    if value.known is not None:
        return node.function.external(node.function.derived(value.known, ("elements", plan.panel, beside), pack))
    turned, source = node.function.reserve(prod(value.shape) * BYTES), node.function.pointer(value)
    with rolled_nest(e, value.shape[:3]) as (made, y, x):
        place = e.linear([y, x, made], (height, width, outputs))
        e.copy(e.address(turned, ir.FloatType(), e.builder.mul(place, e.number(depth))),
               e.address(source, ir.FloatType(), e.linear([made, y, x, e.number(0)], value.shape)), depth * BYTES)
    return packed_each(node, e, plan, turned, prod(count))


def _deliver(node: _Transposed, e: Emitter, made: Image, windows: tuple[Window, ...], number: ir.Value,
             sink: Sink, bias: Value | None) -> None:
    """Passes on what lies within the margins, (h, w, o) of an image, the bias added and activated."""
    _, height, width, channels = node.shape
    before, left = (each.before for each in windows)
    with rolled(e, height) as y:
        line = made.at(e, e.number(0), e.builder.add(y, e.number(before)))

        def give(x: ir.Value, channel: ir.Value) -> None:
            place = e.address(line, I8, e.builder.mul(e.builder.add(x, e.number(left)), e.number(made.column)))
            value = e.load(place, FLOAT, channel)
            if bias is not None:
                value = e.builder.fadd(value, bias.linear(e, channel))
            sink(e, [number, y, x, channel], activate(e, value, FLOAT, node.op.fused_activation_function))

        if channels == 1:
            spread(e, width, lambda x: give(x, e.number(0)))
        else:
            with rolled(e, width) as x, independent(e, channels, lanes(e.target)) as channel:
                give(x, channel)
