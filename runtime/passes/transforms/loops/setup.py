"""The subgraph that a loop's operator calls instead: first values, the WHILE, and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.errors import Place
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.loop_builder import loop_outputs
from circlet.runtime.ops.loop_options import Order
from circlet.runtime.ops.loop_steps import (
    LoopBuffer,
    LoopCount,
    LoopFront,
    LoopGrow,
    LoopRoom,
    LoopScalar,
    LoopShape,
    LoopSlices,
    LoopTake,
    LoopZeros,
)
from circlet.runtime.ops.shape import BroadcastTo
from circlet.runtime.passes.transforms.loops.constants import shape_derived
from circlet.runtime.passes.transforms.loops.layout import (
    COND,
    ITERATION,
    LIMIT,
    Key,
    Layout,
    Role,
    Values,
    fallback_shape,
    like,
    scalar,
)
from circlet.runtime.passes.transforms.loops.plan import Plan
from circlet.runtime.passes.transforms.loops.spread import kept_axes


class Operands:
    """The operands of a loop in the subgraph that it calls; constants are there without being passed."""

    def __init__(self, s: SubgraphBuilder, caller: Subgraph) -> None:
        self._s = s
        self._caller = caller
        self._values: dict[int, Value] = {}
        self.passed: list[int] = []
        """The caller's tensors that it passes."""

    def take(self, tensor: int) -> Value:
        """A tensor of the caller."""
        found = self._values.get(tensor)
        if found is None:
            found = self._values[tensor] = self._added(tensor)
        return found

    def _added(self, tensor: int) -> Value:
        declared = self._caller.tensors[tensor]
        if declared.is_constant:
            return self._s.tensor(declared)
        value = self._s.tensor(replace(declared, is_variable=False))
        self._s.feed(value)
        self.passed.append(tensor)
        return value

    def take_count(self, tensor: int) -> Value:
        """A tensor of the caller that holds a count. If it follows from shapes, it does so here too, since a value
        that is passed is not known before the run."""
        made: dict[int, Value] = {}
        for operator in shape_derived(self._caller, tensor):
            inputs = [None if each == ABSENT else made.get(each) or self.take(each) for each in operator.inputs]
            declared = [self._caller.tensors[each] for each in operator.outputs]
            results = self._s.op(operator.op, *inputs, outputs=[like(each, each.name) for each in declared])
            made.update(zip(operator.outputs, results, strict=True))
        return made.get(tensor) or self.take(tensor)


