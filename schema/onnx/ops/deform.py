"""Rules for convolutions whose windows are not where a grid has them."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import sample
from circlet.runtime.ops.resample import Interpolation
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.matmul import product
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import Windows, windows


@rule("DeformConv", since=19)
def deform_conv(node: Node) -> Value:
    """Of x (n, c, h, w), weights (o, c / group, kh, kw), offsets (n, g kh kw 2, oh, ow), and maybe a bias (o,) and a
    mask (n, g kh kw, oh, ow): each channel is sampled where the windows' elements are moved to, zeros being outside
    (Dai et al. 2017, "Deformable Convolutional Networks"; Zhu et al. 2019), and the samples are multiplied as windows
    are."""
    g, x, weights, offset = node.graph, node[0], node[1], node[2]
    channels, size = (x.shape or (0, -1))[1:2], node.integers("kernel_shape", (weights.shape or ())[2:])
    outputs, depth = (weights.shape or (-1, -1))[:2]
    if node.rank() != 4 or node.dtype() is not DType.FLOAT32 or -1 in (*channels, outputs, depth, *size):
        node.unsupported("other than images, as float32, of a number of channels and with filters that are declared")
    groups, parts, taps = node.integer("group", 1), node.integer("offset_group", 1), size[0] * size[1]
    rows, columns = (c.dimension(g, offset, axis) for axis in (2, 3))
    places = _places(node, windows(node, size), parts, (rows, columns))
    images = c.reshape_to(g, x, c.concatenate(g, [
        c.integers([-1, channels[0] // parts]), c.dimension(g, x, 2), c.dimension(g, x, 3)]))
    found = g.apply(sample.GridSample(Interpolation.LINEAR, is_index=True), images, places)
    mask = node.get(4)
    if mask is not None:
        high = c.multiply(g, rows, c.integers([taps]))
        found = c.multiply(g, found, c.reshape_to(g, mask, c.concatenate(g, [c.integers([-1, 1]), high, columns])))
    spread = c.concatenate(g, [c.integers([-1, groups, depth * taps]), c.multiply(g, rows, columns)])
    filters = c.reshape(g, weights, [groups, outputs // groups, depth * taps])
    total = product(g, filters, c.reshape_to(g, found, spread))
    result = c.reshape_to(g, total, c.concatenate(g, [c.integers([-1, outputs]), rows, columns]))
    bias = node.get(3)
    return result if bias is None else c.add(g, result, c.reshape(g, bias, [1, outputs, 1, 1]))


def _places(node: Node, found: Windows, parts: int, counts: tuple[Value, Value]) -> Value:
    """Which elements of the image those of all windows are: (n parts, taps rows, columns, 2), columns first."""
    g, offset, taps = node.graph, node[2], found.size[0] * found.size[1]
    moved = c.reshape_to(g, offset, c.concatenate(g, [c.integers([-1, taps, 2]), *counts]))
    each = c.concatenate(g, [c.integers([-1, taps]), *counts])
    high = c.multiply(g, counts[0], c.integers([taps]))
    tall = c.concatenate(g, [c.integers([-1]), high, counts[1], c.integers([1])])
    along = []
    for axis, count in enumerate(counts):
        numbers = np.arange(found.size[axis], dtype=np.float32) * found.dilation[axis] - found.before[axis]
        first = np.repeat(numbers, found.size[1]) if axis == 0 else np.tile(numbers, found.size[0])
        steps = c.scale(g, c.cast(g, counted(g, c.reshape(g, count, [])), DType.FLOAT32), float(found.stride[axis]))
        grid = c.add(g, constant(first.reshape(taps, 1, 1)), c.reshape(g, steps, [-1, 1] if axis == 0 else [1, -1]))
        own = c.reshape_to(g, c.part(g, moved, 5, 2, axis, axis + 1), each)
        along.append(c.reshape_to(g, c.add(g, own, grid), tall))
    return c.concatenate(g, along[::-1], axis=3)
