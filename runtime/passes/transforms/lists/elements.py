"""What the elements of sequences are: what they are declared to be, and of what they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop
from circlet.runtime.ops.sequence import (
    SequenceAt,
    SequenceConcat,
    SequenceConstruct,
    SequenceErase,
    SequenceInsert,
    SequenceSplit,
)
from circlet.runtime.ops.shape import ShapeOf
from circlet.runtime.passes.transforms.lists.places import Place, connected, reached, same_values
from circlet.runtime.records import replace


def same(model: Model, index: int, operator: Operator) -> Iterator[tuple[Place, Place]]:
    """The values that are one by an operator, or by which a loop goes on; a sequence with one more element is, or one
    less."""
    if isinstance(operator.op, (SequenceInsert, SequenceErase)):
        yield (index, operator.outputs[0]), (index, operator.inputs[0])
    yield from same_values(model, index, operator)


class Elements:
    """What becomes elements of sequences of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._around: dict[Place, list[Place]] = defaultdict(list)
        """What is one with each value."""
        self._made: dict[Place, Operator] = {}
        """What makes each value, if it invokes nothing."""
        self._turning: set[int] = set()
        """The subgraphs that turns of loops run."""
        self._handed: dict[Place, set[Place]] = defaultdict(set)
        """What inputs of branches are, where these are invoked."""
        for index, graph in enumerate(model.subgraphs):
            for operator in graph.operators:
                self._enter(index, operator)

    def _enter(self, index: int, operator: Operator) -> None:
        for one, other in same(self._model, index, operator):
            self._around[one].append(other)
            self._around[other].append(one)
        if isinstance(operator.op, PreTestedLoop):
            self._turning |= reached(self._model, operator)
        elif isinstance(operator.op, (Branch, Invoke)):
            for callee in operator.op.callees():
                for inner, outer in zip(self._model.subgraphs[callee].inputs,
                                        operator.inputs[isinstance(operator.op, Branch):], strict=False):
                    self._handed[callee, inner].add((index, outer))
        if not operator.op.callees():
            self._made.update(((index, each), operator) for each in operator.outputs)

    def declared(self, place: Place) -> Tensor | None:
        """What an element is declared to be, here or where it goes, or as what loops carry it, or what it is computed
        of element by element; None where nobody says how many axes it has."""
        dtype, seen = self._tensor(place).dtype, set[Place]()
        while place not in seen:
            found = (place, *sorted(connected(self._around, place)))
            declared = next((each for each in map(self._tensor, found) if each.declared is not None), None)
            if declared is not None:
                return declared if declared.dtype is dtype else replace(declared, dtype=dtype, data=None)
            seen.update(found)
            place = next((source for each in found if (source := self._alike(each)) is not None), place)
        return None

    def _tensor(self, place: Place) -> Tensor:
        return self._model.subgraphs[place[0]].tensors[place[1]]

    def _alike(self, place: Place) -> Place | None:
        """What has the shape of a value that is computed of it element by element; None where that is not one value."""
        operator = self._made.get(place)
        if operator is None or not operator.op.elementwise:
            return None
        inputs = [(place[0], each) for each in operator.inputs if each != ABSENT]
        shaped = [each for each in inputs if self._tensor(each).data is None or self._tensor(each).shape]
        return shaped[0] if len(shaped) == 1 else None

    def differ_along(self, places: Collection[Place]) -> Sequence[int]:
        """The axes along which elements are joined of those of other lists, or pieces of what is cut, of which nobody
        says how long they are, so that elements are of as many lengths."""
        found, seen, left = set[int](), set[Place](), [*places]
        while left:
            near = connected(self._around, left.pop()) - seen
            seen |= near
            for one in near:
                made, alike = self._made.get(one), self._alike(one)
                left += [] if alike is None else [alike]
                if made is not None and isinstance(made.op, (SequenceAt, SequenceConcat)):
                    inside, cuts = self._inside((one[0], made.inputs[0]))
                    left += inside if isinstance(made.op, SequenceAt) else []
                    found |= cuts if isinstance(made.op, SequenceAt) else self._open_axes(made.op, inside)
        return sorted(found)

    def _open_axes(self, op: SequenceConcat, inside: Sequence[Place]) -> set[int]:
        """The axis along which such elements are joined, if nobody says how long these are."""
        if op.new_axis:
            return set()
        sizes = [each.signature for each in map(self.declared, inside) if each is not None]
        axes = {op.axis % len(each) if each else 0 for each in sizes}
        return {axis for axis in axes if any(-1 in each[axis:axis + 1] for each in sizes)}

    def _inside(self, sequence: Place) -> tuple[list[Place], set[int]]:
        """What is put into a sequence, and along which axes something is cut into it."""
        made = [(each[0], self._made[each]) for each in connected(self._around, sequence) if each in self._made]
        given = [(index, each.inputs[1:2] if isinstance(each.op, SequenceInsert) else each.inputs)
                 for index, each in made if isinstance(each.op, (SequenceConstruct, SequenceInsert))]
        cuts = {self._axis(index, each, each.op.axis) for index, each in made
                if isinstance(each.op, SequenceSplit) and each.op.keep_axis}
        return [(index, tensor) for index, tensors in given for tensor in tensors], cuts

    def _axis(self, index: int, operator: Operator, axis: int) -> int:
        """An axis of an operator's first input, counted from the front."""
        declared = self.declared((index, operator.inputs[0]))
        return axis % len(declared.signature) if declared is not None and declared.signature else axis

    def equal(self, places: Collection[Place]) -> set[Place]:
        """The inputs of branches that are one of some values wherever both are there."""
        begins = {self._begin(each) for each in places}
        return {each for each in self._handed if self._begin(each) in begins}

    def _begin(self, place: Place) -> Place:
        """What a value is outside of all branches that it is handed to."""
        found = self._handed.get(place, {place})
        while len(found) == 1 and place not in found:
            place, = found
            found = self._handed.get(place, {place})
        return place

    def are_single(self, appended: Sequence[Place], first: Sequence[Place], axis: int) -> bool:
        """Whether elements that operators append may be of size 1 along an axis, as the others are."""
        sizes = [None if tensor is None else tensor.signature[axis:axis + 1]
                 for tensor in map(self.declared, (*first, *appended))]
        return all(each == (1,) for each in sizes[:len(first)]) and {*sizes} <= {None, (1,), (-1,)}

    def may_be_short(self, place: Place) -> bool:
        """Whether an element comes of a part that a turn of a loop takes of something, which may end before that. Part
        of the sizes that an operator is given says how many axes there are."""
        found, left = {(place, False)}, [(place, False)]
        while left:
            one, are_sizes = left.pop()
            operator = self._made.get(one)
            if not are_sizes and operator is not None and one[0] in self._turning \
                    and self._takes_part(one[0], operator):
                return True
            new = {*((each, are_sizes) for each in self._around.get(one, ())),
                   *(() if operator is None else _sources(one[0], operator, are_sizes))} - found
            found |= new
            left += new
        return False

    def _takes_part(self, index: int, operator: Operator) -> bool:
        """Whether an operator takes a part of its input that only the run tells."""
        tensors = self._model.subgraphs[index].tensors
        return any(tensors[operator.inputs[each]].data is None for each in operator.op.parts_from
                   if operator.inputs[each] != ABSENT)


def _sources(index: int, operator: Operator, are_sizes: bool) -> Iterator[tuple[Place, bool]]:
    """What an operator reads to make a value, which are sizes or not, and whether those are sizes."""
    for position, tensor in enumerate(operator.inputs):
        if tensor != ABSENT:
            is_size = are_sizes and not isinstance(operator.op, ShapeOf)
            yield (index, tensor), is_size or position in operator.op.sizes


def alone(elements: Sequence[Tensor], are_all: bool, along: Sequence[int]) -> Sequence[tuple[int, bool]]:
    """The axes along which elements may lie that nothing joins, in the order of trying, and whether they are new ones:
    if they have one shape, else those along which they may differ, of which it is the last one more often than not.

    Args:
        elements: as they are declared.
        are_all: whether there are no others.
        along: the axes along which they differ for what they are made of.
    """
    sizes = zip(*(each.signature for each in elements), strict=True)
    differ = [axis for axis, each in enumerate(sizes) if -1 in each or len({*each}) > 1]
    if along or differ or not are_all:
        return [(axis, False) for axis in dict.fromkeys((*along, *reversed(differ)))] or [(-1, False)]
    return [(0, True)]
