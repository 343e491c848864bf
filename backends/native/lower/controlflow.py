"""Native control flow: an If is blocks, a While is a loop, a call is the callee's code in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import POINTER, Emitter, in_register_alone, register_type
from circlet.backends.native.emit.value import Delivers, Value, in_memory, in_register, is_copied
from circlet.backends.native.lower.budget import MOST_INVOKED, Sizes
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.lower.program import Called, Unlowerable
from circlet.runtime.exec.copies import READ_ELSEWHERE, READ_WHERE_IT_LIES, STARTS_CONSTANT, WORKS_IN_PLACE
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import (
    Branch,
    CallOnce,
    CallSubgraph,
    Composite,
    If,
    PreTestedLoop,
    StablehloCase,
    StablehloWhile,
    While,
)
from circlet.runtime.passes.analyses.elide_copies import Action, CallPlan, LoopPlan, Slot
from circlet.runtime.passes.analyses.specialize import Specialization

ALTERNATES = "the body reads one buffer and writes the other"
Lower: TypeAlias = Callable[[OperatorLowering], Sequence[Value]]


def is_scalar(value: Value) -> bool:
    """Whether a tensor is carried in a register."""
    return in_register_alone(value.size, value.dtype)


def is_lowerable(executors: ExecutorMap, op: Op, shapes: tuple[Shape, ...],
                 found: dict[Specialization, bool]) -> bool:
    """Whether the subgraphs that an operator invokes can be native code, for these operand shapes; else the numpy
    backend's control flow runs them. `found` keeps what was found before."""
    first = 1 if isinstance(op, Branch) else 0
    if Sizes(executors.model).invoked(op) > MOST_INVOKED:
        return False
    try:
        if isinstance(op, PreTestedLoop):
            executors.planner.loop(op, shapes)
        else:
            executors.planner.call(op.callees(), shapes[first:])
    except Unknown:
        return False
    return all(_is_native(executors, executors.specializer.at(index, shapes[first:]), found)
               for index in op.callees())


def _is_native(executors: ExecutorMap, spec: Specialization, found: dict[Specialization, bool]) -> bool:
    if spec not in found:
        found[spec] = spec.is_static and not any(each.dtype.numpy.hasobject for each in spec.subgraph.tensors) and all(
            is_lowerable(executors, each.op, tuple(spec.shape(tensor) for tensor in each.inputs), found)
            for each in spec.subgraph.operators if type(each.op) in CONTROL_FLOW
        )
    return found[spec]


def _operands(o: OperatorLowering, first: int = 0) -> list[Value]:
    return [each for each in o.inputs[first:] if each is not None]


def _call_plan(o: OperatorLowering, subgraphs: tuple[int, ...], operands: Sequence[Value]) -> CallPlan:
    try:
        return o.function.executors.planner.call(subgraphs, tuple(each.shape for each in operands))
    except Unknown:
        raise Unlowerable(f"{o.place}: the shapes are known only when it runs") from None


def _given_up(o: OperatorLowering, plan: CallPlan, operands: Sequence[Value]) -> frozenset[int]:
    """The operands whose memory is that of a result."""
    return frozenset(position for output, position in plan.in_place
                     if operands[position].memory is not None and operands[position].memory is o.homes[output])


REGISTER = "one element, which stays in a register"


def _call_edges(o: OperatorLowering, role: str, operands: Sequence[Value], given_up: frozenset[int]) -> Delivers:
    """Records how operands reach a subgraph; what it gives records how results come back."""
    for position, value in enumerate(operands):
        if value.memory is None:
            o.crosses(f"{role} input {position}", value, Action.REGISTER, REGISTER)
        else:
            o.crosses(f"{role} input {position}", value, Action.LEND, "the callee reads the caller's buffer")
    taken = {id(operands[position].memory): position for position in given_up}

    def deliver(position: int, value: Value, copied: str | None) -> None:
        home = o.homes[position]
        if copied is not None:
            action, reason = Action.COPY, copied
        elif value.memory is None:
            action, reason = Action.REGISTER, REGISTER
        elif id(home) in taken:
            action, reason = Action.IN_PLACE, f"the result is written over input {taken[id(home)]}, which is dead"
        else:
            action, reason = Action.LEND, "the callee writes the caller's buffer"
        o.crosses(f"{role} output {position}", value, action, reason)

    return deliver


