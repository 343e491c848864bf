"""Decides in which buffer a loop's body makes each carried value, and which values it has to copy there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from circlet.runtime.ir.length import may_differ
from circlet.runtime.passes.analyses.alias import Aliases, Effects, may_reuse
from circlet.runtime.passes.analyses.rotation import Rotation, rotation
from circlet.runtime.passes.analyses.transfer import Action, Stage, Transfer
from circlet.runtime.records import dataclass

LONGEST_PERIOD = 8
"""Turns after which values must be where they were: condition and body are bound once for each of these turns."""
IN_PLACE = "the old value is dead when the new one is written"
UPDATES = "the body updates the value where it lies"
UNCHANGED = "the body returns the value unchanged"
ALTERNATES = "the body still reads the old value after it begins to write the new one"
FREE = "the new value is written to a buffer that holds no other value in this turn"

UNMADE = "a turn that reads it elsewhere cannot make the new values in the loop's buffers"


@dataclass(frozen=True)
class TurnPlan:
    """How each carried value of a loop comes from one turn to the next."""

    carries: tuple[Transfer, ...]
    rotation: Rotation

    @property
    def effects(self) -> Effects:
        """The loop as its caller sees it."""
        invariant = {k: k for k, each in enumerate(self.carries) if each.action is Action.INVARIANT}
        return Effects(invariant, {k: k for k in range(len(self.carries)) if k not in invariant})


def plan_turn(aliases: Aliases) -> TurnPlan:
    """The plan of a body, all of whose inputs may be overwritten.

    A new value stays where an input lies of which it is a part or a view, or is written over a value that is dead, its
    own old one if possible. So buffers may change places. Where they would come back only after many turns, values stay
    with their own buffers and are copied.
    """
    plan = _Turn(aliases).plan(rotates=True)
    return plan if plan.rotation.period <= LONGEST_PERIOD else _Turn(aliases).plan(rotates=False)


def alternating_turn(aliases: Aliases) -> TurnPlan:
    """The plan in which the body always reads one set of buffers and writes another."""
    return _Turn(aliases).plan_alternating()


def kept_outside(aliases: Aliases, turn: TurnPlan, outside: frozenset[int]) -> Mapping[int, int] | str:
    """The new values that stay with inputs `outside`, which lie where the body may not write, each with the input.

    The reason why not, if a turn cannot make all others where the plan wants them; `aliases` are those of the body on
    these terms.
    """
    return _Turn(aliases).kept(turn, outside)


def forwarding(aliases: Aliases, position: int) -> str | None:
    """Why a subgraph cannot compute its output straight into the buffer its caller lends; None if it can."""
    subgraph = aliases.spec.subgraph
    target = aliases.root(subgraph.outputs[position])
    if aliases.is_constant(target):
        return "the value is a constant"
    inputs = [aliases.root(each) for each in subgraph.inputs]
    if target in inputs:
        return f"the value is input {inputs.index(target)} of the subgraph"
    first = [aliases.root(each) for each in subgraph.outputs].index(target)
    if first != position:
        return f"the value is also output {first}, which has the buffer"
    if aliases.first_write(target) < 0:
        return "the value is state of the subgraph"
    return None


class _Turn:
    """Gives each new value a buffer. Buffers are numbered as in `Rotation`."""

    def __init__(self, aliases: Aliases) -> None:
        subgraph = aliases.spec.subgraph
        self._aliases = aliases
        self._sources = [aliases.root(each) for each in subgraph.inputs]
        self._targets = [aliases.root(each) for each in subgraph.outputs]
        self._kinds = [(subgraph.tensors[each].dtype, aliases.size(each)) for each in subgraph.inputs]
        self._forwarded = [forwarding(aliases, k) for k in range(len(self._targets))]
        self._after: dict[int, int] = {}
        self._spares: list[int] = []

    def plan(self, rotates: bool) -> TurnPlan:
        """The plan; without `rotates` each value stays with a buffer of its own, and perhaps a second one."""
        self._assign(self._is_here, _own)
        if rotates:
            self._assign(self._is_here, self._others)
        self._assign(self._fits, _own)
        if rotates:
            self._assign(self._fits, self._others)
        return self._finished()

    def plan_alternating(self) -> TurnPlan:
        """The plan in which each value has a second buffer."""
        return self._finished()

    def kept(self, turn: TurnPlan, outside: frozenset[int]) -> Mapping[int, int] | str:
        """See `kept_outside`."""
        before = {each.position: turn.rotation.buffer(each.position, 1) for each in turn.carries}
        kept = {each.position: before[each.position] for each in turn.carries
                if each.action is not Action.COPY and before[each.position] in outside
                and self._is_here(each.position, before[each.position])}
        is_made = all(each.position in kept or self._is_made_in(before[each.position], each, outside)
                      for each in turn.carries)
        return kept if is_made else UNMADE

    def _is_made_in(self, j: int, carry: Transfer, outside: frozenset[int]) -> bool:
        """Whether a new value is made in buffer j, or can be copied there in the end."""
        holds_input = j < len(self._sources) and j not in outside
        if holds_input and self._is_here(carry.position, j):
            return True
        if carry.action is not Action.COPY and self._forwarded[carry.position] is not None:
            return False
        return not holds_input or self._fits(carry.position, j)

    def _assign(self, may_take: Callable[[int, int], bool], candidates: Callable[[int], Iterable[int]]) -> None:
        """Gives values that have no buffer yet the first one that they may take."""
        for k in range(len(self._targets)):
            if k not in self._after:
                taken = set(self._after.values())
                found = next((j for j in candidates(k) if j not in taken and may_take(k, j)), None)
                if found is not None:
                    self._after[k] = found

    def _others(self, k: int) -> list[int]:
        """The buffers that value k could lie in by type and size, but for its own."""
        dtype, size = self._kinds[k]
        return [j for j, (other, found) in enumerate(self._kinds)
                if j != k and other is dtype and not may_differ(found, size)]

    def _is_here(self, k: int, j: int) -> bool:
        """Whether new value k is made where input j lies."""
        return self._targets[k] == self._sources[j]

    def _fits(self, k: int, j: int) -> bool:
        """Whether input j is dead when new value k is written."""
        aliases, source = self._aliases, self._sources[j]
        if self._forwarded[k] is not None:
            return aliases.last_read(source) < len(aliases.spec.subgraph.operators)
        return may_reuse(aliases, source, self._targets[k])

    def _finished(self) -> TurnPlan:
        count = len(self._targets)
        for k in range(count):
            if k not in self._after:
                self._after[k] = count + len(self._spares)
                self._spares.append(k)
        found = rotation([self._after[k] for k in range(count)], self._spares)
        carries = (Transfer(Stage.CARRY, k, *self._carry(k, found)) for k in range(count))
        return TurnPlan(tuple(carries), found)

    def _carry(self, k: int, found: Rotation) -> tuple[Action, str]:
        after, forwarded = self._after[k], self._forwarded[k]
        is_here = after < len(self._sources) and self._is_here(k, after)
        if after == k and is_here:
            is_changed = self._aliases.is_overwritten(self._sources[k])
            return (Action.IN_PLACE, UPDATES) if is_changed else (Action.INVARIANT, UNCHANGED)
        if is_here:
            return Action.ROTATE, f"the value stays where carried value {after} was"
        if forwarded is not None:
            return Action.COPY, forwarded
        if after == k:
            return Action.IN_PLACE, IN_PLACE
        if after < len(self._sources):
            return Action.ROTATE, f"the new value is written over carried value {after}, which is dead"
        cycle = found.cycle(k)
        assert cycle is not None
        return (Action.ALTERNATE, ALTERNATES) if len(cycle.buffers) == 2 else (Action.ROTATE, FREE)


def _own(k: int) -> list[int]:
    return [k]
