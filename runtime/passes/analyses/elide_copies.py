"""Decides, for every edge between an operator and the subgraphs it invokes, whether a copy is needed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop
from circlet.runtime.passes.analyses.alias import Aliases, Effects, declared_effects, find_aliases, may_reuse
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, Specialization, Specializer


class Action(Enum):
    """How a value crosses the border of a subgraph."""

    LEND = "lend"
    """The callee uses the caller's buffer."""
    ALTERNATE = "alternate"
    """The body reads one buffer and writes another; they change places each turn."""
    IN_PLACE = "in_place"
    """The new value is written over the old one."""
    INVARIANT = "invariant"
    """The value goes around the loop untouched."""
    REGISTER = "register"
    """Compiled code has the value in a register of the processor."""
    COPY = "copy"


@dataclass(frozen=True)
class Slot:
    """One carried value of a loop."""

    action: Action
    reason: str
    double: bool
    """Whether it needs a second buffer."""


@dataclass(frozen=True)
class LoopPlan:
    """What becomes of each carried value of a loop whose shapes stay the same."""

    slots: tuple[Slot, ...]

    @property
    def destroyable(self) -> frozenset[int]:
        """The body inputs whose buffers the body may overwrite."""
        return frozenset(k for k, slot in enumerate(self.slots) if slot.action is not Action.INVARIANT)

    @property
    def alternates(self) -> bool:
        """Whether any value needs a second buffer, so that cond and body are bound twice."""
        return any(slot.double for slot in self.slots)

    @property
    def effects(self) -> Effects:
        """The loop as its caller sees it."""
        invariant = {k: k for k, slot in enumerate(self.slots) if slot.action is Action.INVARIANT}
        return Effects(invariant, {k: k for k in range(len(self.slots)) if k not in invariant})


@dataclass(frozen=True)
class CallPlan:
    """Which outputs of a call may be written over which of its operands, in every subgraph it may invoke."""

    in_place: tuple[tuple[int, int], ...]
    """(output, input) positions of the invoked subgraphs."""


class CopyPlanner:
    """Plans the copies of one model; `elide=False` plans the textbook ones."""

    def __init__(self, model: Model, specializer: Specializer, elide: bool = True) -> None:
        self.elide = elide
        self._model = model
        self._specializer = specializer
        self.loop = lru_cache(MEMO_SIZE)(self._loop)
        """`loop(op, carried_shapes) -> LoopPlan`; raises Unknown where shapes change from turn to turn."""
        self.call = lru_cache(MEMO_SIZE)(self._call)
        """`call(subgraphs, input_shapes) -> CallPlan`; raises Unknown where only a run can tell the shapes."""

    def aliases(self, spec: Specialization, span: range, destroyable: Iterable[int] = ()) -> Aliases:
        """The storage classes of a subgraph whose caller gives up the inputs at positions `destroyable`."""
        subgraph = spec.subgraph
        written = {each for number in span for each in subgraph.operators[number].outputs if each not in spec.known}
        free = {subgraph.inputs[position] for position in destroyable} if span.start == 0 else set()
        fixed = set(range(len(subgraph.tensors))) - written - free
        return find_aliases(spec, span, fixed, lambda number: self._effects(spec, number))

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
                return self.loop(op, shapes).effects
            if isinstance(op, Branch):
                pairs = self.call(op.branches(), shapes[1:]).in_place
                return Effects({}, {output: position + 1 for output, position in pairs})
            if isinstance(op, Invoke):
                return Effects({}, dict(self.call(op.callees(), shapes).in_place))
        except Unknown:
            pass
        return Effects()

    def _loop(self, op: PreTestedLoop, shapes: tuple[Shape, ...]) -> LoopPlan:
        spec = self._specializer.callee(op.body_subgraph_index, shapes)
        if spec.output_shapes != shapes:
            raise Unknown
        self._specializer.callee(op.cond_subgraph_index, shapes)
        if not self.elide:
            slot = Slot(Action.COPY, "copy elision is off", True)
            return LoopPlan((slot,) * len(shapes))
        aliases = self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes)))
        return LoopPlan(tuple(_slot(aliases, position) for position in range(len(shapes))))

    def _call(self, subgraphs: tuple[int, ...], shapes: tuple[Shape, ...]) -> CallPlan:
        specs = [self._specializer.callee(index, shapes) for index in subgraphs]
        if len({spec.output_shapes for spec in specs}) != 1:
            raise Unknown
        if not self.elide:
            return CallPlan(())
        found = [self.aliases(spec, range(len(spec.subgraph.operators)), range(len(shapes))) for spec in specs]
        pairs: list[tuple[int, int]] = []
        for output in range(len(specs[0].output_shapes)):
            taken = {position for _, position in pairs}
            free = (position for position in range(len(shapes)) if position not in taken)
            fitting = [each for each in free if all(_is_in_place(aliases, each, output) for aliases in found)]
            if fitting:
                pairs.append((output, fitting[0]))
        return CallPlan(tuple(pairs))


def _slot(aliases: Aliases, position: int) -> Slot:
    subgraph = aliases.spec.subgraph
    source = aliases.root(subgraph.inputs[position])
    target = aliases.root(subgraph.outputs[position])
    if source == target:
        if aliases.is_overwritten(source):
            return Slot(Action.IN_PLACE, "the body updates the value where it lies", False)
        return Slot(Action.INVARIANT, "the body returns the value unchanged", False)
    reason = forwarding(aliases, position)
    if reason is not None:
        return Slot(Action.COPY, reason, aliases.last_read(source) >= len(subgraph.operators))
    if may_reuse(aliases, source, target):
        return Slot(Action.IN_PLACE, "the old value is dead when the new one is written", False)
    return Slot(Action.ALTERNATE, "the body still reads the old value after it begins to write the new one", True)


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
