"""Parts of images at boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant


def aligned_regions(g: Graph, images: Value, boxes: Value, numbers: Value, sizes: Sequence[int], samples: int,
                    scale: float, is_half_pixel: bool) -> Value:
    """Of images (b, c, h, w), boxes (n, 4) and the image of each (n,): (n, c, rows, columns), means of samples between
    elements, as many along each axis of a cell.

    Args:
        g: the graph.
        images, boxes, numbers: float32, float32 and integers; a box is x, y, x, y.
        sizes: rows and columns of cells.
        samples: along each axis of a cell.
        scale: what boxes are multiplied with.
        is_half_pixel: elements lie at halves; otherwise boxes have sides of at least 1.
    """
    placed = c.shift(g, c.scale(g, boxes, scale), -0.5 if is_half_pixel else 0.0)
    cells, lengths = [], []
    for k, size in enumerate(sizes):
        lengths.append(c.reshape(g, c.dimension(g, images, 2 + k), []))
        begin, end = (c.part(g, placed, 2, 1, column, column + 1) for column in (1 - k, 3 - k))
        span = c.subtract(g, end, begin)
        span = span if is_half_pixel else c.maximum(g, span, c.like(1.0, span))
        cells.append(_between(g, begin, span, lengths[k], size * samples))
    rows = c.reshape_to(g, c.channels_last(g, images), c.concatenate(g, [c.integers([-1]), c.dims(g, images, 1, 2)]))
    image, total = c.unsqueeze(g, c.cast(g, numbers, DType.INT64), [1]), None
    for row, row_share in cells[0]:
        line = c.multiply(g, c.add(g, c.multiply(g, image, lengths[0]), row), lengths[1])
        for column, share in cells[1]:
            place = c.add(g, c.unsqueeze(g, line, [2]), c.unsqueeze(g, column, [1]))
            weight = c.multiply(g, c.unsqueeze(g, row_share, [2]), c.unsqueeze(g, share, [1]))
            found = c.multiply(g, c.gather(g, rows, place, 0), c.unsqueeze(g, weight, [3]))
            total = found if total is None else c.add(g, total, found)
    assert total is not None, "there are four corners"
    split = [c.dims(g, boxes, 0, 1), c.integers([sizes[0], samples, sizes[1], samples]), c.dims(g, images, 1, 2)]
    means = c.mean(g, c.reshape_to(g, total, c.concatenate(g, split)), [2, 4], keep=False)
    return c.transpose(g, means, (0, 3, 1, 2))


def _between(g: Graph, begin: Value, span: Value, length: Value, count: int) -> list[tuple[Value, Value]]:
    """Places along an axis, evenly spaced in a span, as two neighbours each and what these count: (n, count).

    Args:
        g: the graph.
        begin, span: where the span begins and how long it is, (n, 1).
        length: of the axis; what is more than one element outside counts nothing.
        count: of places.
    """
    middles = constant(((np.arange(count) + 0.5) / count).astype(np.float32))
    place, most = c.add(g, begin, c.multiply(g, span, middles)), c.cast(g, length, DType.FLOAT32)
    outside = g.apply(comparison.LogicalOr(), c.less(g, place, c.like(-1.0, place)), c.greater(g, place, most))
    last = c.shift(g, most, -1.0)
    inner = c.minimum(g, c.maximum(g, place, c.like(0.0, place)), last)
    low = c.floor(g, inner)
    share = c.subtract(g, inner, low)
    shares = (c.subtract(g, c.like(1.0, share), share), share)
    return [(c.cast(g, each, DType.INT64), c.select(g, outside, c.like(0.0, part), part))
            for each, part in zip((low, c.minimum(g, c.shift(g, low, 1.0), last)), shares, strict=True)]
