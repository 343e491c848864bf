"""Ranks that operators ask of their operands, where nothing else tells them: a branch may give another rank than the
other one does, though what follows can compute with one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circlet.runtime.records import replace
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node

Ranks = Mapping[int, int | None]
"""By position of the operand."""


def _of_filter(position: int) -> Callable[[Node], Ranks]:
    """That of the filter, which is at a position."""
    return lambda node: {0: node[position].rank}


def _of_window(node: Node) -> Ranks:
    return {0: 2 + len(node.integers("kernel_shape"))} if node.has("kernel_shape") else {}


def _of_network(node: Node) -> Ranks:
    return {0: 3, 5: 3, 6: 3}


def _of_others(node: Node) -> Ranks:
    """All are of the rank of any."""
    rank = next((each.rank for each in node.given if each.rank is not None), None)
    return dict.fromkeys(range(len(node.inputs)), rank)


_RANKS: dict[str, Callable[[Node], Ranks]] = {
    "Conv": _of_filter(1), "ConvInteger": _of_filter(1), "ConvTranspose": _of_filter(1), "QLinearConv": _of_filter(3),
    "AveragePool": _of_window, "LpPool": _of_window, "MaxPool": _of_window,
    "Concat": _of_others,
    "com.microsoft.DynamicQuantizeLSTM": _of_network, "GRU": _of_network, "LSTM": _of_network, "RNN": _of_network,
}
"""What operators ask; sizes are left open."""


def ranked(node: Node) -> Node:
    """The node, with operands of the rank that its operator asks for where they are of none that is known."""
    ask = _RANKS.get(node.operator)
    if ask is None or all(each is None or each.rank is not None for each in node.inputs):
        return node
    ranks = ask(node)
    return replace(node, inputs=tuple([_ranked(node, each, ranks.get(position))
                                       for position, each in enumerate(node.inputs)]))


def _ranked(node: Node, value: Value | None, rank: int | None) -> Value | None:
    if value is None or rank is None or value.rank is not None:
        return value
    return node.graph.declare(node.graph.capture(value), shape=(-1,) * rank)
