"""Decides, for every edge between an operator and the subgraphs it invokes, whether a copy is needed, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop
from circlet.runtime.passes.analyses.alias import Aliases, Effects, declared_effects, find_aliases, may_reuse
from circlet.runtime.passes.analyses.carry import TurnPlan, alternating_turn, forwarding, plan_turn
from circlet.runtime.passes.analyses.rotation import Rotation
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, Specialization, Specializer
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer

OFF = "copy elision is off"
WORKS_IN_PLACE = "the loop works in the caller's buffer"
STARTS_CONSTANT = "the loop rewrites the value, which starts as a constant"
READ_WHERE_IT_LIES = "the condition reads the carried value where it lies"
READ_ELSEWHERE = "the loop rewrites the value, which is also read elsewhere"
SECOND_BUFFER = "after an odd number of turns the value lies in the second buffer"
OTHER_BUFFER = "the value lies in another buffer, unless the number of turns is a multiple of {}"


@dataclass(frozen=True)
class Site:
    """What the caller says of the operands and results of an operator that invokes subgraphs."""

    shares: Callable[[int, int], bool]
    """Whether a result and an operand have the same memory."""
    is_constant: Callable[[int], bool] = lambda position: False
    """Whether an operand is the same in every run; only reasons depend on it."""


@dataclass(frozen=True)
class LoopPlan:
    """What becomes of the values of a loop whose shapes stay the same."""

    transfers: tuple[Transfer, ...]
    rotation: Rotation

    def at(self, stage: Stage) -> tuple[Transfer, ...]:
        """The transfers of a stage, in order of the values; none where a stage has nothing to do."""
        return tuple(each for each in self.transfers if each.stage is stage)

    @property
    def destroyable(self) -> frozenset[int]:
        """The body inputs whose buffers the body may overwrite."""
        kept = {each.position for each in self.at(Stage.CARRY) if each.action is Action.INVARIANT}
        return frozenset(range(self.rotation.values)) - kept


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
        """`turn(op, carried_shapes) -> TurnPlan`; raises Unknown where shapes change from turn to turn."""
        self.reuse = lru_cache(MEMO_SIZE)(self._reuse)
        """`reuse(subgraphs, input_shapes)`: the (output, input) positions of which, in every subgraph, the output may
        be written over the input; raises Unknown where only a run can tell the shapes."""
        self._callee = lru_cache(MEMO_SIZE)(self._plan_callee)

    def aliases(self, spec: Specialization, span: range, destroyable: Iterable[int] = ()) -> Aliases:
        """The storage classes of a subgraph whose caller gives up the inputs at positions `destroyable`."""
        subgraph = spec.subgraph
        written = {each for number in span for each in subgraph.operators[number].outputs if each not in spec.known}
        free = {subgraph.inputs[position] for position in destroyable} if span.start == 0 else set()
        fixed = set(range(len(subgraph.tensors))) - written - free
        return find_aliases(spec, span, fixed, lambda number: self._effects(spec, number))

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
        turn = self.turn(op, shapes)
        if not self.elide and not in_place:
            stages = (Stage.ENTER, Stage.CONDITION, Stage.TURN, Stage.RETURN)
            return LoopPlan(tuple(Transfer(stage, k, Action.COPY, OFF) for k in range(len(shapes)) for stage in stages),
                            Rotation(len(shapes)))
        return LoopPlan(tuple(each for k in range(len(shapes)) for each in _carried(turn, k, site)), turn.rotation)

    def call(self, op: Branch | Invoke, shapes: tuple[Shape, ...], site: Site, in_place: bool = False) -> CallPlan:
        """The plan of an operator that invokes one subgraph, for its operands without what selects the subgraph.

        Raises:
            Unknown: only a run can tell the shapes.
        """
        pairs = self.reuse(op.callees(), shapes)
        shared = tuple((output, position) for output, position in pairs if site.shares(output, position))
        roles = [each.role for each in op.calls()] if isinstance(op, Branch) else ["call"]
        lends = self.elide or in_place
        return CallPlan(frozenset(position for _, position in shared),
                        tuple(self._callee(index, role, shapes, shared, lends)
                              for index, role in zip(op.callees(), roles, strict=True)))

    def _effects(self, spec: Specialization, number: int) -> Effects:
        if not self.elide:
            return Effects()
        operator = spec.subgraph.operators[number]
        op = operator.op
        if not op.callees():
            return declared_effects(operator)
        try:
            shapes = tuple(spec.shape(each) for each in operator.inputs)
            if isinstance(op, PreTestedLoop):
                return self.turn(op, shapes).effects
            if isinstance(op, Branch):
                return Effects({}, {output: position + 1 for output, position in self.reuse(op.callees(), shapes[1:])})
            if isinstance(op, Invoke):
                return Effects({}, dict(self.reuse(op.callees(), shapes)))
        except Unknown:
            pass
        return Effects()

    def _turn(self, op: PreTestedLoop, shapes: tuple[Shape, ...]) -> TurnPlan:
        spec = self._specializer.callee(op.body_subgraph_index, shapes)
        if spec.output_shapes != shapes:
            raise Unknown
        self._specializer.callee(op.cond_subgraph_index, shapes)
        aliases = self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes)))
        return plan_turn(aliases) if self.elide else alternating_turn(aliases)

    def _reuse(self, subgraphs: tuple[int, ...], shapes: tuple[Shape, ...]) -> tuple[tuple[int, int], ...]:
        specs = [self._specializer.callee(index, shapes) for index in subgraphs]
        if len({spec.output_shapes for spec in specs}) != 1:
            raise Unknown
        if not self.elide:
            return ()
        found = [self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes))) for spec in specs]
        pairs: list[tuple[int, int]] = []
        for output in range(len(specs[0].output_shapes)):
            taken = {position for _, position in pairs}
            free = (position for position in range(len(shapes)) if position not in taken)
            fitting = [each for each in free if all(_is_in_place(aliases, each, output) for aliases in found)]
            if fitting:
                pairs.append((output, fitting[0]))
        return tuple(pairs)

    def _plan_callee(self, index: int, role: str, shapes: tuple[Shape, ...], shared: tuple[tuple[int, int], ...],
                     lends: bool) -> tuple[Transfer, ...]:
        spec = self._specializer.at(index, shapes)
        over = dict(shared)
        aliases = self.aliases(spec, range(len(spec.subgraph.operators)), over.values())
        entering = (Action.LEND, "the callee reads the caller's buffer") if lends else (Action.COPY, OFF)
        return (
            *(Transfer(Stage.ENTER, k, *entering, role) for k in range(len(shapes))),
            *(Transfer(Stage.LEAVE, k, *(_returned(aliases, k, over) if lends else (Action.COPY, OFF)), role)
              for k in range(len(spec.subgraph.outputs))),
        )


def _carried(turn: TurnPlan, k: int, site: Site) -> Iterable[Transfer]:
    """What becomes of one carried value of a loop, from beginning to end."""
    if turn.carries[k].action is Action.INVARIANT or site.shares(k, k):
        yield Transfer(Stage.ENTER, k, Action.LEND, WORKS_IN_PLACE)
    else:
        yield Transfer(Stage.ENTER, k, Action.COPY, STARTS_CONSTANT if site.is_constant(k) else READ_ELSEWHERE)
    yield Transfer(Stage.CONDITION, k, Action.LEND, READ_WHERE_IT_LIES)
    cycle = turn.rotation.cycle(k)
    if cycle is not None:
        length = len(cycle.buffers)
        yield Transfer(Stage.LEAVE, k, Action.COPY, SECOND_BUFFER if length == 2 else OTHER_BUFFER.format(length))
    yield turn.carries[k]


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


def _only_output(aliases: Aliases, target: int) -> bool:
    roots: Sequence[int] = [aliases.root(each) for each in aliases.spec.subgraph.outputs]
    return roots.count(target) == 1
