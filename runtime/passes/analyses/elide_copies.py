"""Decides, for every edge between an operator and the subgraphs it invokes, whether a copy is needed, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial

from circlet.runtime.ir.length import Scope, alike, may_differ
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop
from circlet.runtime.passes.analyses.alias import (
    NO_ROOM,
    Aliases,
    Effects,
    appended,
    declared_effects,
    find_aliases,
    may_reuse,
    tensor_bytes,
)
from circlet.runtime.passes.analyses.carry import (
    TurnPlan,
    alternating_turn,
    forwarding,
    kept_outside,
    plan_turn,
)
from circlet.runtime.passes.analyses.course import Course, course, steady
from circlet.runtime.passes.analyses.entry import entry, invoked_with
from circlet.runtime.passes.analyses.rotation import Rotation
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, Specialization, Specializer
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer
from circlet.runtime.records import dataclass

OFF = "copy elision is off"
WORKS_IN_PLACE = "the loop works in the caller's buffer"
STARTS_CONSTANT = "the loop rewrites the value, which starts as a constant"
BEGINS_ELSEWHERE = "the loop begins with the value where it is, and writes its own buffers"
READ_WHERE_IT_LIES = "the condition reads the carried value where it lies"
READ_ELSEWHERE = "the loop rewrites the value, which is also read elsewhere"
SECOND_BUFFER = "after an odd number of turns the value lies in the second buffer"
OTHER_BUFFER = "the value lies in another buffer, unless the number of turns is a multiple of {}"
WITHOUT_TURN = "without any turn the value lies where it began"
FEW_TURNS = "after up to {} turns the value may lie where one began"
NOT_APART = "no turn is compiled by itself"
COPIES_LATER = "what the first turn invokes would copy it instead"
STAYS = "the value lies where one began, as the body only moves it"


@dataclass(frozen=True)
class Site:
    """What the caller says of the operands and results of an operator that invokes subgraphs."""

    shares: Callable[[int, int], bool]
    """Whether a result and an operand have the same memory."""
    is_constant: Callable[[int], bool] = lambda position: False
    """Whether an operand is the same in every run; only reasons depend on it."""
    is_read: Callable[[int], bool] = lambda position: True
    """Whether something reads a result."""
    begins_apart: bool = False
    """Whether the first turns of a loop may be bound to other buffers than the later ones."""
    repeats: bool = False
    """Whether a loop begins anew in the turns of another; only reasons depend on it."""
    scope: Scope | None = None
    """Of the lengths that differ from run to run, where there are any."""


@dataclass(frozen=True)
class LoopPlan:
    """What becomes of the values of a loop whose shapes stay the same."""

    transfers: tuple[Transfer, ...]
    course: Course
    unread: frozenset[int] = frozenset()
    """The values that may lie anywhere in the end."""

    @property
    def rotation(self) -> Rotation:
        """The buffers of the loop."""
        return self.course.rotation

    def at(self, stage: Stage) -> tuple[Transfer, ...]:
        """The transfers of a stage, in order of the values; none where a stage has nothing to do."""
        return tuple(each for each in self.transfers if each.stage is stage)

    @property
    def destroyable(self) -> frozenset[int]:
        """The body inputs whose buffers the body may overwrite."""
        kept = {each.position for each in self.at(Stage.CARRY) if each.action is Action.INVARIANT}
        return frozenset(range(self.rotation.values)) - kept

    def given_up(self, phase: int) -> frozenset[int]:
        """The body inputs whose buffers the body may overwrite in a turn."""
        return self.destroyable - self.course.outside(phase)


@dataclass(frozen=True)
class CallPlan:
    """What becomes of the operands and results of the subgraphs that an operator may invoke."""

    given_up: frozenset[int]
    """The inputs of the subgraphs that they may overwrite."""
    transfers: tuple[tuple[Transfer, ...], ...]
    """Of each subgraph, in order."""

    def at(self, number: int, stage: Stage) -> tuple[Transfer, ...]:
        """The transfers of a stage, of the subgraph at a place among those that the operator may invoke."""
        return tuple(each for each in self.transfers[number] if each.stage is stage)


class CopyPlanner:
    """Plans the copies of one model; `elide=False` plans the textbook ones."""

    def __init__(self, model: Model, specializer: Specializer, elide: bool = True) -> None:
        self.elide = elide
        self._model = model
        self._specializer = specializer
        self.turn = lru_cache(MEMO_SIZE)(self._turn)
        """`turn(op, carried_shapes, scope=None) -> TurnPlan`; raises Unknown where shapes change from turn to turn."""
        self.reuse = lru_cache(MEMO_SIZE)(self._reuse)
        """`reuse(subgraphs, input_shapes, scope=None)`: the (output, input) positions of which, in every subgraph, the
        output may be written over the input; raises Unknown where only a run can tell the shapes."""
        self._general_aliases = lru_cache(MEMO_SIZE)(
            lambda general, span, destroyable: self.aliases(general.spec, span, destroyable))
        self._callee = lru_cache(MEMO_SIZE)(self._plan_callee)
        self._appended = lru_cache(MEMO_SIZE)(self._find_appended)
        self._reads = lru_cache(MEMO_SIZE)(self._find_reads)
        self._kept = lru_cache(MEMO_SIZE)(self._find_kept)
        self.course = lru_cache(MEMO_SIZE)(self._course)
        """`course(op, carried_shapes, lent)`: where a loop's values lie of which some begin where the caller has them,
        or why they cannot; raises Unknown where shapes change from turn to turn."""

    def aliases(self, spec: Specialization, span: range, destroyable: Iterable[int] = (),
                is_turn: bool = False) -> Aliases:
        """The storage classes of a subgraph whose caller gives up the inputs at positions `destroyable`; of a case of
        something general, those of all cases. In a turn of a loop an input lies where there is room for what the turn
        makes of it."""
        if spec.general is not None:
            return self._general_aliases(spec.general, span, frozenset(destroyable)).case(spec)
        subgraph = spec.subgraph
        written = {each for number in span for each in subgraph.operators[number].outputs if each not in spec.known}
        free = {subgraph.inputs[position] for position in destroyable} if span.start == 0 else set()
        fixed = set(range(len(subgraph.tensors))) - written - free
        room = _room(spec, destroyable) if is_turn else NO_ROOM
        return find_aliases(spec, span, fixed, lambda number: self._effects(spec, number), room)

    def loop(self, op: PreTestedLoop, shapes: tuple[Shape, ...], site: Site, in_place: bool = False) -> LoopPlan:
        """The plan of a loop where it stands.

        Args:
            op: the loop.
            shapes: of the carried values.
            site: what the caller says of them.
            in_place: condition and body are code in the midst of the caller's, with no buffers to copy to and from:
                what they need not copy for each other is not copied, whatever `elide` says.

        Raises:
            Unknown: the shapes change from turn to turn.
        """
        turn = self.turn(op, shapes, site.scope)
        if not self.elide and not in_place:
            stages = (Stage.ENTER, Stage.CONDITION, Stage.TURN, Stage.RETURN)
            return LoopPlan(tuple(Transfer(stage, k, Action.COPY, OFF) for k in range(len(shapes)) for stage in stages),
                            steady(Rotation(len(shapes))))
        found, objections = self._begun(op, shapes, site) if site.begins_apart else (
            steady(turn.rotation), dict.fromkeys(range(len(shapes)) if site.repeats else (), NOT_APART))
        unread = frozenset(k for k in range(len(shapes)) if self.elide and not site.is_read(k))
        transfers = (each for k in range(len(shapes))
                     for each in _carried(turn, k, site, found, objections.get(k), k in unread))
        return LoopPlan(tuple(transfers), found, unread)

    def call(self, op: Branch | Invoke, shapes: tuple[Shape, ...], site: Site, in_place: bool = False) -> CallPlan:
        """The plan of an operator that invokes one subgraph, for its operands without what selects the subgraph.

        Raises:
            Unknown: only a run can tell the shapes.
        """
        pairs = self.reuse(op.callees(), shapes, site.scope)
        shared = tuple((output, position) for output, position in pairs if site.shares(output, position))
        roles = [each.role for each in op.calls()] if isinstance(op, Branch) else ["call"]
        lends = self.elide or in_place
        return CallPlan(frozenset(position for _, position in shared),
                        tuple(self._callee(index, role, shapes, shared, lends, site.scope)
                              for index, role in zip(op.callees(), roles, strict=True)))

    def loop_at(self, aliases: Aliases, number: int, begins_apart: bool) -> LoopPlan:
        """The plan of a loop by the storage classes of the subgraph that it stands in; see `Site`.

        Raises:
            Unknown: the shapes change from turn to turn.
        """
        spec, operator = aliases.spec, aliases.spec.subgraph.operators[number]
        assert isinstance(operator.op, PreTestedLoop)
        site = replace(_site(aliases, operator), is_read=partial(self.is_read, spec.index, number),
                       begins_apart=begins_apart, repeats=spec.index in self.repeated)
        return self.loop(operator.op, given(spec, operator), site)

    def call_at(self, aliases: Aliases, number: int) -> CallPlan:
        """The plan of an operator that invokes one subgraph, likewise.

        Raises:
            Unknown: only a run can tell the shapes.
        """
        operator = aliases.spec.subgraph.operators[number]
        assert isinstance(operator.op, (Branch, Invoke))
        return self.call(operator.op, given(aliases.spec, operator), _site(aliases, operator))

    def _effects(self, spec: Specialization, number: int) -> Effects:
        if not self.elide:
            return Effects()
        operator = spec.subgraph.operators[number]
        op = operator.op
        if not op.callees():
            return declared_effects(operator)
        try:
            shapes = given(spec, operator)
            if isinstance(op, PreTestedLoop):
                return self.turn(op, shapes, spec.scope).effects
            if isinstance(op, Branch):
                pairs = self.reuse(op.callees(), shapes, spec.scope)
                return Effects({}, {output: position + 1 for output, position in pairs})
            if isinstance(op, Invoke):
                pairs = self.reuse(op.callees(), shapes, spec.scope)
                return Effects({}, dict(pairs), self._appended(*op.callees(), shapes, spec.scope))
        except Unknown:
            pass
        return Effects()

    def _turn(self, op: PreTestedLoop, shapes: tuple[Shape, ...], scope: Scope | None = None) -> TurnPlan:
        spec = self._specializer.body(op, shapes, scope)
        if not _are_kept(spec, shapes):
            raise Unknown
        aliases = self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes)), is_turn=True)
        return plan_turn(aliases) if self.elide else alternating_turn(aliases)

    def _begun(self, op: PreTestedLoop, shapes: tuple[Shape, ...], site: Site) -> tuple[Course, Mapping[int, str]]:
        """The course of a loop that copies as little as it can when it begins, and why it copies what it does."""
        carries = self.turn(op, shapes).carries
        free = [k for k, each in enumerate(carries) if each.action is not Action.INVARIANT and not site.shares(k, k)]
        found = self.course(op, shapes, frozenset(free))
        if isinstance(found, Course):
            return found, {}
        taken, lent, objections = steady(self.turn(op, shapes).rotation), frozenset[int](), dict[int, str]()
        for k in free:
            found = self.course(op, shapes, lent | {k})
            if isinstance(found, Course):
                taken, lent = found, lent | {k}
            else:
                objections[k] = found
        return taken, objections

    def _course(self, op: PreTestedLoop, shapes: tuple[Shape, ...], lent: frozenset[int]) -> Course | str:
        return course(self.turn(op, shapes).rotation, lent, lambda outside: self._kept(op, shapes, outside))

    def _find_kept(self, op: PreTestedLoop, shapes: tuple[Shape, ...], outside: frozenset[int]
                   ) -> Mapping[int, int] | str:
        """See `kept_outside`; a turn must not copy more than the others do either."""
        spec, everything = self._specializer.callee(op.body_subgraph_index, shapes), frozenset(range(len(shapes)))
        given_up = everything - outside
        if self._copies_more(spec, given_up, everything):
            return COPIES_LATER
        return kept_outside(self.aliases(spec, range(len(spec.subgraph.operators)), given_up), self.turn(op, shapes),
                            outside)

    def _copies_more(self, spec: Specialization, given_up: frozenset[int], later: frozenset[int]) -> bool:
        """Whether what a subgraph invokes copies more if its caller gives up the inputs `given_up` than if it gives up
        those of `later`. Operators that compute write their results elsewhere instead of in place."""
        operators = spec.subgraph.operators
        span = range(len(operators))
        if given_up == later or not any(each.op.callees() for each in operators):
            return False
        one, other = (self.aliases(spec, span, free) for free in (given_up, later))
        return any(self._operator_copies_more(one, other, number) for number in span)

    def _operator_copies_more(self, one: Aliases, other: Aliases, number: int) -> bool:
        """Whether an operator copies more by the storage classes `one` than by `other`, but for where loops end."""
        operator = one.spec.subgraph.operators[number]
        with suppress(Unknown):
            if isinstance(operator.op, PreTestedLoop):
                first, later = (_copied(self.loop_at(each, number, True).at(Stage.ENTER)) for each in (one, other))
                return not first <= later
            if isinstance(operator.op, (Branch, Invoke)):
                call, often = (self.call_at(each, number) for each in (one, other))
                if any(not _copied(first) <= _copied(later)
                       for first, later in zip(call.transfers, often.transfers, strict=True)):
                    return True
                shapes = tuple(one.spec.shape(each) for each in invoked_with(operator))
                return any(self._copies_more(self._specializer.at(index, shapes), call.given_up, often.given_up)
                           for index in operator.op.callees())
        return False

    def is_read(self, index: int, number: int, result: int) -> bool:
        """Whether something reads a result of an operator, or the subgraph returns it."""
        return self._model.subgraphs[index].operators[number].outputs[result] in self._reads(index)

    def _find_reads(self, index: int) -> frozenset[int]:
        subgraph = self._model.subgraphs[index]
        return frozenset(subgraph.outputs).union(*(each.inputs for each in subgraph.operators))

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The subgraphs that are invoked in the turns of loops."""
        subgraphs = self._model.subgraphs
        found: set[int] = set()
        pending = [callee for each in subgraphs for operator in each.operators
                   if isinstance(operator.op, PreTestedLoop) for callee in operator.op.callees()]
        while pending:
            index = pending.pop()
            if index not in found:
                found.add(index)
                pending += [callee for operator in subgraphs[index].operators for callee in operator.op.callees()]
        return frozenset(found)

    def _reuse(self, subgraphs: tuple[int, ...], shapes: tuple[Shape, ...], scope: Scope | None = None
               ) -> tuple[tuple[int, int], ...]:
        specs = [self._specializer.callee(index, shapes, scope, takes_late=scope is not None or len(subgraphs) == 1)
                 for index in subgraphs]
        made = [tuple(map(len, spec.output_shapes)) if scope is not None else spec.output_shapes for spec in specs]
        if len(set(made)) != 1:
            raise Unknown
        if not self.elide:
            return ()
        found = [self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes))) for spec in specs]
        pairs: list[tuple[int, int]] = []
        is_same = [len(set(each)) == 1 for each in zip(*(spec.output_shapes for spec in specs), strict=True)]
        for output in (number for number, is_one in enumerate(is_same) if is_one):
            taken = {position for _, position in pairs}
            free = (position for position in range(len(shapes)) if position not in taken)
            fitting = [each for each in free if all(_is_in_place(aliases, each, output) for aliases in found)]
            if fitting:
                alike_in = [each for each in fitting if alike(shapes[each], specs[0].output_shapes[output])]
                pairs.append((output, (alike_in or fitting)[0]))
        return tuple(pairs)

    def _find_appended(self, index: int, shapes: tuple[Shape, ...], scope: Scope | None
                       ) -> Mapping[int, tuple[int, int]]:
        spec = self._specializer.callee(index, shapes, scope, takes_late=True)
        return appended(self.aliases(spec, range(len(spec.subgraph.operators))))

    def _plan_callee(self, index: int, role: str, shapes: tuple[Shape, ...], shared: tuple[tuple[int, int], ...],
                     lends: bool, scope: Scope | None) -> tuple[Transfer, ...]:
        spec = self._specializer.within(index, shapes, scope)
        over = dict(shared)
        aliases = self.aliases(spec, range(len(spec.subgraph.operators)), over.values())
        entering = (Action.LEND, "the callee reads the caller's buffer") if lends else (Action.COPY, OFF)
        return (
            *(Transfer(Stage.ENTER, k, *entering, role) for k in range(len(shapes))),
            *(Transfer(Stage.LEAVE, k, *(_returned(aliases, k, over) if lends else (Action.COPY, OFF)), role)
              for k in range(len(spec.subgraph.outputs))),
        )


