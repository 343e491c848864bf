"""Which values of variables are read where these lie, instead of being copied."""

from __future__ import annotations

from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.controlflow import CallOnce
from circlet.runtime.ops.updates import UpdateVariable
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.specialize import Specialization


def lent(model: Model, spec: Specialization, span: range, aliases: Aliases) -> frozenset[int]:
    """The storage classes of values that are read from variables in a span, by their roots, which last until no one
    reads them any more: nothing writes over them, and nothing that may write to a variable comes before they are
    read."""
    operators = spec.subgraph.operators
    found = set()
    for number in span:
        operator = operators[number]
        if not isinstance(operator.op, (ReadVariable, UpdateVariable)) or len(operator.outputs) != 1:
            continue
        root = aliases.root(operator.outputs[0])
        last = aliases.last_read(root)
        lasts = last < span.stop and not aliases.is_overwritten(root) and aliases.first_write(root) == number
        if lasts and _is_told(spec, number) and not any(
                _writes(model, each) for each in operators[number + 1:last + 1]):
            found.add(root)
    return frozenset(found)


def _is_told(spec: Specialization, number: int) -> bool:
    """Whether code can tell where the value lies that an operator gives."""
    subgraph, operator = spec.subgraph, spec.subgraph.operators[number]
    (value,) = operator.outputs
    handle = any(operator.inputs[0] in each.outputs and isinstance(each.op, VarHandle) for each in subgraph.operators)
    declared = subgraph.tensors[value]
    rule = rule_of(Call.of(subgraph, operator, Place(spec.index, subgraph.name, number, operator.name)))
    return handle and declared.is_static and declared.shape == spec.shape(value) and (
        isinstance(rule, Rule) and rule.lends is not None)


def _writes(model: Model, operator: Operator) -> bool:
    """Whether an operator may write to a variable."""
    return _may_write(operator.op) or any(
        _writes(model, each) for callee in operator.op.callees() for each in model.subgraphs[callee].operators)


def _may_write(op: Op) -> bool:
    """Whether an operator by itself may."""
    if isinstance(op, Fused):
        return any(_may_write(each.operator.op) for each in op.members)
    return isinstance(op, (AssignVariable, UpdateVariable, CallOnce))
