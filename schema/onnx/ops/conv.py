"""Rules for convolutions: circlet's have channels last, so operands and results are transposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import conv, layout, pad, shape
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.margins import margins
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.layout import cropped, sliced
from circlet.schema.onnx.ops.pad import constant_padded
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import Windows, windows


def convolved(node: Node, x: Value, weights: Value, bias: Value | None, outside: Value | None = None) -> Value:
    """The convolution of the node, of other operands than its own.

    Args:
        node: says how windows slide.
        x: channels first.
        weights: of shape (o, c, ...).
        bias: of shape (o,).
        outside: what the windows see outside of x; by default 0.
    """
    graph = node.graph
    sizes = node.integers("kernel_shape", (weights.shape or ())[2:])
    if -1 in sizes or len(sizes) != c.rank_of(x) - 2:
        node.unsupported(f"a filter of shape {weights.shape} on an input of rank {c.rank_of(x)}")
    found = windows(node, sizes)
    if found.rank == 1:
        filters = c.unsqueeze(graph, weights, [2])
        return _as_signal(graph, _image(node, _as_image(graph, x), filters, bias, _widened(found), outside))
    if found.rank == 2:
        return c.channels_first(graph, _image(node, c.channels_last(graph, x), weights, bias, found, outside))
    if found.rank != 3:
        node.unsupported(f"{found.rank} spatial axes")
    return _volume(node, x, weights, bias, found)


def _as_image(graph: Graph, x: Value) -> Value:
    """A signal (n, c, l) as an image (n, 1, l, c)."""
    return c.unsqueeze(graph, c.channels_last(graph, x), [1])


def _as_signal(graph: Graph, x: Value) -> Value:
    """An image (n, 1, l, c) as a signal (n, c, l)."""
    return c.channels_first(graph, graph.apply(shape.Squeeze((1,)), x))


def _widened(found: Windows) -> Windows:
    """The windows over a signal as windows over an image of height 1."""
    return replace(found, size=(1, *found.size), stride=(1, *found.stride), dilation=(1, *found.dilation),
                   before=(0, *found.before), after=(0, *found.after), more=(0, *found.more))


def padded(graph: Graph, x: Value, found: Windows, number: float | Value = 0) -> Value:
    """A tensor with channels last surrounded as windows need it, unless the operator does that."""
    if found.same or not found.is_padded:
        return x
    return surrounded(graph, x, [(before, c.add(graph, after, more)) for before, after, more
                                 in margins(graph, x, found)], number)


def surrounded(graph: Graph, x: Value, sizes: Sequence[tuple[Value, Value]], number: float | Value = 0) -> Value:
    """A tensor with channels last between so many numbers before and behind each spatial axis."""
    zero, around = c.integers([0]), number if isinstance(number, Value) else c.like(number, x)
    return constant_padded(graph, x, [(zero, zero), *sizes, (zero, zero)], around)


def _image(node: Node, x: Value, weights: Value, bias: Value | None, found: Windows, outside: Value | None) -> Value:
    """The convolution of images with channels last, which the result has, too, and filters with channels first."""
    graph, groups = node.graph, node.integer("group", 1)
    if outside is not None:
        found = replace(found, same=False)
    source = padded(graph, x, found, 0 if outside is None else outside)
    filters = weights.shape or ()
    padding = Padding.SAME if found.same else Padding.VALID
    if groups > 1 and filters[1] == 1:
        op = conv.DepthwiseConv2D(padding, found.stride[1], found.stride[0], dilation_w_factor=found.dilation[1],
                                  dilation_h_factor=found.dilation[0], depth_multiplier=filters[0] // groups)
        return graph.apply(op, source, c.transpose(graph, weights, [1, 2, 3, 0]), bias)
    plain = conv.Conv2D(padding, found.stride[1], found.stride[0], dilation_w_factor=found.dilation[1],
                        dilation_h_factor=found.dilation[0])
    sums = DType.INT32 if x.dtype is DType.INT8 else None
    return graph.apply(plain, source, c.transpose(graph, weights, [0, 2, 3, 1]), bias, type=sums)


def _volume(node: Node, x: Value, weights: Value, bias: Value | None, found: Windows) -> Value:
    graph = node.graph
    if node.integer("group", 1) > 1 and (weights.shape or ())[1] == 1:
        return _volume_of_channels(node, x, weights, bias, replace(found, same=False))
    padding = Padding.SAME if found.same else Padding.VALID
    op = conv.Conv3D(padding, found.stride[0], found.stride[2], found.stride[1], dilation_d_factor=found.dilation[0],
                     dilation_w_factor=found.dilation[2], dilation_h_factor=found.dilation[1])
    source = padded(graph, c.channels_last(graph, x), found)
    parts = _by_group(node, (source, -1), (c.transpose(graph, weights, [2, 3, 4, 1, 0]), -1), bias)
    return c.channels_first(graph, c.concatenate(graph, [graph.apply(op, *each) for each in parts], axis=-1))


def _volume_of_channels(node: Node, x: Value, weights: Value, bias: Value | None, found: Windows) -> Value:
    """The convolution of volumes of which each channel is a group: the sum of those of images, as many as a window is
    deep, each of all that lie at one depth of the windows."""
    graph, channels, results = node.graph, node.integer("group", 1), (weights.shape or ())[0]
    source, filters = padded(graph, c.channels_last(graph, x), found), c.transpose(graph, weights, [2, 1, 3, 4, 0])
    op = conv.DepthwiseConv2D(Padding.VALID, found.stride[2], found.stride[1], dilation_w_factor=found.dilation[2],
                              dilation_h_factor=found.dilation[1], depth_multiplier=results // channels)
    parts = []
    for k in range(found.size[0]):
        begin = k * found.dilation[0]
        bounds = ([0, begin], [_END, begin - found.span[0] + 1 or _END], [1, found.stride[0]])
        volume = graph.apply(sliced(), source, *(constant(np.array(each, np.int64)) for each in bounds))
        sizes = [c.dimension(graph, volume, axis) for axis in range(4)]
        images = c.concatenate(graph, [c.integers([-1]), *sizes[2:], c.integers([channels])])
        taps = c.reshape(graph, c.part(graph, filters, 5, 0, k, k + 1), [1, *found.size[1:], results])
        parts.append(graph.apply(op, c.reshape_to(graph, volume, images), taps, None if k else bias))
    total = reduce(partial(c.add, graph), parts)
    made = [c.dimension(graph, total, axis) for axis in (1, 2)]
    target = c.concatenate(graph, [*sizes[:2], *made, c.integers([results])])
    return c.channels_first(graph, c.reshape_to(graph, total, target))


_END = np.iinfo(np.int64).max
"""Where an axis ends, however long it is."""
_GROUP_UNITS = 8
"""Of work, as `Program` counts it: a group becomes some operators."""


def _by_group(node: Node, x: tuple[Value, int], weights: tuple[Value, int],
              bias: Value | None) -> list[tuple[Value, Value, Value | None]]:
    """Operands cut into groups along the axes that go with them."""
    groups = node.integer("group", 1)
    if groups == 1:
        return [(x[0], weights[0], bias)]
    node.graph.program.charge(max(groups, 0) * _GROUP_UNITS)

    def cut(value: Value, axis: int) -> Sequence[Value]:
        if value.data is not None:
            return [constant(np.ascontiguousarray(each)) for each in np.split(value.data, groups, axis)]
        along = node.constant(np.array(axis, np.int32))
        return node.graph.op(layout.Split(groups), along, value, count=groups)

    biases = (None,) * groups if bias is None else cut(bias, 0)
    return list(zip(cut(*x), cut(*weights), biases, strict=True))


@rule("ConvTranspose")
def transposed_convolution(node: Node) -> Value:
    graph, rank = node.graph, node.rank() - 2
    x, weights = node[0], node.weights(1)
    if not 1 <= rank <= 3 or -1 in node.shape(1):
        node.unsupported(f"a filter of shape {node.shape(1)} on an input of rank {node.rank()}")
    extents = _Extents(node, rank)
    source = _as_image(graph, x) if rank == 1 else c.channels_last(graph, x)
    if rank == 1:
        weights = c.unsqueeze(graph, weights, [2])
        extents.widen()
    alone = _each_channel_alone(node, source, weights, extents) if rank < 3 else None
    if alone is not None:
        return _as_signal(graph, alone) if rank == 1 else c.channels_first(graph, alone)
    weights = _dilated(graph, weights, extents.dilation)
    order = [2, 3, 4, 1, 0] if rank == 3 else [1, 2, 3, 0]
    parts = _by_group(node, (source, -1), (weights, 0), node.get(2))
    found = [_spread(graph, data, c.transpose(graph, filters, order), added, extents) for data, filters, added in parts]
    result = cropped(graph, c.concatenate(graph, found, axis=-1), extents.crops)
    return _as_signal(graph, result) if rank == 1 else c.channels_first(graph, result)


def _each_channel_alone(node: Node, x: Value, weights: Value, extents: _Extents) -> Value | None:
    """The transposed convolution of an image of which each channel is a group, of finite filters (channels, results of
    each, ...) that are constant; None of another. It is the convolution, by turned filters, of the image with zeros
    between its elements and around them."""
    groups, data = node.integer("group", 1), weights.data
    if groups == 1 or data is None or data.shape[0] != groups or not np.isfinite(data).all():
        return None
    graph, (channels, several, *sizes) = node.graph, data.shape
    steps = constant(np.array([1, *extents.stride, 1], np.int32))
    spread = graph.apply(pad.Dilate(), x, steps, c.like(0, x)) if max(extents.stride) > 1 else x
    sides = [(span - 1 - before, span - 1 - after + more)
             for span, (before, after), more in zip(extents.span, extents.cuts, extents.more, strict=True)]
    around = surrounded(graph, spread, [(c.integers([max(before, 0)]), c.integers([max(after, 0)]))
                                        for before, after in sides])
    turned = data[:, :, ::-1, ::-1].reshape(channels * several, *sizes).transpose(1, 2, 0)[None]
    op = conv.DepthwiseConv2D(Padding.VALID, 1, 1, dilation_w_factor=extents.dilation[1],
                              dilation_h_factor=extents.dilation[0], depth_multiplier=several)
    crops = [(max(-before, 0), max(-after, 0)) for before, after in sides]
    inside = cropped(graph, around, [(0, 0), *crops, (0, 0)])
    return graph.apply(op, inside, constant(np.ascontiguousarray(turned)), node.get(2))


class _Extents:
    """Strides, dilations, and what is cut off the whole result of a transposed convolution."""

    def __init__(self, node: Node, rank: int) -> None:
        sizes = node.shape(1)[2:]
        if len(sizes) != rank or min(sizes) < 1:
            raise ModelError(f"expected a filter of {rank} spatial axes, found shape {node.shape(1)}")
        self.stride = list(node.integers("strides", (1,) * rank))
        self.dilation = list(node.integers("dilations", (1,) * rank))
        more, pads = node.integers("output_padding", (0,) * rank), node.integers("pads", (0,) * 2 * rank)
        if not len(more) == len(self.stride) == len(self.dilation) == rank or len(pads) != 2 * rank:
            raise ModelError(f"expected {rank} strides, dilations and output_padding and {2 * rank} pads, found "
                             f"{self.stride}, {self.dilation}, {more} and {pads}")
        self.span = [(size - 1) * step + 1 for size, step in zip(sizes, self.dilation, strict=True)]
        before, after = list(pads[:rank]), list(pads[rank:])
        if node.has("output_shape") or node.string("auto_pad", "NOTSET").startswith("SAME"):
            before, after = self._fitted(node, rank, more)
        self.more = [max(extra - back, 0) for extra, back in zip(more, after, strict=True)]
        self.cuts = [(front, max(back - extra, 0)) for front, back, extra in zip(before, after, more, strict=True)]

    def _fitted(self, node: Node, rank: int, more: Sequence[int]) -> tuple[list[int], list[int]]:
        """The padding that gives the result the shape asked for."""
        lengths = node.shape()[2:]
        if not node.has("output_shape"):  # which makes it hang on no length
            lengths = (1,) * rank
        if -1 in lengths:
            node.unsupported(f"output_shape of an input of shape {node.shape()}")
        scaled = [length * step for length, step in zip(lengths, self.stride, strict=True)]
        wanted = node.integers("output_shape", scaled)
        total = [step * (length - 1) + extra + span - size for step, length, extra, span, size
                 in zip(self.stride, lengths, more, self.span, wanted[-rank:], strict=True)]
        if min(total) < -1:
            node.unsupported(f"an output of shape {wanted} from an input of shape {node.shape()}")
        half = [each // 2 for each in total]
        rest = [each - each // 2 for each in total]
        return (half, rest) if node.string("auto_pad", "NOTSET") == "SAME_UPPER" else (rest, half)

    def widen(self) -> None:
        """Makes what is said of a signal hold for an image of height 1."""
        self.stride, self.dilation, self.span = [1, *self.stride], [1, *self.dilation], [1, *self.span]
        self.more, self.cuts = [0, *self.more], [(0, 0), *self.cuts]

    @property
    def crops(self) -> list[tuple[int, int]]:
        return [(0, 0), *self.cuts, (0, 0)]


def _dilated(graph: Graph, weights: Value, steps: Sequence[int]) -> Value:
    """A filter (c, o, ...) with zeros between its elements."""
    if max(steps) == 1:
        return weights
    if weights.data is not None:
        filters, sizes = weights.data, zip(weights.data.shape[2:], steps, strict=True)
        spread = np.zeros((*filters.shape[:2], *((size - 1) * step + 1 for size, step in sizes)), filters.dtype)
        places = (slice(None), slice(None), *(slice(None, None, step) for step in steps))
        spread[places] = filters
        return constant(spread)
    along = constant(np.array([1, 1, *steps], np.int32))
    return graph.apply(pad.Dilate(), weights, along, c.like(0, weights))


def _spread(graph: Graph, x: Value, weights: Value, bias: Value | None, extents: _Extents) -> Value:
    """The whole transposed convolution, channels last."""
    lengths = []
    for k, (step, span, more) in enumerate(zip(extents.stride, extents.span, extents.more, strict=True)):
        places = c.subtract(graph, c.dimension(graph, x, 1 + k), constant(np.array([1], np.int64)))
        whole = c.multiply(graph, places, constant(np.array([step], np.int64)))
        lengths.append(c.add(graph, whole, constant(np.array([span + more], np.int64))))
    rank, filters = len(lengths), weights.shape or ()
    units = constant(np.array([filters[0 if rank == 2 else 3]], np.int64))
    target = c.cast(graph, c.concatenate(graph, [c.dimension(graph, x, 0), *lengths, units]), DType.INT32)
    if rank == 2:
        op = conv.TransposeConv(Padding.VALID, extents.stride[1], extents.stride[0])
        return graph.apply(op, target, weights, x, bias)
    volume = conv.Conv3DTranspose(Padding.VALID, extents.stride[0], extents.stride[2], extents.stride[1])
    return graph.apply(volume, target, weights, x, bias)