def given(spec: Specialization, operator: Operator) -> tuple[Shape, ...]:
    """The shapes with which an operator invokes subgraphs, and what these know of values: of the carried values of a
    loop those of any turn.

    Raises:
        Unknown: only a run can tell.
    """
    is_loop = isinstance(operator.op, PreTestedLoop) and spec.is_open
    return entry((spec.shape(each) for each in (operator.outputs if is_loop else invoked_with(operator))),
                 spec.told.passed.get(operator, ()))


def _are_kept(body: Specialization, shapes: tuple[Shape, ...]) -> bool:
    """Whether a turn makes values of the shapes that it begins with, but for lengths that the loop computes."""
    scope = body.scope
    return all(len(one) == len(other) and all(
        size == made or (scope is not None and scope.is_carried(size)) for size, made in zip(one, other, strict=True))
        for one, other in zip(shapes, body.output_shapes, strict=True))


def _room(body: Specialization, destroyable: Iterable[int]) -> Mapping[int, int]:
    """The inputs that a turn makes larger values of, and how many bytes these have."""
    subgraph = body.subgraph
    sizes = ((subgraph.inputs[k], subgraph.outputs[k]) for k in destroyable)
    return {one: tensor_bytes(body, other) for one, other in sizes
            if may_differ(tensor_bytes(body, one), tensor_bytes(body, other))}


