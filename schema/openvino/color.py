"""Layers that make colours of brightness and of differences of colour, as cameras and video have them."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer

_RED, _BLUE = 1.596, 2.018
_GREEN = (0.391, 0.813)
_BRIGHTNESS = 1.164
"""What brightness and differences of colour count, as OpenVINO has them."""


@layer("NV12toRGB", "NV12toBGR", since=8)
def of_two_planes(node: Node) -> Value:
    """Colours of brightness, and of pairs of differences, in one tensor below each other or in two."""
    if node.get(1) is None:
        above, below, counts = _halves(node.graph, node[0])
        pairs = c.reshape_to(node.graph, below, c.concatenate(node.graph, [counts, c.integers([2])]))
    else:
        above, pairs = node.exactly(2)
        counts = c.dims(node.graph, pairs, 0, 3)
    blue, red = (c.part(node.graph, pairs, 4, 3, k, k + 1) for k in range(2))
    return _colours(node, above, blue, red, counts)


@layer("I420toRGB", "I420toBGR", since=8)
def of_three_planes(node: Node) -> Value:
    """Colours of brightness, of the differences of blue, and of those of red, in one tensor or in three."""
    if node.get(1) is not None:
        above, blue, red = node.exactly(3)
        return _colours(node, above, blue, red, c.dims(node.graph, blue, 0, 3))
    above, below, counts = _halves(node.graph, node[0])
    g = node.graph
    both = c.reshape_to(g, below, c.concatenate(g, [c.part_of(g, counts, 0, 1), c.integers([2, -1])]))
    blue, red = (c.part(g, both, 3, 1, k, k + 1) for k in range(2))
    return _colours(node, above, blue, red, counts)


def _halves(g: Graph, x: Value) -> tuple[Value, Value, Value]:
    """Brightness, which is two thirds of the rows, what is below it, and how many images, rows and columns of
    differences there are."""
    images, width = c.dimension(g, x, 0), c.dimension(g, x, 2)
    thirds = c.reshape_to(g, x, c.concatenate(g, [images, c.integers([3, -1]), width]))
    counts = c.concatenate(g, [images, c.floor_divided(g, c.dimension(g, x, 1), 3), c.floor_divided(g, width, 2)])
    return c.part(g, thirds, 4, 1, 0, 2), c.part(g, thirds, 4, 1, 2, 3), counts


def _colours(node: Node, above: Value, blue: Value, red: Value, counts: Value) -> Value:
    """Colours (n, 2 h, 2 w, 3), of bytes the nearest ones, to even ones where two are: brightness, (n, h, 2, w, 2, 1),
    with differences, (n, h, 1, w, 1, 1), of which four pixels have one."""
    g, dtype = node.graph, above.dtype
    images, rows, columns = (c.part_of(g, counts, k, k + 1) for k in range(3))
    two, one = c.integers([2]), c.integers([1])
    squares = c.reshape_to(g, above, c.concatenate(g, [images, rows, two, columns, two, one]))
    singles = c.concatenate(g, [images, rows, one, columns, one, one])
    parts = squares, *(c.reshape_to(g, each, singles) for each in (blue, red))
    mixed = _mixed(g, *(c.cast(g, each, DType.FLOAT32) for each in parts))
    order = mixed if node.layer.type.endswith("RGB") else mixed[::-1]
    found = c.clip(g, c.concatenate(g, order, 5), 0, 255)
    if dtype is DType.UINT8:
        found = g.apply(unary.Round(), found)
    shape = c.concatenate(g, [images, c.scale(g, rows, 2), c.scale(g, columns, 2), c.integers([3])])
    return c.cast(g, c.reshape_to(g, found, shape), dtype)


def _mixed(g: Graph, brightness: Value, blue: Value, red: Value) -> tuple[Value, Value, Value]:
    """Red, green and blue."""
    light = c.scale(g, c.shift(g, brightness, -16), _BRIGHTNESS)
    u, v = (c.shift(g, each, -128) for each in (blue, red))
    green = c.subtract(g, c.subtract(g, light, c.scale(g, u, _GREEN[0])), c.scale(g, v, _GREEN[1]))
    return c.add(g, light, c.scale(g, v, _RED)), green, c.add(g, light, c.scale(g, u, _BLUE))
