"""Which sequences can be tensors, and how their elements lie then.

A sequence is followed from where it is made through all subgraphs that it goes to. It stays as it is where something
else is done with it, or a subgraph that it goes to is invoked from several places.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto

from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import CallSubgraph, If, PreTestedLoop
from circlet.runtime.ops.loop_steps import LoopZeros
from circlet.runtime.ops.sequence import (
    OptionalGetElement,
    OptionalHasElement,
    OptionalOf,
    SequenceAt,
    SequenceConcat,
    SequenceConstruct,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
    SequenceSplit,
)
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.lists.elements import Elements, alone, same
from circlet.runtime.passes.transforms.lists.places import Place, reached
from circlet.runtime.records import replace


class Guess(Enum):
    """What is taken for granted of elements of which nobody says how long they are, in the order of trying."""

    SAME = auto()
    """Those that nothing joins have one shape, where no turn of a loop may cut one short."""
    ANY = auto()
    """Those that nothing joins differ along the last axis along which they may."""
    NEXT = auto()
    """They differ along the one before it."""
    THIRD = auto()
    """They differ along the one before that."""
    SINGLE = auto()
    """As SAME, and those that are joined and read or changed by position have size 1: one that is cut short is an
    error."""
    PARTS = auto()
    """As ANY, and those that are changed by position may differ, too."""


@dataclass
class Web:
    """One sequence under all names that it has."""

    places: set[Place]
    uses: list[tuple[int, Operator]] = field(default_factory=list)
    """The subgraphs and operators that make and read it, but for those that it only goes through."""
    is_right: bool = True
    """Whether it can be a tensor."""
    axis: int = 0
    stacked: bool = False
    element: Tensor | None = None
    """What one of its elements is declared to be."""
    examples: set[Place] = field(default_factory=set)
    """What has the shape of elements, if all have one."""
    has_ends: bool = False
    """Whether another tensor says where its elements end."""
    are_single: bool = False
    """Whether its elements are of size 1 along the axis on which they are joined."""
    is_guessed: bool = False
    """Whether nobody says that elements have one shape, or along which axis they differ."""
    is_cut: bool = False
    """Whether it is a tensor that was cut."""
    may_be_empty: bool = False
    """Whether it is made of no elements somewhere."""
    is_counted: bool = False
    """Whether another tensor says how many elements there are, which nothing else tells."""

    def sizes(self, size: int) -> Shape:
        """The declared shape of an element, with a size for each that is not known."""
        assert self.element is not None, "the sequence has elements"
        return tuple(size if each < 0 else each for each in self.element.declared or ())

    @property
    def layout(self) -> tuple[object, ...]:
        """What tells how its elements lie."""
        return min(self.places), self.axis, self.stacked, self.are_single

    def crosses(self, model: Model, index: int) -> bool:
        """Whether a subgraph takes or gives it."""
        graph = model.subgraphs[index]
        return any((index, each) in self.places for each in (*graph.inputs, *graph.outputs))


def webs_of(model: Model, guess: Guess) -> list[Web]:
    """The sequences of what runs reach of a model, of which those that can be tensors are marked."""
    begins = {0, *(each.subgraph for each in model.signatures)}
    used = begins | {each for index in begins for operator in model.subgraphs[index].operators
                     for each in reached(model, operator)}
    operators = [(index, each) for index in used for each in model.subgraphs[index].operators]
    called = Counter(callee for _, each in operators for callee in each.op.callees())
    found = {(index, number): Web({(index, number)}) for index in used
             for number, tensor in enumerate(model.subgraphs[index].tensors) if tensor.dtype is DType.VARIANT}
    for index, operator in operators:
        for one, other in same(model, index, operator):
            _join(found, one, other)
    for index, operator in operators:
        if not isinstance(operator.op, (Alias, If, CallSubgraph, PreTestedLoop, LoopZeros)):
            near = (found[index, each] for each in (*operator.inputs, *operator.outputs) if (index, each) in found)
            for web in {id(each): each for each in near}.values():
                web.uses.append((index, operator))
    for index in used:
        for tensor in {*model.subgraphs[index].inputs, *model.subgraphs[index].outputs}:
            if (index, tensor) in found and called[index] != 1:
                found[index, tensor].is_right = False
    webs, elements = list({id(each): each for each in found.values()}.values()), Elements(model)
    for web in webs:
        web.is_right = web.is_right and _laid_out(model, web, elements, guess)
    return webs


def _join(found: dict[Place, Web], one: Place, other: Place) -> None:
    """Makes one of two sequences, if they are such."""
    left, right = found.get(one), found.get(other)
    if left is None or right is None:
        for each in (left, right):
            if each is not None:
                each.is_right = False
    elif left is not right:
        left.places |= right.places
        left.is_right = left.is_right and right.is_right
        for place in right.places:
            found[place] = left


def _laid_out(model: Model, web: Web, elements: Elements, guess: Guess) -> bool:
    """Decides how the elements of a sequence lie; False where they cannot."""
    kinds = {type(operator.op) for _, operator in web.uses}
    inserts, constructs, cuts = ([each for each in web.uses if isinstance(each[1].op, kind)]
                                 for kind in (SequenceInsert, SequenceConstruct, SequenceSplit))
    if not kinds <= _KNOWN:
        return kinds <= _OF_OPTIONALS and _at_most_one(web, elements)
    if cuts:
        return len(cuts) == 1 and kinds <= _OF_PIECES and _cut(model, web, *cuts[0])
    given = [(index, each.inputs[1]) for index, each in inserts]
    given += [(index, tensor) for index, each in constructs for tensor in each.inputs]
    declared, web.examples = [elements.declared(each) for each in given], elements.equal(given)
    joins = {(each.op.axis, each.op.new_axis) for _, each in web.uses if isinstance(each.op, SequenceConcat)}
    known = [each for each in declared if each is not None]
    if not known or len(joins) > 1 or len({(len(each.signature), each.dtype) for each in known}) > 1:
        return False
    differ = [] if joins else elements.differ_along(given)
    ways = [*joins] or alone(known, len(known) == len(declared), differ)
    axis, web.stacked = ways[min(_FURTHER.get(guess, 0), len(ways) - 1)]
    web.is_guessed, web.may_be_empty = not (web.stacked or joins), not all(each.inputs for _, each in constructs)
    if guess in _ALIKE and web.is_guessed and not (differ or any(map(elements.may_be_short, given))):
        axis, web.stacked = 0, True
    most = len(known[0].signature) + web.stacked
    web.axis, web.element = axis + most if axis < 0 else axis, known[0]
    is_changed = SequenceErase in kinds or any(has_place(each) for _, each in inserts)
    is_told = is_changed or SequenceAt in kinds
    web.are_single = guess is Guess.SINGLE and not (web.stacked or web.is_guessed) and is_told and elements.are_single(
        given[:len(inserts)], given[len(inserts):], web.axis)
    # counting is an operator, and those of a subgraph that stays keep their places
    can_count = not is_told and all(web.crosses(model, index) for index, _ in inserts)
    is_asked = not (web.stacked or web.are_single) and (is_told or SequenceLength in kinds)
    web.is_counted, web.has_ends = is_asked and can_count, is_asked and not can_count
    return 0 <= web.axis < most and (web.stacked or web.are_single or not is_changed or guess is Guess.PARTS)


def has_place(changing: Operator) -> bool:
    """Whether an operator that inserts an element, or erases one, says where, which is at the end otherwise."""
    return changing.inputs[1 + isinstance(changing.op, SequenceInsert):] not in ((), (ABSENT,))


_FURTHER = {Guess.NEXT: 1, Guess.THIRD: 2}
_ALIKE = {Guess.SAME, Guess.SINGLE}
_KNOWN = {SequenceAt, SequenceConcat, SequenceConstruct, SequenceErase, SequenceInsert, SequenceLength, SequenceSplit}
_OF_OPTIONALS = {OptionalGetElement, OptionalHasElement, OptionalOf}
_OF_PIECES = {SequenceAt, SequenceLength, SequenceSplit}


def _at_most_one(web: Web, elements: Elements) -> bool:
    """The same of an optional, which is a list of one element, of any size, or of none."""
    made = [(index, each.inputs[:1]) for index, each in web.uses if isinstance(each.op, OptionalOf)]
    values = [(index, tensor) for index, inputs in made for tensor in inputs]
    declared, web.examples = [elements.declared(each) for each in values], elements.equal(values)
    known = [each for each in declared if each is not None]
    if len({(len(each.signature), each.dtype) for each in known}) != 1 or known[0].dtype is DType.VARIANT:
        return False
    sizes = tuple(found.pop() if len(found) == 1 else -1 for found in map(
        set, zip(*(each.signature for each in known), strict=True)))
    web.element = replace(known[0], data=None, shape=tuple(max(each, 1) for each in sizes), shape_signature=sizes)
    web.stacked, web.may_be_empty = True, not all(inputs for _, inputs in made)
    return True


def _cut(model: Model, web: Web, index: int, cut: Operator) -> bool:
    """The same of the pieces of a tensor, which stay where they are in it."""
    graph, op = model.subgraphs[index], cut.op
    whole, lengths = (graph.tensors[each] for each in cut.inputs)
    if not isinstance(op, SequenceSplit) or whole.declared is None or cut.outputs[0] in graph.outputs:
        return False
    rank, is_each = len(whole.declared), lengths.data is not None and lengths.shape == () and lengths.data.item() == 1
    web.axis, web.element, web.is_cut = op.axis + rank if op.axis < 0 else op.axis, whole, True
    web.has_ends, web.stacked = op.keep_axis, not op.keep_axis
    return 0 <= web.axis < rank and (op.keep_axis or is_each)