def _site(aliases: Aliases, operator: Operator) -> Site:
    """What the storage classes of a subgraph say of an operator in it."""
    operands = invoked_with(operator)
    return Site(lambda result, operand: _is_one(aliases, operator.outputs[result], operands[operand]),
                lambda operand: aliases.is_constant(operands[operand]), scope=aliases.spec.scope)


def _copied(transfers: Iterable[Transfer]) -> frozenset[str]:
    """The edges that are copied."""
    return frozenset(each.label for each in transfers if each.action is Action.COPY)


def _carried(turn: TurnPlan, k: int, site: Site, found: Course, objection: str | None, is_unread: bool
             ) -> Iterable[Transfer]:
    """What becomes of one carried value of a loop, from beginning to end.

    Args:
        turn: of the loop.
        k: the value.
        site: what the caller says of it.
        found: where the values lie.
        objection: why the value cannot begin where it is.
        is_unread: it may lie anywhere in the end.
    """
    if turn.carries[k].action is Action.INVARIANT or site.shares(k, k):
        yield Transfer(Stage.ENTER, k, Action.LEND, WORKS_IN_PLACE)
    elif k in found.outside(0):
        yield Transfer(Stage.ENTER, k, Action.LEND, BEGINS_ELSEWHERE)
    else:
        reason = STARTS_CONSTANT if site.is_constant(k) else READ_ELSEWHERE
        yield Transfer(Stage.ENTER, k, Action.COPY, reason if objection is None else f"{reason}; {objection}")
    yield Transfer(Stage.CONDITION, k, Action.LEND, READ_WHERE_IT_LIES)
    reasons = [] if is_unread else _absences(found, k)
    if reasons:
        yield Transfer(Stage.LEAVE, k, Action.COPY, "; ".join(reasons))
    yield turn.carries[k]


