"""Rules for random numbers, of which each session draws others unless the node gives a seed."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, random
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.types import dtype_of


@rule("RandomNormal", "RandomUniform")
def numbers(node: Node) -> Value:
    return _drawn(node, node.constant(np.array(node.integers("shape"), np.int64)), _dtype(node, DType.FLOAT32))


@rule("RandomNormalLike", "RandomUniformLike")
def numbers_like(node: Node) -> Value:
    return _drawn(node, c.shape_of(node.graph, node[0]), _dtype(node, node.dtype()))


@rule("Bernoulli")
def bernoulli(node: Node) -> Value:
    graph, single = node.graph, c.cast(node.graph, node[0], DType.FLOAT32)
    drawn = node.apply(random.RandomUniform(*_seeds(node)), c.shape_of(graph, node[0]))
    return c.cast(graph, node.apply(comparison.Less(), drawn, single), _dtype(node, node.dtype()))


@rule("Multinomial")
def multinomial(node: Node) -> Value:
    count = node.constant(np.int32(node.integer("sample_size", 1)))
    logits = c.cast(node.graph, node[0], DType.FLOAT32)
    return node.apply(random.Multinomial(*_seeds(node)), logits, count, type=_dtype(node, DType.INT32))


def _dtype(node: Node, default: DType) -> DType:
    return dtype_of(node.integer("dtype")) if node.integer("dtype", 0) else default


def _seeds(node: Node) -> tuple[int, int]:
    """Those of the operator: none where the node has none, else the bits of its number and one that is not 0."""
    return (int(np.float32(node.number("seed")).view(np.uint32)), 1) if node.has("seed") else (0, 0)


def _drawn(node: Node, shape: Value, dtype: DType) -> Value:
    """A tensor of random numbers, which are float32 that are cast."""
    graph = node.graph
    if node.operator.startswith("RandomNormal"):
        found = node.apply(random.RandomStandardNormal(*_seeds(node)), shape)
        first, extent = node.number("mean", 0.0), node.number("scale", 1.0)
    else:
        found = node.apply(random.RandomUniform(*_seeds(node)), shape)
        first = node.number("low", 0.0)
        extent = node.number("high", 1.0) - first
    scaled = found if extent == 1 else c.scale(graph, found, extent)
    return c.cast(graph, scaled if first == 0 else c.add(graph, scaled, c.like(first, scaled)), dtype)
