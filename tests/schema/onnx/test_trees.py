"""Ensembles of trees of the set `ai.onnx.ml` against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.errors import ExecutionError, ModelError, UnsupportedError
from tests.schema.onnx.learned import learned, needs_release_that_transforms_shares, same

WIDTH = 3
RANDOM = np.random.default_rng(5)
LIMITS = RANDOM.integers(-4, 5, 64).astype(np.float32) / 2
X = RANDOM.integers(-5, 6, (40, WIDTH)).astype(np.float32) / 2


def trees(depths: list[int], mode: str = "BRANCH_LEQ", tracks: bool = False) -> dict[str, Any]:
    """Trees of so many levels; of two children the first has a level less below it."""
    found: dict[str, Any] = {f"nodes_{each}": [] for each in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}
    for tree, depth in enumerate(depths):
        _grow(found, tree, depth, mode, tracks, [0])
    return found


def _grow(found: dict[str, Any], tree: int, depth: int, mode: str, tracks: bool, counter: list[int]) -> int:
    own, counter[0] = counter[0], counter[0] + 1
    place, inner = len(found["nodes_treeids"]), depth > 0
    for name, value in (("treeids", tree), ("nodeids", own), ("featureids", place % WIDTH if inner else 0),
                        ("values", float(LIMITS[place % 64])), ("modes", mode if inner else "LEAF"),
                        ("truenodeids", 0), ("falsenodeids", 0),
                        ("missing_value_tracks_true", int(tracks and place % 2))):
        found[f"nodes_{name}"].append(value)
    if inner:
        found["nodes_truenodeids"][place] = _grow(found, tree, max(depth - 2, 0), mode, tracks, counter)
        found["nodes_falsenodeids"][place] = _grow(found, tree, depth - 1, mode, tracks, counter)
    return own


def weighted(nodes: dict[str, Any], kind: str, results: int, one: int | None = None, low: int = -8) -> dict[str, Any]:
    """Nodes and weights of each leaf for all results, or for one.

    Args:
        nodes: those of trees.
        kind: "target" or "class".
        results: how many there are.
        one: which one, by the number of the tree if there are several; None for all of them.
        low: the least weight, in eighths.
    """
    found: dict[str, Any] = {f"{kind}_{each}": [] for each in ("treeids", "nodeids", "ids", "weights")}
    for tree, number, mode in zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True):
        if mode == "LEAF":
            for result in range(results) if one is None else [(one + tree) % results]:
                weight = ((len(found[f"{kind}_ids"]) * 7) % (9 - low) + low) / 8
                for name, value in (("treeids", tree), ("nodeids", number), ("ids", result), ("weights", weight)):
                    found[f"{kind}_{name}"].append(value)
    return {**nodes, **found}


def regressor(nodes: dict[str, Any], results: int = 1, **attributes: Any) -> bytes:
    return learned("TreeEnsembleRegressor", {**weighted(nodes, "target", results), "n_targets": results, **attributes},
                   shape=(None, WIDTH))


def classifier(nodes: dict[str, Any], labels: list[int] | list[str], one: int | None = None, low: int = -8,
               **attributes: Any) -> bytes:
    count = 1 if len(labels) == 2 else len(labels)
    name = "classlabels_int64s" if isinstance(labels[0], int) else "classlabels_strings"
    return learned("TreeEnsembleClassifier", {**weighted(nodes, "class", count, one, low), name: labels, **attributes},
                   shape=(None, WIDTH))


MANY = trees([4, 1, 6, 0, 3])
MODELS: dict[str, bytes] = {
    **{mode: regressor(trees([4, 3], mode)) for mode in (
        "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")},
    "leaf": regressor(trees([0])),
    "based": regressor(MANY, base_values=[0.5]),
    "averaged": regressor(MANY, aggregate_function="AVERAGE", base_values=[0.5]),
    **{f"three targets, {of}": regressor(MANY, 3, post_transform=of) for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"three classes, {of}": classifier(MANY, [5, 2, 9], post_transform=of) for of in (
        "NONE", "LOGISTIC", "SOFTMAX")},
    "a tree for each class": classifier(MANY, [5, 2, 9], 0, base_values=[0.5, 0.25, -0.125]),
    "text": classifier(MANY, ["low", "some", "high"]),
    **{f"two classes, {of}": classifier(MANY, [4, 1], 0, post_transform=of) for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"shares of two classes, {of}": classifier(MANY, [4, 1], 0, low=0, base_values=[-2.0], post_transform=of)
       for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    "missing numbers": regressor(trees([4, 5], tracks=True)),
    "missing numbers that differ": regressor(trees([4, 5], "BRANCH_NEQ", tracks=True)),
}


def given(name: str) -> list[npt.NDArray[np.float32]]:
    x = X.copy()
    x[::3, 1], x[1::5, 0] = np.nan, np.inf
    return [X, X[:1], X[:0], X[3:20], x]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_as_onnxruntime(name: str, backend: str) -> None:
    if name == "shares of two classes, LOGISTIC":
        needs_release_that_transforms_shares()
    same(MODELS[name], backend, given(name))


def test_one_function_serves_all_numbers_of_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    span = pytest.importorskip("circlet.backends.native.lower.span")
    lower = span.lower_span
    made: list[int] = []

    def counted(*arguments: object) -> object:
        made.append(1)
        return lower(*arguments)

    monkeypatch.setattr(span, "lower_span", counted)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path))
    session = circlet.Session(MODELS["three classes, SOFTMAX"], "native")
    for n in (7, 40, 2, 1, 33):
        session.run({"x": X[:n]})
    assert set(session.backend_of(0)) <= {"native", "none"}
    assert len(made) == 1


def refused(**attributes: Any) -> bytes:
    nodes = {**weighted(trees([1]), "target", 1), "n_targets": 1, **attributes}
    return learned("TreeEnsembleRegressor", nodes, shape=(None, WIDTH))


REFUSED: dict[str, tuple[bytes, type[Exception], str]] = {
    "aggregate": (refused(aggregate_function="MAX"), UnsupportedError, "aggregate_function 'MAX'"),
    "mode": (refused(nodes_modes=["BRANCH_MEMBER", "LEAF", "LEAF"]), UnsupportedError, "BRANCH_MEMBER"),
    "modes": (regressor({**trees([2]), "nodes_modes": ["BRANCH_LT", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]}),
              UnsupportedError, "nodes of modes BRANCH_LEQ, BRANCH_LT"),
    "round": (refused(nodes_falsenodeids=[0, 0, 0]), ModelError, "reached in two ways"),
    "shared": (refused(nodes_falsenodeids=[1, 0, 0]), ModelError, "reached in two ways"),
    "child": (refused(nodes_truenodeids=[7, 0, 0]), ModelError, "expected a node 7, found none"),
    "leaf": (refused(target_nodeids=[1, 9]), ModelError, "expected a node 9, found none"),
    "result": (refused(target_ids=[0, 1]), ModelError, "target_ids: expected 0 to 0, found 1"),
    "values": (refused(nodes_values=[0.0]), ModelError, "'nodes_values': expected 3 numbers"),
    "base": (refused(base_values=[0.0, 1.0]), ModelError, "'base_values': expected 1 numbers, found 2"),
    "weights": (refused(target_weights=[1.0]), ModelError, "expected as many target_treeids"),
    "feature": (refused(nodes_featureids=[-1, 0, 0]), ModelError, "nodes_featureids: expected 0 to"),
    "twice": (refused(nodes_nodeids=[0, 1, 1]), ModelError, "none twice"),
    "both of two classes": (learned("TreeEnsembleClassifier", {
        **weighted(trees([1]), "class", 2), "classlabels_int64s": [0, 1]}), UnsupportedError, "2 classes"),
    "classes that only some rows have": (learned("TreeEnsembleClassifier", {
        **weighted(trees([1]), "class", 2), "class_ids": [0, 1, 2, 1], "classlabels_int64s": [0, 1, 2]}),
        UnsupportedError, "3 classes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    model, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        circlet.load(model)


def test_a_feature_that_rows_have_not() -> None:
    session = circlet.Session(learned("TreeEnsembleRegressor", {
        **weighted(trees([2]), "target", 1), "n_targets": 1}, shape=(None, None)), "native")
    with pytest.raises(ExecutionError, match="index"):
        session.run({"x": X[:, :1]})
    assert session.run({"x": X})["y"].shape == (40, 1)
