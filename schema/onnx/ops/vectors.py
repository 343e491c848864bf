"""Rules for support vector machines of the set `ai.onnx.ml`: kernels of rows with vectors, summed up."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, loop, matmul, reduce
from circlet.runtime.ops.loop_options import Carried, ShapePolicy
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.bodies import Body
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.learned import DOMAIN, greatest, labels, picked, rows, sides, transformed
from circlet.schema.onnx.ops.loop import Parts, closed, emit
from circlet.schema.onnx.rules import rule

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_LEAST, _TURNS, _NEAR = 1e-7, 100, 0.005
"""How near shares of pairs come to 0 and 1; how often those of classes are improved, and until when."""
_MOST_SHARED = 32
"""Of how many classes shares are told: the code of a turn is as long as there are."""


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The classes of each two that are told apart, in the order of scores, and where vectors of each class begin."""

    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]


@rule(f"{DOMAIN}.SVMRegressor")
def svm_regressor(node: Node) -> Value:
    """One number for each row, or by `one_class` on which side of 0 it is."""
    graph, factors, added = node.graph, _numbers(node, "coefficients"), _numbers(node, "rho")[:1]
    count = node.integer("n_supports")
    x = _kernel(node, _vectors(node, count)) if count > 0 else rows(node)
    if count > 0 and len(factors) != count:
        raise ModelError(f"attribute 'coefficients': expected {count} numbers, found {len(factors)}")
    op = matmul.FullyConnected(keep_num_dims=True)
    found = node.apply(op, x, node.constant(factors[None]), node.constant(added))
    if not node.integer("one_class", 0):
        return found
    return c.select(graph, c.greater(graph, found, c.like(0, found)), c.like(1, found), c.like(-1, found))


@rule(f"{DOMAIN}.SVMClassifier")
def svm_classifier(node: Node) -> tuple[Value, Value]:
    names, numbers = labels(node, "classlabels_ints"), node.integers("vectors_per_class", ())
    if len(names) < 2:
        node.unsupported("a single class")
    if not sum(numbers):
        return _linear(node, names)
    graph, pairs = node.graph, _pairs(len(names), numbers)
    precise = _scores(node, pairs)
    is_first = c.greater(graph, precise, c.like(0, precise))
    label = picked(node, names, greatest(node, _votes(node, pairs, c.cast(graph, is_first, DType.FLOAT32))))
    scores = c.cast(graph, precise, DType.FLOAT32)
    if node.numbers("prob_a", ()):
        return label, transformed(node, _shares(node, pairs, scores))
    if len(names) > 2:
        return label, transformed(node, scores)
    return label, _sides(node, scores)


def _sides(node: Node, scores: Value) -> Value:
    """What two classes have of the score that tells them apart."""
    graph, transform = node.graph, node.string("post_transform", "NONE")
    if transform == "SOFTMAX":
        return sides(node, c.subtract(graph, c.like(1, scores), scores), scores)
    return transformed(node, sides(node, c.negative(graph, scores), scores))


def _linear(node: Node, names: npt.NDArray[np.int64 | np.object_]) -> tuple[Value, Value]:
    """A score for each class, by weights instead of vectors."""
    graph, factors, count = node.graph, _numbers(node, "coefficients"), len(names)
    if factors.size % count:
        raise ModelError(f"attribute 'coefficients': expected numbers for {count} classes, found {factors.size}")
    added = np.repeat(_numbers(node, "rho")[:1], count)
    op = matmul.FullyConnected(keep_num_dims=True)
    scores = node.apply(op, rows(node), node.constant(factors.reshape(count, -1)), node.constant(added))
    place = greatest(node, scores)
    if count == 2 and not node.numbers("prob_a", ()):
        most = node.apply(reduce.ReduceMax(), scores, c.axes_of([1]))
        is_likely = (factors >= 0).all()
        is_second = node.apply(comparison.GreaterEqual() if is_likely else comparison.Greater(), most, c.like(
            0.5 if is_likely else 0, most))
        place = c.maximum(graph, place, c.cast(graph, is_second, DType.INT32))
    return picked(node, names, place), transformed(node, scores)


def _numbers(node: Node, name: str) -> npt.NDArray[np.float32]:
    found = np.array(node.numbers(name), np.float32)
    if not found.size:
        raise ModelError(f"attribute {name!r}: expected numbers, found none")
    return found


