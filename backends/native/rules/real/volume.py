"""Native rules of the convolutions of float32 volumes: products, as those of images are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled_nest
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Direct, Left
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.rules.image import BYTES, Volume
from circlet.backends.native.rules.real.conv import positions
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.product import FloatProduct, packed_each, refuses
from circlet.backends.native.rules.real.taps import all_finite, convolve_by_taps
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.conv import Conv3D, Conv3DTranspose
from circlet.runtime.ops.window import Window

FLOAT = DType.FLOAT32
"""What the rules compute with."""


def _volume_of(node: Node[Any], value: Value) -> Volume:
    """The volumes that a tensor is."""
    count, *lengths, channels = value.shape
    return Volume(node.function.pointer(value), count, tuple(lengths), channels)


def _empty(node: Node[Any], count: int, windows: Sequence[Window], channels: int, behind: int = 0) -> Volume:
    """Scratch memory for volumes with the windows' padding around them, and some bytes behind them."""
    lengths = tuple(each.before + each.length + each.after for each in windows)
    size = count * prod(lengths) * channels * BYTES
    return Volume(node.function.reserve(size + behind), count, lengths, channels)


def _with_margins(node: Node[Any], e: Emitter, volume: Volume, windows: Sequence[Window]) -> Volume:
    """The volumes with the windows' padding around them, zeros; copied to scratch memory, row by row, unless there is
    none."""
    if not any(each.is_padded for each in windows):
        return volume
    made = _empty(node, volume.count, windows, volume.channels)
    e.fill(made.memory, 0, made.count * made.size)
    with rolled_nest(e, (volume.count, *volume.lengths[:-1])) as (number, *index):
        e.copy(_behind(e, made, windows, number, index), volume.at(e, number, *index), volume.distances[-2])
    return made


def _behind(e: Emitter, made: Volume, windows: Sequence[Window], number: ir.Value,
            index: Sequence[ir.Value]) -> ir.Value:
    """Where a row begins behind the padding."""
    moved = [e.builder.add(each, e.number(window.before)) for each, window in zip(index, windows, strict=False)]
    return made.at(e, number, *moved, e.number(windows[-1].before))


@nest(Conv3D, refuses, None)
def conv_3d(node: Node[Conv3D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of volumes (n, d, h, w, c) and a filter (kd, kh, kw, c, o): (n, i, j, k, o). A product, unless padding may meet a
    weight that is not finite: zero times that is no number. A filter that is no constant is looked at in each run."""
    filter = node.input(1)
    windows = node.op.windows(node.input(0).shape, filter.shape)
    if not any(each.is_padded for each in windows):
        _product(node, e, sinks[0], windows)
    elif filter.known is not None:
        if np.isfinite(filter.known).all():
            _product(node, e, sinks[0], windows)
        else:
            convolve_by_taps(node, e, sinks[0], windows, last=True)
    else:
        with e.builder.if_else(all_finite(e, filter)) as (then, otherwise):
            with then:
                _product(node, e, sinks[0], windows)
            with otherwise:
                convolve_by_taps(node, e, sinks[0], windows, last=True)


def _product(node: Node[Conv3D], e: Emitter, sink: Sink, windows: tuple[Window, ...]) -> None:
    """The convolution as a product of i j k positions, as deep as kd kh kw c, and o columns for each volume, which gets
    margins of zeros first."""
    filter = node.input(1)
    volume = _with_margins(node, e, _volume_of(node, node.input(0)), windows)
    product = FloatProduct(node, e, node.shape[1:], prod(filter.shape[:4]), node.shape[:1])
    start = product.start(node.optional(2))
    if filter.known is not None:
        panels = product.known(filter.known, is_transposed=False)
    else:
        panels = product.packed(node.function.pointer(filter), product.reserve(), is_transposed=False)
    left_of = positions(node, e, volume, windows, volume.channels)
    with e.nest(node.shape[:1]) as index:
        result = product.result(sink, node.op.fused_activation_function, index)
        product.multiply(left_of(index[0]), panels, start, result)


@nest(Conv3DTranspose, partial(refuses, first=1), None, frozenset({0}))
def conv_3d_transpose(node: Node[Conv3DTranspose], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of volumes (n, d, h, w, c) and a filter (kd, kh, kw, o, c): (n, i, j, k, o). For each element of the filter, each
    row of a volume gives products (w, o), which are added where they belong, in scratch memory with margins."""
    filter, volume, b = node.input(1), _volume_of(node, node.input(2)), e.builder
    windows = node.op.windows(node.shape, filter.shape)
    product = FloatProduct(node, e, (volume.lengths[-1], node.shape[-1]), volume.channels)
    plan = product.plan
    made = _empty(node, 1, windows, node.shape[-1], behind=plan.panel * BYTES)
    weights, column = _elements(node, e, filter, plan), volume.distances[-1]
    with rolled_nest(e, (volume.count,)) as (number,):
        e.fill(made.memory, 0, made.size)
        with rolled_nest(e, filter.shape[:3]) as element, rolled_nest(e, volume.lengths[:-1]) as row:
            panels = e.address(weights, I8, b.mul(e.linear(element, filter.shape[:3]),
                                                  e.number(plan.panels * plan.panel_bytes)))
            offsets = [b.mul(k, e.number(each.dilation)) for k, each in zip(element, windows, strict=True)]
            begin = [b.add(b.mul(y, e.number(each.stride)), offset)
                     for y, each, offset in zip(row, windows, offsets, strict=False)]
            target = made.at(e, e.number(0), *begin, offsets[-1])
            left = Left.even(e, plan.split, volume.at(e, number, *row), column, column)
            multiply(e, plan, left, plan.packed(panels), target,
                     Direct(target, windows[-1].stride * made.distances[-1], adds=True))
        _deliver(node, e, made, windows, number, sinks[0])


def _elements(node: Node[Conv3DTranspose], e: Emitter, value: Value, plan: Plan) -> ir.Value:
    """The filter as packed matrices, element by element."""
    taps = value.shape[:3]

    def pack(filter: Array) -> Array:
        packed = node.function.blocks.allocate((*taps, plan.panels, plan.depth, plan.panel), filter.dtype)
        for each in np.ndindex(*taps):
            packed[each] = plan.pack(filter[each])
        return packed

    if value.known is not None:
        return node.function.external(node.function.derived(value.known, ("volume elements", plan.panel), pack))
    return packed_each(node, e, plan, node.function.pointer(value), prod(taps))


def _deliver(node: Node[Conv3DTranspose], e: Emitter, made: Volume, windows: Sequence[Window], number: ir.Value,
             sink: Sink) -> None:
    """Passes on what lies within the margins of a volume, the bias added and activated."""
    bias = node.optional(3)
    with rolled_nest(e, node.shape[1:-1]) as (z, y, x):
        line = _behind(e, made, windows, e.number(0), (z, y))
        place = e.address(line, I8, e.builder.mul(x, e.number(made.distances[-1])))
        with independent(e, made.channels, lanes(e.target)) as channel:
            value = e.load(place, FLOAT, channel)
            if bias is not None:
                value = e.builder.fadd(value, bias.linear(e, channel))
            sink(e, [number, z, y, x, channel], activate(e, value, FLOAT, node.op.fused_activation_function))
