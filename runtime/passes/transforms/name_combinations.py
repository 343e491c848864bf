"""Says by a name how the elements of windows are combined, where a subgraph of one operator does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation
from circlet.runtime.ops import comparison, elementwise
from circlet.runtime.ops.reduce_window import Combination, CombineWindow, SlidingReduction, StablehloReduceWindow
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs
from circlet.runtime.records import replace

_NAMES: Mapping[type[Op], Combination] = {
    elementwise.Add: Combination.ADD,
    elementwise.StablehloAdd: Combination.ADD,
    elementwise.Mul: Combination.MULTIPLY,
    elementwise.StablehloMultiply: Combination.MULTIPLY,
    elementwise.Maximum: Combination.MAXIMUM,
    elementwise.StablehloMaximum: Combination.MAXIMUM,
    elementwise.Minimum: Combination.MINIMUM,
    elementwise.StablehloMinimum: Combination.MINIMUM,
    comparison.LogicalAnd: Combination.AND,
    elementwise.StablehloAnd: Combination.AND,
    comparison.LogicalOr: Combination.OR,
    elementwise.StablehloOr: Combination.OR,
}


def name_combinations(model: Model) -> Model:
    """Replaces each STABLEHLO_REDUCE_WINDOW whose body is one known operator; others stay, and are refused."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, partial(_named, model)))


def _named(model: Model, operator: Operator) -> Operator:
    op = operator.op
    if not isinstance(op, StablehloReduceWindow):
        return operator
    found = _combination(model.subgraphs[op.body_subgraph_index])
    if found is None:
        return operator
    options = {each.name: getattr(op, each.name) for each in fields(SlidingReduction)}
    return replace(operator, op=CombineWindow(**options, combination=found), version=1)


def _combination(body: Subgraph) -> Combination | None:
    """What a subgraph does with its two inputs, if that has a name."""
    if len(body.operators) != 1 or len(body.inputs) != 2:
        return None
    (operator,) = body.operators
    is_plain = getattr(operator.op, "fused_activation_function", Activation.NONE) is Activation.NONE
    is_whole = sorted(operator.inputs) == sorted(body.inputs) and operator.outputs == body.outputs
    return _NAMES.get(type(operator.op)) if is_plain and is_whole else None
