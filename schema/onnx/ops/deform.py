"""Rules for convolutions whose windows are not where a grid has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import sample
from circlet.runtime.ops.resample import Interpolation
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
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
    g, x, weights, bias, mask = node.graph, node[0], node[1], node.get(3), node.get(4)
    channels, size = (x.shape or (0, -1))[1], node.integers("kernel_shape", (weights.shape or ())[2:])
    outputs, depth = (weights.shape or (-1, -1))[:2]
    if node.rank() != 4 or node.dtype() is not DType.FLOAT32 or -1 in (channels, outputs, depth, *size):
        node.unsupported("other than images, as float32, of a number of channels and with filters that are declared")
    groups, parts, taps = node.integer("group", 1), node.integer("offset_group", 1), size[0] * size[1]
    counts = [c.dimension(g, node[2], axis) for axis in (2, 3)]
    found = g.apply(sample.GridSample(Interpolation.LINEAR, is_index=True), _by_part(g, x, channels, parts),
                    _places(node, windows(node, size), counts))
    if mask is not None:
        found = c.multiply(g, found, _in_rows(g, _behind(g, mask, [taps, 1], counts), counts, [taps, 1]))
    samples = _beside(g, found, [parts, taps, channels // parts], [taps, groups, depth], counts)
    filters = c.transpose(g, c.reshape(g, weights, [groups, outputs // groups, depth, taps]), [0, 3, 2, 1])
    total = product(g, samples, c.reshape(g, filters, [groups, taps * depth, outputs // groups]))
    made = c.reshape_to(g, c.transpose(g, total, [0, 2, 1, 3]), c.concatenate(g, [
        c.integers([-1]), *counts, c.integers([outputs])]))
    return c.channels_first(g, made if bias is None else c.add(g, made, bias), 4)


def _by_part(g: Graph, x: Value, channels: int, parts: int) -> Value:
    """Images whose channels share offsets: (n parts, h, w, channels / parts)."""
    split = c.concatenate(g, [c.integers([-1, channels // parts]), c.dimension(g, x, 2), c.dimension(g, x, 3)])
    return c.channels_last(g, x if parts == 1 else c.reshape_to(g, x, split), 4)


def _places(node: Node, found: Windows, counts: Sequence[Value]) -> Value:
    """Which elements of the image those of all windows are: (n parts, rows, columns taps, 2), columns first."""
    g, grid = node.graph, []
    for axis, count in enumerate(counts):
        along = np.arange(found.size[axis], dtype=np.float32) * found.dilation[axis] - found.before[axis]
        first = np.repeat(along, found.size[1]) if axis == 0 else np.tile(along, found.size[0])
        steps = c.scale(g, c.cast(g, counted(g, c.reshape(g, count, [])), DType.FLOAT32), float(found.stride[axis]))
        pair = np.stack([first, 0 * first] if axis == 0 else [0 * first, first], -1)
        unit = np.array([[1, 0]] if axis == 0 else [[0, 1]], np.float32)
        grid.append(c.add(g, constant(pair), c.multiply(g, c.reshape(
            g, steps, [-1, 1, 1, 1] if axis == 0 else [-1, 1, 1]), constant(unit))))
    sizes = [len(first), 2]
    placed = c.add(g, _behind(g, node[2], sizes, counts), c.add(g, *grid))
    return _in_rows(g, c.gather(g, placed, constant(np.array([1, 0], np.int64)), 4), counts, sizes)


def _behind(g: Graph, x: Value, sizes: Sequence[int], counts: Sequence[Value]) -> Value:
    """What is given for each of the windows (n, parts a b, rows, columns), with sizes a and b last: (n parts, rows,
    columns, a, b)."""
    return c.transpose(g, c.reshape_to(g, x, c.concatenate(g, [c.integers([-1, *sizes]), *counts])), [0, 3, 4, 1, 2])


def _in_rows(g: Graph, x: Value, counts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """The same as (n parts, rows, columns a, b)."""
    width = c.multiply(g, counts[1], c.integers([sizes[0]]))
    return c.reshape_to(g, x, c.concatenate(g, [c.integers([-1]), counts[0], width, c.integers([sizes[1]])]))


def _beside(g: Graph, x: Value, before: Sequence[int], after: Sequence[int], counts: Sequence[Value]) -> Value:
    """Samples (n parts, rows, columns taps, channels / parts) as (n, groups, rows columns, taps channels / groups)."""
    area = c.multiply(g, *counts)
    parts, taps, each = before
    split = c.concatenate(g, [c.integers([-1, parts]), area, c.integers([taps, each])])
    together = c.transpose(g, c.reshape_to(g, x, split), [0, 2, 3, 1, 4])
    grouped = c.reshape_to(g, together, c.concatenate(g, [c.integers([-1]), area, c.integers(after)]))
    return c.reshape_to(g, c.transpose(g, grouped, [0, 3, 1, 2, 4]), c.concatenate(g, [
        c.integers([-1, after[1]]), area, c.integers([taps * after[2]])]))
