"""Rules for ensembles of trees of the set `ai.onnx.ml`: all trees of all rows go down one level at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elements, loop
from circlet.runtime.ops.loop_options import Carried, Feed, ShapePolicy
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.bodies import Body
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.learned import DOMAIN, greatest, labels, picked, rows, sides, targets, transformed
from circlet.schema.onnx.ops.loop import Parts, closed, emit
from circlet.schema.onnx.rules import rule

Number = TypeVar("Number", int, float)
Places: TypeAlias = "Mapping[tuple[int, int], int]"
"""Where a node is that has the number of a tree and one in it."""
_MOST = int(np.iinfo(np.int32).max)
_COMPARED = {"BRANCH_LEQ": comparison.LessEqual, "BRANCH_LT": comparison.Less, "BRANCH_GTE": comparison.GreaterEqual,
             "BRANCH_GT": comparison.Greater, "BRANCH_EQ": comparison.Equal, "BRANCH_NEQ": comparison.NotEqual}


@dataclass(frozen=True, eq=False)
class _Trees:
    """Nodes of all trees in the order of the file; a leaf goes on to itself."""

    features: npt.NDArray[np.int32]
    limits: npt.NDArray[np.float32]
    accepted: npt.NDArray[np.int32]
    rejected: npt.NDArray[np.int32]
    accepts_missing: npt.NDArray[np.bool_]
    roots: npt.NDArray[np.int32]
    is_leaf: npt.NDArray[np.bool_]
    owners: npt.NDArray[np.int64]
    """The number of the tree that each node is of."""
    depth: int
    mode: str
    places: Places


@rule(f"{DOMAIN}.TreeEnsembleRegressor")
def tree_ensemble_regressor(node: Node) -> Value:
    count, aggregate = node.integer("n_targets"), node.string("aggregate_function", "SUM")
    if aggregate not in ("SUM", "AVERAGE"):
        node.unsupported(f"aggregate_function {aggregate!r}")
    trees = _trees(node)
    scores = _scores(node, trees, "target", count)
    if aggregate == "AVERAGE":
        scores = c.divide(node.graph, scores, c.like(len(trees.roots), scores))
    return targets(node, _based(node, scores, count), count)


@rule(f"{DOMAIN}.TreeEnsembleClassifier")
def tree_ensemble_classifier(node: Node) -> tuple[Value, Value]:
    names, trees = labels(node, "classlabels_int64s"), _trees(node)
    count, taken = len(names), sorted(set(node.integers("class_ids")))
    if count == 2 and len(taken) == 1:
        return _either(node, trees, names, taken[0])
    if count < 3 or not _is_whole(node, trees, count):
        node.unsupported(f"{count} classes, of which leaves have weights for some")
    scores = _based(node, _scores(node, trees, "class", count), count)
    return picked(node, names, greatest(node, scores)), transformed(node, scores)


def _either(node: Node, trees: _Trees, names: npt.NDArray[np.int64 | np.object_], taken: int) -> tuple[Value, Value]:
    """Two classes by one score: probabilities where no weight is negative, else on which side of 0 it is."""
    if taken or len(node.numbers("base_values", ())) > 1:
        node.unsupported("weights for the second of two classes alone, or two base values")
    graph, is_share = node.graph, min(node.numbers("class_weights"), default=0.0) >= 0
    score = _based(node, _scores(node, trees, "class", 1), 1)
    label = picked(node, names, c.greater(graph, score, c.like(0.5 if is_share else 0, score)))
    if is_share and node.string("post_transform", "NONE") != "LOGISTIC":
        return label, sides(node, c.subtract(graph, c.like(1, score), score), score)
    both = sides(node, c.negative(graph, score), score)
    return label, transformed(node, both) if node.string("post_transform", "NONE") == "LOGISTIC" else both


def _is_whole(node: Node, trees: _Trees, count: int) -> bool:
    """Whether each row has a score for each class: all leaves of a tree have weights for the same ones, and none is
    without."""
    places, ones, _ = _weights(node, trees, "class", count)
    has = np.zeros((len(trees.is_leaf), count), np.bool_)
    has[places, ones] = True
    leaves = has[trees.is_leaf]
    _, first, tree = np.unique(trees.owners[trees.is_leaf], return_index=True, return_inverse=True)
    return bool((leaves == leaves[first[tree]]).all() and leaves.any(0).all())


def _scores(node: Node, trees: _Trees, kind: str, count: int) -> Value:
    """What the leaves that each row comes to have for each result, summed up."""
    graph, table = node.graph, _table(node, trees, kind, count)
    leaves = _descended(graph, trees, rows(node))
    if count == 1:
        return c.total(graph, c.gather(graph, node.constant(table[:, 0]), leaves, 0), [1])
    return c.total(graph, c.gather(graph, node.constant(table), leaves, 0), [1], keep=False)


def _table(node: Node, trees: _Trees, kind: str, count: int) -> npt.NDArray[np.float32]:
    """A row for each node: what its leaf adds to each result."""
    places, ones, numbers = _weights(node, trees, kind, count)
    found = np.zeros((len(trees.is_leaf), max(count, 0)), np.float32)
    np.add.at(found, (places, ones), np.where(trees.is_leaf[places], numbers, np.float32(0)))
    return found


def _weights(node: Node, trees: _Trees, kind: str,
             count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Nodes, results, and what the nodes add to them.

    Raises:
        ModelError: there are more of one than of another, or a node or a result is none.
    """
    c.expect_few(len(trees.is_leaf) * max(count, 1))
    names = [f"{kind}_{each}" for each in ("treeids", "nodeids", "ids", "weights")]
    of, where, which = (node.integers(each) for each in names[:3])
    numbers = np.array(node.numbers(names[3]), np.float32)
    counts = [len(each) for each in (of, where, which, numbers)]
    if len(set(counts)) > 1:
        raise ModelError(f"expected as many {', '.join(names)}, found {', '.join(map(str, counts))}")
    places = [_place(trees.places, *each) for each in zip(of, where, strict=True)]
    for one in (min(which, default=0), max(which, default=0)):
        if which and not 0 <= one < count:
            raise ModelError(f"{kind}_ids: expected 0 to {count - 1}, found {one}")
    return np.array(places, np.int64), np.array(which, np.int64), numbers


