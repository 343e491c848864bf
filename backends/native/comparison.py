"""Native rules of comparisons, logic and selection."""

from __future__ import annotations

from functools import partial
from typing import Any

from circlet.backends.native.elementwise import compare, elementwise
from circlet.backends.native.emitter import Emitter, Index
from circlet.backends.native.rule import Node, fused, movable
from circlet.backends.native.value import Value, computed
from circlet.runtime.ops import comparison as ops

_RELATIONS = {ops.Equal: "==", ops.NotEqual: "!=", ops.Less: "<", ops.LessEqual: "<=", ops.Greater: ">",
              ops.GreaterEqual: ">="}


def _related(relation: str, node: Node[Any]) -> tuple[Value]:
    return elementwise(node, lambda e, dtype, v: compare(e, dtype, relation, v[0], v[1]))


for _op, _relation in _RELATIONS.items():
    fused(_op)(partial(_related, _relation))

fused(ops.LogicalAnd)(partial(elementwise, combine=lambda e, dtype, v: e.builder.and_(*v)))
fused(ops.LogicalOr)(partial(elementwise, combine=lambda e, dtype, v: e.builder.or_(*v)))


@fused(ops.SelectV2, movable)
def select_v2(node: Node[ops.SelectV2]) -> tuple[Value]:
    condition, one, other = (node.input(k).broadcast(node.shape) for k in range(3))

    def element(e: Emitter, index: Index) -> Any:
        return e.select(condition(e, index), one(e, index), other(e, index))

    return (computed(node.shape, node.call.outputs[0].dtype, element),)
