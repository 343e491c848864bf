"""Windows that are put back to where they were taken from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ops import elementwise, layout, pad
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant


@dataclass(frozen=True, eq=False)
class Axis:
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


MOST_TAPS = 1 << 12
"""Elements of a window, each of which is a slice of its own: a choice."""
MOST_PARTS = 1 << 12
"""As long as a step that a window has, each of which is a slice of its own: a choice."""


def images_of(g: Graph, x: Value, axes: Sequence[Axis]) -> Value:
    """Of windows (n, c size, count) the images (n, c, ...) that these are columns of, with sums where they overlap."""
    counts, sizes = [each.count(g) for each in axes], [each.size for each in axes]
    images = c.dimension(g, x, 0)
    channels = g.apply(elementwise.FloorDiv(), c.dimension(g, x, 1), c.integers([prod(sizes)]))
    planes, folded, tail = c.multiply(g, images, channels), x, c.integers([1])
    for axis in reversed(axes):
        count, size = counts.pop(), sizes.pop()
        folded = c.reshape_to(g, folded, c.concatenate(g, [
            c.multiply(g, planes, c.integers([prod(sizes)])), c.integers([size]), product_of(g, counts), count, tail]))
        folded = overlapped(g, c.transpose(g, folded, [0, 2, 3, 1, 4]), axis)
        tail = c.multiply(g, tail, axis.length)
    return c.reshape_to(g, folded, c.concatenate(g, [images, channels, *(each.length for each in axes)]))


def product_of(g: Graph, numbers: Sequence[Value]) -> Value:
    return reduce(lambda one, other: c.multiply(g, one, other), numbers, c.integers([1]))


def overlapped(g: Graph, x: Value, axis: Axis) -> Value:
    """Of windows (a, b, count, size, t) the sums (a, b, length, t), by parts as long as a step."""
    size = axis.dilation * (axis.size - 1) + 1
    parts = -(-size // axis.step)
    if parts > MOST_PARTS:
        raise UnsupportedError(f"windows of {size} that are {axis.step} apart (at most {MOST_PARTS} times as long)")
    x = _spread(g, x, axis)
    x = _surrounded(g, x, 3, 0, parts * axis.step - size)
    moved = [_surrounded(g, c.part(g, x, 5, 3, k * axis.step, (k + 1) * axis.step), 2, k, parts - 1 - k)
             for k in range(parts)]
    total = reduce(lambda one, other: c.add(g, one, other), moved)
    a, b, t = (c.dimension(g, total, each) for each in (0, 1, 4))
    rows = c.reshape_to(g, total, c.concatenate(g, [a, b, c.integers([-1]), t]))
    wide = _surrounded(g, rows, 2, 0, axis.step - 1)
    begin, ends = c.integers([0, 0, axis.before, 0]), c.concatenate(g, [
        c.integers([-1, -1]), axis.length, c.integers([-1])])
    return g.apply(layout.Slice(), wide, begin, ends)


def _spread(g: Graph, x: Value, axis: Axis) -> Value:
    """Windows (a, b, count, size, t) with zeros between their elements, as far apart as these are in the image."""
    if axis.dilation == 1:
        return x
    return g.apply(pad.Dilate(), x, constant(np.array([1, 1, 1, axis.dilation, 1], np.int32)), c.like(0, x))


def _surrounded(g: Graph, x: Value, axis: int, before: int, after: int) -> Value:
    """A value with so many zeros before and behind the elements of an axis."""
    amounts = [[before, after] if k == axis else [0, 0] for k in range(c.rank_of(x))]
    return g.apply(pad.Pad(), x, constant(np.array(amounts, np.int32))) if before or after else x
