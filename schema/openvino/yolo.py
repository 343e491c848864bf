"""The ends of YOLO detectors."""

from __future__ import annotations

from circlet.runtime.ops import normalize
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer


@layer("RegionYolo")
def region_yolo(node: Node) -> Value:
    """Of boxes (n, boxes (coordinates + 1 + classes), h, w) the probabilities of x, y, an object and its classes; what
    other coordinates are stays. With `do_softmax` classes exclude each other, and axes are joined."""
    coordinates, classes = node.integer("coords"), node.integer("classes")
    is_exclusive, rank = node.flag("do_softmax", True), node.rank(0)
    boxes = node.integer("num") if is_exclusive else len(node.integers("mask", ()))
    if rank != 4 or coordinates < 2 or classes < 1 or boxes < 1:
        raise node.error(f"expected images of boxes with two coordinates or more and a class, found rank {rank}, "
                         f"{boxes} boxes, {coordinates} coordinates and {classes} classes")
    channels = boxes * (coordinates + 1 + classes)
    if node.shape(0)[1] not in (-1, channels):
        raise node.refusal(f"other channels than the {channels} of {boxes} boxes, {node.shape(0)[1]}")

    def found(x: Value) -> Value:
        result = _regions(node.graph, x, boxes, coordinates, classes, is_exclusive)
        return _joined(node, result) if is_exclusive else result

    return c.in_float32(node.graph, found, node[0])


def _regions(g: Graph, x: Value, boxes: int, coordinates: int, classes: int, is_exclusive: bool) -> Value:
    area = c.dims(g, x, 2, 4)
    by_box = c.reshape_to(g, x, c.concatenate(g, [c.integers([-1, coordinates + 1 + classes]), area]))

    def taken(first: int, last: int) -> Value:
        return c.part(g, by_box, 4, 1, first, last)

    parts, last = [c.sigmoid(g, taken(0, 2))], coordinates + 1 + classes
    if coordinates > 2:
        parts.append(taken(2, coordinates))
    if is_exclusive:
        chosen, back = c.axis_last(g, taken(coordinates + 1, last), 1, 4)
        share = c.transpose(g, g.apply(normalize.Softmax(beta=1.0), chosen), back)
        parts += [c.sigmoid(g, taken(coordinates, coordinates + 1)), share]
    else:
        parts.append(c.sigmoid(g, taken(coordinates, last)))
    joined = c.concatenate(g, parts, 1)
    return c.reshape_to(g, joined, c.concatenate(g, [c.integers([-1, boxes * last]), area]))


def _joined(node: Node, x: Value) -> Value:
    """The result with some of its axes as one."""
    g = node.graph
    first, last = node.axis(node.integer("axis"), 4), node.axis(node.integer("end_axis"), 4, "end_axis")
    if first >= last:
        return x
    return c.reshape_to(g, x, c.concatenate(g, [c.dims(g, x, 0, first), c.integers([-1]), c.dims(g, x, last + 1, 4)]))


@layer("ReorgYolo", since=2)
def reorg_yolo(node: Node) -> Value:
    """Blocks of elements as channels, as Darknet counts them: it takes an image (n, c, h, w) for one of c / s ** 2
    channels that is s times as high and wide, and what it finds of that one for (n, c s ** 2, h / s, w / s)."""
    g, x, steps, shape = node.graph, node[0], node.integers("stride"), node.shape(0)
    step = steps[0] if steps else 0
    if len(shape) != 4 or len(set(steps)) != 1 or step < 1:
        raise node.error(f"expected images and a positive stride, found shape {shape} and {steps}")
    if any(each > 0 and each % by for each, by in zip(shape[1:], (step ** 2, step, step), strict=True)):
        raise node.refusal(f"channels that are no multiple of {step ** 2}, or sides that are none of {step}: {shape}")
    images, channels, height, width = (c.dimension(g, x, axis) for axis in range(4))
    blocks = c.concatenate(g, [images, c.floor_divided(g, channels, step ** 2), height, c.integers([step]), width,
                               c.integers([step])])
    moved = c.transpose(g, c.reshape_to(g, x, blocks), (0, 3, 5, 1, 2, 4))
    sides = [c.floor_divided(g, each, step) for each in (height, width)]
    return c.reshape_to(g, moved, c.concatenate(g, [images, c.scale(g, channels, step ** 2), *sides]))
