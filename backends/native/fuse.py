"""Groups operators that combine by substitution into one, so that every later pass plans memory for what remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from circlet.backends.native.rule import rule_of
from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Count, Op, Operand, Operands, Skip, at_least, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.passes.rewrite import rewrite_subgraphs

LARGEST_GROUP = 48
"""Members; expressions beyond that compile slowly and gain nothing."""
SKIP = Operator(Skip(), (), ())


@dataclass(frozen=True)
class Member:
    """One operator of a group and its index in the subgraph."""

    number: int
    operator: Operator


@dataclass(frozen=True)
class Fused(Op):
    """Several operators computed in one loop nest. No format has this operator; a pass makes it."""

    name: ClassVar[str] = "FUSED"
    inputs: ClassVar[Count] = at_least(0)
    results: ClassVar[Count] = exactly(1)
    members: tuple[Member, ...] = ()
    """In order; the last one gives the result."""
    sources: tuple[int, ...] = ()
    """The tensors of the subgraph that the inputs are."""
    tensors: tuple[Tensor, ...] = ()
    """All of the subgraph's."""

    @property
    def label(self) -> str:
        """The names of the members, for people."""
        return "+".join(each.operator.name for each in self.members)

    def parts(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.members)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        found = self._infer({tensor: args[position] for position, tensor in enumerate(self.sources)})
        return (found[self.members[-1].operator.outputs[0]],)

    def shapes(self, sources: Mapping[int, Shape]) -> dict[int, Shape]:
        """The shape of every tensor that a member makes, from those of the sources."""
        tensors = self.tensors
        return self._infer({each: Operand(tensors[each].dtype, shape, tensors[each].data)
                            for each, shape in sources.items()})

    def _infer(self, sources: Mapping[int, Operand]) -> dict[int, Shape]:
        operands: dict[int, Operand | None] = {ABSENT: None, **sources}
        found: dict[int, Shape] = {}
        for operator in (each.operator for each in self.members):
            given = tuple(operands[each] for each in operator.inputs)
            shapes = operator.op.infer(Operands(given, len(operator.outputs)))
            for each, shape in zip(operator.outputs, shapes, strict=True):
                operands[each] = Operand(self.tensors[each].dtype, shape)
                found[each] = shape
        return found

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class FusedElementwise(Fused):
    """A group all of whose members compute element by element."""

    elementwise: ClassVar[bool] = True


def fuse_operators(model: Model) -> Model:
    """Replaces each group of operators by one at the place of its last member; the other places become `Skip`."""
    return rewrite_subgraphs(model, lambda subgraph: _Grouping(subgraph).apply())


@dataclass
class _Group:
    """Members found so far; `anchor` is the operator whose nest the others join."""

    members: set[int]
    anchor: int | None


class _Grouping:
    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._calls = [Call.of(subgraph, each, NOWHERE) for each in subgraph.operators]
        self._rules = [rule_of(each) for each in self._calls]
        self._readers: dict[int, list[tuple[int, int]]] = {}
        for number, operator in enumerate(subgraph.operators):
            for position, tensor in enumerate(operator.inputs):
                self._readers.setdefault(tensor, []).append((number, position))
        self._exported = set(subgraph.outputs)
        self._group_of: dict[int, set[int]] = {}
        self._groups: dict[int, _Group] = {}

    def apply(self) -> Subgraph:
        for number in reversed(range(len(self._subgraph.operators))):
            self._place(number)
        fused = {last: group for last, group in self._groups.items() if len(group.members) > 1}
        if not fused:
            return self._subgraph
        inner = {each for last, group in fused.items() for each in group.members if each != last}
        operators = tuple(
            self._fuse(number, fused[number]) if number in fused else SKIP if number in inner else operator
            for number, operator in enumerate(self._subgraph.operators)
        )
        return replace(self._subgraph, operators=operators)

    def _place(self, number: int) -> None:
        """Puts an operator into the groups that read it, or begins a group of its own."""
        rule = self._rules[number]
        if rule is None:
            return
        targets = self._targets(number)
        if targets is None:
            anchor = number if rule.nest is not None else None
            self._groups[number] = _Group({number}, anchor)
            self._group_of[number] = {number}
            return
        self._group_of[number] = targets
        for last in targets:
            self._groups[last].members.add(number)
            if rule.nest is not None:
                self._groups[last].anchor = number

    def _targets(self, number: int) -> set[int] | None:
        """The groups that an operator can join, if its results are then needed nowhere else."""
        rule, operator = self._rules[number], self._subgraph.operators[number]
        assert rule is not None
        readers = [each for tensor in operator.outputs for each in self._readers.get(tensor, [])]
        if not readers or self._exported.intersection(operator.outputs):
            return None
        targets = {last for reader, _ in readers for last in self._group_of.get(reader, {-1})}
        if -1 in targets or not all(self._accepts(reader, position) for reader, position in readers):
            return None
        if rule.nest is not None:
            return targets if self._may_anchor(number, targets, readers) else None
        alone = len({reader for reader, _ in readers}) == 1 and len(targets) == 1
        fits = all(len(self._groups[last].members) < LARGEST_GROUP for last in targets)
        return targets if fits and (rule.is_free or alone) else None

    def _accepts(self, reader: int, position: int) -> bool:
        rule = self._rules[reader]
        if rule is None:
            return False
        return rule.fused is not None or (rule.memory_inputs is not None and position not in rule.memory_inputs)

    def _may_anchor(self, number: int, targets: set[int], readers: list[tuple[int, int]]) -> bool:
        """Whether the elements of a nest can go through a group of operators as its epilogue."""
        if len(targets) != 1 or len(self._subgraph.operators[number].outputs) != 1:
            return False
        (last,) = targets
        shape = self._shape(number)
        path = {reader for reader, _ in readers}
        seen: set[int] = set()
        while path:
            each = path.pop()
            if not self._subgraph.operators[each].op.elementwise or self._shape(each) != shape:
                return False
            seen.add(each)
            if each != last:
                path.update(reader for reader, _ in self._readers[self._subgraph.operators[each].outputs[0]])
                path -= seen
        return self._groups[last].anchor is None

    def _shape(self, number: int) -> Shape:
        return self._subgraph.tensors[self._subgraph.operators[number].outputs[0]].signature

    def _fuse(self, last: int, group: _Group) -> Operator:
        numbers = sorted(group.members)
        operators = [self._subgraph.operators[each] for each in numbers]
        made = {tensor for operator in operators for tensor in operator.outputs}
        sources = dict.fromkeys(tensor for operator in operators for tensor in operator.inputs
                                if tensor not in made and tensor != ABSENT)
        kind = FusedElementwise if all(each.op.elementwise for each in operators) else Fused
        members = tuple(map(Member, numbers, operators))
        op = kind(members, tuple(sources), self._subgraph.tensors)
        return Operator(op, tuple(sources), operators[-1].outputs)


def place_of(place: Place, member: Member) -> Place:
    """Where a member of a group was in the model."""
    return Place(place.subgraph, place.subgraph_name, member.number, member.operator.name)
