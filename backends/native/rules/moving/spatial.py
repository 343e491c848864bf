"""Native rules that move elements between the spatial axes of a tensor and its batch or its channels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import Array, Quantization
from circlet.runtime.ops.spatial import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth, block_of, margins_of


def _joined(e: Emitter, index: ir.Value, size: int, offset: ir.Value) -> ir.Value:
    """`index * size + offset`."""
    return e.builder.add(e.builder.mul(index, e.number(size)), offset, flags=("nsw",))


def _split(e: Emitter, index: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """What `_joined` joins to `index`."""
    return e.builder.udiv(index, e.number(size)), e.builder.urem(index, e.number(size))


@fused(DepthToSpace, movable, is_free=True)
def depth_to_space(node: Node[DepthToSpace]) -> tuple[Value]:
    """Of x (n, h, w, b b c): (n, h b, w b, c); a value that reads x by another index."""
    x, block, channels = node.input(0), node.op.block_size, node.shape[3]

    def element(e: Emitter, index: Index) -> ir.Value:
        image, i, j, channel = index
        (row, k), (column, m) = _split(e, i, block), _split(e, j, block)
        return x.element(e, [image, row, column, _joined(e, _joined(e, k, block, m), channels, channel)])

    return (computed(node.shape, x.dtype, element, quantization=x.quantization),)


@nest(SpaceToDepth, movable, frozenset())
def space_to_depth(node: Node[SpaceToDepth], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n, h b, w b, c): (n, h, w, b b c). Loops over positions and places within a block apart, shared out, so
    that no index is divided."""
    x, block, (images, height, width, _) = node.input(0), node.op.block_size, node.shape
    channels = x.shape[3]
    shape = (images, height, block, width, block, channels)
    with parallel_nest(e, shape, 4 * x.nbytes) as (image, i, k, j, m, channel):
        value = x.element(e, [image, _joined(e, i, block, k), _joined(e, j, block, m), channel])
        sinks[0](e, [image, i, j, _joined(e, _joined(e, k, block, m), channels, channel)], value)


LAYOUT = frozenset({1, 2})
"""The parameters of the operators on batches: block and margins."""


def _operand(node: Node[Any], index: int) -> Array:
    """The value of a parameter."""
    known = node.input(index).known
    assert known is not None, "parameters are known"
    return known


@fused(SpaceToBatchND, movable, is_free=True, parameters=LAYOUT)
def space_to_batch_nd(node: Node[SpaceToBatchND]) -> tuple[Value]:
    """Of x (n, s..., c), blocks and margins: (n prod(b), (s + margins) / b..., c); a value that reads x by another
    index, or the zero point outside."""
    x, block, margins = node.input(0), block_of(_operand(node, 1)), margins_of(_operand(node, 2))
    axes = len(block)
    padding = _zero_point(node.call.outputs[0].quantization)

    def element(e: Emitter, index: Index) -> ir.Value:
        if not may_differ(x.size, 0):
            return e.constant(padding, x.dtype)
        part, image = _split(e, index[0], x.shape[0])
        inside, positions = ir.Constant(ir.IntType(1), True), []
        for each, place, size, length, (before, after) in zip(index[1:], e.delinear(part, block), block, x.shape[1:],
                                                              margins, strict=False):
            position = e.builder.sub(_joined(e, each, size, place), e.number(before))
            if may_differ(before, 0) or may_differ(after, 0):
                inside = e.builder.and_(inside, e.builder.icmp_unsigned("<", position, e.number(length)))
            positions.append(position)
        found = [e.select(inside, each, e.number(0)) for each in positions]
        return e.select(inside, x.element(e, [image, *found, *index[axes + 1:]]), e.constant(padding, x.dtype))

    return (computed(node.shape, x.dtype, element, quantization=x.quantization),)


def _zero_point(quantization: Quantization | None) -> int:
    """What stands for zero."""
    return quantization.zero_point if quantization is not None and quantization.scales else 0


@fused(BatchToSpaceND, movable, is_free=True, parameters=LAYOUT)
def batch_to_space_nd(node: Node[BatchToSpaceND]) -> tuple[Value]:
    """Of x (n prod(b), s..., c), blocks and crops: (n, s b - crops..., c); a value that reads x by another index."""
    x, block, crops = node.input(0), block_of(_operand(node, 1)), margins_of(_operand(node, 2))
    axes = len(block)

    def element(e: Emitter, index: Index) -> ir.Value:
        parts = [_split(e, e.builder.add(each, e.number(before)), size)
                 for each, size, (before, _) in zip(index[1:], block, crops, strict=False)]
        part = e.linear([place for _, place in parts], block)
        image = _joined(e, part, node.shape[0], index[0])
        return x.element(e, [image, *(position for position, _ in parts), *index[axes + 1:]])

    return (computed(node.shape, x.dtype, element, quantization=x.quantization),)
