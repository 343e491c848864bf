"""Native rule of convolutions of float32 images in groups: each is a product of its own channels."""

from __future__ import annotations

from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import float_range
from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.operands import Direct, Filtered, Panels, Put, Result
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.image import BYTES, image_of, with_margins
from circlet.backends.native.rules.real.conv import conv_2d, positions
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.product import CLAMPS, refuses
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.conv import Conv2D


def _refuses(call: Call) -> str | None:
    """Refuses convolutions of one group."""
    channels, taken = (call.input(k).signature[-1:] for k in range(2))
    return "one group alone" if not channels or channels[0] in (-1, *taken) else None


@nest(Conv2D, all_of(refuses, _refuses), parameters=frozenset({1, 2}), opaque=frozenset({1, 2}), name="groups")
def conv_2d_in_groups(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, g c) and a filter (g o, kh, kw, c): (n, i, j, g o). Loops over the images and the groups:
    each is a product of i j positions, as deep as kh kw c, and o columns, which lie between those of other groups.
    Weights that are not finite are numpy's: padding cannot be multiplied with them."""
    convolution = _Grouped(node, e, sinks[0])
    windows = node.op.windows(node.input(0).shape, node.input(1).shape)
    image = with_margins(node, e, image_of(node, node.input(0)), windows)
    left = positions(node, e, image, windows, convolution.taken)
    with e.nest((node.shape[0], convolution.groups)) as (number, group):
        begin = e.builder.mul(group, e.number(convolution.taken * BYTES))
        panels, start = convolution.factor(group)
        multiply(e, convolution.plan, left(number, begin), panels, start, convolution.result(number, group))


@nest(Conv2D, refuses, opaque=frozenset({1, 2}), name="channels")
def conv_2d_of_channels(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, g c) and a filter (g o, kh, kw, c), of which the model does not say how many groups there
    are: as of one group, or of several."""
    image, filter, bias = node.input(0), node.input(1), node.optional(2)
    if image.shape[3] == filter.shape[3]:
        conv_2d(node, e, sinks)
    elif filter.known is None or (bias is not None and bias.known is None):
        raise Unlowerable(f"{node.place}: a convolution in groups with weights known only when it runs")
    else:
        conv_2d_in_groups(node, e, sinks)


class _Grouped:
    """What the groups of a convolution have in common."""

    def __init__(self, node: Node[Conv2D], e: Emitter, sink: Sink) -> None:
        filter = node.input(1).known
        assert filter is not None, "weights are known"
        if not np.isfinite(filter).all():
            raise Unlowerable(f"{node.place}: weights that are not finite")
        self._node, self._e, self._sink = node, e, sink
        self._filter = filter
        self.taken = filter.shape[3]
        """Channels of a group."""
        self.groups = node.input(0).shape[3] // self.taken
        self._columns = filter.shape[0] // self.groups
        self.plan = Plan.of(e.target, FLOAT32, prod(node.shape[1:3]), self._columns, prod(filter.shape[1:]))

    def factor(self, group: ir.Value) -> tuple[Panels, ir.Value]:
        """The packed filter of a group, and what its sums begin with."""
        e, plan, function = self._e, self.plan, self._node.function
        packed = function.derived(self._filter, ("groups", plan.panel, plan.depth), self._packed)
        bias = self._node.optional(2)
        starts = self._starts(None) if bias is None or bias.known is None else function.derived(
            bias.known, ("groups", plan.panel, self.groups), self._starts)
        places = [e.address(function.external(each), I8, e.builder.mul(group, e.number(each.nbytes // self.groups)))
                  for each in (packed, starts)]
        return plan.packed(places[0]), places[1]

    def _packed(self, filter: Array) -> Array:
        """The filters of all groups, one after the other."""
        plan = self.plan
        shape = (self.groups, plan.panels, plan.depth, plan.panel)
        found = self._node.function.blocks.allocate(shape, filter.dtype)
        for target, each in zip(found, filter.reshape(self.groups, plan.columns, plan.depth), strict=True):
            target[...] = plan.pack(each)
        return found

    def _starts(self, bias: Array | None) -> Array:
        """The biases of all groups, or zeros."""
        plan, kind = self.plan, np.dtype(np.float32)
        found = self._node.function.blocks.allocate((self.groups, plan.panels * plan.panel), kind)
        for number, target in enumerate(found):
            target[...] = plan.pack_row(None if bias is None else bias.reshape(self.groups, -1)[number], kind)
        return found

    def result(self, number: ir.Value, group: ir.Value) -> Result:
        """Where the results of an image and a group go."""
        e, plan, sink, activation = self._e, self.plan, self._sink, self._node.op.fused_activation_function
        if sink.memory is None or activation not in CLAMPS:
            return Filtered(self._node.function.scratch(plan.tile_bytes), self._put(number, group))
        first = e.linear([number, e.number(0), e.number(0), e.builder.mul(group, e.number(self._columns))],
                         self._node.shape)
        low, high = (ir.Constant(FLOAT32.total, each) for each in float_range(activation))
        return Direct(e.address(sink.memory, FLOAT32.total, first), self._node.shape[3] * WORD,
                      None if activation is Activation.NONE else (low, high))

    def _put(self, number: ir.Value, group: ir.Value) -> Put:
        """What passes on a result."""
        shape, first = self._node.shape[1:3], self._e.builder.mul(group, self._e.number(self._columns))

        def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            index: Index = [number, *e.delinear(row, shape), e.builder.add(first, column)]
            self._sink(e, index, activate(e, value, DType.FLOAT32, self._node.op.fused_activation_function))

        return put