def lower_call(o: OperatorLowering) -> Sequence[Value]:
    """CALL and STABLEHLO_COMPOSITE."""
    operands = _operands(o)
    subgraphs = o.operator.op.callees()
    plan = _call_plan(o, subgraphs, operands)
    given_up = _given_up(o, plan, operands)
    with o.function.indented(f"{o.describe()} @{subgraphs[0]}"):
        return o.function.invoke(subgraphs[0], operands, o.homes, given_up, _call_edges(o, "call", operands, given_up))


def lower_call_once(o: OperatorLowering) -> Sequence[Value]:
    """CALL_ONCE: the host runs the subgraph, if it has not run it yet."""
    from circlet.backends.native.lower.host import lower_host_call

    function, b = o.function, o.function.e.builder
    callee = o.operator.op.callees()[0]
    function.note(f"[{o.number}] {o.operator.name} @{callee}")
    flag = function.e.load(function.external(function.variables.called(callee), Called(callee)), DType.INT32)
    with b.if_then(b.icmp_signed("==", flag, ir.Constant(flag.type, 0)), likely=False):
        lower_host_call(o)
    return ()


def lower_branch(o: OperatorLowering) -> Sequence[Value]:
    """IF and STABLEHLO_CASE."""
    op = o.operator.op
    assert isinstance(op, Branch)
    operands, e = _operands(o, first=1), o.function.e
    plan = _call_plan(o, op.branches(), operands)
    given_up = _given_up(o, plan, operands)
    selector = o.inputs[0]
    assert selector is not None
    blocks = [e.function.append_basic_block(f"branch{k}") for k in range(len(op.branches()))]
    _dispatch(e, selector.scalar(e), blocks)
    after = e.function.append_basic_block("joined")
    arrivals: list[tuple[list[Value], ir.Block]] = []
    with o.function.indented(o.describe()):
        for index, role, block in zip(op.branches(), (each.role for each in op.calls()), blocks, strict=True):
            e.builder.position_at_end(block)
            with o.function.indented(f"{role} @{index}"):
                results = o.function.invoke(index, operands, o.homes, given_up,
                                            _call_edges(o, role, operands, given_up))
            scalars = [each.scalar(e) if is_scalar(each) else None for each in results]
            kept = [each if scalar is None else in_register(scalar, each.shape, each.dtype)
                    for each, scalar in zip(results, scalars, strict=True)]
            arrivals.append((kept, e.builder.block))
            e.builder.branch(after)
    e.builder.position_at_end(after)
    return [_joined(e, [(results[k], block) for results, block in arrivals], home)
            for k, home in enumerate(o.homes)]


def _dispatch(e: Emitter, selector: ir.Value, blocks: Sequence[ir.Block]) -> None:
    if selector.type == ir.IntType(1):
        e.builder.cbranch(selector, blocks[0], blocks[1])
        return
    switch = e.builder.switch(selector, blocks[-1])
    for number, block in enumerate(blocks[:-1]):
        switch.add_case(ir.Constant(selector.type, number), block)


def _joined(e: Emitter, arrivals: Sequence[tuple[Value, ir.Block]], home: ir.Value | None) -> Value:
    value = arrivals[0][0]
    if not is_scalar(value):
        assert home is not None
        return in_memory(home, value.shape, value.dtype)
    phi = e.builder.phi(register_type(value.dtype))
    for each, block in arrivals:
        phi.add_incoming(each.scalar(e), block)
    return in_register(phi, value.shape, value.dtype)


