"""Rules for products and convolutions, which of dequantised bytes are those of the bytes: their sums times the scales.

So quantised models that say each operator between DequantizeLinear and QuantizeLinear are computed in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.types import Array, DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.conv import convolved
from circlet.schema.onnx.ops.matmul import general_product, matrix_product, product_of_stored
from circlet.schema.onnx.ops.stored import centered_weights, sums_of_windows
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.scope import Dequantized

_BYTES = frozenset({DType.INT8, DType.UINT8})

Sums: TypeAlias = Callable[[Dequantized, Dequantized, Array | None], Value]
"""The sums of products of the first two operands' bytes, plus a bias of int32."""


@rule("Conv")
def convolution(node: Node) -> Value:
    def sums(x: Dequantized, weights: Dequantized, bias: Array | None) -> Value:
        zero = None if x.zero is None else constant(x.zero)
        filters = constant(centered_weights(weights.known(), weights.zero))
        return sums_of_windows(node, (x.data, zero), filters, None if bias is None else constant(bias))

    behind = (1,) * (node.rank() - 2) if node[0].rank else ()
    found = _scaled(node, sums, 0, behind) if 1 <= len(behind) <= 2 else None
    return convolved(node, node[0], node.weights(1), node.get(2)) if found is None else found


@rule("MatMul")
def product(node: Node) -> Value:
    found = _scaled(node, _product(node, False), -1, ()) if _is_matrix(node) else None
    return matrix_product(node) if found is None else found


@rule("Gemm")
def gemm(node: Node) -> Value:
    turned = bool(node.integer("transB", 0))
    plain = not node.integer("transA", 0) and node.number("alpha", 1.0) == node.number("beta", 1.0) == 1
    found = _scaled(node, _product(node, turned), 0 if turned else -1, ()) if plain and _is_matrix(node) else None
    return general_product(node) if found is None else found


def _is_matrix(node: Node) -> bool:
    return node[1].rank == 2 and (node[0].rank or 0) >= 2


def _product(node: Node, turned: bool) -> Sums:
    def sums(x: Dequantized, weights: Dequantized, bias: Array | None) -> Value:
        graph, known = node.graph, weights.known()
        matrix = constant(np.ascontiguousarray(known.T) if turned else known)
        zeros = [None if each is None else constant(each) for each in (x.zero, weights.zero)]
        found = product_of_stored(graph, (x.data, zeros[0]), (matrix, zeros[1]))
        return found if bias is None else c.add(graph, found, constant(bias))

    return sums


def _scaled(node: Node, sums: Sums, axis: int, behind: tuple[int, ...]) -> Value | None:
    """What sums of products stand for; None where the first two inputs are no bytes of one scale, and of constant ones
    for the channels along an axis of the weights. `behind` are the axes of the result behind its channels."""
    graph, (x, weights) = node.graph, (node.dequantized(k) for k in (0, 1))
    if x is None or weights is None or not x.is_whole or weights.data.data is None:
        return None
    if not {x.data.dtype, weights.data.dtype} <= _BYTES or not weights.is_along(axis):
        return None
    scale = np.float32(x.scale) * weights.scale
    bias, stored = node.get(2), node.dequantized(2)
    whole = None
    if stored is not None and stored.data.dtype is DType.INT32 and stored.data.data is not None:
        is_same = np.array_equal(np.broadcast_to(stored.scale, stored.data.shape or ()),
                                 np.broadcast_to(scale, stored.data.shape or ()))
        whole = stored.data.data if is_same and (stored.zero is None or not stored.zero.any()) else None
    found = c.cast(graph, sums(x, weights, whole), DType.FLOAT32)
    found = c.multiply(graph, found, constant(scale.reshape(-1, *behind) if scale.ndim else scale))
    if bias is None or whole is not None:
        return found
    return c.add(graph, found, c.reshape(graph, bias, [-1, *behind]) if behind else bias)
