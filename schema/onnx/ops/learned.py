"""Rules for operators of the set `ai.onnx.ml`: what scikit-learn's preprocessing and linear models become."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, index, matmul, normalize, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

DOMAIN = "ai.onnx.ml"


@rule(f"{DOMAIN}.ArrayFeatureExtractor")
def array_feature_extractor(node: Node) -> Value:
    """Elements of the last axis, at places of any shape; a vector is a matrix of one row."""
    axis, known = node.rank() - 1, node.known(0)
    row = node[0] if axis or known is None else node.constant(known[None])
    x = c.reshape(node.graph, row, [1, -1]) if not axis and known is None else row
    return node.apply(index.Gather(max(axis, 1)), x, c.reshape(node.graph, node[1], [-1]))


@rule(f"{DOMAIN}.Binarizer")
def binarizer(node: Node) -> Value:
    above = c.greater(node.graph, reals(node), c.number(node.number("threshold", 0.0), DType.FLOAT32))
    return c.cast(node.graph, above, DType.FLOAT32)


@rule(f"{DOMAIN}.Imputer")
def imputer(node: Node) -> Value:
    """Numbers in the place of those that are one number, or NaN: one, or one for each feature."""
    if node.dtype() is not DType.FLOAT32:
        node.unsupported(f"numbers of type {node.dtype().value}")
    x, replaced = node[0], node.number("replaced_value_float", 0.0)
    is_missing = node.apply(comparison.NotEqual(), x, x) if np.isnan(replaced) else c.equal(node.graph, x, c.like(
        replaced, x))
    return c.select(node.graph, is_missing, node.constant(_for_features(node, "imputed_value_floats")), x)


@rule(f"{DOMAIN}.Scaler")
def scaler(node: Node) -> Value:
    """(x - offset) * scale, by numbers that are one, or one for each feature."""
    moved = c.subtract(node.graph, reals(node), node.constant(_for_features(node, "offset")))
    return c.multiply(node.graph, moved, node.constant(_for_features(node, "scale")))


@rule(f"{DOMAIN}.Normalizer")
def normalizer(node: Node) -> Value:
    """Rows divided by what is greatest in them, by the sum of magnitudes, or by the root of the sum of squares; those
    of which that is 0 as they are."""
    graph, x, norm = node.graph, reals(node), node.string("norm", "MAX")
    last = [node.rank() - 1]
    if norm == "MAX":
        size = graph.apply(reduce.ReduceMax(keep_dims=True), x, c.axes_of(last))
    elif norm == "L1":
        size = c.total(graph, c.absolute(graph, x), last)
    elif norm == "L2":
        size = c.sqrt(graph, c.total(graph, c.square(graph, x), last))
    else:
        raise ModelError(f"attribute 'norm': expected MAX, L1 or L2, found {norm!r}")
    return c.divide(graph, x, c.select(graph, c.equal(graph, size, c.like(0, size)), c.like(1, size), size))


@rule(f"{DOMAIN}.LinearRegressor")
def linear_regressor(node: Node) -> Value:
    count = node.integer("targets", 1)
    return targets(node, _linear(node, count), count)


@rule(f"{DOMAIN}.LinearClassifier")
def linear_classifier(node: Node) -> tuple[Value, Value]:
    names, count = labels(node, "classlabels_ints"), len(node.numbers("intercepts", ()))
    scores = _linear(node, count)
    if count == 1 and len(names) == 2:
        is_second = c.greater(node.graph, scores, c.like(0, scores))
        second = c.sigmoid(node.graph, scores) if _transform(node) == "LOGISTIC" else scores
        return picked(node, names, is_second), sides(node, c.subtract(node.graph, c.like(1, second), second), second)
    if count != len(names):
        raise ModelError(f"expected as many intercepts as classes, found {count} and {len(names)}")
    return picked(node, names, greatest(node, scores)), transformed(node, scores)


def reals(node: Node) -> Value:
    """The first input as float32."""
    if node.dtype() not in (DType.FLOAT32, DType.INT32, DType.INT64):
        node.unsupported(f"numbers of type {node.dtype().value}")
    return c.cast(node.graph, node[0], DType.FLOAT32)


def rows(node: Node) -> Value:
    """The first input as a matrix of float32; a vector is one row."""
    rank = node.rank()
    if rank not in (1, 2):
        raise ModelError(f"input 0: expected a matrix or a vector, found rank {rank}")
    return reals(node) if rank == 2 else c.reshape(node.graph, reals(node), [1, -1])


def labels(node: Node, name: str) -> npt.NDArray[np.int64 | np.object_]:
    """Those of the classes: integers of an attribute, or text.

    Raises:
        ModelError: there are none, or both.
    """
    text, numbers = node.strings("classlabels_strings", ()), node.integers(name, ())
    if bool(text) == bool(numbers):
        raise ModelError(f"expected either {name!r} or 'classlabels_strings', found {'both' if text else 'neither'}")
    return np.array([each.encode() for each in text], object) if text else np.array(numbers, np.int64)


def picked(node: Node, names: npt.NDArray[np.int64 | np.object_], places: Value) -> Value:
    """The labels at places, which are integers, or of two labels whether it is the second, in any shape of a column."""
    flat = c.reshape(node.graph, c.cast(node.graph, places, DType.INT32), [-1])
    return c.gather(node.graph, node.constant(names), flat, 0)


def greatest(node: Node, scores: Value) -> Value:
    """In which column of each row the first of the greatest numbers is."""
    return node.apply(reduce.ArgMax(DType.INT32), scores, node.constant(1, DType.INT32))


def sides(node: Node, first: Value, second: Value) -> Value:
    """Two columns beside one another."""
    return c.concatenate(node.graph, [first, second], 1)


def targets(node: Node, scores: Value, count: int) -> Value:
    """The results of a regression, of which ONNX Runtime transforms several, but not one."""
    if count == 1 and _transform(node) != "NONE":
        node.unsupported(f"post_transform {_transform(node)!r} of one target")
    return transformed(node, scores)


def transformed(node: Node, scores: Value) -> Value:
    """The scores of each row after the function that the node names."""
    if _transform(node) == "LOGISTIC":
        return c.sigmoid(node.graph, scores)
    return node.apply(normalize.Softmax(1.0), scores) if _transform(node) == "SOFTMAX" else scores


def _transform(node: Node) -> str:
    found = node.string("post_transform", "NONE")
    if found not in ("NONE", "LOGISTIC", "SOFTMAX"):
        node.unsupported(f"post_transform {found!r}")
    return found


def _linear(node: Node, count: int) -> Value:
    """Products of rows with those of a matrix of as many, and what is added."""
    factors = np.array(node.numbers("coefficients"), np.float32)
    added = np.array(node.numbers("intercepts", ()) or [0.0] * count, np.float32)
    if count < 1 or factors.size % count or len(added) != count:
        raise ModelError(f"expected coefficients and intercepts for {count} results, found {factors.size} and "
                         f"{len(added)}")
    op = matmul.FullyConnected(keep_num_dims=True)
    return node.apply(op, rows(node), node.constant(factors.reshape(count, -1)), node.constant(added))


def _for_features(node: Node, name: str) -> npt.NDArray[np.float32]:
    found = node.numbers(name)
    width = node.shape()[-1] if node.rank() else 1
    if len(found) != 1 and width not in (-1, len(found)):
        raise ModelError(f"attribute {name!r}: expected 1 or {width} numbers, found {len(found)}")
    return np.array(found, np.float32)
