"""Inverses of matrices."""

from __future__ import annotations

from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.importer.inverse import MOST_ROWS, is_small
from circlet.schema.importer.inverse import inverse as inverted
from circlet.schema.openvino.rules import Node, layer


@layer("Inverse", since=14)
def inverse(node: Node) -> Value:
    """The inverses of square matrices (..., n, n) of a few rows."""
    shape = node.shape(0)
    if node.flag("adjoint", False) or not is_small(shape):
        raise node.refusal(f"adjugates, or other than square matrices of up to {MOST_ROWS} rows, {shape}")
    return c.in_float32(node.graph, lambda x: inverted(node.graph, x, shape[-1]), node[0])
