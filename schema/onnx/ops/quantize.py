"""Rules for operators that change the element type, and for quantisation."""

from __future__ import annotations

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import quantize
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.types import dtype_of


@rule("Cast")
def cast(node: Node) -> Value:
    return _cast(node, dtype_of(node.integer("to")))


@rule("CastLike")
def cast_like(node: Node) -> Value:
    return _cast(node, node.dtype(1))


def _cast(node: Node, dtype: DType) -> Value:
    return node.copy(node[0]) if node.dtype() is dtype else node.apply(quantize.Cast(), node[0], type=dtype)
