"""Rules for operators of the set `ai.onnx.ml`."""

from __future__ import annotations

from circlet.runtime.ops import index
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule


@rule("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(node: Node) -> Value:
    """Elements of the last axis, at places of any shape; a vector is a matrix of one row."""
    axis = node.rank() - 1
    x = node[0] if axis else c.reshape(node.graph, node[0], [1, -1])
    return node.apply(index.Gather(max(axis, 1)), x, c.reshape(node.graph, node[1], [-1]))
