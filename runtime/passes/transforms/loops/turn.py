"""The body of the WHILE: what one iteration does around the loop's own body."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.loop_options import NONE, Feed, ShapePolicy
from circlet.runtime.ops.loop_steps import LoopKeep, LoopScalar, LoopStore
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Reshape, ShapeOf
from circlet.runtime.passes.transforms.loops.layout import COND, ITERATION, Key, Layout, Role, Values, like, scalar
from circlet.runtime.passes.transforms.loops.plan import Plan
from circlet.runtime.passes.transforms.loops.scan_inputs import sliced


def build_turn(s: SubgraphBuilder, plan: Plan, layout: Layout) -> None:
    """Fills the subgraph: slices, the loop's body, collected elements, and the next number of the iteration."""
    values = layout.enter(s)
    slots = [layout.slots[Key(Role.CARRIED, k)] for k in range(len(plan.op.carried))]
    results, carried = run_turn(s, plan, values, slots)
    new = {**values, **carried}
    if COND in layout.slots:
        new[COND] = _next_cond(s, plan, results)
    for k, scan in enumerate(plan.op.scan_outputs):
        key = Key(Role.COLLECTED, k)
        new[key] = s.op(LoopStore(scan), values[key], results[scan.body_output], values[ITERATION],
                        outputs=[like(layout.slots[key], f"collected_{k}")])[0]
    for k, position in enumerate(plan.op.last_outputs):
        new[Key(Role.LAST, k)] = results[position]
    one = s.constant(np.array(1, plan.counter.numpy))
    new[ITERATION] = s.op(Add(), values[ITERATION], one, outputs=[scalar("next", plan.counter)])[0]
    s.output(*layout.arrange(new))


def run_turn(s: SubgraphBuilder, plan: Plan, values: Values, carried: Sequence[Tensor]
             ) -> tuple[tuple[Value, ...], Values]:
    """Runs the loop's body; gives its results, and the carried values after it, of which those before are declared."""
    kept = _shapes_before(s, plan, values)
    results = _run_body(s, plan, values)
    new: Values = {}
    for k, each in enumerate(plan.op.carried):
        new[Key(Role.CARRIED, k)] = results[each.body_output]
        if each.shape is not ShapePolicy.FREE:
            new[Key(Role.CARRIED, k)] = s.op(
                LoopKeep(f"carried value {k}, body output {each.body_output}", each.shape), results[each.body_output],
                kept[k], outputs=[like(carried[k], f"kept_{k}")])[0]
    return results, new


def _shapes_before(s: SubgraphBuilder, plan: Plan, values: Values) -> dict[int, Value]:
    """The shapes of the carried values that must keep them."""
    shape = Tensor("shape", DType.INT32, (1,), (-1,))
    return {k: s.op(ShapeOf(DType.INT32), values[Key(Role.CARRIED, k)], outputs=[shape])[0]
            for k, each in enumerate(plan.op.carried) if each.shape is not ShapePolicy.FREE}


def _run_body(s: SubgraphBuilder, plan: Plan, values: Values) -> tuple[Value, ...]:
    op, body = plan.op, plan.body
    feeds: dict[int, Value] = {}
    if op.iteration is not None:
        tensor = body.tensors[body.inputs[op.iteration.body_input]]
        feeds[op.iteration.body_input] = _fed(s, _converted(s, values[ITERATION], plan, tensor.dtype), op.iteration)
    if op.cond_input is not None:
        cond = values[COND] if COND in values else s.constant(True, DType.BOOL)
        feeds[op.cond_input.body_input] = _fed(s, cond, op.cond_input)
    for k, each in enumerate(op.carried):
        feeds[each.body_input] = values[Key(Role.CARRIED, k)]
    for k, position in enumerate(op.invariants):
        feeds[position] = values[Key(Role.INVARIANT, k)]
    for k, scan in enumerate(op.scan_inputs):
        element = like(body.tensors[body.inputs[scan.body_input]], f"slice_{k}")
        feeds[scan.body_input] = sliced(s, plan, values, k, element)
    outputs = [like(body.tensors[each], f"result_{k}") for k, each in enumerate(body.outputs)]
    return s.op(CallSubgraph(op.body_subgraph_index), *(feeds[k] for k in sorted(feeds)), outputs=outputs)


def _converted(s: SubgraphBuilder, value: Value, plan: Plan, dtype: DType) -> Value:
    if dtype is plan.counter:
        return value
    return s.op(Cast(plan.counter, dtype), value, outputs=[scalar("iteration", dtype)])[0]


def _fed(s: SubgraphBuilder, value: Value, feed: Feed) -> Value:
    """A scalar with the rank that the body wants."""
    return s.apply(Reshape(), value, s.constant([1])) if feed.rank else value


def _next_cond(s: SubgraphBuilder, plan: Plan, results: tuple[Value, ...]) -> Value:
    if plan.op.cond_output == NONE:
        return s.constant(True, DType.BOOL)
    return s.op(LoopScalar(f"condition, body output {plan.op.cond_output}"), results[plan.op.cond_output],
                outputs=[scalar("cond", DType.BOOL)])[0]
