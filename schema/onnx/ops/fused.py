"""Rules for what ONNX Runtime's optimiser writes into models that it saves: several of ONNX's operators as one of
`com.microsoft`, each computed as what it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import helper

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.matmul import product
from circlet.schema.onnx.ops.normalize import by_root, standardized
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import find_rule, rule

DOMAIN = "com.microsoft"
VERSION = 13
"""Of ONNX's operator set, in which the operators that are fused are understood."""
ACTIVATIONS = {"Clip": ("min", "max"), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",),
               "Relu": (), "Selu": ("alpha", "gamma"), "Sigmoid": (), "Softplus": (), "Softsign": (), "Tanh": (),
               "ThresholdedRelu": ("alpha",)}
"""ONNX's operators that may follow, and what their parameters are called."""


def as_own(node: Node, operator: str, *inputs: Value | None) -> Value:
    """What ONNX's own operator, with the attributes of the node, makes of some operands: the first of its results."""
    function = find_rule(operator, VERSION)
    assert function is not None, f"there is no rule for {operator}"
    found = function(replace(node, operator=operator, version=VERSION, inputs=inputs))
    first = found if isinstance(found, Value) else found[0]
    assert first is not None, f"{operator} has a result"
    return first


def _activated(node: Node, x: Value, parameters: Sequence[float] | None) -> Value:
    """The function that the node names, of what it computed.

    Args:
        node: it.
        x: what it computed.
        parameters: those of the function in their order; None where attributes of the node are.
    """
    name = node.string("activation", "")
    if not name:
        return x
    if name not in ACTIVATIONS:
        node.unsupported(f"activation {name!r}")
    names = ACTIVATIONS[name]
    if parameters is None:
        known = {each: node.number(f"activation_{each}") for each in names if node.has(f"activation_{each}")}
    else:
        known = dict(zip(names, parameters, strict=False))
    if name == "Clip":
        if len(known) != len(names):
            raise ModelError(f"activation 'Clip': expected {len(names)} parameters, found {len(known)}")
        return c.clip(node.graph, x, known["min"], known["max"])
    own = {each: helper.make_attribute(each, value) for each, value in known.items()}
    return as_own(replace(node, attributes=own), name, x)


@rule(f"{DOMAIN}.FusedConv")
def convolution(node: Node) -> Value:
    """A convolution, plus a tensor of its shape, and a function."""
    found, added = as_own(node, "Conv", *node.inputs[:3]), node.get(3)
    if added is not None:
        found = c.add(node.graph, found, added)
    return _activated(node, found, node.numbers("activation_params", ()))


@rule(f"{DOMAIN}.FusedGemm")
def general_product(node: Node) -> Value:
    return _activated(node, as_own(node, "Gemm", *node.inputs), None)


@rule(f"{DOMAIN}.FusedMatMul", f"{DOMAIN}.TransposeMatMul")
def matrix_product(node: Node) -> Value:
    """The product of matrices, turned around before and scaled after it."""
    graph, alpha = node.graph, node.number("alpha", 1.0)
    found = product(graph, _turned(node, 0, "A"), _turned(node, 1, "B"))
    return c.scale(graph, found, alpha)


def _turned(node: Node, position: int, name: str) -> Value:
    """A factor with its first axis behind those that number the matrices, and with its last two exchanged."""
    x, rank = node[position], node.rank(position)
    order = list(range(rank))
    if node.integer(f"transBatch{name}", 0):
        order = [*order[1:-1], 0, order[-1]]
    if node.integer(f"trans{name}", 0) and rank > 1:
        order[-2:] = order[:-3:-1]
    return x if order == list(range(rank)) else c.transpose(node.graph, x, order)


@rule(f"{DOMAIN}.Gelu")
def gelu(node: Node) -> Value:
    return _gelu(node, node[0], False)


@rule(f"{DOMAIN}.BiasGelu")
def gelu_of_sum(node: Node) -> Value:
    return _gelu(node, c.add(node.graph, node[0], node[1]), False)


@rule(f"{DOMAIN}.FastGelu")
def gelu_by_tanh(node: Node) -> Value:
    bias = node.get(1)
    return _gelu(node, node[0] if bias is None else c.add(node.graph, node[0], bias), True)


def _gelu(node: Node, x: Value, by_tanh: bool) -> Value:
    if x.dtype is DType.FLOAT64:
        node.unsupported("element type float64")
    return node.apply(unary.Gelu(by_tanh), x)


@rule(f"{DOMAIN}.QuickGelu")
def quick_gelu(node: Node) -> Value:
    graph, alpha = node.graph, node.number("alpha", 1.702)
    return c.multiply(graph, node[0], node.apply(unary.Logistic(), c.scale(graph, node[0], alpha)))


@rule("SimplifiedLayerNormalization")
def root_mean_square(node: Node) -> Sequence[Value]:
    rank = node.rank()
    normal, inverse = by_root(node, node[0], list(range(c.axis_of(node[0], node.integer("axis", -1)), rank)))
    return c.multiply(node.graph, normal, node[1]), inverse


@rule(f"{DOMAIN}.SkipLayerNormalization")
def normalized_sum(node: Node) -> Sequence[Value | None]:
    """The sum of tensors and a bias, normalised along the last axis; the sum is the fourth result."""
    shift, added = node.get(3), _summed(node, node.get(4))
    return _normalized(node, added, node[2], shift), None, None, added


def _summed(node: Node, bias: Value | None) -> Value:
    graph = node.graph
    found = c.add(graph, node[0], node[1])
    return found if bias is None else c.add(graph, found, bias)


def _normalized(node: Node, x: Value, scale: Value, shift: Value | None) -> Value:
    """A tensor with mean 0 and variance 1 along its last axis, scaled and shifted."""
    graph = node.graph
    single = c.cast(graph, x, DType.FLOAT32) if x.dtype is DType.FLOAT16 else x
    normal, _, _ = standardized(node, single, [c.rank_of(x) - 1], node.number("epsilon", 1e-12))
    found = c.multiply(graph, c.cast(graph, normal, scale.dtype), scale)
    return found if shift is None else c.add(graph, found, shift)


@rule(f"{DOMAIN}.EmbedLayerNormalization")
def normalized_embeddings(node: Node) -> Sequence[Value | None]:
    """The sum of rows for words, positions and segments, normalised; how many words of each sentence its mask counts;
    and the sum."""
    graph, ids, places, mask = node.graph, node[0], node.get(8), node.get(7)
    if places is None:
        places = c.unsqueeze(graph, counted(graph, c.reshape(graph, c.dimension(graph, ids, 1), [])), [0])
    total = c.add(graph, c.gather(graph, node[2], ids, 0), c.gather(graph, node[3], places, 0))
    if node.get(1) is not None:
        total = c.add(graph, total, c.gather(graph, node[4], node[1], 0))
    if mask is not None:
        lengths = c.total(graph, c.cast(graph, mask, DType.INT32), [1], keep=False)
    else:
        lengths = c.fill(graph, c.dims(graph, ids, 0, 1), c.number(0, DType.INT32))
    return _normalized(node, total, node[5], node.get(6)), lengths, total


@rule(f"{DOMAIN}.SkipSimplifiedLayerNormalization")
def sum_over_root(node: Node) -> Sequence[Value | None]:
    """The sum of tensors and a bias over the root of its mean square along the last axis; the sum is the fourth
    result."""
    added = _summed(node, node.get(3))
    normal, _ = by_root(node, added, [node.rank() - 1])
    return c.multiply(node.graph, normal, node[2]), None, None, added
