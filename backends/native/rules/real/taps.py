"""Convolutions of float32 images tap by tap, for filters that hold infinities or NaN.

Padding is not multiplied by the filter, as in LiteRT's reference kernels: it is left out.
"""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import folded
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.reduce import REORDERED, Register
from circlet.backends.native.rules.rule import Node, Sink
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.window import Window

FLOAT = DType.FLOAT32
"""What is summed up."""


def all_finite(e: Emitter, value: Value) -> ir.Value:
    """Whether all elements are finite: each times zero then is zero, and so is their sum."""
    total, zero = Register(e, ir.FloatType()), e.constant(0, FLOAT)
    total.set(zero)
    with folded(e, value.size) as k:
        nothing = e.builder.fmul(value.linear(e, k), zero)
        total.set(e.builder.fadd(total.get(), nothing, flags=REORDERED))
    return e.builder.fcmp_ordered("==", total.get(), zero)


def convolve_by_taps(node: Node[Conv2D], e: Emitter, sink: Sink, windows: tuple[Window, ...]) -> None:
    """Emits the convolution of images (n, h, w, c) with a filter (o, kh, kw, c), which gives (n, i, j, o): scalar loops
    over all results, the window's elements inside the image, and channels, with one sum in a register."""
    (tall, wide), b = windows, e.builder
    image, filter, bias = node.input(0), node.input(1), node.optional(2)
    total = Register(e, ir.FloatType())
    with e.nest(node.shape) as index:
        number, y, x, made = index
        total.set(e.constant(0, FLOAT))
        with e.nest((tall.size, wide.size)) as (k, m):
            row, column = _met(e, tall, y, k), _met(e, wide, x, m)
            is_inside = b.and_(b.icmp_unsigned("<", row, e.number(tall.length)),
                               b.icmp_unsigned("<", column, e.number(wide.length)))
            with b.if_then(is_inside), e.loop(image.shape[3]) as channel:
                given = image.element(e, [number, row, column, channel])
                total.set(b.fadd(total.get(), b.fmul(given, filter.element(e, [made, k, m, channel]))))
        value = total.get() if bias is None else b.fadd(total.get(), bias.linear(e, made))
        sink(e, index, activate(e, value, FLOAT, node.op.fused_activation_function))


def _met(e: Emitter, window: Window, position: ir.Value, element: ir.Value) -> ir.Value:
    """What an element of the window meets, counted from the first of the input."""
    b = e.builder
    begin = b.sub(b.mul(position, e.number(window.stride)), e.number(window.before))
    return b.add(begin, b.mul(element, e.number(window.dilation)))
