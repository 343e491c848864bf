"""The activations of recurrent networks, by name, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.ops import comparison, unary
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node

Activation: TypeAlias = Callable[[Graph, Value], Value]
Make: TypeAlias = Callable[..., Activation]
"""An activation from its parameters."""


@dataclass(frozen=True)
class Shaped:
    """An activation with parameters.

    Attributes:
        make: it, from them.
        alpha: what the first one is by default.
        beta: the second one; None where there is none.
    """

    make: Make
    alpha: float
    beta: float | None = None


def _plain(op: Op) -> Make:
    return lambda: lambda graph, x: graph.apply(op, x)


def _affine(alpha: float, beta: float) -> Activation:
    return lambda graph, x: c.add(graph, c.multiply(graph, c.like(alpha, x), x), c.like(beta, x))


def _scaled_tanh(alpha: float, beta: float) -> Activation:
    def apply(graph: Graph, x: Value) -> Value:
        return c.multiply(graph, c.like(alpha, x), graph.apply(unary.Tanh(), c.multiply(graph, c.like(beta, x), x)))

    return apply


def _hard_sigmoid(alpha: float, beta: float) -> Activation:
    return lambda graph, x: graph.apply(unary.Relu0To1(), _affine(alpha, beta)(graph, x))


def _elu(alpha: float) -> Activation:
    def apply(graph: Graph, x: Value) -> Value:
        negative = graph.apply(unary.Elu(), x)
        if alpha == 1:
            return negative
        above = graph.apply(comparison.Greater(), x, c.like(0, x))
        return c.select(graph, above, x, c.multiply(graph, c.like(alpha, x), negative))

    return apply


def _leaky_relu(alpha: float) -> Activation:
    return lambda graph, x: graph.apply(unary.LeakyRelu(alpha), x)


def _thresholded_relu(alpha: float) -> Activation:
    return lambda graph, x: c.select(graph, graph.apply(comparison.Greater(), x, c.like(alpha, x)), x, c.like(0, x))


def softplus(graph: Graph, x: Value) -> Value:
    """log(1 + exp(x)), which does not overflow."""
    small = graph.apply(unary.Exp(), graph.apply(unary.Neg(), graph.apply(unary.Abs(), x)))
    rest = graph.apply(unary.Log(), c.add(graph, small, c.like(1, x)))
    return c.add(graph, graph.apply(unary.Relu(), x), rest)


def softsign(graph: Graph, x: Value) -> Value:
    """x / (1 + |x|)."""
    return c.divide(graph, x, c.add(graph, c.like(1, x), graph.apply(unary.Abs(), x)))


PLAIN: Mapping[str, Make] = {
    "relu": _plain(unary.Relu()), "tanh": _plain(unary.Tanh()), "sigmoid": _plain(unary.Logistic()),
    "softplus": lambda: softplus, "softsign": lambda: softsign,
}
SHAPED: Mapping[str, Shaped] = {
    "affine": Shaped(_affine, 1.0, 0.0), "elu": Shaped(_elu, 1.0), "hardsigmoid": Shaped(_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": Shaped(_leaky_relu, 0.01), "scaledtanh": Shaped(_scaled_tanh, 1.0, 1.0),
    "thresholdedrelu": Shaped(_thresholded_relu, 1.0),
}


def activations(node: Node, direction: int, default: tuple[str, ...]) -> Sequence[Activation]:
    """Those of one direction of a network, which has as many as there are by default; parameters are for those that
    take some, in order.

    Raises:
        ModelError: there are too few.
        UnsupportedError: there is none of a name.
    """
    names = [each.lower() for each in node.strings("activations", default * 2)]
    alphas, betas = (list(node.numbers(f"activation_{name}", ())) for name in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        if name in SHAPED:
            own = SHAPED[name]
            given = [(alphas, own.alpha)] if own.beta is None else [(alphas, own.alpha), (betas, own.beta)]
            found.append(own.make(*(values.pop(0) if values else spare for values, spare in given)))
        elif name in PLAIN:
            found.append(PLAIN[name]())
        else:
            node.unsupported(f"activation {name}")
    count = len(default)
    if len(found) < count * (direction + 1):
        raise ModelError(f"activations: expected {count} for each direction, found {len(found)}")
    return found[count * direction:count * (direction + 1)]
