"""Rules for windows that are put back to where they were taken from."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ops import elements, elementwise, layout, pad
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.pad import constant_padded
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import windows


@dataclass(frozen=True, eq=False)
class _Axis:
    """How windows lie along an axis of the image."""

    length: Value
    """Of the image; (1,), int64."""
    size: int
    step: int
    dilation: int
    before: int
    after: int

    def count(self, g: Graph) -> Value:
        """How many windows there are; (1,), int64."""
        last = c.add(g, self.length, c.integers([self.before + self.after - self.dilation * (self.size - 1) - 1]))
        return c.add(g, g.apply(elementwise.FloorDiv(), last, c.integers([self.step])), c.integers([1]))


@rule("Col2Im")
def col2im(node: Node) -> Value:
    """Of windows (n, c size, count) the images (n, c, ...) that these are columns of, with sums where they overlap."""
    graph, x, axes = node.graph, node[0], _axes(node)
    counts, sizes = [each.count(graph) for each in axes], [each.size for each in axes]
    images, channels = c.dimension(graph, x, 0), graph.apply(
        elementwise.FloorDiv(), c.dimension(graph, x, 1), c.integers([prod(sizes)]))
    planes, folded, tail = c.multiply(graph, images, channels), x, c.integers([1])
    for axis in reversed(axes):
        count, size = counts.pop(), sizes.pop()
        folded = c.reshape_to(graph, folded, c.concatenate(graph, [
            c.multiply(graph, planes, c.integers([prod(sizes)])), c.integers([size]), _product(graph, counts), count,
            tail]))
        folded = _along(graph, c.transpose(graph, folded, [0, 2, 3, 1, 4]), axis)
        tail = c.multiply(graph, tail, axis.length)
    return c.reshape_to(graph, folded, c.concatenate(graph, [images, channels, *(each.length for each in axes)]))


@rule("MaxUnpool")
def max_unpool(node: Node) -> Value:
    """The elements of input 0 where input 1 says that they come from, among zeros; input 2 may ask for a larger result,
    of which that is the beginning."""
    g, x, sizes = node.graph, node[0], node.integers("kernel_shape")
    found, count = windows(node, sizes), len(sizes)
    lengths = [c.dimension(g, x, axis) for axis in range(2)]
    for axis, size in enumerate(sizes):
        rest = size - found.stride[axis] - found.before[axis] - found.after[axis]
        steps = c.multiply(g, c.dimension(g, x, axis + 2), c.integers([found.stride[axis]]))
        lengths.append(c.add(g, steps, c.integers([rest])))
    shape = c.concatenate(g, lengths)
    blank = c.fill(g, _product(g, lengths), c.like(0, x))
    flat = g.apply(elements.ScatterElements(0, elements.Combine.REPLACE), blank, c.reshape(g, node[1], [-1]),
                   c.reshape(g, x, [-1]))
    images, wanted = c.reshape_to(g, flat, shape), node.get(2)
    if wanted is None:
        return images
    return constant_padded(g, images, [(c.integers([0]), c.subtract(g, c.part_of(g, wanted, axis, axis + 1), length))
                                       for axis, length in enumerate(lengths[:count + 2])], c.like(0, x))


def _axes(node: Node) -> list[_Axis]:
    sizes = node[2].data
    if sizes is None or node.rank() != 3 or sizes.ndim != 1 or node.shape(1) != sizes.shape:
        node.unsupported(f"windows whose shape is not constant, or an input of rank {node.rank()}")
    assert sizes is not None
    count = len(sizes)
    steps, dilations = (node.integers(name, (1,) * count) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * count)
    if not len(steps) == len(dilations) == count == len(pads) / 2 or min([*steps, *dilations, *sizes.tolist()]) < 1:
        raise ModelError(f"expected positive sizes, strides and dilations of {count} axes and {2 * count} pads, found "
                         f"{sizes.tolist()}, {steps}, {dilations} and {pads}")
    return [_Axis(c.part_of(node.graph, node[1], k, k + 1), int(sizes[k]), steps[k], dilations[k], pads[k],
                  pads[k + count]) for k in range(count)]


def _product(g: Graph, numbers: list[Value]) -> Value:
    return reduce(lambda one, other: c.multiply(g, one, other), numbers, c.integers([1]))


def _along(g: Graph, x: Value, axis: _Axis) -> Value:
    """Of windows (a, b, count, size, t) the sums (a, b, length, t), by parts as long as a step."""
    x, size = _spread(g, x, axis), axis.dilation * (axis.size - 1) + 1
    parts = -(-size // axis.step)
    x = _surrounded(g, x, 3, 0, c.integers([parts * axis.step - size]))
    moved = [_surrounded(g, c.part(g, x, 5, 3, k * axis.step, (k + 1) * axis.step), 2, k, c.integers([parts - 1 - k]))
             for k in range(parts)]
    total = reduce(lambda one, other: c.add(g, one, other), moved)
    a, b, t = (c.dimension(g, total, each) for each in (0, 1, 4))
    rows = c.reshape_to(g, total, c.concatenate(g, [a, b, c.integers([-1]), t]))
    wide = _surrounded(g, rows, 2, 0, c.integers([axis.step - 1]))
    begin, ends = c.integers([0, 0, axis.before, 0]), c.concatenate(g, [
        c.integers([-1, -1]), axis.length, c.integers([-1])])
    return g.apply(layout.Slice(), wide, begin, ends)


def _spread(g: Graph, x: Value, axis: _Axis) -> Value:
    """Windows (a, b, count, size, t) with zeros between their elements, as far apart as these are in the image."""
    if axis.dilation == 1:
        return x
    return g.apply(pad.Dilate(), x, constant(np.array([1, 1, 1, axis.dilation, 1], np.int32)), c.like(0, x))


def _surrounded(g: Graph, x: Value, axis: int, before: int, after: Value) -> Value:
    """A value with so many zeros before and behind the elements of an axis."""
    zero = c.integers([0])
    return constant_padded(g, x, [(c.integers([before]), after) if k == axis else (zero, zero)
                                  for k in range(c.rank_of(x))], c.like(0, x))
