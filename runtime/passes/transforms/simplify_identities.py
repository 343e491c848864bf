"""Makes operators that change nothing into aliases, which cost nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs


def simplify_identities(model: Model) -> Model:
    """Replaces each CAST to the type that its input already has."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, partial(_simplify, subgraph)))


def _simplify(subgraph: Subgraph, operator: Operator) -> Operator:
    return replace(operator, op=Alias(), version=1) if _is_identity(subgraph, operator) else operator


def _is_identity(subgraph: Subgraph, operator: Operator) -> bool:
    if not isinstance(operator.op, Cast):
        return False
    source, result = (subgraph.tensors[each] for each in (operator.inputs[0], operator.outputs[0]))
    return source.dtype is result.dtype