def _absences(found: Course, k: int) -> list[str]:
    """When a carried value is elsewhere than in its own buffer."""
    outside = [k in found.outside(phase) for phase in range(len(found.places))]
    if all(outside):
        return [STAYS]
    reasons = []
    if any(outside[found.lead:]):
        reasons.append(STAYS)
    elif any(outside):
        last = max(phase for phase, is_outside in enumerate(outside) if is_outside)
        reasons.append(FEW_TURNS.format(last) if last else WITHOUT_TURN)
    cycle = found.rotation.cycle(k)
    if cycle is not None:
        length = len(cycle.buffers)
        reasons.append(SECOND_BUFFER if length == 2 else OTHER_BUFFER.format(length))
    return reasons


def _returned(aliases: Aliases, position: int, over: dict[int, int]) -> tuple[Action, str]:
    """How an output of a callee comes to its caller."""
    if position in over:
        return Action.IN_PLACE, f"the result is written over input {over[position]}, which is dead"
    reason = forwarding(aliases, position)
    if reason is not None:
        return Action.COPY, reason
    return Action.LEND, "the callee writes the caller's buffer"


def _is_in_place(aliases: Aliases, position: int, output: int) -> bool:
    subgraph = aliases.spec.subgraph
    source, target = aliases.root(subgraph.inputs[position]), aliases.root(subgraph.outputs[output])
    tensors = subgraph.tensors
    if tensors[subgraph.inputs[position]].dtype is not tensors[subgraph.outputs[output]].dtype:
        return False
    if source == target:
        return _only_output(aliases, target)
    return forwarding(aliases, output) is None and _only_output(aliases, target) and may_reuse(aliases, source, target)


def _is_one(aliases: Aliases, one: int, other: int) -> bool:
    """Whether two tensors share their memory."""
    return aliases.root(one) == aliases.root(other)


def _only_output(aliases: Aliases, target: int) -> bool:
    roots: Sequence[int] = [aliases.root(each) for each in aliases.spec.subgraph.outputs]
    return roots.count(target) == 1