class Setup:
    """The subgraph under construction."""

    def __init__(self, s: SubgraphBuilder, plan: Plan, caller: Subgraph, operator: Operator, place: Place,
                 spreads: bool) -> None:
        self.s = s
        self._spreads = spreads
        self._plan = plan
        self.place = place
        self._operands = Operands(s, caller)
        op, (trip_count, cond, *rest) = plan.op, operator.inputs
        self._trip_count, self._cond = trip_count, cond
        values = [self._operands.take(each) for each in rest[:len(rest) - len(op.lengths)]]
        first, second = len(op.carried), len(op.carried) + len(op.invariants)
        self._carried, self._invariants, self._sliced = values[:first], values[first:second], values[second:]
        self._lengths = dict(zip(op.lengths, rest[len(rest) - len(op.lengths):], strict=True))
        self._tensors = {value.index: tensor for value, tensor in zip(values, map(caller.tensors.__getitem__, rest),
                                                                      strict=False)}
        self.outputs = loop_outputs(op, [self._tensors[each.index] for each in self._carried], plan.body)

    @property
    def passed(self) -> list[int]:
        """The caller's tensors that it passes."""
        return self._operands.passed

    def operands(self) -> Values:
        """The operands with which the loop begins, that are no slices."""
        groups = ((Role.CARRIED, self._carried), (Role.INVARIANT, self._invariants))
        return {Key(role, k): each for role, group in groups for k, each in enumerate(group)}

    def first_values(self) -> tuple[Layout, Values]:
        """What goes round the loop, and with which values it begins."""
        plan, op = self._plan, self._plan.op
        values: Values = {ITERATION: self.s.constant(np.array(0, plan.counter.numpy))}
        tensors: dict[Key, Tensor] = {ITERATION: scalar("iteration", plan.counter)}
        if plan.is_bounded:
            values[LIMIT], tensors[LIMIT] = self._limit(), scalar("limit", plan.counter)
        if plan.carries_cond:
            values[COND], tensors[COND] = self._first_cond(), scalar("cond", DType.BOOL)
        carried = [self._spread(k, each, values) for k, each in enumerate(self._carried)]
        self._add(values, tensors, Role.CARRIED, carried, self.outputs)
        buffers = [self._buffer(k, values) for k in range(len(op.scan_outputs))]
        self._add(values, tensors, Role.COLLECTED, buffers, self.outputs[len(op.carried):])
        zeros = [self._zeros(k, each) for k, each in enumerate(op.last_outputs)]
        self._add(values, tensors, Role.LAST, zeros, self.outputs[len(op.carried) + len(buffers):])
        for role, group in ((Role.INVARIANT, self._invariants), (Role.SLICED, self._sliced)):
            self._add(values, tensors, role, group, [self._tensors[each.index] for each in group])
        constants = {key: each for key, each in tensors.items() if each.is_constant}
        slots = {key: each for key, each in tensors.items() if key not in constants}
        return Layout(slots, constants), values

    def _add(self, values: Values, tensors: dict[Key, Tensor], role: Role, group: Sequence[Value],
             declared: Sequence[Tensor]) -> None:
        for k, value in enumerate(group):
            kept = role is Role.SLICED and declared[k].is_constant
            tensors[Key(role, k)] = declared[k] if kept else like(declared[k], f"{role.name.lower()}_{k}")
            values[Key(role, k)] = value

    def _limit(self) -> Value:
        counter = self._plan.counter
        outputs = [scalar("limit", counter)]
        if self._plan.op.count_from_scan:
            return self.s.op(LoopSlices(self._plan.op.scan_inputs, counter), *self._sliced, outputs=outputs)[0]
        trip_count = self._operands.take_count(self._trip_count)
        return self.s.op(LoopCount(self._plan.op.trip_policy, counter), trip_count, outputs=outputs)[0]

    def _first_cond(self) -> Value:
        if self._cond == ABSENT:
            return self.s.constant(True, DType.BOOL)
        cond = self._operands.take(self._cond)
        return self.s.op(LoopScalar("condition"), cond, outputs=[scalar("cond", DType.BOOL)])[0]

    def _spread(self, number: int, value: Value, values: Values) -> Value:
        """The first of a carried value, in the shape that all turns give it if they broadcast it."""
        plan, carried = self._plan, self._plan.op.carried[number]
        kept = kept_axes(plan.body, carried) if self._spreads else None
        if kept is None:
            return value
        has_cond = plan.tests_cond and self._cond != ABSENT
        cond = self._operands.take_count(self._cond) if has_cond else self.s.constant(True, DType.BOOL)
        limit = values[LIMIT] if plan.is_bounded else self.s.constant(1, plan.counter)
        op = LoopShape(plan.op, carried.body_output, None, f"{self.place}, carried value {number}", number,
                       tuple(sorted(kept)))
        shape, = self.s.op(op, cond, limit, *self._shaping, outputs=[Tensor("shape", DType.INT64, (len(
            self._tensors[value.index].signature),))])
        declared = like(self.outputs[number], f"spread_{number}")
        return self.s.op(BroadcastTo(), value, shape, outputs=[declared])[0]

    def _buffer(self, number: int, values: Values) -> Value:
        plan, scan = self._plan, self._plan.op.scan_outputs[number]
        element = plan.body.tensors[plan.body.outputs[scan.body_output]]
        role = f"{self.place}, scan output {number}"
        is_counted = plan.is_counted and number not in self._lengths
        op = LoopBuffer(plan.op, scan.body_output, fallback_shape(element), role, scan, is_counted)
        room = self._room(number, values)
        declared = like(self.outputs[len(plan.op.carried) + number], f"buffer_{number}")
        return self.s.op(op, room, *self._shaping, outputs=[declared])[0]

    def _room(self, number: int, values: Values) -> Value:
        counter = self._plan.counter
        if number in self._lengths:
            return self._operands.take_count(self._lengths[number])
        if self._plan.is_open(number):
            return self.s.constant(np.array(0, counter.numpy))
        return self.s.op(LoopRoom(), values[LIMIT], outputs=[scalar("room", counter)])[0]

    def _zeros(self, number: int, position: int) -> Value:
        plan = self._plan
        element = plan.body.tensors[plan.body.outputs[position]]
        op = LoopZeros(plan.op, position, fallback_shape(element), f"{self.place}, last output {number}")
        return self.s.op(op, *self._shaping, outputs=[like(element, f"zeros_{number}")])[0]

    @property
    def _shaping(self) -> list[Value]:
        """The operands on which the shapes of the body's results depend."""
        return [*self._carried, *self._invariants, *self._sliced]

    def finish(self, first: Values, values: Values) -> None:
        """Makes the results outputs, given the values with which the loop begins and ends."""
        op = self._plan.op
        # The count of a counted loop may be known before it runs.
        values = {**values, **({ITERATION: first[LIMIT]} if self._plan.is_counted else {})}
        self.s.output(*(values[Key(Role.CARRIED, k)] for k in range(len(op.carried))),
                      *(self._collected(k, values) for k in range(len(op.scan_outputs))),
                      *(values[Key(Role.LAST, k)] for k in range(len(op.last_outputs))))

    def _collected(self, number: int, values: Values) -> Value:
        scan, buffer = self._plan.op.scan_outputs[number], values[Key(Role.COLLECTED, number)]
        outputs = [like(self.outputs[len(self._plan.op.carried) + number], f"scan_{number}")]
        if not scan.has_length:
            return self.s.op(LoopTake(scan), buffer, values[ITERATION], outputs=outputs)[0]
        length = self._operands.take_count(self._lengths[number])
        if scan.order is Order.PREPEND:
            front = [like(outputs[0], f"front_{number}")]
            buffer = self.s.op(LoopFront(scan), buffer, values[ITERATION], outputs=front)[0]
        return self.s.op(LoopTake(replace(scan, order=Order.APPEND)), buffer, length, outputs=outputs)[0]


def run_loop(s: SubgraphBuilder, layout: Layout, values: Values, cond: int, body: int) -> Values:
    """Adds a WHILE over the values that go round; gives those with which it ends."""
    results = s.op(While(cond, body), *layout.arrange(values),
                   outputs=[like(each, f"{each.name}_after") for each in layout.tensors])
    return {**values, **dict(zip(layout.slots, results, strict=True))}


def build_growth(s: SubgraphBuilder, plan: Plan, layout: Layout, cond: int, body: int) -> None:
    """Fills the body of the outer loop of a loop with open scan outputs: more room, and iterations until it is full."""
    values = layout.enter(s)
    for k in plan.open_scans:
        key = Key(Role.COLLECTED, k)
        values[key] = s.op(LoopGrow(plan.op.scan_outputs[k]), values[key], values[ITERATION],
                           outputs=[like(layout.slots[key], f"grown_{k}")])[0]
    s.output(*layout.arrange(run_loop(s, layout, values, cond, body)))
