"""Native rules that resize images (n, h, w, c)."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.arithmetic.interpolation import Neighbours, nearest, neighbours
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.length import certain, is_open, larger
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.resize import Resize, ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.records import dataclass

SIZE = frozenset({1})
"""The parameter of these operators."""


FLOAT = DType.FLOAT32
"""What positions are computed with."""


@dataclass(frozen=True, eq=False)
class OpenNeighbours:
    """`Neighbours` along an axis of open length, in scratch memory."""

    lower: Value
    upper: Value
    lower_weights: Value
    upper_weights: Value

    @property
    def tables(self) -> tuple[Value, ...]:
        """All of them, in this order."""
        return self.lower, self.upper, self.lower_weights, self.upper_weights


def expect_sizes(node: Node[Any]) -> None:
    """Leaves a run in which a size is 0, of which a loop makes others in each turn."""
    e = node.function.e
    for size in (*node.input(0).shape[1:3], *node.shape[1:3]):
        if certain(size, ">=", 1) is None:
            node.function.leave_where(e.builder.icmp_signed("<", e.number(size), e.number(1)))


def _table(node: Node[Any], found: Array | Value) -> Value:
    """A constant of one element for each position of the output along an axis; integers are indices."""
    if isinstance(found, Value):
        return found
    dtype = node.function.e.index_dtype if found.dtype.kind == "i" else DType.of(found.dtype)
    return node.function.constant(found.astype(dtype.numpy, copy=False), dtype)


def _written(node: Node[Any], count: int, dtype: DType) -> Value:
    """Scratch memory for an element for each position of the output along an axis."""
    return in_memory(node.function.reserve(count * dtype.numpy.itemsize), (count,), dtype)


def _real(e: Emitter, number: ir.Value | int) -> ir.Value:
    """An index as a float."""
    return e.builder.sitofp(e.register(number), ir.FloatType())


def steps(op: Resize, count: int) -> int:
    """How many steps an axis has on which so many elements lie; 1 where there is one, which lies where it begins."""
    return larger(count - 1, 1) if op.align_corners else count


def _position(op: Resize, e: Emitter, k: ir.Value, length: int, count: int) -> ir.Value:
    """Where in an axis of `length` an element of the resized one begins, as `interpolation` computes it."""
    b, corners = e.builder, int(op.align_corners)
    scale = b.fdiv(_real(e, length - corners), _real(e, steps(op, count)))
    place = _real(e, k)
    return b.fmul(b.fadd(place, e.constant(0.5, FLOAT)) if op.half_pixel_centers else place, scale)


def at_most_last(e: Emitter, index: ir.Value, length: int) -> ir.Value:
    """An index into an axis of `length`; that of its last element where it is beyond that."""
    return e.intrinsic("smin", index, e.number(length - 1))


def _nearest(node: Node[ResizeNearestNeighbor], e: Emitter, axis: int) -> Array | Value:
    """The element of an axis that each resized one takes: a constant, or written to scratch memory."""
    op, b, length, count = node.op, e.builder, node.input(0).shape[axis], node.shape[axis]
    if not is_open((length, count)):
        return nearest(op, length, count)
    found = _written(node, count, e.index_dtype)
    with independent(e, count) as k:
        position = b.fpext(_position(op, e, k, length, count), ir.DoubleType())
        if op.align_corners:
            position = b.fadd(position, e.constant(0.5, DType.FLOAT64))
        e.store(at_most_last(e, b.fptosi(position, e.index), length), _memory(found), e.index_dtype, k)
    return found


def _neighbours(node: Node[ResizeBilinear], e: Emitter, axis: int) -> Neighbours | OpenNeighbours:
    """What each resized element of an axis is made of: constants, or written to scratch memory."""
    op, b, length, count = node.op, e.builder, node.input(0).shape[axis], node.shape[axis]
    if not is_open((length, count)):
        return neighbours(op, length, count)
    made = OpenNeighbours(*(_written(node, count, dtype) for dtype in (e.index_dtype, e.index_dtype, FLOAT, FLOAT)))
    with independent(e, count) as k:
        position = _position(op, e, k, length, count)
        if op.half_pixel_centers:
            position = b.fsub(position, e.constant(0.5, FLOAT))
        # Rounded towards zero, which is down from 0 on; what is less counts as 0.
        lower = e.intrinsic("smax", b.fptosi(position, e.index), e.number(0))
        is_above = b.fcmp_ordered(">", position, _real(e, lower))
        upper = at_most_last(e, b.add(lower, b.zext(is_above, e.index)), length)
        weight = b.fsub(position, _real(e, lower))
        rest, lower = b.fsub(e.constant(1, FLOAT), weight), at_most_last(e, lower, length)
        for value, table in zip((lower, upper, rest, weight), made.tables, strict=True):
            e.store(value, _memory(table), table.dtype, k)
    return made


def _memory(value: Value) -> ir.Value:
    """Where a table lies."""
    assert value.memory is not None, "tables of open lengths are written"
    return value.memory


@nest(ResizeNearestNeighbor, movable, frozenset({0}), SIZE)
def resize_nearest_neighbor(node: Node[ResizeNearestNeighbor], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), of any type: (n, i, j, c). Loops over n and i, shared out, and over j read the element's
    row and column from tables; the innermost one goes through the channels."""
    expect_sizes(node)
    x, (images, height, width, channels) = node.input(0), node.shape
    rows, columns = (_table(node, _nearest(node, e, axis)) for axis in (1, 2))
    with parallel_nest(e, (images, height), 4 * x.dtype.numpy.itemsize * prod(node.shape)) as (image, i):
        row = rows.linear(e, i)
        with e.loop(width) as j:
            column = columns.linear(e, j)
            with independent(e, channels) as channel:
                sinks[0](e, [image, i, j, channel], x.element(e, [image, row, column, channel]))


