"""Loops of one turn, which are a call of their body."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ops.loop_options import Mode
from circlet.runtime.ops.shape import ExpandDims
from circlet.runtime.passes.transforms.loops.layout import ITERATION, Key, Role, like
from circlet.runtime.passes.transforms.loops.plan import Plan
from circlet.runtime.passes.transforms.loops.setup import Setup
from circlet.runtime.passes.transforms.loops.turn import run_turn


def runs_once(plan: Plan, caller: Subgraph, operator: Operator) -> bool:
    """Whether a loop is known to have one turn, and cuts nothing up."""
    op, trip_count = plan.op, operator.inputs[0]
    data = None if trip_count == ABSENT else caller.tensors[trip_count].data
    is_plain = plan.is_counted and not op.scan_inputs and not op.lengths and all(
        each.mode is Mode.STACK for each in op.scan_outputs)
    return is_plain and data is not None and data.size == 1 and int(data.item()) == 1


def build_once(setup: Setup, plan: Plan) -> None:
    """Fills the subgraph that is called instead of the loop; the body knows that its iteration is the first."""
    s, op = setup.s, plan.op
    values = {ITERATION: s.constant(np.array(0, plan.counter.numpy)), **setup.operands()}
    results, carried = run_turn(s, plan, values, setup.outputs)
    s.output(*(carried[Key(Role.CARRIED, k)] for k in range(len(op.carried))),
             *(_stacked(setup, plan, k, results[each.body_output]) for k, each in enumerate(op.scan_outputs)),
             *(results[each] for each in op.last_outputs))


def _stacked(setup: Setup, plan: Plan, number: int, element: Value) -> Value:
    """A scan output that has one element."""
    axis = setup.s.constant(np.array(plan.op.scan_outputs[number].axis, np.int32))
    declared = like(setup.outputs[len(plan.op.carried) + number], f"scan_{number}")
    return setup.s.op(ExpandDims(), element, axis, outputs=[declared])[0]
