"""Rules for operators of `com.microsoft` that models are written with, by hand or by exporters, rather than by its
optimiser."""

from __future__ import annotations

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.importer.inverse import MOST_ROWS, inverse, is_small
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.fused import DOMAIN, as_own
from circlet.schema.onnx.ops.normalize import standardized
from circlet.schema.onnx.rules import rule


@rule(f"{DOMAIN}.GatherND", f"{DOMAIN}.Pad", f"{DOMAIN}.Trilu")
def as_onnx(node: Node) -> Value:
    """What ONNX took over."""
    return as_own(node, node.operator.removeprefix(f"{DOMAIN}."), *node.inputs)


@rule(f"{DOMAIN}.ExpandDims")
def expand_dims(node: Node) -> Value:
    axis = int(node.value(1, "axis").item())
    rank = node.rank() + 1
    if not -rank <= axis < rank:
        raise ModelError(f"axis: expected {-rank} to {rank - 1}, found {axis}")
    return c.unsqueeze(node.graph, node[0], [axis % rank])


@rule(f"{DOMAIN}.Inverse")
def inverses(node: Node) -> Value:
    if node.dtype() not in (DType.FLOAT16, DType.FLOAT32) or not is_small(node.shape()):
        node.unsupported(f"other than square matrices of float16 or float32 of up to {MOST_ROWS} rows")
    return c.in_float32(node.graph, lambda x: inverse(node.graph, x, node.shape()[-1]), node[0])


@rule(f"{DOMAIN}.CDist")
def distances(node: Node) -> Value:
    """Between rows (m, n) and (k, n): (m, k), squared or not."""
    graph, metric = node.graph, node.string("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        node.unsupported(f"metric {metric!r}")
    apart = c.subtract(graph, c.unsqueeze(graph, node[0], [1]), c.unsqueeze(graph, node[1], [0]))
    squared = c.total(graph, c.multiply(graph, apart, apart), [2], keep=False)
    return squared if metric == "sqeuclidean" else node.apply(unary.Sqrt(), squared)


@rule(f"{DOMAIN}.NhwcConv")
def convolution(node: Node) -> Value:
    """Of images with channels last; filters are as ONNX has them."""
    return _first(node, "Conv")


@rule(f"{DOMAIN}.NhwcMaxPool")
def max_pool(node: Node) -> Value:
    return _first(node, "MaxPool")


def _first(node: Node, operator: str) -> Value:
    """What an operator makes of images whose channels are brought to the front, and back."""
    graph, rank = node.graph, node.rank()
    found = as_own(node, operator, c.channels_first(graph, node[0], rank), *node.inputs[1:])
    return c.channels_last(graph, found)


@rule(f"{DOMAIN}.GroupNorm")
def group_norm(node: Node) -> Value:
    return _by_groups(node, node[0])


@rule(f"{DOMAIN}.SkipGroupNorm")
def sum_by_groups(node: Node) -> tuple[Value, Value]:
    """The sum of images, others or a row for each image, and a bias, normalised; and the sum."""
    graph, added, bias = node.graph, node[3], node.get(4)
    if node.rank(3) == 2:
        added = c.unsqueeze(graph, added, [1, 2])
    if not node.integer("channels_last", 1):
        node.unsupported("a sum with channels first")
    total = c.add(graph, node[0], added)
    total = total if bias is None else c.add(graph, total, bias)
    return _by_groups(node, total), total


def _by_groups(node: Node, x: Value) -> Value:
    """Images with mean 0 and variance 1 in each group of channels of each, scaled and shifted; then SiLU, if the node
    says so."""
    graph, groups, is_last = node.graph, node.integer("groups"), bool(node.integer("channels_last", 1))
    channels, activation = (node.shape(1) or (-1,))[0], node.integer("activation", 0)
    if channels < 1 or groups < 1 or channels % groups or activation not in (0, 1) or node.rank() != 4:
        raise ModelError(f"expected images, channels in equal groups and activation 0 or 1, found shape "
                         f"{node.shape()}, {channels} channels, {groups} groups and {activation}")
    each = c.integers([-1, groups, channels // groups] if is_last else [groups, -1])
    rows = c.reshape_to(graph, x, c.concatenate(graph, [c.dimension(graph, x, 0), each]))
    rows = c.cast(graph, rows, DType.FLOAT32)
    normal, _, _ = standardized(node, rows, [1, 3] if is_last else [2], node.number("epsilon", 1e-5))
    found = c.reshape_to(graph, normal, c.shape_of(graph, x))
    scale, shift = (c.cast(graph, node[k], DType.FLOAT32) for k in (1, 2))
    if not is_last:
        scale, shift = (c.reshape(graph, value, [channels, 1, 1]) for value in (scale, shift))
    found = c.add(graph, c.multiply(graph, found, scale), shift)
    if activation:
        found = c.multiply(graph, found, graph.apply(unary.Logistic(), found))
    return c.cast(graph, found, x.dtype)