def _based(node: Node, scores: Value, count: int) -> Value:
    base = node.numbers("base_values", ())
    if not base:
        return scores
    if len(base) != count:
        raise ModelError(f"attribute 'base_values': expected {count} numbers, found {len(base)}")
    return c.add(node.graph, scores, node.constant(np.array(base, np.float32)))


def _descended(graph: Graph, trees: _Trees, x: Value) -> Value:
    """The leaves (rows, trees) that rows come to."""
    target = c.concatenate(graph, [c.dims(graph, x, 0, 1), c.integers([len(trees.roots)])])
    start = c.broadcast_to(graph, constant(trees.roots[None]), target)
    inner = graph.program.graph("tree_level", graph)
    step = inner.input(DType.INT64, (), "level")
    at = inner.input(DType.INT32, (-1, len(trees.roots)), "nodes")
    body = Body(inner, (step, at), (_next(inner, trees, inner.capture(x), at),))
    op = loop.Loop(iteration=Feed(0), carried=(Carried(1, 0, ShapePolicy.FIXED),))
    parts = Parts(constant(trees.depth, DType.INT64), None, (start,))
    return emit(graph, closed(op, body, len(body.inputs)), body, parts, [(-1, len(trees.roots))])[0]


def _next(graph: Graph, trees: _Trees, x: Value, at: Value) -> Value:
    """The nodes one level further down."""
    def of(table: npt.NDArray[np.generic]) -> Value:
        return c.gather(graph, constant(table), at, 0)

    found = graph.apply(elements.GatherElements(1), x, of(trees.features))
    accepts = graph.apply(_COMPARED[trees.mode](), found, of(trees.limits))
    if trees.accepts_missing.any():
        missing = graph.apply(comparison.NotEqual(), found, found)
        accepts = graph.apply(comparison.LogicalOr(), accepts, graph.apply(comparison.LogicalAnd(), missing, of(
            trees.accepts_missing)))
    twice = c.scale(graph, at, 2)
    children = constant(np.stack([trees.accepted, trees.rejected], 1).reshape(-1))
    return c.gather(graph, children, c.select(graph, accepts, twice, c.shift(graph, twice, 1)), 0)


