"""Rules for Fourier transforms."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ops import spectral
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule


@rule("DFT", since=20)
def dft(node: Node) -> Value:
    return _dft(node, node.constant(np.int64(-2)) if node.get(2) is None else c.reshape(node.graph, node[2], []))


@rule("DFT", since=17)
def dft_17(node: Node) -> Value:
    return _dft(node, node.constant(np.int64(node.integer("axis", 1))))


def _dft(node: Node, axis: Value) -> Value:
    op = spectral.Dft(bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0)))
    return node.apply(op, node[0], node.get(1), axis)