def _vectors(node: Node, count: int) -> npt.NDArray[np.float32]:
    found = _numbers(node, "support_vectors")
    if found.size % count:
        raise ModelError(f"attribute 'support_vectors': expected numbers for {count} vectors, found {found.size}")
    return found.reshape(count, -1)


def _kernel(node: Node, vectors: npt.NDArray[np.float32]) -> Value:
    """A number for each row and vector."""
    graph, x, kind = node.graph, rows(node), node.string("kernel_type", "LINEAR")
    if kind not in _KERNELS:
        raise ModelError(f"attribute 'kernel_type': expected {', '.join(_KERNELS)}, found {kind!r}")
    gamma, added, degree = (*node.numbers("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        apart = c.subtract(graph, _each_apart(graph, x, vectors.shape[1]), node.constant(vectors.T[None]))
        return c.exp(graph, c.scale(graph, c.total(graph, c.square(graph, apart), [1], keep=False), -gamma))
    product = node.apply(matmul.FullyConnected(keep_num_dims=True), x, node.constant(vectors), None)
    if kind == "LINEAR":
        return product
    moved = c.shift(graph, c.scale(graph, product, gamma), added)
    return c.tanh(graph, moved) if kind == "SIGMOID" else _power(graph, moved, degree)


def _each_apart(graph: Graph, x: Value, width: int) -> Value:
    """Rows of a width (rows, width, 1); of another one it is an error."""
    return c.reshape_to(graph, x, c.concatenate(graph, [c.dims(graph, x, 0, 1), c.integers([width, 1])]))


def _power(graph: Graph, x: Value, degree: float) -> Value:
    if degree in (2, 3):
        twice = c.square(graph, x)
        return twice if degree == 2 else c.multiply(graph, twice, x)
    return graph.apply(elementwise.Pow(), x, c.like(degree, x))


def _pairs(count: int, numbers: tuple[int, ...]) -> _Pairs:
    if len(numbers) != count or min(numbers) < 0:
        raise ModelError(f"attribute 'vectors_per_class': expected {count} numbers, found {numbers}")
    c.expect_few(count * count)
    both = np.array([*combinations(range(count), 2)], np.int32)
    return _Pairs(both[:, 0], both[:, 1], np.cumsum([0, *numbers]))


def _scores(node: Node, pairs: _Pairs) -> Value:
    """A number for each pair of classes, above 0 for the first of them: what the vectors of the first add by the
    coefficients that tell it from the second, those of the second by its own, and rho. Sums are float64, as ONNX
    Runtime makes them, so that rows come to the same side of 0."""
    graph, starts, count = node.graph, pairs.starts, len(pairs.starts) - 1
    rho, factors = _numbers(node, "rho"), _numbers(node, "coefficients")
    for name, found, wanted in (("rho", rho, len(pairs.first)), ("coefficients", factors, (count - 1) * starts[-1])):
        if found.size < wanted:
            raise ModelError(f"attribute {name!r}: expected {wanted} numbers, found {found.size}")
    table = factors[:(count - 1) * starts[-1]].reshape(count - 1, -1).astype(np.float64)
    kernel = c.cast(graph, _kernel(node, _vectors(node, int(starts[-1]))), DType.FLOAT64)
    parts = [node.apply(matmul.BatchMatMul(adj_y=True), c.part(graph, kernel, 2, 1, first, last), constant(
        table[:, first:last])) for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    whole = c.concatenate(graph, parts, 1)
    by_first, by_second = (c.gather(graph, whole, constant((of * (count - 1) + row).astype(np.int32)), 1)
                           for of, row in ((pairs.first, pairs.second - 1), (pairs.second, pairs.first)))
    return c.add(graph, c.add(graph, by_first, by_second), constant(rho[:len(pairs.first)].astype(np.float64)))


def _votes(node: Node, pairs: _Pairs, is_first: Value) -> Value:
    """How many pairs each class has won."""
    classes = np.arange(len(pairs.starts) - 1)[:, None]
    gained, lost = ((each == classes).astype(np.float32) for each in (pairs.first, pairs.second))
    op = matmul.FullyConnected(keep_num_dims=True)
    return node.apply(op, is_first, node.constant(gained - lost), node.constant(lost.sum(1)))


def _shares(node: Node, pairs: _Pairs, scores: Value) -> Value:
    """How likely each class is, by how likely the first of each pair is: the shares that agree best with them, improved
    class after class, of each row until they come near."""
    graph, count = node.graph, len(pairs.starts) - 1
    if count > _MOST_SHARED:
        node.unsupported(f"probabilities of {count} classes (at most {_MOST_SHARED})")
    factors, added = _numbers(node, "prob_a"), _numbers(node, "prob_b")
    if min(len(factors), len(added)) < len(pairs.first):
        raise ModelError(f"expected numbers of 'prob_a' and 'prob_b' for {len(pairs.first)} pairs of classes, found "
                         f"{len(factors)} and {len(added)}")
    slopes, moved = (constant(each[:len(pairs.first)]) for each in (factors, added))
    likely = c.sigmoid(graph, c.negative(graph, c.add(graph, c.multiply(graph, scores, slopes), moved)))
    products = _products(graph, pairs, c.clip(graph, likely, _LEAST, 1 - _LEAST))
    target = c.concatenate(graph, [c.dims(graph, scores, 0, 1), c.integers([count])])
    start = c.fill(graph, target, c.number(1 / count, DType.FLOAT32))
    inner = graph.program.graph("shares", graph)
    shares = inner.input(DType.FLOAT32, (-1, count), "shares")
    body = Body(inner, (shares,), _improved(inner, inner.capture(products), shares, count))
    op = loop.Loop(cond_output=1, carried=(Carried(0, 0, ShapePolicy.FIXED),))
    parts = Parts(constant(_TURNS, DType.INT64), None, (start,))
    return emit(graph, closed(op, body, len(body.inputs)), body, parts, [(-1, count)])[0]


def _products(graph: Graph, pairs: _Pairs, likely: Value) -> Value:
    """(rows, classes, classes): of two classes the product of how likely either is, negative; of one the sum of squares
    of how likely others are beside it."""
    count = len(pairs.starts) - 1
    places = np.zeros((count, count), np.int32)
    places[pairs.first, pairs.second] = np.arange(len(pairs.first))
    places[pairs.second, pairs.first] = len(pairs.first) + np.arange(len(pairs.first))
    both = c.concatenate(graph, [likely, c.subtract(graph, c.like(1, likely), likely)], 1)
    own, others = (c.gather(graph, both, constant(each), 1) for each in (places, places.T))
    here = constant(np.eye(count, dtype=np.bool_)[None])
    others = c.select(graph, here, c.like(0, others), others)
    squares = c.total(graph, c.square(graph, others), [2])
    return c.select(graph, here, squares, c.negative(graph, c.multiply(graph, others, own)))


def _improved(graph: Graph, products: Value, shares: Value, count: int) -> tuple[Value, Value]:
    """The shares after a turn, and whether those of any row were not near before it."""
    weighted = c.total(graph, c.multiply(graph, products, c.unsqueeze(graph, shares, [1])), [2], keep=False)
    whole = c.total(graph, c.multiply(graph, shares, weighted), [1])
    wrong = graph.apply(reduce.ReduceMax(keep_dims=True), c.absolute(graph, c.subtract(graph, weighted, whole)),
                        c.axes_of([1]))
    is_far = graph.apply(comparison.GreaterEqual(), wrong, c.like(_NEAR / count, wrong))
    found = shares
    for k in range(count):
        row = c.squeeze(graph, c.part(graph, products, 3, 1, k, k + 1), [1])
        own, here = c.part(graph, row, 2, 1, k, k + 1), c.part(graph, weighted, 2, 1, k, k + 1)
        step = c.divide(graph, c.subtract(graph, whole, here), own)
        by = c.shift(graph, step, 1)
        moved = c.multiply(graph, step, constant(np.eye(count, dtype=np.float32)[k][None]))
        found = c.divide(graph, c.add(graph, found, moved), by)
        gained = c.multiply(graph, step, c.add(graph, c.multiply(graph, step, own), c.scale(graph, here, 2)))
        whole = c.divide(graph, c.divide(graph, c.add(graph, whole, gained), by), by)
        weighted = c.divide(graph, c.add(graph, weighted, c.multiply(graph, step, row)), by)
    goes_on = graph.apply(reduce.ReduceAny(), is_far, c.axes_of([0, 1]))
    return c.select(graph, is_far, found, shares), goes_on
