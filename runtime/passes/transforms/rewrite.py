"""Applies a change to every subgraph or operator, keeping what does not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.records import replace


def rewrite_subgraphs(model: Model, change: Callable[[Subgraph], Subgraph]) -> Model:
    """The model with each subgraph changed; the model itself if none is."""
    subgraphs = tuple(map(change, model.subgraphs))
    return model if is_same(subgraphs, model.subgraphs) else replace(model, subgraphs=subgraphs)


def rewrite_operators(subgraph: Subgraph, change: Callable[[Operator], Operator]) -> Subgraph:
    """The subgraph with each operator changed; the subgraph itself if none is."""
    operators = tuple(map(change, subgraph.operators))
    return subgraph if is_same(operators, subgraph.operators) else replace(subgraph, operators=operators)


def is_same(parts: Sequence[object], others: Sequence[object]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(parts) == len(others) and all(map(is_, parts, others))
