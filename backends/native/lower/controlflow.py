"""Native control flow: an If is blocks, a While is a loop, a call is the callee's code in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, reduce
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, in_register_alone, register_type
from circlet.backends.native.emit.loops import dispatch, is_other, not_unrolled
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.lower.budget import MOST_CHOSEN, MOST_INVOKED, Sizes
from circlet.backends.native.lower.host import lower_host_call
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.parts import Called
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.targets.target import Goal
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import uses_objects
from circlet.runtime.ir.length import Scope, bound, larger, lowest, may_differ
from circlet.runtime.ir.model import Operator
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import (
    Branch,
    CallOnce,
    CallSubgraph,
    Composite,
    If,
    Invoke,
    PreTestedLoop,
    StablehloCase,
    StablehloWhile,
    While,
)
from circlet.runtime.ops.variable import AssignVariable, VarHandle
from circlet.runtime.passes.analyses.elide_copies import LoopPlan, Site, given
from circlet.runtime.passes.analyses.growing import entering, in_turns, turn_lengths
from circlet.runtime.passes.analyses.rotation import Cycle
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer
from circlet.runtime.records import dataclass

Lower: TypeAlias = Callable[[OperatorLowering], Sequence[Value]]
"""What emits an operator and gives its results."""


def is_scalar(value: Value) -> bool:
    """Whether a tensor is carried in a register."""
    return in_register_alone(value.size, value.dtype)


def taken(spec: Specialization, operator: Operator) -> Op:
    """What an operator does: where it is known before the run which branch is taken, or no other one can be computed,
    it calls that one."""
    op = operator.op
    if not isinstance(op, Branch):
        return op
    selector = spec.known.get(operator.inputs[0])
    chosen = spec.told.taken.get(operator) if selector is None else op.select(int(selector.item()))
    return op if chosen is None else CallSubgraph(op.branches()[chosen])


def refuses(executors: ExecutorMap, op: Op, shapes: tuple[Shape, ...], scope: Scope | None,
            found: dict[Specialization, str | None]) -> str | None:
    """Why the subgraphs that an operator invokes cannot be native code, with inputs of these shapes, so that
    `backends/controlflow` runs them; None where they can. `found` keeps what was found before."""
    size, most = Sizes(executors.model).invoked(op), MOST_INVOKED if isinstance(op, PreTestedLoop) else MOST_CHOSEN
    if size > most:
        return f"it invokes {size} operators (supported: up to {most})"
    try:
        if isinstance(op, PreTestedLoop):
            executors.planner.turn(op, shapes, scope)
        else:
            executors.planner.reuse(op.callees(), shapes, scope)
    except Unknown:
        is_loop = isinstance(op, PreTestedLoop)
        return "carried shapes change from turn to turn" if is_loop else "shapes of results are known only when it runs"
    specs = (executors.specializer.within(each, entering(op, each, shapes, scope), scope) for each in op.callees())
    reasons = (_refuses_subgraph(executors, spec, found) for spec in specs)
    return next((each for each in reasons if each is not None), None)


def _refuses_subgraph(executors: ExecutorMap, spec: Specialization, found: dict[Specialization, str | None]
                      ) -> str | None:
    """Why a subgraph cannot be native code for these shapes, found once; None where it can."""
    if spec not in found:
        found[spec] = next(_objections(executors, spec, found), None)
    return found[spec]


def _objections(executors: ExecutorMap, spec: Specialization, found: dict[Specialization, str | None]) -> Iterator[str]:
    """Why a subgraph cannot be native code."""
    if not spec.is_static:
        yield f"subgraph {spec.index} has shapes that are known only when it runs"
    if uses_objects(spec.subgraph):
        yield f"subgraph {spec.index} has strings"
    for each in spec.subgraph.operators:
        if type(each.op) in CONTROL_FLOW:
            reason = refuses(executors, taken(spec, each), given(spec, each), spec.scope, found)
            if reason is not None:
                yield reason


def _operands(o: OperatorLowering, first: int = 0) -> list[Value]:
    """The operands of the subgraphs, those of one element in registers."""
    return [_read(o.function.e, each) if is_scalar(each) else each for each in o.inputs[first:] if each is not None]


def _read(e: Emitter, value: Value) -> Value:
    """A value of one element in a register."""
    return in_register(value.scalar(e), value.shape, value.dtype, value.known, value.quantization)


REGISTER = "one element, which stays in a register"
"""Why a scalar is not copied, for people."""


def _site(o: OperatorLowering, operands: Sequence[Value]) -> Site:
    """What the places of operands and results say of an operator."""
    planner = o.subgraphs.executors.planner
    return Site(lambda result, operand: operands[operand].memory is not None
                and operands[operand].memory is o.homes[result],
                lambda operand: operands[operand].known is not None,
                partial(planner.is_read, o.spec.index, o.number), repeats=o.spec.index in planner.repeated,
                scope=o.spec.scope)


def _crosses(o: OperatorLowering, transfer: Transfer, value: Value) -> None:
    """Records what becomes of a value, of which the plan does not know that it is in a register."""
    if is_scalar(value):
        o.crosses(transfer.label, value, Action.REGISTER, REGISTER)
    else:
        o.crosses(transfer.label, value, transfer.action, transfer.reason)


def _invoked(o: OperatorLowering, op: Branch | Invoke,
             operands: Sequence[Value]) -> Iterator[Callable[[], list[Value]]]:
    """For each subgraph that an operator may invoke, what emits it where the code then is."""
    entered = given(o.spec, o.operator)
    try:
        plan = o.subgraphs.executors.planner.call(op, entered, _site(o, operands), True)
    except Unknown:
        raise Unlowerable(f"{o.place}: the shapes are known only when it runs") from None

    def emit(index: int, transfers: Sequence[Transfer]) -> list[Value]:
        results = o.subgraphs.invoke(index, operands, o.homes, plan.given_up, entered)
        for each in transfers:
            _crosses(o, each, (operands if each.stage is Stage.ENTER else results)[each.position])
        return results

    for index, transfers in zip(op.callees(), plan.transfers, strict=True):
        yield partial(emit, index, transfers)


def lower_call(o: OperatorLowering) -> Sequence[Value]:
    """CALL and STABLEHLO_COMPOSITE."""
    op = o.operator.op
    assert isinstance(op, Invoke)
    (emit,) = _invoked(o, op, _operands(o))
    with o.function.indented(f"{o.describe()} @{op.callees()[0]}"):
        return emit()


def lower_call_once(o: OperatorLowering) -> Sequence[Value]:
    """CALL_ONCE: runs the subgraph, if it was not run yet; on the host, unless it assigns what is known alone."""
    function, b, (callee,) = o.function, o.function.e.builder, o.operator.op.callees()
    if function.is_called(callee):
        function.note(f"[{o.number}] {o.operator.name} @{callee}: before")
        return ()
    word = function.external(function.variables.called(callee), Called(callee))
    flag = function.e.load(word, DType.INT32)
    made = o.subgraphs.executors.specializer.within(callee, (), o.spec.scope)
    assigns = all(isinstance(each.op, (VarHandle, AssignVariable)) or (each.op.pure and made.known.keys() >= {
        *each.outputs}) for each in made.subgraph.operators)
    with (function.indented(f"[{o.number}] {o.operator.name} @{callee}"),
          b.if_then(b.icmp_signed("==", flag, ir.Constant(flag.type, 0)), likely=False)):
        if assigns:
            o.subgraphs.invoke(callee, (), (), frozenset(), ())
            function.e.store(ir.Constant(flag.type, 1), word, DType.INT32)
        else:
            lower_host_call(o, "what it invokes does more than assign what is known")
    return ()


def lower_branch(o: OperatorLowering) -> Sequence[Value]:
    """IF and STABLEHLO_CASE: a block for each branch, with the subgraph emitted in it, and one in which they meet."""
    op = o.operator.op
    assert isinstance(op, Branch)
    operands, e = _operands(o, first=1), o.function.e
    selector = o.inputs[0]
    assert selector is not None
    call = taken(o.spec, o.operator)
    if isinstance(call, CallSubgraph):
        if o.operator.inputs[0] not in o.spec.known:
            o.function.leave_where(is_other(e, selector.scalar(e), o.spec.told.taken[o.operator], len(op.branches())))
        (emit,) = _invoked(o, call, operands)
        with o.function.indented(f"{o.describe()} @{call.subgraph}"):
            return emit()
    blocks = [e.function.append_basic_block(f"branch{k}") for k in range(len(op.branches()))]
    dispatch(e, selector.scalar(e), blocks)
    after = e.function.append_basic_block("joined")
    shapes = [o.spec.shape(each) for each in o.operator.outputs]
    arrivals: list[_Arrival] = []
    with o.function.indented(o.describe()):
        for emit, callee, block in zip(_invoked(o, op, operands), op.calls(), blocks, strict=True):
            e.builder.position_at_end(block)
            with o.function.indented(f"{callee.role} @{callee.subgraph}"):
                results = emit()
            lengths = {size: e.number(each.shape[axis]) for each, shape in zip(results, shapes, strict=True)
                       for axis, size in enumerate(shape) if may_differ(size, each.shape[axis])}
            numbers = {k: each.scalar(e) for k, (each, shape) in enumerate(zip(results, shapes, strict=True))
                       if in_register_alone(prod(shape), each.dtype)}
            arrivals.append(_Arrival(results, numbers, lengths, e.builder.block))
            e.builder.branch(after)
    e.builder.position_at_end(after)
    met = {size: _met(e, e.index, [(each.lengths[size], each.block) for each in arrivals])
           for size in arrivals[0].lengths}
    joined = [_joined(e, arrivals, k, shape, home) for k, (shape, home) in enumerate(zip(shapes, o.homes, strict=True))]
    for size, phi in met.items():
        e.define(size, phi)
    return joined


@dataclass(frozen=True, eq=False)
class _Arrival:
    """What a branch comes with to where branches meet."""

    results: Sequence[Value]
    numbers: Mapping[int, ir.Value]
    """The results in registers, by position."""
    lengths: Mapping[int, ir.Value]
    """What lengths are that hang on the branch."""
    block: ir.Block


def _met(e: Emitter, kind: ir.Type, arrivals: Sequence[tuple[ir.Value, ir.Block]]) -> ir.Value:
    """A phi of what each branch has."""
    phi = e.builder.phi(kind)
    for value, block in arrivals:
        phi.add_incoming(value, block)
    return phi


def _joined(e: Emitter, arrivals: Sequence[_Arrival], k: int, shape: Shape, home: ir.Value | None) -> Value:
    """A result where branches meet: a phi for a scalar; arrays are in one place, whichever branch was taken."""
    dtype = arrivals[0].results[k].dtype
    if k not in arrivals[0].numbers:
        assert home is not None
        return in_memory(home, shape, dtype)
    met = _met(e, register_type(dtype), [(each.numbers[k], each.block) for each in arrivals])
    return in_register(met, shape, dtype)


def lower_loop(o: OperatorLowering) -> Sequence[Value]:
    """WHILE: scalars are carried in registers, other values in the buffers that the copy plan says. Emitted are three
    blocks: `while` with the condition, `turn` with the body, `done`."""
    op = o.operator.op
    assert isinstance(op, PreTestedLoop)
    carried = _operands(o)
    try:
        plan = o.subgraphs.executors.planner.loop(op, given(o.spec, o.operator), _site(o, carried), True)
    except Unknown:
        raise Unlowerable(f"{o.place}: the carried shapes change from turn to turn") from None
    return _LoopLowering(o, op, plan, carried).lower()


_KEPT = {Action.ALTERNATE: "alternating", Action.ROTATE: "rotating", Action.IN_PLACE: "in place",
         Action.INVARIANT: "invariant", Action.COPY: "copied"}
"""What becomes of a carried value, in words."""


def _kept(is_number: bool, action: Action) -> str:
    """Where a loop has a carried value, in words."""
    return "register" if is_number and action is not Action.INVARIANT else _KEPT[action]


@dataclass(frozen=True, eq=False)
class _Turn:
    """What each turn of a loop begins with, and where it goes."""

    head: ir.Block
    body: ir.Block
    after: ir.Block
    state: Sequence[Value]
    numbers: Mapping[int, ir.PhiInstr]
    places: Sequence[ir.Value | None]
    lengths: Mapping[int, ir.PhiInstr]


class _LoopLowering:
    """A loop on its way to code: what changes from turn to turn are numbers in registers and where buffers lie."""

    def __init__(self, o: OperatorLowering, op: PreTestedLoop, plan: LoopPlan, carried: Sequence[Value]) -> None:
        self._o = o
        self._op = op
        self._plan = plan
        self._carried = carried
        self._carries = [each.action for each in plan.at(Stage.CARRY)]
        self._shapes = given(o.spec, o.operator)
        """Of the values in any turn."""
        self._lengths = {size: (k, axis) for k, value in enumerate(carried) for axis, size in enumerate(self._shapes[k])
                         if may_differ(size, value.shape[axis])}
        """Those that change from turn to turn, with a value and an axis that has it."""
        self._begun = turn_lengths(o.subgraphs.executors.model, o.spec.index, o.number, self._shapes, o.spec.scope)
        """Those that may be less where the loop ends than where a turn begins, with the least that they are there."""

    def lower(self) -> Sequence[Value]:
        """The loop, with its lines in the outline; gives the final values."""
        o = self._o
        with o.function.indented(f"[{o.number}] {o.operator.name}"):
            o.function.note(f"carries {self._describe()}")
            self._record()
            with o.function.times.loop(self._op.body_subgraph_index):
                return self._lower()

    def _describe(self) -> str:
        """How each carried value is kept: `int32[] register, float32[16] in place`."""
        return ", ".join(f"{value.dtype.value}{list(shape)} {_kept(self._is_scalar(k), action)}" for k, (
            value, shape, action) in enumerate(zip(self._carried, self._shapes, self._carries, strict=True)))

    def _record(self) -> None:
        """Records what becomes of the values."""
        for each in self._plan.transfers:
            with self._o.subgraphs.in_loop() if each.stage.repeats else nullcontext():
                _crosses(self._o, each, self._carried[each.position])

    def _lower(self) -> Sequence[Value]:
        """Emits the loop: phis for numbers in registers, and for the addresses of buffers that change places; the
        condition, which leaves; the body, which writes new values where the rotation of buffers says."""
        e = self._o.function.e
        buffers = self._buffers()
        begins = self._fitting([value.shape for value in self._carried])
        initial = [self._entered(k, home) for k, home in enumerate(buffers[:len(self._carried)])]
        before = e.builder.block
        head, body, after = (e.function.append_basic_block(name) for name in ("while", "turn", "done"))
        e.builder.branch(head)
        e.builder.position_at_end(head)
        numbers = {k: self._phi(value.scalar(e), before) for k, value in enumerate(initial) if self._is_number(k)}
        places = [home if home is None or not self._moves(buffer) else self._phi(home, before)
                  for buffer, home in enumerate(buffers)]
        lengths = {size: self._phi(value, before) for size, value in begins.items()}
        for size, phi in lengths.items():
            e.define(size, phi)
        state = [self._current(k, value, numbers.get(k), places[k]) for k, value in enumerate(initial)]
        turn = _Turn(head, body, after, state, numbers, places, lengths)
        with e.turning(lengths):
            self._o.function.times.versions(partial(self._turn, turn))
        e.builder.position_at_end(after)
        for cycle in self._plan.rotation.cycles:
            if not any(self._grows(k) for k in cycle.buffers if k < len(state)):
                self._bring_home(cycle, buffers, places)
        return [self._left(k, state[k], home) for k, home in enumerate(buffers[:len(state)])]

    def _turn(self, turn: _Turn, is_again: bool) -> None:
        """Emits the condition, which leaves, and the body, which goes back to the head; the outline has them once."""
        e, function, subgraphs = self._o.function.e, self._o.function, self._o.subgraphs
        with function.muted(is_again):
            with function.indented(f"while @{self._op.cond_subgraph_index}"), subgraphs.in_loop(self._op):
                (flag,) = subgraphs.invoke(self._op.cond_subgraph_index, turn.state, [None], frozenset(), self._shapes)
            body = e.function.append_basic_block("turn") if is_again else turn.body
            e.builder.cbranch(flag.scalar(e), body, turn.after)
            e.builder.position_at_end(body)
            with (function.times.turn(), function.looping(), subgraphs.in_loop(self._op),
                  function.indented(f"turn @{self._op.body_subgraph_index}")):
                function.turn(self._o.place)
                for size in filter(self._begun.__contains__, self._lengths):
                    function.expect_capacity(turn.lengths[size], bound(size), self._begun[size])
                homes = [turn.places[self._plan.rotation.buffer(k, 1)] for k in range(len(turn.state))]
                shapes = in_turns(self._op, self._shapes, self._o.spec.scope)
                state = [in_memory(each.memory, shape, each.dtype) if self._grows(k) else each
                         for k, (each, shape) in enumerate(zip(turn.state, shapes, strict=True))]
                results = subgraphs.invoke(self._op.body_subgraph_index, state, homes, self._plan.destroyable, shapes,
                                           is_turn=True)
            self._close(turn.numbers, turn.places, turn.lengths, results)
        e.builder.branch(turn.head)
        if e.target.goal is not Goal.HERE:
            not_unrolled(e)

    def _is_number(self, k: int) -> bool:
        """Whether a carried value changes from turn to turn in a register."""
        return self._is_scalar(k) and self._carries[k] is not Action.INVARIANT

    def _is_scalar(self, k: int) -> bool:
        """Whether a carried value is in a register."""
        return is_scalar(self._carried[k]) and not self._grows(k)

    def _grows(self, k: int) -> bool:
        """Whether the shape of a carried value changes from turn to turn."""
        return any(size in self._lengths for size in self._shapes[k])

    def _fitting(self, shapes: Sequence[Shape]) -> dict[int, ir.Value]:
        """What the lengths that change are for carried values of some shapes; leaves the function if there is no room
        for one, or it is less than was taken for granted."""
        found = {size: self._o.function.e.number(shapes[k][axis]) for size, (k, axis) in self._lengths.items()}
        for size, value in found.items():
            k, axis = self._lengths[size]
            is_taken = size not in self._begun and lowest(size) > lowest(shapes[k][axis])
            self._o.function.expect_capacity(value, bound(size), lowest(size) if is_taken else None)
        return found

    def _moves(self, buffer: int) -> bool:
        """Whether a buffer changes places with others in each turn."""
        return any(buffer in each.buffers for each in self._plan.rotation.cycles)

    def _buffers(self) -> list[ir.Value | None]:
        """The memory of each value that changes in memory, then of the spare buffers."""
        homes = [None if action is Action.INVARIANT or self._is_scalar(k) else self._room(k) if self._grows(k) else home
                 for k, (action, home) in enumerate(zip(self._carries, self._o.homes, strict=True))]
        return [*homes, *(None if homes[k] is None else self._room(k) for k in self._plan.rotation.spares)]

    def _room(self, k: int) -> ir.Value:
        """Memory for a carried value, and for those that change places with it."""
        executors = self._o.subgraphs.executors
        made = executors.specializer.body(self._op, self._shapes, self._o.spec.scope).output_shapes
        cycle = self._plan.rotation.cycle(k)
        together = [k] if cycle is None else [each for each in cycle.buffers if each < len(self._carried)]
        sizes = (bound(prod(shape)) * self._carried[each].dtype.numpy.itemsize
                 for each in together for shape in (self._shapes[each], made[each]))
        return self._o.function.reserve(reduce(larger, sizes))

    def _entered(self, k: int, home: ir.Value | None) -> Value:
        """The initial value where the loop wants it."""
        value = self._carried[k]
        if home is None:
            return value
        if value.memory is not home:
            self._o.subgraphs.transfer(value, home)
        return in_memory(home, value.shape, value.dtype)

    def _phi(self, value: ir.Value, before: ir.Block) -> ir.PhiInstr:
        """A phi with what it is when the loop begins."""
        phi = self._o.function.e.builder.phi(value.type)
        phi.add_incoming(value, before)
        return phi

    def _current(self, k: int, initial: Value, number: ir.PhiInstr | None, place: ir.Value | None) -> Value:
        """A carried value in a turn: in a register, where a buffer then is, or the initial one."""
        if number is not None:
            return in_register(number, initial.shape, initial.dtype)
        return initial if place is None else in_memory(place, self._shapes[k], initial.dtype)

    def _close(self, numbers: Mapping[int, ir.PhiInstr], places: Sequence[ir.Value | None],
               lengths: Mapping[int, ir.PhiInstr], results: Sequence[Value]) -> None:
        """The end of a turn. Every new value is taken before any phi changes, so that values change together."""
        e = self._o.function.e
        scalars = {k: results[k].scalar(e) for k in numbers}
        for size, length in self._fitting([each.shape for each in results]).items():
            lengths[size].add_incoming(length, e.builder.block)
        for k, phi in numbers.items():
            phi.add_incoming(scalars[k], e.builder.block)
        for cycle in self._plan.rotation.cycles:
            for number, buffer in enumerate(cycle.buffers):
                place = places[buffer]
                if place is not None:
                    place.add_incoming(places[cycle.buffer(number, 1)], e.builder.block)

    def _bring_home(self, cycle: Cycle, buffers: Sequence[ir.Value | None], places: Sequence[ir.Value | None]) -> None:
        """Copies the values of a cycle of buffers to their own ones, if the loop ended while they were in others."""
        first = cycle.buffers[0]
        if buffers[first] is None:
            return
        b, rotation = self._o.function.e.builder, self._plan.rotation
        for turns in range(1, len(cycle.buffers)):
            is_there = b.icmp_unsigned("==", places[first], buffers[cycle.buffer(0, turns)])
            with b.if_then(is_there):
                for target, source in rotation.moves(cycle, rotation.places(turns), self._plan.unread):
                    value = self._carried[rotation.moved((target, source))]
                    self._o.subgraphs.transfer(in_memory(buffers[source], value.shape, value.dtype), buffers[target])

    def _left(self, k: int, value: Value, home: ir.Value | None) -> Value:
        """The final value where the caller wants it."""
        o = self._o
        if self._is_scalar(k):
            if o.homes[k] is not None:
                o.function.e.store(value.scalar(o.function.e), o.homes[k], value.dtype)
            return value
        if home is not None and not self._grows(k):
            return in_memory(home, value.shape, value.dtype)
        if o.homes[k] is None or value.memory is o.homes[k]:
            return value
        o.subgraphs.transfer(value, o.homes[k])
        return in_memory(o.homes[k], value.shape, value.dtype)


CONTROL_FLOW: dict[type[Op], Lower] = {
    If: lower_branch,
    StablehloCase: lower_branch,
    While: lower_loop,
    StablehloWhile: lower_loop,
    CallOnce: lower_call_once,
    CallSubgraph: lower_call,
    Composite: lower_call,
}
"""What emits each operator that invokes subgraphs."""
