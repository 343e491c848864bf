"""Convolutions whose windows are not where a grid has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import matmul, sample
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant


@dataclass(frozen=True)
class Grid:
    """Where windows would be, and their elements, along both axes of an image."""

    size: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]
    """Elements around the image, in front."""


@dataclass(frozen=True, eq=False)
class Deformed:
    """What is convolved, float32."""

    x: Value
    """(n, c, h, w)."""
    weights: Value
    """(o, c / groups, kh, kw), of a known shape."""
    offsets: Value
    """(n, parts kh kw 2, oh, ow): how far each element is moved, down and to the right."""
    mask: Value | None
    """(n, parts kh kw, oh, ow): by what it is multiplied."""
    groups: int
    parts: int
    """Into which channels fall that share offsets."""


def deformed(g: Graph, given: Deformed, grid: Grid) -> Value:
    """Each channel is sampled where the windows' elements are moved to, zeros being outside, and the samples are
    multiplied as windows are: (n, oh, ow, o); by Dai et al. 2017, "Deformable Convolutional Networks", and Zhu et al.
    2019."""
    (outputs, depth, *size), parts, groups = given.weights.shape or (), given.parts, given.groups
    taps, channels = size[0] * size[1], depth * groups
    counts = [c.dimension(g, given.offsets, axis) for axis in (2, 3)]
    found = g.apply(sample.GridSample(Interpolation.LINEAR, is_index=True), _by_part(g, given.x, channels, parts),
                    _places(g, grid, given.offsets, counts))
    if given.mask is not None:
        found = c.multiply(g, found, _in_rows(g, _behind(g, given.mask, [taps, 1], counts), counts, [taps, 1]))
    samples = _beside(g, found, [parts, taps, channels // parts], [taps, groups, depth], counts)
    filters = c.transpose(g, c.reshape(g, given.weights, [groups, outputs // groups, depth, taps]), [0, 3, 2, 1])
    filters = c.reshape(g, filters, [groups, taps * depth, outputs // groups])
    total = g.apply(matmul.BatchMatMul(), samples, filters)
    return c.reshape_to(g, c.transpose(g, total, [0, 2, 1, 3]), c.concatenate(g, [
        c.integers([-1]), *counts, c.integers([outputs])]))


def _by_part(g: Graph, x: Value, channels: int, parts: int) -> Value:
    """Images whose channels share offsets: (n parts, h, w, channels / parts)."""
    split = c.concatenate(g, [c.integers([-1, channels // parts]), c.dimension(g, x, 2), c.dimension(g, x, 3)])
    return c.channels_last(g, x if parts == 1 else c.reshape_to(g, x, split), 4)


def _places(g: Graph, grid: Grid, offsets: Value, counts: Sequence[Value]) -> Value:
    """Which elements of the image those of all windows are: (n parts, rows, columns taps, 2), columns first."""
    steps_of, size = [], grid.size
    for axis, count in enumerate(counts):
        along = np.arange(size[axis], dtype=np.float32) * grid.dilation[axis] - grid.before[axis]
        first = np.repeat(along, size[1]) if axis == 0 else np.tile(along, size[0])
        steps = c.scale(g, c.cast(g, c.counted(g, c.reshape(g, count, [])), DType.FLOAT32), float(grid.stride[axis]))
        pair = np.stack([first, 0 * first] if axis == 0 else [0 * first, first], -1)
        unit = np.array([[1, 0]] if axis == 0 else [[0, 1]], np.float32)
        steps_of.append(c.add(g, constant(pair), c.multiply(g, c.reshape(
            g, steps, [-1, 1, 1, 1] if axis == 0 else [-1, 1, 1]), constant(unit))))
    sizes = [len(first), 2]
    placed = c.add(g, _behind(g, offsets, sizes, counts), c.add(g, *steps_of))
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
