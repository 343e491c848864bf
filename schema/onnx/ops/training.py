"""Rules for the operators that change parameters while a model is trained.

Each takes a rate, a count of steps, then groups of tensors of one length: parameters, gradients and their state; and
gives new parameters and new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.runtime.ops import comparison, elementwise, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

Update = Callable[[Node, Value, Value, Sequence[Value]], Sequence[Value]]
"""New values of a parameter and its state, from the gradient with the penalty of large parameters added."""


def _grouped(node: Node, groups: int, update: Update) -> list[Value]:
    """The results of the update of each parameter, by group."""
    count = (len(node.inputs) - 2) // groups
    if not count or len(node.inputs) != 2 + groups * count:
        node.unsupported(f"{len(node.inputs)} inputs")
    results = []
    for k in range(count):
        x, gradient, *state = (node[2 + group * count + k] for group in range(groups))
        penalty = scaled(node.graph, node.number("norm_coefficient", 0.0), x)
        results.append(update(node, x, c.add(node.graph, penalty, gradient), state))
    return [each[group] for group in range(groups - 1) for each in results]


def scaled(graph: Graph, factor: float, x: Value) -> Value:
    """A tensor times a number."""
    return c.multiply(graph, c.like(factor, x), x)


def _is_first(node: Node) -> Value:
    """Whether no step was made before."""
    return node.apply(comparison.Equal(), node[1], c.like(0, node[1]))


@rule("ai.onnx.preview.training.Momentum")
def momentum(node: Node) -> list[Value]:
    return _grouped(node, 3, _momentum)


def _momentum(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph, alpha, beta = node.graph, node.number("alpha"), node.number("beta")
    share = c.select(graph, _is_first(node), c.like(1, x), c.like(beta, x))
    moved = c.add(graph, scaled(graph, alpha, state[0]), c.multiply(graph, share, gradient))
    step = moved if node.string("mode") == "standard" else c.add(graph, gradient, scaled(graph, alpha, moved))
    return c.subtract(graph, x, c.multiply(graph, node[0], step)), moved


@rule("ai.onnx.preview.training.Adagrad")
def adagrad(node: Node) -> list[Value]:
    return _grouped(node, 3, _adagrad)


def _adagrad(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph = node.graph
    decay = scaled(graph, node.number("decay_factor", 0.0), c.cast(graph, node[1], x.dtype))
    rate = c.divide(graph, node[0], c.add(graph, c.like(1, x), decay))
    squares = c.add(graph, state[0], c.multiply(graph, gradient, gradient))
    root = c.add(graph, graph.apply(unary.Sqrt(), squares), c.like(node.number("epsilon", 0.0), x))
    return c.subtract(graph, x, c.divide(graph, c.multiply(graph, rate, gradient), root)), squares


@rule("ai.onnx.preview.training.Adam")
def adam(node: Node) -> list[Value]:
    return _grouped(node, 4, _adam)


def _adam(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph, alpha, beta = node.graph, node.number("alpha", 0.9), node.number("beta", 0.999)
    mean = c.add(graph, scaled(graph, alpha, state[0]), scaled(graph, 1 - alpha, gradient))
    square = c.add(graph, scaled(graph, beta, state[1]), scaled(graph, 1 - beta, c.multiply(graph, gradient, gradient)))
    root = c.add(graph, graph.apply(unary.Sqrt(), square), c.like(node.number("epsilon", 0.0), x))
    count = c.cast(graph, node[1], x.dtype)
    rests = [c.subtract(graph, c.like(1, x), graph.apply(elementwise.Pow(), c.like(each, x), count))
             for each in (alpha, beta)]
    adjusted = c.divide(graph, c.multiply(graph, node[0], graph.apply(unary.Sqrt(), rests[1])), rests[0])
    rate = c.select(graph, _is_first(node), node[0], adjusted)
    new = c.subtract(graph, x, c.divide(graph, c.multiply(graph, rate, mean), root))
    return scaled(graph, 1 - node.number("norm_coefficient_post", 0.0), new), mean, square
