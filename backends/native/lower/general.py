"""Which operators at open lengths become code, and which are left to the host."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.backends.native.lower.controlflow import CONTROL_FLOW, refuses, taken
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.errors import Place
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.op import Skip, Unknown
from circlet.runtime.passes.analyses.elide_copies import given
from circlet.runtime.passes.analyses.growing import entering
from circlet.runtime.passes.analyses.specialize import Specialization


def objections(executors: ExecutorMap, spec: Specialization, operators: range) -> Iterator[str]:
    """Why code for operators of a subgraph at open lengths calls the host, in words; nothing where it does not."""
    for number in operators:
        operator = spec.subgraph.operators[number]
        if isinstance(operator.op, Skip) or (operator.outputs and all(each in spec.known for each in operator.outputs)):
            continue
        place = Place(spec.index, spec.subgraph.name, number, operator.name)
        if type(operator.op) in CONTROL_FLOW:
            yield from _of_callees(executors, spec, number, place)
            continue
        calls = operator.op.calls_at(place) if isinstance(operator.op, Fused) else (
            Call.of(spec.subgraph, operator, place),)
        for call in calls:
            rule = rule_of(call)
            if not isinstance(rule, Rule):
                yield f"{call.place}: {rule}"


def _of_callees(executors: ExecutorMap, spec: Specialization, number: int, place: Place) -> Iterator[str]:
    operator = spec.subgraph.operators[number]
    shapes = given(spec, operator)
    op = taken(spec, operator)
    reason = refuses(executors, op, shapes, spec.scope, {})
    if reason is not None:
        yield f"{place}: {reason}"
        return
    for callee in op.callees():
        try:
            inner = executors.specializer.within(callee, entering(op, callee, shapes, spec.scope), spec.scope)
        except Unknown:
            yield f"{place}: shapes that are known only when it runs"
            return
        yield from objections(executors, inner, range(len(inner.subgraph.operators)))

