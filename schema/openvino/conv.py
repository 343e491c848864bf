"""Convolutions, (n, c, spatial...) with filters (o, c, spatial...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType, Padding, Shape
from circlet.runtime.ops import conv, pad
from circlet.schema.importer import compose as c
from circlet.schema.importer.deform import Windows, deformed
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer
from circlet.schema.openvino.windows import Axis, axes_of, flat, padded, padding_of


@layer("Convolution")
def convolution(node: Node) -> Value:
    """Convolution of one to three spatial axes."""
    return _in_floats(node, lambda x, w: _convolve(node, x, w, 1))


@layer("GroupConvolution")
def group_convolution(node: Node) -> Value:
    """Convolution of groups of channels, each with a filter (o, c, spatial...) of its own."""
    shape = node.static(1)
    if len(shape) < 4 or (node.rank(0) + 1) != len(shape):
        raise node.error(f"expected a filter (groups, o, c, spatial...) for input of rank {node.rank(0)}, found shape "
                         f"{shape}")
    merged = (shape[0] * shape[1], *shape[2:])
    return _in_floats(node, lambda x, w: _convolve(node, x, c.reshape(node.graph, w, merged), shape[0]))


def _in_floats(node: Node, convolved: Callable[[Value, Value], Value]) -> Value:
    """The convolution of inputs 0 and 1; of integers, as ONNX's ConvInteger becomes, that of doubles, whose sums are
    exact."""
    g, x, w = node.graph, node[0], node[1]
    if x.dtype is not DType.INT32:
        return c.in_float32(g, convolved, x, w)
    return c.cast(g, convolved(c.cast(g, x, DType.FLOAT64), c.cast(g, w, DType.FLOAT64)), x.dtype)


def _convolve(node: Node, x: Value, filter: Value, groups: int) -> Value:
    g, shape = node.graph, filter.shape
    if shape is None or any(dim < 0 for dim in shape):
        raise node.refusal("the shape of the filter is not known before the model runs")
    if len(shape) != node.rank(0) or not 3 <= len(shape) <= 5:
        raise node.error(f"expected a filter of the rank of the input, 3 to 5, found shape {shape} for {node.shape(0)}")
    if node.shape(0)[1] not in (-1, shape[1] * groups):
        raise node.error(f"a filter of shape {shape} takes {shape[1] * groups} channels, found {node.shape(0)[1]}")
    axes = axes_of(node, shape[2:])
    if len(axes) == 3 and groups > 1:
        raise node.refusal("groups of volumes")
    x = c.channels_last(g, x)
    if len(axes) == 1:
        x = c.unsqueeze(g, x, [1])
    result = _sliding(g, x, filter, flat(axes), groups)
    return c.channels_first(g, c.squeeze(g, result, [1]) if len(axes) == 1 else result, len(shape))


def _sliding(g: Graph, x: Value, filter: Value, axes: Sequence[Axis], groups: int) -> Value:
    """Convolution of an image or volume, channels last, with a filter (o, c, spatial...)."""
    assert filter.shape is not None
    padding = padding_of(axes)
    if padding is None:
        x, padding = padded(g, x, axes), Padding.VALID
    outputs, depth = filter.shape[:2]
    strides, dilations = [each.stride for each in axes], [each.dilation for each in axes]
    if len(axes) == 3:
        op: Op = conv.Conv3D(padding, strides[0], strides[2], strides[1], dilation_d_factor=dilations[0],
                             dilation_w_factor=dilations[2], dilation_h_factor=dilations[1])
        return g.apply(op, x, c.transpose(g, filter, (2, 3, 4, 1, 0)))
    if len(filter.shape) == 3:
        filter = c.unsqueeze(g, filter, [2])
    # LiteRT refuses to run convolutions of images without a bias.
    bias = constant(np.zeros(outputs, x.dtype.numpy))
    if groups > 1 and depth == 1:
        op = conv.DepthwiseConv2D(padding, strides[1], strides[0], depth_multiplier=outputs // groups,
                                  dilation_w_factor=dilations[1], dilation_h_factor=dilations[0])
        return g.apply(op, x, c.transpose(g, filter, (1, 2, 3, 0)), bias)
    op = conv.Conv2D(padding, strides[1], strides[0], dilation_w_factor=dilations[1], dilation_h_factor=dilations[0])
    return g.apply(op, x, c.transpose(g, filter, (0, 2, 3, 1)), bias)


@layer("DeformableConvolution")
def deformable(node: Node) -> Value:
    """Of images, offsets, filters and maybe a mask: what lies outside of the images is zero. It is mixed with what is
    at their border with `bilinear_interpolation_pad` alone."""
    filter, axes = node.static(2), axes_of(node, node.static(2)[2:])
    groups, parts = node.integer("group", 1), node.integer("deformable_group", 1)
    if node.rank(0) != 4 or len(filter) != 4 or filter[0] % groups or (
            node.shape(0)[1] not in (-1, filter[1] * groups)):
        raise node.refusal(f"other than images of {filter[1] * groups} channels with filters of {groups} groups, "
                           f"{node.shape(0)} and {filter}")
    if any(axis.is_told for axis in axes):
        raise node.refusal("padding that hangs on lengths that are not known before the model runs")
    strides, dilations, before = zip(*((axis.stride, axis.dilation, axis.before) for axis in axes), strict=True)
    found = Windows(filter[2:], strides, dilations, before, groups, parts,
                    not node.flag("bilinear_interpolation_pad", False))
    return c.in_float32(node.graph, lambda *given: _deformed(node.graph, found, *given), *node.required)


def _deformed(g: Graph, found: Windows, x: Value, offsets: Value, filter: Value, mask: Value | None = None) -> Value:
    return c.channels_first(g, deformed(g, x, filter, offsets, mask, found), 4)


MOST_GROUPS = 1 << 12
"""Of a transposed convolution, each of which becomes some operators."""


@layer("ConvolutionBackpropData")
def transposed(node: Node) -> Value:
    """Transposed convolution with a filter (c, o, spatial...)."""
    return c.in_float32(node.graph, lambda x, w: _spread(node, x, w), node[0], node[1])


@layer("GroupConvolutionBackpropData")
def group_transposed(node: Node) -> Value:
    """Transposed convolution of groups of channels, each with a filter (c, o, spatial...) of its own."""
    g, shape = node.graph, node.static(1)

    if shape[0] > MOST_GROUPS:
        raise node.refusal(f"{shape[0]} groups (at most {MOST_GROUPS})")

    def spread(x: Value, filter: Value) -> Value:
        results = []
        for group in range(shape[0]):
            channels = c.part(g, x, node.rank(0), 1, group * shape[1], (group + 1) * shape[1])
            own = c.squeeze(g, c.part(g, filter, len(shape), 0, group, group + 1), [0])
            results.append(_spread(node, channels, own))
        return c.concatenate(g, results, 1)

    return c.in_float32(g, spread, node[0], node[1])


def _spread(node: Node, x: Value, filter: Value) -> Value:
    """What of the full transposed convolution lies within the padding."""
    g, shape, rank = node.graph, filter.shape, node.rank(0)
    if shape is None or any(dim < 0 for dim in shape) or len(shape) != rank:
        raise node.error(f"expected a filter of the rank of the input {node.shape(0)}, found shape {shape}")
    if not 3 <= rank <= 5:
        raise node.error(f"expected input of rank 3 to 5, found {node.shape(0)}")
    if node.get(2) is not None and (min(node.shape(0)[2:]) < 0 or node[2].data is None):
        return _to_shape(node, x, filter, shape)
    axes, extra = _result_axes(node, shape[2:])
    x = c.channels_last(g, x)
    if rank == 3:
        x, filter, axes, extra = c.unsqueeze(g, x, [1]), c.unsqueeze(g, filter, [2]), flat(axes), [0, *extra]
    full = _full(g, x, _dilated(g, filter, axes), axes, [max(more - axis.after, 0) for more, axis
                                                        in zip(extra, axes, strict=True)])
    for k, (axis, more) in enumerate(zip(axes, extra, strict=True)):
        if axis.before or axis.after > more:
            full = c.cut(g, full, 2 + len(axes), k + 1, axis.before, max(axis.after - more, 0))
    return c.channels_first(g, c.squeeze(g, full, [1]) if rank == 3 else full, rank)


def _to_shape(node: Node, x: Value, filter: Value, shape: Shape) -> Value:
    """Transposed convolution to a shape that is given of an input of any size, as converters write those of TensorFlow:
    the windows over such a result are as many as the input has elements."""
    g, rank = node.graph, len(shape)
    count = rank - 2
    padding = {"same_lower": Padding.SAME, "valid": Padding.VALID}.get(node.text("auto_pad", "explicit").lower())
    if padding is None or {*node.integers("dilations", [1] * count)} != {1} or any(
            node.integers("output_padding", [0] * count)):
        raise node.refusal("a shape of the result, or of the input, that is not known before the model runs, with "
                           "auto_pad other than same_lower and valid, with dilation, or with output_padding")
    strides = node.integers("strides", [1] * count)
    x, wanted = c.channels_last(g, x), c.cast(g, node[2], DType.INT64)
    if count == 1:
        x, filter, wanted, strides = (c.unsqueeze(g, x, [1]), c.unsqueeze(g, filter, [2]),
                                      c.concatenate(g, [c.integers([1]), wanted]), (1, *strides))
    target = c.concatenate(g, [c.dimension(g, x, 0), wanted, c.integers([shape[1]])])
    found = _transposed(g, target, filter, x, padding, strides)
    return c.channels_first(g, c.squeeze(g, found, [1]) if count == 1 else found, rank)


def _result_axes(node: Node, sizes: Shape) -> tuple[list[Axis], list[int]]:
    """The windows over the result, with the padding that the result lacks, and how much longer it is."""
    extra = list(node.integers("output_padding", [0] * len(sizes)))
    mode = node.text("auto_pad", "explicit").lower()
    if node.get(2) is None:
        if mode.startswith("same"):
            raise node.refusal("auto_pad without the shape of the result")
        return axes_of(node, sizes), extra
    found = []
    for axis, more, wanted in zip(axes_of(node, sizes), extra, node.values(2, "output_shape"), strict=True):
        total = (axis.length - 1) * axis.stride + axis.span + more - wanted
        before = {"same_upper": (max(total, 0) + 1) // 2, "same_lower": max(total, 0) // 2}.get(mode, axis.before)
        found.append(replace(axis, before=before, after=total - before))
    return found, extra


def _dilated(g: Graph, filter: Value, axes: Sequence[Axis]) -> Value:
    """The filter with zeros between its elements."""
    steps = [1, 1, *(axis.dilation for axis in axes)]
    if max(steps) == 1:
        return filter
    return g.apply(pad.Dilate(), filter, c.axes_of(steps), c.like(0, filter))


def _full(g: Graph, x: Value, filter: Value, axes: Sequence[Axis], extra: Sequence[int]) -> Value:
    """The transposed convolution of an image or volume, channels last, without padding, and longer by `extra`."""
    assert filter.shape is not None
    outputs = filter.shape[1]
    within = [min(more, axis.stride - 1) for more, axis in zip(extra, axes, strict=True)]
    if x.is_static and x.shape is not None:
        lengths = [(length - 1) * axis.stride + axis.span + more
                   for length, axis, more in zip(x.shape[1:-1], axes, within, strict=True)]
        shape = c.axes_of([x.shape[0], *lengths, outputs])
    else:
        factors = c.integers([1, *(axis.stride for axis in axes), 0])
        offsets = c.integers([0, *(axis.span - axis.stride + more for axis, more in zip(axes, within, strict=True)),
                              outputs])
        shape = c.add(g, c.multiply(g, c.shape_of(g, x), factors), offsets)
    result = _transposed(g, shape, filter, x, Padding.VALID, [axis.stride for axis in axes])
    beyond = [Axis(-1, 1, after=more - most) for more, most in zip(extra, within, strict=True)]
    return padded(g, result, beyond)


def _transposed(g: Graph, shape: Value, filter: Value, x: Value, padding: Padding, strides: Sequence[int]) -> Value:
    """The transposed convolution to a shape, channels last, with a filter (c, o, spatial...)."""
    if len(strides) == 3:
        op: Op = conv.Conv3DTranspose(padding, strides[0], strides[2], strides[1])
        return g.apply(op, c.cast(g, shape, DType.INT32), c.transpose(g, filter, (2, 3, 4, 1, 0)), x)
    op = conv.TransposeConv(padding, strides[1], strides[0])
    return g.apply(op, shape, c.transpose(g, filter, (1, 2, 3, 0)), x)
