"""Says by a name how elements are combined, of windows or with updates, where a subgraph of one operator does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import INTEGERS, Activation
from circlet.runtime.ops import comparison, elementwise
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.reduce_window import (
    COMBINATIONS,
    Combination,
    CombineWindow,
    ReduceWindow,
    SlidingReduction,
    StablehloReduceWindow,
)
from circlet.runtime.ops.scatter import ScatterWindows, StablehloScatter, WindowScattering
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
_UPDATES: Mapping[type[Op], Combine] = {
    elementwise.Add: Combine.ADD,
    elementwise.StablehloAdd: Combine.ADD,
    elementwise.Mul: Combine.MULTIPLY,
    elementwise.StablehloMultiply: Combine.MULTIPLY,
    elementwise.StablehloMaximum: Combine.MAXIMUM,
    elementwise.StablehloMinimum: Combine.MINIMUM,
}
"""Not MAXIMUM and MINIMUM, which give something else where one of two is NaN."""


def name_combinations(model: Model) -> Model:
    """Replaces each STABLEHLO_REDUCE_WINDOW and STABLEHLO_SCATTER whose subgraph is one known operator, or gives the
    update, and each REDUCE_WINDOW of constant windows; others stay, and are refused."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, partial(_named, model, subgraph)))


def _named(model: Model, subgraph: Subgraph, operator: Operator) -> Operator:
    op = operator.op
    if isinstance(op, ReduceWindow):
        return _of_constants(op, subgraph, operator)
    if isinstance(op, StablehloReduceWindow):
        found = _combination(model.subgraphs[op.body_subgraph_index])
        named: Op | None = None if found is None else CombineWindow(**_options(op, SlidingReduction), combination=found)
    elif isinstance(op, StablehloScatter):
        combine = _combine(model.subgraphs[op.update_computation_subgraph_index])
        named = None if combine is None else ScatterWindows(**_options(op, WindowScattering), combine=combine)
    else:
        return operator
    return operator if named is None else replace(operator, op=named, version=1)


def _of_constants(op: ReduceWindow, subgraph: Subgraph, operator: Operator) -> Operator:
    """A REDUCE_WINDOW as a sliding reduction that reads no windows, if these are constants."""
    tensors = [subgraph.tensors[each] for each in operator.inputs[2:]]
    windows = [each.data for each in tensors if each.data is not None and each.data.size and each.dtype in INTEGERS]
    combination = COMBINATIONS.get(op.reduce_function)
    if combination is None or len(windows) < len(tensors):
        return operator
    return replace(operator, op=op.sliding(windows, combination), inputs=operator.inputs[:2], version=1)


def _options(op: Op, base: type[Op]) -> dict[str, Any]:
    """The options that an operator has of what it is derived from."""
    return {each.name: getattr(op, each.name) for each in fields(base)}


def _combine(computation: Subgraph) -> Combine | None:
    """What a subgraph makes of an element and an update, if that has a name."""
    if not computation.operators and computation.outputs == computation.inputs[1:]:
        return Combine.REPLACE
    found = _only(computation)
    return None if found is None else _UPDATES.get(found)


def _combination(body: Subgraph) -> Combination | None:
    """What a subgraph does with its two inputs, if that has a name."""
    found = _only(body)
    return None if found is None else _NAMES.get(found)


def _only(body: Subgraph) -> type[Op] | None:
    """The operator that is all that a subgraph does with its two inputs."""
    if len(body.operators) != 1 or len(body.inputs) != 2:
        return None
    (operator,) = body.operators
    is_plain = getattr(operator.op, "fused_activation_function", Activation.NONE) is Activation.NONE
    is_whole = sorted(operator.inputs) == sorted(body.inputs) and operator.outputs == body.outputs
    return type(operator.op) if is_plain and is_whole else None
