"""Native rules of transposed convolutions by quantised weights, of integers, or of float32 that is quantised for them.

Both factors are kept as 16-bit integers around zero: how many elements of the filter meet a result differs from place
to place, so that no zero point could be taken off the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.lanes import Lanes
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Direct, Left
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.image import BYTES, Image, empty_image
from circlet.backends.native.rules.preferences import HYBRID, INTEGER
from circlet.backends.native.rules.quantized.conv import images
from circlet.backends.native.rules.quantized.fully_connected import PAIRS, Source, kept_as, known, stage
from circlet.backends.native.rules.quantized.hybrid import Scaling, centred_rows, long_filters, refuses_types
from circlet.backends.native.rules.quantized.wide import Finish, bits_of, centred, first_sums, takes, weights_of
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.conv import TransposeConv

_SHAPE = frozenset({0})
"""The input that says how large results are."""
_MEMORY = frozenset({1, 2, 3})
"""The filter, the images and the bias, which are read repeatedly."""
_Of: TypeAlias = Callable[[ir.Value, ir.Value], ir.Value]
"""From a channel and its sum, an i32, to a result."""
OfImage: TypeAlias = Callable[[Emitter, ir.Value], _Of]
"""From the number of an image to how its sums become results."""


@nest(TransposeConv, takes(2, 3), _MEMORY, _SHAPE, name=INTEGER)
def transpose_conv(node: Node[TransposeConv], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c) and a filter (o, kh, kw, c), integers: (n, i, j, o)."""
    channels, b = node.shape[3], e.builder
    start, finish = node.function.external(first_sums(channels, node.optional(3))), Finish(node, channels, 2, 3)

    def result(channel: ir.Value, total: ir.Value) -> ir.Value:
        return finish.stored(e, b.add(total, e.load(start, DType.INT32, channel)), channel)

    _transposed(node, e, centred(node.input(2), node.call.input(2)), lambda e, number: result, sinks[0])


@nest(TransposeConv, all_of(refuses_types(DType.INT8, data=2, bias=3), long_filters), _MEMORY, _SHAPE, name=HYBRID)
def of_floats(node: Node[TransposeConv], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), float32, and a filter (o, kh, kw, c), int8: (n, i, j, o), float32. An image is quantised
    so that int8 is used up."""
    weights = weights_of(node.call.input(1))
    _, *rest = images(node.input(2))
    source, parameters = centred_rows(node.function, node.input(2), rest[0] * rest[1] * rest[2])
    scales = np.array(quantization(node.call.input(1)).scales, np.float32)
    scaling = Scaling(node.function, weights, scales, known(node.optional(3)), parameters,
                      node.op.fused_activation_function, is_centred=True)
    _transposed(node, e, source, scaling.rows(_by_filter_first), sinks[0])


def _by_filter_first(value: Lanes, factor: Lanes, scale: Lanes) -> Lanes:
    """From a sum to a result, in numpy's order."""
    return value * factor * scale


def _transposed(node: Node[TransposeConv], e: Emitter, source: Source, of_image: OfImage, sink: Sink) -> None:
    """For each element of the filter, each row of the image gives products (w, o), which are added where they belong,
    i32, in scratch memory with margins.

    Args:
        node: the operator.
        e: writes the code.
        source: writes the image as pairs, around zero.
        of_image: makes results of sums.
        sink: takes them.
    """
    weights, image, function, b = weights_of(node.call.input(1)), images(node.input(2)), node.function, e.builder
    tall, wide = windows = node.op.windows(node.shape, weights.shape)
    count, height, width, depth = image
    plan = Plan.of(e.target, PAIRS.arithmetic, width, len(weights), PAIRS.run(depth) // BYTES)
    stored = kept_as(PAIRS, e.target, weights, bits_of(node.call.input(1)))
    memory = stage(function, PAIRS, image, source)
    made = empty_image(node, 1, windows, len(weights), behind=plan.panel * BYTES)
    panels = function.external(_packed_elements(plan, weights, stored))
    element_bytes = plan.panels * plan.packed(panels, stored).distance
    row_bytes = width * depth * PAIRS.size
    with rolled(e, count) as number:
        e.fill(made.memory, 0, made.size)
        with rolled(e, tall.size) as k, rolled(e, wide.size) as m, rolled(e, height) as y:
            element = b.add(b.mul(k, e.number(wide.size)), m)
            right = e.address(panels, I8, b.mul(element, e.number(element_bytes)))
            row = b.add(b.mul(y, e.number(tall.stride)), k)
            target = e.address(made.at(e, e.number(0), row), I8, b.mul(m, e.number(made.column)))
            line = b.add(b.mul(number, e.number(height)), y)
            left = Left.even(e, plan.split, e.address(memory, I8, b.mul(line, e.number(row_bytes))), depth * PAIRS.size,
                             PAIRS.run(depth))
            multiply(e, plan, left, plan.packed(right, stored), target,
                     Direct(target, wide.stride * made.column, adds=True))
        _deliver(node, e, made, number, of_image, sink)


def _packed_elements(plan: Plan, weights: Array, stored: Integers | None) -> Array:
    """The filter (o, h, w, c) as packed matrices, element by element."""
    columns, tall, wide, channels = weights.shape
    words = PAIRS.words(weights.reshape(columns, tall * wide, channels)).reshape(columns, tall * wide, plan.depth)
    matrices = [words[:, each] if stored is None else stored.kept(np.ascontiguousarray(words[:, each]))
                for each in range(tall * wide)]
    return np.ascontiguousarray(np.stack([plan.pack(each) for each in matrices]))


def _deliver(node: Node[Any], e: Emitter, made: Image, number: ir.Value, of_image: OfImage, sink: Sink) -> None:
    """Passes on what lies within the margins, results of (h, w, o) sums of an image."""
    windows = node.op.windows(node.shape, node.input(1).shape)
    (_, height, width, channels), b = node.shape, e.builder
    before, left = (each.before for each in windows)
    result = of_image(e, number)
    with rolled(e, height) as y, rolled(e, width) as x:
        line = made.at(e, e.number(0), b.add(y, e.number(before)))
        place = e.address(line, I8, b.mul(b.add(x, e.number(left)), e.number(made.column)))
        with independent(e, channels, lanes(e.target)) as channel:
            sink(e, [number, y, x, channel], result(channel, e.load(place, DType.INT32, channel)))