def _trees(node: Node) -> _Trees:
    """The trees that a node's attributes hold.

    Raises:
        ModelError: they are none.
        UnsupportedError: numbers are of 64 bits, or nodes compare otherwise than others.
    """
    if any(each.endswith("_as_tensor") for each in node.attributes):
        node.unsupported("numbers of 64 bits")
    owners, numbers, modes = (*map(node.integers, ("nodes_treeids", "nodes_nodeids")), node.strings("nodes_modes"))
    count = len(owners)
    places = {each: k for k, each in enumerate(zip(owners, numbers, strict=False))}
    if not count or len(places) != count or len(modes) != count:
        raise ModelError(f"expected a number and a mode for each of {count} nodes, none twice")
    is_leaf = np.array([each == "LEAF" for each in modes])
    features, missing = (_integers(node, f"nodes_{each}", count) for each in (
        "featureids", "missing_value_tracks_true"))
    if (features < 0).any() or (features > _MOST).any():
        raise ModelError(f"nodes_featureids: expected 0 to {_MOST}, found {features.min()} to {features.max()}")
    accepted, rejected = (np.array([k if is_leaf[k] else _place(places, owners[k], int(each)) for k, each in enumerate(
        _integers(node, f"nodes_{name}", count))], np.int32) for name in ("truenodeids", "falsenodeids"))
    firsts = {owner: k for k, owner in reversed(list(enumerate(owners)))}
    roots = np.array(sorted(firsts.values()), np.int32)
    limits = np.array(_each("nodes_values", node.numbers("nodes_values"), count), np.float32)
    return _Trees(np.where(is_leaf, 0, features).astype(np.int32), limits, accepted, rejected, missing.astype(np.bool_),
                  roots, is_leaf, np.array(owners, np.int64), _depth(roots, accepted, rejected, is_leaf),
                  _mode(node, modes), places)


def _integers(node: Node, name: str, count: int) -> npt.NDArray[np.int64]:
    """One for each node; zeros where the attribute is absent that may be."""
    absent = [0] * count if name == "nodes_missing_value_tracks_true" else None
    return np.array(_each(name, node.integers(name, absent), count), np.int64)


def _mode(node: Node, modes: Sequence[str]) -> str:
    """How all nodes but leaves compare."""
    found = {each for each in modes if each != "LEAF"} or {"BRANCH_LEQ"}
    if len(found) > 1 or not found <= _COMPARED.keys():
        node.unsupported(f"nodes of modes {', '.join(sorted(found))}")
    return found.pop()


def _each(name: str, given: Sequence[Number], count: int) -> Sequence[Number]:
    if len(given) != count:
        raise ModelError(f"attribute {name!r}: expected {count} numbers, as there are nodes, found {len(given)}")
    return given


def _place(places: Places, tree: int, number: int) -> int:
    if (tree, number) not in places:
        raise ModelError(f"tree {tree}: expected a node {number}, found none")
    return places[tree, number]


def _depth(roots: npt.NDArray[np.int32], accepted: npt.NDArray[np.int32], rejected: npt.NDArray[np.int32],
           is_leaf: npt.NDArray[np.bool_]) -> int:
    """How many levels there are below the roots.

    Raises:
        ModelError: a node is reached in two ways, so that rows might go round.
    """
    level, depth, seen = roots, 0, np.zeros(len(is_leaf), np.bool_)
    while True:
        if seen[level].any() or len(np.unique(level)) != len(level):
            raise ModelError("a node of a tree is reached in two ways")
        seen[level] = True
        inner = level[~is_leaf[level]]
        if not len(inner):
            return depth
        level, depth = np.concatenate([accepted[inner], rejected[inner]]), depth + 1
