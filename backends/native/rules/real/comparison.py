"""Native rules of comparisons, logic and selection."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.rules.real.elementwise import compare, elementwise
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, fused
from circlet.runtime.ir.length import alike, is_known
from circlet.runtime.ops import comparison as ops

RELATIONS = {ops.Equal: "==", ops.NotEqual: "!=", ops.Less: "<", ops.LessEqual: "<=", ops.Greater: ">",
              ops.GreaterEqual: ">="}
"""What each comparison asks of its operands."""
_DIRECTIONS = {
    ops.Direction.EQ: "==",
    ops.Direction.NE: "!=",
    ops.Direction.LT: "<",
    ops.Direction.LE: "<=",
    ops.Direction.GT: ">",
    ops.Direction.GE: ">=",
}
"""What STABLEHLO_COMPARE asks of its operands."""


def _related(relation: str, node: Node[Any]) -> tuple[Value]:
    """An i1 for each pair of elements, broadcast against each other."""
    return elementwise(node, lambda e, dtype, v: compare(e, dtype, relation, v[0], v[1]))


_BOTH, _ALL = frozenset({0, 1}), frozenset({0, 1, 2})
"""Both operands of a comparison; the condition, and what is chosen from."""
for _op, _relation in RELATIONS.items():
    fused(_op, opaque=_BOTH)(partial(_related, _relation))
fused(ops.LogicalAnd)(partial(elementwise, combine=lambda e, dtype, v: e.builder.and_(*v)))
fused(ops.LogicalOr)(partial(elementwise, combine=lambda e, dtype, v: e.builder.or_(*v)))


@fused(ops.StablehloCompare, opaque=_BOTH)
def stablehlo_compare(node: Node[ops.StablehloCompare]) -> tuple[Value]:
    """An i1 for each pair of elements, which have one shape."""
    return _related(_DIRECTIONS[node.op.comparison_direction], node)


def _select(node: Node[Any]) -> tuple[Value]:
    """Conditions, and what is chosen from, broadcast against each other."""
    inputs = [node.input(k) for k in range(3)]
    operands = [each.broadcast(node.shape) for each in inputs]

    def element(e: Emitter, index: Index) -> ir.Value:
        return e.select(*(each(e, index) for each in operands))

    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        return e.select(*(each.linear(e, e.number(0) if is_known(each.size, 1) else position) for each in inputs))

    flat = all(alike(each.shape, node.shape) or is_known(each.size, 1) for each in inputs)
    return (computed(node.shape, node.call.outputs[0].dtype, element, linear if flat else None),)


fused(ops.SelectV2, movable, opaque=_ALL)(_select)
fused(ops.StablehloSelect, movable, opaque=_ALL)(_select)


@fused(ops.Select, movable, opaque=_ALL)
def select(node: Node[ops.Select]) -> tuple[Value]:
    """The elements of the second operand where the first one's hold, else of the third: (...) of three of one shape, or
    of a condition (n,), which chooses whole slices (n, ...)."""
    condition, one, other = (node.input(k) for k in range(3))
    if alike(condition.shape, node.shape) or is_known(condition.size, 1):
        return _select(node)

    def element(e: Emitter, index: Index) -> ir.Value:
        return e.select(condition.element(e, index[:1]), one.element(e, index), other.element(e, index))

    return (computed(node.shape, node.call.outputs[0].dtype, element),)
