"""Native rules that resize images (n, h, w, c)."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.arithmetic.interpolation import Neighbours, nearest, neighbours
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor

SIZE = frozenset({1})
"""The parameter of these operators."""


def _table(node: Node[Any], array: Array) -> Value:
    """A constant of one element for each position of the output along an axis."""
    return node.function.constant(array, DType.of(array.dtype))


@nest(ResizeNearestNeighbor, movable, frozenset({0}), SIZE)
def resize_nearest_neighbor(node: Node[ResizeNearestNeighbor], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    x, (images, height, width, channels) = node.input(0), node.shape
    rows, columns = (_table(node, nearest(node.op, x.shape[axis], node.shape[axis])) for axis in (1, 2))
    with parallel_nest(e, (images, height), 4 * x.dtype.numpy.itemsize * prod(node.shape)) as (image, i):
        row = rows.linear(e, i)
        with e.loop(width) as j:
            column = columns.linear(e, j)
            with e.loop(channels) as channel:
                sinks[0](e, [image, i, j, channel], x.element(e, [image, row, column, channel]))


@nest(ResizeBilinear, all_of(plain, only((DType.FLOAT32,))), frozenset({0}), SIZE)
def resize_bilinear(node: Node[ResizeBilinear], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    x, (images, height, width, channels), b = node.input(0), node.shape, e.builder
    tall, wide = (neighbours(node.op, x.shape[axis], node.shape[axis]) for axis in (1, 2))
    with parallel_nest(e, (images, height), 16 * prod(node.shape)) as (image, i), e.loop(width) as j:
        corners = [(row, column, b.fmul(one, other))
                   for row, column, one, other in bilinear_corners(node, e, tall, wide, i, j)]
        with e.loop(channels) as channel:
            total: ir.Value = e.constant(0, DType.FLOAT32)
            for row, column, weight in corners:
                total = b.fadd(total, b.fmul(x.element(e, [image, row, column, channel]), weight))
            sinks[0](e, [image, i, j, channel], total)


Corner: TypeAlias = tuple[ir.Value, ir.Value, ir.Value, ir.Value]
"""The row and the column of an element, and its weights in both directions."""


def bilinear_corners(node: Node[ResizeBilinear], e: Emitter, tall: Neighbours, wide: Neighbours, i: ir.Value,
                     j: ir.Value) -> list[Corner]:
    """The four elements that a pixel of the output is made of, in the order in which they are summed."""
    (above, beside) = ([(_table(node, index).linear(e, place), _table(node, weight).linear(e, place))
                        for index, weight in ((each.lower, each.lower_weights), (each.upper, each.upper_weights))]
                       for each, place in ((tall, i), (wide, j)))
    return [(row, column, one, other) for column, other in beside for row, one in above]
