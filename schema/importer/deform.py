"""Convolutions whose windows are not where a grid has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, matmul, reduce, sample
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant


@dataclass(frozen=True)
class Windows:
    """How windows slide over height and width, and what they have in common."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    """Padding above and on the left."""
    groups: int
    """Of channels, each with filters of its own."""
    parts: int
    """Of channels, each with offsets of its own."""
    is_cut: bool = False
    """Places before the first element and behind the last one count nothing, or else as much as is left of them between
    these and zeros; behind the last one, up to its edge, is that one."""


def deformed(g: Graph, x: Value, weights: Value, offsets: Value, mask: Value | None, found: Windows) -> Value:
    """Of images (n, c, h, w), filters (o, c / groups, kh, kw), offsets (n, parts kh kw 2, rows, columns), and maybe a
    mask (n, parts kh kw, rows, columns), (n, rows, columns, o): each channel is sampled where the windows' elements are
    moved to (Dai et al. 2017, "Deformable Convolutional Networks"; Zhu et al. 2019), and the samples are multiplied as
    windows are. The shape of the filters is known."""
    outputs, depth = (weights.shape or ())[:2]
    groups, parts, taps = found.groups, found.parts, found.size[0] * found.size[1]
    channels = groups * depth
    counts = [c.dimension(g, offsets, axis) for axis in (2, 3)]
    places = _places(g, offsets, found, counts)
    outside = sample.Outside.BORDER if found.is_cut else sample.Outside.ZEROS
    samples = g.apply(sample.GridSample(Interpolation.LINEAR, outside, is_index=True), _by_part(g, x, channels, parts),
                      places)
    if found.is_cut:
        samples = c.select(g, _inside(g, x, places), samples, c.like(0, samples))
    if mask is not None:
        samples = c.multiply(g, samples, _in_rows(g, _behind(g, mask, [taps, 1], counts), counts, [taps, 1]))
    beside = _beside(g, samples, [parts, taps, channels // parts], [taps, groups, depth], counts)
    filters = c.transpose(g, c.reshape(g, weights, [groups, outputs // groups, depth, taps]), [0, 3, 2, 1])
    total = g.apply(matmul.BatchMatMul(), beside, c.reshape(g, filters, [groups, taps * depth, outputs // groups]))
    return c.reshape_to(g, c.transpose(g, total, [0, 2, 1, 3]), c.concatenate(g, [
        c.integers([-1]), *counts, c.integers([outputs])]))


def _inside(g: Graph, x: Value, places: Value) -> Value:
    """Which places (..., 2) lie on the images, (..., 1)."""
    last = c.cast(g, c.concatenate(g, [c.dimension(g, x, 3), c.dimension(g, x, 2)]), DType.FLOAT32)
    is_in = g.apply(comparison.LogicalAnd(), g.apply(comparison.GreaterEqual(), places, c.like(0, places)),
                    c.less(g, places, last))
    return g.apply(reduce.ReduceAll(keep_dims=True), is_in, c.axes_of([3]))


def _by_part(g: Graph, x: Value, channels: int, parts: int) -> Value:
    """Images whose channels share offsets: (n parts, h, w, channels / parts)."""
    split = c.concatenate(g, [c.integers([-1, channels // parts]), c.dimension(g, x, 2), c.dimension(g, x, 3)])
    return c.channels_last(g, x if parts == 1 else c.reshape_to(g, x, split), 4)


def _places(g: Graph, offsets: Value, found: Windows, counts: Sequence[Value]) -> Value:
    """Which elements of the image those of all windows are: (n parts, rows, columns taps, 2), columns first."""
    grid = []
    for axis, count in enumerate(counts):
        along = np.arange(found.size[axis], dtype=np.float32) * found.dilation[axis] - found.before[axis]
        first = np.repeat(along, found.size[1]) if axis == 0 else np.tile(along, found.size[0])
        steps = c.scale(g, c.cast(g, c.counted(g, c.reshape(g, count, [])), DType.FLOAT32), float(found.stride[axis]))
        pair = np.stack([first, 0 * first] if axis == 0 else [0 * first, first], -1)
        unit = np.array([[1, 0]] if axis == 0 else [[0, 1]], np.float32)
        grid.append(c.add(g, constant(pair), c.multiply(g, c.reshape(
            g, steps, [-1, 1, 1, 1] if axis == 0 else [-1, 1, 1]), constant(unit))))
    sizes = [len(first), 2]
    placed = c.add(g, _behind(g, offsets, sizes, counts), c.add(g, *grid))
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
