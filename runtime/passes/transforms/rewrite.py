"""Applies a change to every subgraph or operator, keeping what does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph


def rewrite_subgraphs(model: Model, change: Callable[[Subgraph], Subgraph]) -> Model:
    """The model with each subgraph changed; the model itself if none is."""
    subgraphs = tuple(map(change, model.subgraphs))
    unchanged = all(one is other for one, other in zip(subgraphs, model.subgraphs, strict=True))
    return model if unchanged else replace(model, subgraphs=subgraphs)


def rewrite_operators(subgraph: Subgraph, change: Callable[[Operator], Operator]) -> Subgraph:
    """The subgraph with each operator changed; the subgraph itself if none is."""
    operators = tuple(map(change, subgraph.operators))
    unchanged = all(one is other for one, other in zip(operators, subgraph.operators, strict=True))
    return subgraph if unchanged else replace(subgraph, operators=operators)
