"""The rule for LSTMs of ONNX Runtime's dynamic quantiser: inputs, and the states of each step, are quantised by their
extremes and multiplied with weights of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.qlinear import DOMAIN, product_of_reals
from circlet.schema.onnx.ops.recurrent import Direction, Factor, lstm_cell, network
from circlet.schema.onnx.rules import rule

_PARAMETERS = {1: 8, 2: 10}
"""By position of weights where their scale is; the zero point is behind it."""


@rule(f"{DOMAIN}.DynamicQuantizeLSTM")
def dynamic_quantize_lstm(node: Node) -> Sequence[Value | None]:
    if node.integer("input_forget", 0):
        node.unsupported("coupled input and forget gates")
    return network(node, lstm_cell, 4, ("Sigmoid", "Tanh", "Tanh"), 2, _Quantized)


@dataclass(frozen=True, eq=False)
class _Bytes(Factor):
    """A matrix of bytes (depth, columns), all of whose columns are wanted."""

    scale: Value
    """One, or one for each column."""
    zero: Value | None

    def times(self, graph: Graph, x: Value, first: int, last: int) -> Value:
        zero = None if self.zero is None else graph.capture(self.zero)
        return product_of_reals(graph, x, (graph.capture(self.data), zero), graph.capture(self.scale))


class _Quantized(Direction):
    """One direction, by weights of bytes."""

    def depth(self, position: int) -> int:
        return (self._node.shape(position)[1:] or (0,))[0]

    def matrix(self, columns: int, depth: int) -> Shape:
        return depth, columns

    def factor(self, position: int) -> Factor:
        node, at = self._node, _PARAMETERS[position]
        zero = node.get(at + 1)
        return _Bytes(self.own(node[position]), self.own(node[at]), None if zero is None else self.own(zero))
