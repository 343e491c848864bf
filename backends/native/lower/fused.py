"""Operators that are computed in one loop nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import (
    Count,
    Op,
    OpenResults,
    Operand,
    Operands,
    ShapeError,
    at_least,
    exactly,
)
from circlet.runtime.ir.tensor import Tensor, types_of
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.ops.comparison import Select, SelectV2
from circlet.runtime.ops.operands import has_gaps
from circlet.runtime.records import dataclass


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
    overwritten: int | None = None
    """The input of which the result is a partly rewritten copy, if there is one."""

    @property
    def label(self) -> str:
        """The names of the members, for people."""
        return "+".join(each.operator.name for each in self.members)

    def parts(self) -> tuple[int, ...]:
        """The indices of the members."""
        return tuple(each.number for each in self.members)

    def joined(self) -> Sequence[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
        """The members, with what they read and give."""
        return [(each.op, tuple(each.inputs), tuple(each.outputs)) for each in (one.operator for one in self.members)]

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        """The shape of the last member's result."""
        found = self._infer({tensor: args[position] for position, tensor in enumerate(self.sources)}, self.members)
        return (found[self.members[-1].operator.outputs[0]],)

    def overwrites(self) -> Mapping[int, int]:
        """The input that the result is written over, if there is one."""
        return {} if self.overwritten is None else {0: self.overwritten}

    def appends(self) -> Mapping[int, tuple[int, int]]:
        """What the last member appends to, if that is an input."""
        last = self.members[-1].operator
        return {output: (self.sources.index(last.inputs[position]), axis)
                for output, (position, axis) in last.op.appends().items() if last.inputs[position] in self.sources}

    def shapes(self, sources: Mapping[int, Array]) -> dict[int, Shape]:
        """The shape of every tensor that a member but the last makes, from the buffers of the sources; those that are
        read-only hold their value already.

        Raises:
            Unknown: a shape follows from other values.
        """
        operands = {each: Operand.of(self.tensors[each], array, is_known=not array.flags.writeable)
                    for each, array in sources.items()}
        return self._infer(operands, self.members[:-1])

    def _infer(self, sources: Mapping[int, Operand], members: Sequence[Member]) -> dict[int, Shape]:
        """The shapes of all results of some members, in order."""
        operands: dict[int, Operand | None] = {ABSENT: None, **sources}
        found: dict[int, Shape] = {}
        for member in members:
            operator = member.operator
            given = tuple(operands[each] for each in operator.inputs)
            try:
                shapes = operator.op.checked(Operands(given, len(operator.outputs),
                                                      declared=types_of(self.tensors, operator.outputs)))
            except ShapeError as error:
                error.member = error.member or (member.number, operator.name)
                raise
            for each, shape in zip(operator.outputs, shapes, strict=True):
                operands[each] = Operand(self.tensors[each].dtype, shape)
                found[each] = shape
        return found

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        """Anything: types are as declared."""
        return (None,)

    def open_results(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Sequence[Array] | None:
        """The last member's result. Conditions assume nothing of lengths where it is of no account whether they hold,
        as of what a RESHAPE keeps of a shape for 0, if that is what is asked for."""
        with LOADING:
            from circlet.runtime.passes.analyses.open_values import certain_results

        if any(isinstance(each.operator.op, (Select, SelectV2)) for each in self.members[1:]):
            found = self._open_result(inputs, certain_results)
            if found is not None and not has_gaps(found):
                return (found,)
        last = self._open_result(inputs, evaluate)
        return None if last is None else (last,)

    def _open_result(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Array | None:
        with LOADING:
            from circlet.runtime.passes.analyses.open_values import valued

        known: dict[int, Array | None] = {ABSENT: None, **dict(zip(self.sources, inputs, strict=True))}
        for operator in (each.operator for each in self.members):
            given = [known[each] for each in operator.inputs]
            operands = tuple(None if array is None else Operand.of(self.tensors[each], array)
                             for each, array in zip(operator.inputs, given, strict=True))
            made = evaluate(operator.op, given, operator.op.infer(Operands(
                operands, len(operator.outputs), declared=types_of(self.tensors, operator.outputs))))
            if made is None:
                return None
            known.update({tensor: valued(each, self.tensors[tensor].dtype)
                          for tensor, each in zip(operator.outputs, made, strict=True)})
        return known[self.members[-1].operator.outputs[0]]

    def calls_at(self, place: Place) -> tuple[Call, ...]:
        """The members as calls; `place` is that of the group."""
        return tuple(Call.of_tensors(self.tensors, each.operator, place_of(place, each)) for each in self.members)


@dataclass(frozen=True)
class FusedElementwise(Fused):
    """A group that reads each input of the shape of the result element by element."""

    elementwise: ClassVar[bool] = True


def place_of(place: Place, member: Member) -> Place:
    """Where a member of a group was in the model."""
    return Place(place.subgraph, place.subgraph_name, member.number, member.operator.name)