def lower_loop(o: OperatorLowering) -> Sequence[Value]:
    """WHILE: scalars are carried in registers, other values in the buffers that the copy plan says."""
    op = o.operator.op
    assert isinstance(op, PreTestedLoop)
    carried = _operands(o)
    try:
        plan = o.function.executors.planner.loop(op, tuple(each.shape for each in carried))
    except Unknown:
        raise Unlowerable(f"{o.place}: the carried shapes change from turn to turn") from None
    return _LoopLowering(o, op, plan, carried).lower()


def _kept(value: Value, slot: Slot) -> str:
    """Where a loop has a carried value, in words."""
    if slot.action is Action.INVARIANT:
        return "invariant"
    if is_scalar(value):
        return "register"
    return {Action.ALTERNATE: "alternating", Action.IN_PLACE: "in place"}.get(slot.action, "copied")


class _LoopLowering:
    def __init__(self, o: OperatorLowering, op: PreTestedLoop, plan: LoopPlan, carried: Sequence[Value]) -> None:
        self._o = o
        self._op = op
        self._plan = plan
        self._carried = carried
        self._homes = [self._home(slot, value, home)
                       for slot, value, home in zip(plan.slots, carried, o.homes, strict=True)]

    def _home(self, slot: Slot, value: Value, home: ir.Value | None) -> ir.Value | None:
        if slot.action is Action.INVARIANT or is_scalar(value):
            return None
        assert home is not None, f"{self._o.place}: a carried value has no memory"
        return home

    def lower(self) -> Sequence[Value]:
        o = self._o
        with o.function.indented(f"[{o.number}] {o.operator.name}"):
            o.function.note(f"carries {self._describe()}")
            return self._lower()

    def _lower(self) -> Sequence[Value]:
        e, function = self._o.function.e, self._o.function
        initial = [self._entered(k, value, home)
                   for k, (value, home) in enumerate(zip(self._carried, self._homes, strict=True))]
        seconds = [None if home is None or not slot.double else function.reserve(value.nbytes)
                   for slot, value, home in zip(self._plan.slots, self._carried, self._homes, strict=True)]
        before = e.builder.block
        head, body, after = (e.function.append_basic_block(name) for name in ("while", "turn", "done"))
        e.builder.branch(head)
        e.builder.position_at_end(head)
        phis = [self._phi(k, initial[k], second, before) for k, second in enumerate(seconds)]
        state = [self._current(k, initial[k], phi) for k, phi in enumerate(phis)]
        with function.indented(f"while @{self._op.cond_subgraph_index}"), function.in_loop():
            for k, value in enumerate(state):
                self._crosses(f"cond input {k}", value, Action.LEND, READ_WHERE_IT_LIES)
            (flag,) = function.invoke(self._op.cond_subgraph_index, state, [None], frozenset())
        e.builder.cbranch(flag.scalar(e), body, after)
        e.builder.position_at_end(body)
        with function.looping(), function.in_loop(), function.indented(f"turn @{self._op.body_subgraph_index}"):
            function.turn(self._o.place)
            homes = [self._next_home(k, phi) for k, phi in enumerate(phis)]
            results = function.invoke(self._op.body_subgraph_index, state, homes, self._plan.destroyable, self._carry)
        self._close(phis, results)
        e.builder.branch(head)
        e.builder.position_at_end(after)
        return [self._left(k, state[k], phis[k]) for k in range(len(state))]

    def _describe(self) -> str:
        """How each carried value is kept: `int32[] register, float32[16] in place`."""
        return ", ".join(f"{value.dtype.value}{list(value.shape)} {_kept(value, slot)}"
                         for value, slot in zip(self._carried, self._plan.slots, strict=True))

    def _crosses(self, edge: str, value: Value, action: Action, reason: str) -> None:
        """Records what becomes of a value; one element is in a register unless it is copied."""
        if is_scalar(value) and action is not Action.COPY:
            action, reason = Action.REGISTER, REGISTER
        self._o.crosses(edge, value, action, reason)

    def _carry(self, k: int, value: Value, copied: str | None) -> None:
        """Records how a value comes from one turn to the next."""
        slot = self._plan.slots[k]
        if copied is not None:
            self._crosses(f"carry {k}", value, Action.COPY, copied)
        elif slot.double:
            self._crosses(f"carry {k}", value, Action.ALTERNATE, ALTERNATES)
        elif slot.action is Action.COPY:
            self._crosses(f"carry {k}", value, Action.IN_PLACE, "the body writes the value where it belongs")
        else:
            self._crosses(f"carry {k}", value, slot.action, slot.reason)

    def _entered(self, k: int, value: Value, home: ir.Value | None) -> Value:
        """The initial value where the loop wants it."""
        e = self._o.function.e
        if is_copied(value, home):
            reason = READ_ELSEWHERE if value.known is None else STARTS_CONSTANT
            self._crosses(f"input {k}", value, Action.COPY, reason)
        else:
            self._crosses(f"input {k}", value, Action.LEND, WORKS_IN_PLACE)
        if home is None:
            return in_register(value.scalar(e), value.shape, value.dtype, value.known) if is_scalar(value) else value
        if value.memory is not home:
            self._o.function.transfer(value, home)
        return in_memory(home, value.shape, value.dtype)

    def _is_invariant(self, k: int) -> bool:
        return self._plan.slots[k].action is Action.INVARIANT

    def _phi(self, k: int, initial: Value, second: ir.Value | None, before: ir.Block) -> tuple[ir.PhiInstr, ...]:
        """What changes from turn to turn: a scalar, or the two buffers that change places."""
        e = self._o.function.e
        if self._is_invariant(k):
            return ()
        if is_scalar(initial):
            phi = e.builder.phi(register_type(initial.dtype))
            phi.add_incoming(initial.scalar(e), before)
            return (phi,)
        if second is None:
            return ()
        now, then = e.builder.phi(POINTER), e.builder.phi(POINTER)
        now.add_incoming(initial.memory, before)
        then.add_incoming(second, before)
        return (now, then)

    def _current(self, k: int, initial: Value, phi: tuple[ir.PhiInstr, ...]) -> Value:
        if not phi:
            return initial
        if is_scalar(initial):
            return in_register(phi[0], initial.shape, initial.dtype)
        return in_memory(phi[0], initial.shape, initial.dtype)

    def _next_home(self, k: int, phi: tuple[ir.PhiInstr, ...]) -> ir.Value | None:
        if self._is_invariant(k) or is_scalar(self._carried[k]):
            return None
        return phi[1] if phi else self._homes[k]

    def _close(self, phis: Sequence[tuple[ir.PhiInstr, ...]], results: Sequence[Value]) -> None:
        """The end of a turn. Every new value is taken before any phi changes, so that values change together."""
        e = self._o.function.e
        scalars = [each.scalar(e) if is_scalar(each) else None for each in results]
        block = e.builder.block
        for phi, scalar in zip(phis, scalars, strict=True):
            if len(phi) == 1:
                phi[0].add_incoming(scalar, block)
            elif phi:
                phi[0].add_incoming(phi[1], block)
                phi[1].add_incoming(phi[0], block)

    def _left(self, k: int, value: Value, phi: tuple[ir.PhiInstr, ...]) -> Value:
        """The final value where the caller wants it."""
        o, home = self._o, self._o.homes[k]
        if is_scalar(value):
            if home is not None:
                o.function.e.store(value.scalar(o.function.e), home, value.dtype)
            return value
        assert home is not None or self._is_invariant(k)
        if home is None or value.memory is home:
            return value
        if is_copied(value, home):
            self._crosses(f"output {k}", value, Action.COPY, "the value lies in one of two buffers when the loop ends")
        o.function.transfer(value, home)
        return in_memory(home, value.shape, value.dtype)


CONTROL_FLOW: dict[type[Op], Lower] = {
    If: lower_branch,
    StablehloCase: lower_branch,
    While: lower_loop,
    StablehloWhile: lower_loop,
    CallOnce: lower_call_once,
    CallSubgraph: lower_call,
    Composite: lower_call,
}
