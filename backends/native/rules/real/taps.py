"""Convolutions of float32 images and volumes tap by tap, for filters that hold infinities or NaN.

Padding is not multiplied by the filter, as in LiteRT's reference kernels: it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import folded
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.reduce import REORDERED, Register
from circlet.backends.native.rules.rule import Node, Sink
from circlet.runtime.ir.types import DType
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


def convolve_by_taps(node: Node[Any], e: Emitter, sink: Sink, windows: Sequence[Window], last: bool = False) -> None:
    """Emits the convolution of images (n, h, w, c) or volumes (n, d, h, w, c), which gives (n, i, j, o) or
    (n, i, j, k, o): scalar loops over all results, the window's elements inside the input, and channels, with one sum
    in a register.

    Args:
        node: the operator.
        e: writes the loops.
        sink: takes the results.
        windows: along each axis.
        last: whether outputs are the last axis of the filter, (kd, kh, kw, c, o), and not its first, (o, kh, kw, c).
    """
    b, image, filter, bias = e.builder, node.input(0), node.input(1), node.optional(2)
    total = Register(e, ir.FloatType())
    with e.nest(node.shape) as index:
        number, *position, made = index
        total.set(e.constant(0, FLOAT))
        with e.nest(tuple(each.size for each in windows)) as tap:
            met = [_met(e, *each) for each in zip(windows, position, tap, strict=True)]
            inside = [b.icmp_unsigned("<", place, e.number(each.length))
                      for place, each in zip(met, windows, strict=True)]
            with b.if_then(reduce(b.and_, inside)), e.loop(image.shape[-1]) as channel:
                given = image.element(e, [number, *met, channel])
                weight = filter.element(e, [*tap, channel, made] if last else [made, *tap, channel])
                total.set(b.fadd(total.get(), b.fmul(given, weight)))
        value = total.get() if bias is None else b.fadd(total.get(), bias.linear(e, made))
        sink(e, index, activate(e, value, FLOAT, node.op.fused_activation_function))


def _met(e: Emitter, window: Window, position: ir.Value, element: ir.Value) -> ir.Value:
    """What an element of the window meets, counted from the first of the input."""
    b = e.builder
    begin = b.sub(b.mul(position, e.number(window.stride)), e.number(window.before))
    return b.add(begin, b.mul(element, e.number(window.dilation)))
