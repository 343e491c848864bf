"""Rules for comparisons and logic."""

from __future__ import annotations

from circlet.runtime.ir.op import Op
from circlet.runtime.ops import comparison
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

SAME: dict[str, Op] = {
    "Equal": comparison.Equal(), "Greater": comparison.Greater(), "GreaterOrEqual": comparison.GreaterEqual(),
    "Less": comparison.Less(), "LessOrEqual": comparison.LessEqual(), "And": comparison.LogicalAnd(),
    "Or": comparison.LogicalOr(), "Xor": comparison.NotEqual(),
}
"""The operators that mean the same in both sets; booleans that differ are not equal."""


@rule(*SAME)
def same(node: Node) -> Value:
    return node.apply(SAME[node.operator], node[0], node[1])
