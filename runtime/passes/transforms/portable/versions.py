"""Gives operators the least version by which LiteRT knows them."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.shape import BroadcastTo
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs

LEAST: dict[type[Op], int] = {BroadcastTo: 2}
"""Of operators that have no version 1 there."""


def set_versions(model: Model) -> Model:
    """Raises the versions of operators whose version is too low."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, _versioned))


def _versioned(operator: Operator) -> Operator:
    least = LEAST.get(type(operator.op), 1)
    return operator if operator.version >= least else replace(operator, version=least)