@nest(ResizeBilinear, all_of(plain, only((DType.FLOAT32,))), frozenset({0}), SIZE)
def resize_bilinear(node: Node[ResizeBilinear], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), float32: (n, i, j, c). Loops over n and i, shared out, and over j read the four corners
    and their weights from tables; the innermost one sums the products for each channel, in the order of TFLite's
    `ResizeBilinear`."""
    expect_sizes(node)
    x, (images, height, width, channels), b = node.input(0), node.shape, e.builder
    tall, wide = (_neighbours(node, e, axis) for axis in (1, 2))
    with parallel_nest(e, (images, height), 16 * prod(node.shape)) as (image, i), e.loop(width) as j:
        corners = [(row, column, b.fmul(one, other))
                   for row, column, one, other in bilinear_corners(node, e, tall, wide, i, j)]
        with independent(e, channels) as channel:
            total: ir.Value = e.constant(0, DType.FLOAT32)
            for row, column, weight in corners:
                total = b.fadd(total, b.fmul(x.element(e, [image, row, column, channel]), weight))
            sinks[0](e, [image, i, j, channel], total)


Corner: TypeAlias = tuple[ir.Value, ir.Value, ir.Value, ir.Value]
"""The row and the column of an element, and its weights in both directions."""


def bilinear_corners(node: Node[ResizeBilinear], e: Emitter, tall: Neighbours | OpenNeighbours,
                     wide: Neighbours | OpenNeighbours, i: ir.Value, j: ir.Value) -> list[Corner]:
    """The four elements that a pixel of the output is made of, in the order in which they are summed."""
    (above, beside) = ([(_table(node, index).linear(e, place), _table(node, weight).linear(e, place))
                        for index, weight in ((each.lower, each.lower_weights), (each.upper, each.upper_weights))]
                       for each, place in ((tall, i), (wide, j)))
    return [(row, column, one, other) for column, other in beside for row, one in above]
