"""The conditions of the WHILE: whether there is another iteration, and whether there is room for what it collects."""

from __future__ import annotations

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less, LogicalAnd
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.loop_options import NONE
from circlet.runtime.ops.loop_steps import LoopLength, LoopScalar
from circlet.runtime.passes.transforms.loops.layout import (
    COND,
    ITERATION,
    LIMIT,
    Key,
    Layout,
    Role,
    Values,
    like,
    scalar,
)
from circlet.runtime.passes.transforms.loops.plan import Plan


def build_test(s: SubgraphBuilder, model: Model, plan: Plan, layout: Layout, room: bool) -> None:
    """Fills the subgraph; `room` says whether the loop is to stop also where an open scan output has no room for
    another element."""
    values = layout.enter(s)
    flags: list[Value] = []
    if plan.is_bounded:
        flags.append(_less(s, values[ITERATION], values[LIMIT]))
    if plan.tests_cond:
        flags.append(values[COND])
    if plan.op.cond_subgraph_index != NONE:
        flags.append(_own_cond(s, model, plan, values))
    if room:
        flags.extend(_less(s, values[ITERATION], _room(s, plan, values, k)) for k in plan.open_scans)
    s.output(_all(s, flags))


def _less(s: SubgraphBuilder, one: Value, other: Value) -> Value:
    return s.op(Less(), one, other, outputs=[scalar("goes_on", DType.BOOL)])[0]


def _all(s: SubgraphBuilder, flags: list[Value]) -> Value:
    if not flags:
        return s.constant(True, DType.BOOL)
    found = flags[0]
    for each in flags[1:]:
        found = s.op(LogicalAnd(), found, each, outputs=[scalar("goes_on", DType.BOOL)])[0]
    return found


def _own_cond(s: SubgraphBuilder, model: Model, plan: Plan, values: Values) -> Value:
    """The condition on the carried values and the invariants."""
    operands = [values[Key(Role.CARRIED, k)] for k in range(len(plan.op.carried))]
    operands += [values[Key(Role.INVARIANT, k)] for k in range(len(plan.op.invariants))]
    cond = model.subgraphs[plan.op.cond_subgraph_index]
    outputs = [like(cond.tensors[each], "own_cond") for each in cond.outputs]
    (found,) = s.op(CallSubgraph(plan.op.cond_subgraph_index), *operands, outputs=outputs)
    return s.op(LoopScalar("condition"), found, outputs=[scalar("goes_on", DType.BOOL)])[0]


def _room(s: SubgraphBuilder, plan: Plan, values: Values, number: int) -> Value:
    """For how many elements a scan output has room."""
    scan = plan.op.scan_outputs[number]
    return s.op(LoopLength(scan.axis, scan.part, plan.counter), values[Key(Role.COLLECTED, number)],
                outputs=[scalar("room", plan.counter)])[0]
