"""Rules for the operators that change parameters while a model is trained.

Each takes a rate, a count of steps, then groups of tensors of one length: parameters, gradients and their state; and
gives new parameters and new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.runtime.ir.builder import Value
from circlet.runtime.ops import comparison, elementwise, unary
from circlet.schema.onnx.emit import add, cast, div, mul, select, sub
from circlet.schema.onnx.graph import Graph
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
        results.append(update(node, x, add(node.graph, penalty, gradient), state))
    return [each[group] for group in range(groups - 1) for each in results]


def scaled(graph: Graph, factor: float, x: Value) -> Value:
    """A tensor times a number."""
    return mul(graph, graph.like(factor, x), x)


def _is_first(node: Node) -> Value:
    """Whether no step was made before."""
    return node.apply(comparison.Equal(), node[1], node.graph.like(0, node[1]))


@rule("ai.onnx.preview.training.Momentum")
def momentum(node: Node) -> list[Value]:
    return _grouped(node, 3, _momentum)


def _momentum(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph, alpha, beta = node.graph, node.number("alpha"), node.number("beta")
    share = select(graph, _is_first(node), graph.like(1, x), graph.like(beta, x))
    moved = add(graph, scaled(graph, alpha, state[0]), mul(graph, share, gradient))
    step = moved if node.string("mode") == "standard" else add(graph, gradient, scaled(graph, alpha, moved))
    return sub(graph, x, mul(graph, node[0], step)), moved


@rule("ai.onnx.preview.training.Adagrad")
def adagrad(node: Node) -> list[Value]:
    return _grouped(node, 3, _adagrad)


def _adagrad(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph = node.graph
    decay = scaled(graph, node.number("decay_factor", 0.0), cast(graph, node[1], graph[x].dtype))
    rate = div(graph, node[0], add(graph, graph.like(1, x), decay))
    squares = add(graph, state[0], mul(graph, gradient, gradient))
    root = add(graph, graph.apply(unary.Sqrt(), squares), graph.like(node.number("epsilon", 0.0), x))
    return sub(graph, x, div(graph, mul(graph, rate, gradient), root)), squares


@rule("ai.onnx.preview.training.Adam")
def adam(node: Node) -> list[Value]:
    return _grouped(node, 4, _adam)


def _adam(node: Node, x: Value, gradient: Value, state: Sequence[Value]) -> Sequence[Value]:
    graph, alpha, beta = node.graph, node.number("alpha", 0.9), node.number("beta", 0.999)
    mean = add(graph, scaled(graph, alpha, state[0]), scaled(graph, 1 - alpha, gradient))
    square = add(graph, scaled(graph, beta, state[1]), scaled(graph, 1 - beta, mul(graph, gradient, gradient)))
    root = add(graph, graph.apply(unary.Sqrt(), square), graph.like(node.number("epsilon", 0.0), x))
    count = cast(graph, node[1], graph[x].dtype)
    rests = [sub(graph, graph.like(1, x), graph.apply(elementwise.Pow(), graph.like(each, x), count))
             for each in (alpha, beta)]
    adjusted = div(graph, mul(graph, node[0], graph.apply(unary.Sqrt(), rests[1])), rests[0])
    rate = select(graph, _is_first(node), node[0], adjusted)
    new = sub(graph, x, div(graph, mul(graph, rate, mean), root))
    return scaled(graph, 1 - node.number("norm_coefficient_post", 0.0), new), mean, square
