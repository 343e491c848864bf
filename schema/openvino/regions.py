"""Layers that pool parts of images, which boxes name."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, index, matmul, reduce, sample, unary
from circlet.runtime.ops.resample import Interpolation
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("ROIPooling", since=2)
def roi_pooling(node: Node) -> Value:
    """Of images (b, c, h, w) and boxes (n, 5), each the number of an image and its corners, the cells of each box:
    their greatest elements, or samples from corner to corner. Those from the first negative number on are zero."""
    sizes = node.integers("output_size", ()) or tuple(node.integer(name) for name in ("pooled_h", "pooled_w"))
    if len(sizes) != 2 or min(sizes) < 1 or (node.rank(0), node.rank(1)) != (4, 2):
        raise node.error(f"expected images, boxes and a positive output_size, found shapes {node.shape(0)} and "
                         f"{node.shape(1)} and {sizes}")
    node.bounded(sum(sizes))
    is_greatest = node.choice("method", {"max": True, "bilinear": False}, "max")

    def pooled(x: Value, boxes: Value) -> Value:
        g = node.graph
        number = c.reshape(g, c.part(g, boxes, 2, 1, 0, 1), [-1])
        before = c.cast(g, c.less(g, number, c.like(0, number)), DType.INT32)
        is_box = c.equal(g, g.apply(reduce.Cumsum(), before, c.number(0, DType.INT32)), c.like(0, before))
        image = c.cast(g, c.maximum(g, number, c.like(0, number)), DType.INT32)
        found = (_greatest if is_greatest else _sampled)(node, x, boxes, image, sizes)
        return c.channels_first(g, c.select(g, c.trailing(g, is_box, 3), found, c.like(0, found)), 4)

    return c.in_float32(node.graph, pooled, node[0], node[1])


def _side(g: Graph, boxes: Value, column: int) -> Value:
    """A coordinate of each box, (n, 1)."""
    return c.part(g, boxes, 2, 1, column, column + 1)


def _greatest(node: Node, x: Value, boxes: Value, image: Value, sizes: tuple[int, ...]) -> Value:
    """What is greatest in the cells of boxes, whose corners are the nearest elements, those at the end inside."""
    g, scale = node.graph, node.number("spatial_scale")
    bounds = []
    for axis, count in enumerate(sizes):
        first, last = (c.cast(g, c.rounded(g, c.scale(g, _side(g, boxes, column), scale)), DType.INT32)
                       for column in (2 - axis, 4 - axis))
        length = c.maximum(g, c.shift(g, c.subtract(g, last, first), 1), c.like(1, first))
        cells = constant(np.arange(count, dtype=np.int32))
        begin = c.floor_divided(g, c.multiply(g, cells, length), count)
        end = c.floor_divided(g, c.shift(g, c.multiply(g, c.shift(g, cells, 1), length), count - 1), count)
        bounds.append(c.concatenate(g, [c.unsqueeze(g, c.add(g, each, first), [2]) for each in (begin, end)], 2))
    return g.apply(sample.RegionMax(), c.channels_last(g, x, 4), image, *bounds)


def _sampled(node: Node, x: Value, boxes: Value, image: Value, sizes: tuple[int, ...]) -> Value:
    """Samples at even distances from one corner of a box, which is relative to the image, to the other one; zero where
    they are outside."""
    g, places, inside = node.graph, [], []
    for axis, count in enumerate(sizes):
        first, last = (_side(g, boxes, column) for column in (2 - axis, 4 - axis))
        length = c.cast(g, c.shift(g, c.dimension(g, x, axis + 2), -1), DType.FLOAT32)
        shares = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.array([0.5], np.float32)
        at = c.multiply(g, c.add(g, c.multiply(g, first, constant(1 - shares)), c.multiply(g, last, constant(shares))),
                        length)
        inside.append(_is_within(g, at, length))
        places.append(at)
    down, across = (c.unsqueeze(g, each, [axis]) for each, axis in zip(places, (2, 1), strict=True))
    whole = c.broadcast_shape(g, [down, across])
    grid = c.concatenate(g, [c.unsqueeze(g, c.broadcast_to(g, each, whole), [3]) for each in (across, down)], 3)
    found = _at(g, c.channels_last(g, x, 4), image, grid, sizes)
    is_in = g.apply(comparison.LogicalAnd(), c.unsqueeze(g, inside[0], [2]), c.unsqueeze(g, inside[1], [1]))
    return c.select(g, c.trailing(g, is_in, 1), found, c.like(0, found))


def _is_within(g: Graph, at: Value, length: Value) -> Value:
    return g.apply(comparison.LogicalAnd(), g.apply(comparison.GreaterEqual(), at, c.like(0, at)),
                   g.apply(comparison.LessEqual(), at, length))


def _at(g: Graph, x: Value, image: Value, grid: Value, sizes: tuple[int, ...]) -> Value:
    """What lies at the places of a grid (n, rows, columns, 2) in the images that are numbered."""
    op = sample.GridSample(Interpolation.LINEAR, sample.Outside.BORDER, is_index=True)
    if x.shape is None or x.shape[0] != 1:
        return g.apply(op, c.gather(g, x, image, 0), grid)
    rows = c.reshape(g, grid, [1, -1, sizes[1], 2])
    return c.reshape_to(g, g.apply(op, x, rows), c.concatenate(g, [c.integers([-1, *sizes]), c.dims(g, x, 3, 4)]))


@layer("PSROIPooling")
def position_sensitive(node: Node) -> Value:
    """Of images (b, outputs cells cells, h, w) and boxes (n, 5) the means of cells, each of channels of its own: (n,
    outputs, cells, cells)."""
    node.choice("mode", {"average": None}, "average")
    outputs, cells = node.integer("output_dim"), node.integer("group_size")
    if (node.rank(0), node.rank(1)) != (4, 2) or min(outputs, cells) < 1:
        raise node.error(f"expected images, boxes and positive sizes, found shapes {node.shape(0)} and {node.shape(1)}")
    node.bounded(cells)
    return c.in_float32(node.graph, lambda x, boxes: _means(node, x, boxes, outputs, cells), node[0], node[1])


def _means(node: Node, x: Value, boxes: Value, outputs: int, cells: int) -> Value:
    """Products with which columns cells have, then sums over the rows that they have."""
    g, scale = node.graph, node.number("spatial_scale")
    down, across = (_covered(g, x, boxes, axis, cells, scale) for axis in (0, 1))
    images, height, width = (c.dimension(g, x, axis) for axis in (0, 2, 3))
    parted = c.transpose(g, c.reshape_to(g, x, c.concatenate(g, [
        images, c.integers([outputs, cells, cells]), height, width])), (0, 2, 3, 1, 4, 5))
    lines = c.reshape_to(g, parted, c.concatenate(g, [images, c.integers([cells, cells, -1]), width]))
    sums = g.apply(matmul.BatchMatMul(), lines, c.transpose(g, across, (1, 2, 0)))
    sums = c.reshape_to(g, sums, c.concatenate(g, [images, c.integers([cells, cells, outputs]), height,
                                                   c.dimension(g, boxes, 0)]))
    rows = c.unsqueeze(g, c.transpose(g, down, (1, 2, 0)), [1, 2])
    found = c.total(g, c.multiply(g, sums, rows), (4,), keep=False)
    counts = [c.total(g, c.transpose(g, each, (1, 2, 0)), (1,), keep=False) for each in (down, across)]
    area = c.multiply(g, c.unsqueeze(g, counts[0], [1]), counts[1])
    means = c.divide(g, found, c.unsqueeze(g, c.maximum(g, area, c.like(1, area)), [2]))
    by_box = c.transpose(g, means, (0, 4, 3, 1, 2))
    image = c.cast(g, _side(g, boxes, 0), DType.INT32)
    numbers = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, boxes, 0), []), DType.INT32))
    return g.apply(index.GatherNd(), by_box, c.concatenate(g, [image, c.unsqueeze(g, numbers, [1])], 1))


def _covered(g: Graph, x: Value, boxes: Value, axis: int, cells: int, scale: float) -> Value:
    """1 where a cell of a box covers an element of an axis, else 0: (n, cells, length)."""
    first = c.scale(g, c.rounded(g, _side(g, boxes, 2 - axis)), scale)
    last = c.scale(g, c.shift(g, c.rounded(g, _side(g, boxes, 4 - axis)), 1), scale)
    size = c.divide(g, c.maximum(g, c.subtract(g, last, first), c.like(0.1, first)), c.like(cells, first))
    numbers = np.arange(cells, dtype=np.float32)
    begin, end = (c.add(g, c.multiply(g, constant(each), size), first) for each in (numbers, numbers + 1))
    begin, end = (c.unsqueeze(g, each, [2]) for each in (c.floor(g, begin), g.apply(unary.Ceil(), end)))
    length = c.cast(g, c.reshape(g, c.dimension(g, x, axis + 2), []), DType.INT32)
    places = c.cast(g, c.counted(g, length), DType.FLOAT32)
    is_in = g.apply(comparison.LogicalAnd(), g.apply(comparison.GreaterEqual(), places, begin), c.less(g, places, end))
    return c.cast(g, is_in, DType.FLOAT32)
