"""Makes tensors of sequences that loops and branches fill, cut tensors into and read by position.

A sequence is an object of Python, which no code has. As a tensor its elements lie one behind another: along a new axis
where something stacks them, so that they have one shape, or nothing says that they have not; else along the axis on
which they were cut, or are joined, or along which they may differ. Where such elements are read by position, the tensor
of where they end goes along; where they are only counted, their number does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.lists import (
    ListAppend,
    ListAppendPart,
    ListBegin,
    ListEmpty,
    ListEnds,
    ListErase,
    ListErasePart,
    ListHas,
    ListInsert,
    ListInsertPart,
    ListJoin,
    ListOnly,
    ListPart,
    ListSet,
    ListStack,
)
from circlet.runtime.ops.loop_steps import LoopLength, LoopZeros
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
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.lists.places import reached, redirected
from circlet.runtime.passes.transforms.lists.webs import Guess, Web, has_place, webs_of
from circlet.runtime.records import replace

Stays: TypeAlias = "Callable[[Model, int, int, bool], bool]"
"""Whether an operator of a subgraph becomes code with all that it invokes."""


def spread_lists(model: Model, is_code: Stays = lambda *_: True) -> Model:
    """Replaces the operators on such sequences, which keep their places. Subgraphs that sequences go to are new ones,
    as anyone may run the old ones. What is left of them is tried again, as something else may be taken of it. The model
    itself, if loops of the new one are no code."""
    tried: set[frozenset[tuple[object, ...]]] = set()
    for guess in Guess:
        webs = [each for each in webs_of(model, guess) if each.is_right]
        layout = frozenset(each.layout for each in webs)
        if not webs or layout in tried:
            continue
        tried.add(layout)
        spreading = _Spreading(model, webs)
        changed = spreading.model()
        are_apart = any(each.is_guessed for each in webs)
        if all(is_code(changed, *each, are_apart) for each in spreading.asked(changed)):
            return spread_lists(changed, is_code)
    return model


class _Spreading:
    """A model in which sequences become tensors."""

    def __init__(self, model: Model, webs: Sequence[Web]) -> None:
        self._model = model
        self.webs = {place: web for web in webs for place in web.places}
        """By what has them."""
        touched = sorted({index for index, _ in self.webs})
        crossed = [index for index in touched if any(each.crosses(model, index) for each in webs)]
        self.numbers = {index: len(model.subgraphs) + k for k, index in enumerate(crossed)}
        """The numbers of the new subgraphs, by those of the old ones."""
        self.changed = {self.numbers.get(each, each): each for each in touched}
        """The numbers of subgraphs that change, with those of what they are made of."""

    def asked(self, changed: Model) -> Iterator[tuple[int, int]]:
        """Of the changed model, the subgraphs that nothing invokes and their operators that reach what was changed, or
        make a sequence of whose elements more is taken for granted than anybody says."""
        called = {callee for graph in changed.subgraphs for each in graph.operators for callee in each.op.callees()}
        for index, graph in enumerate(changed.subgraphs):
            for number, each in enumerate(graph.operators if index not in called else ()):
                made = (self.webs.get((self.changed.get(index, -1), tensor)) for tensor in each.outputs)
                if any(web is not None and (web.is_guessed or web.are_single) for web in made) \
                        or not self.changed.keys().isdisjoint(reached(changed, each)):
                    yield index, number

    def model(self) -> Model:
        """The model with all of them replaced."""
        subgraphs = [*self._model.subgraphs, *(self._model.subgraphs[each] for each in self.numbers)]
        for number, index in self.changed.items():
            subgraphs[number] = _Graph(self, self._model.subgraphs[index], index).changed()
        return replace(self._model, subgraphs=tuple(subgraphs))

    def inputs(self, index: int) -> Sequence[int]:
        """The inputs of a subgraph as it was."""
        return self._model.subgraphs[index].inputs

    def accompanied(self, index: int, tensors: Sequence[int]) -> list[int]:
        """The tensors of a subgraph, by position, with which goes where their elements end, or how many there are."""
        webs = (self.webs.get((index, each)) for each in tensors)
        return [position for position, web in enumerate(webs) if web is not None and (web.has_ends or web.is_counted)]


class _Graph:
    """A subgraph in which sequences become tensors."""

    def __init__(self, spreading: _Spreading, graph: Subgraph, index: int) -> None:
        self._spreading = spreading
        self._graph = graph
        self._index = index
        self._webs = {tensor: web for (place, tensor), web in spreading.webs.items() if place == index}
        self._tensors = [_declared(each, self._webs[number]) if number in self._webs else each
                         for number, each in enumerate(graph.tensors)]
        self._operators: list[Operator] = []
        """As far as they were changed."""
        self._data: dict[int, int] = {}
        """The tensors that sequences become where they do not have their places, such as what is cut."""
        self._ends: dict[int, int] = {}
        """Where elements end, by sequence."""
        self._counts: dict[int, tuple[int, int]] = {}
        """How many elements there are, by sequence: as many as a tensor says, or none if that is ABSENT, and more."""
        self._behind: list[int] = []
        """The inputs that there were not."""
        self._first: list[Operator] = []
        """What is computed of these before all else."""

    def changed(self) -> Subgraph:
        """The subgraph with tensors for sequences."""
        self._behind += map(self._companion, self._accompanied(self._graph.inputs))
        for each in self._graph.operators:
            self._operators.append(self._operator(each))
        is_alike = self._is_new and len(self._operators) == len(self._graph.operators)
        outputs = [*map(self._taken, self._graph.outputs), *self._companions(self._graph.outputs)]
        own = self._index if is_alike and self._graph.origin is None else self._graph.origin
        return replace(self._graph, tensors=tuple(self._tensors), operators=(*self._first, *self._operators),
                       inputs=(*self._graph.inputs, *self._behind), outputs=tuple(outputs), origin=own,
                       added=self._graph.added + len(self._first))

    def _accompanied(self, tensors: Sequence[int]) -> list[int]:
        """The sequences among tensors with which another tensor goes."""
        return [tensors[each] for each in self._spreading.accompanied(self._index, tensors)]

    def _companion(self, tensor: int) -> int:
        """A new tensor for where elements of a sequence end, or how many there are."""
        name = self._graph.tensors[tensor].name
        if self._webs[tensor].has_ends:
            self._ends[tensor] = found = self._added(Tensor(f"{name}_ends", DType.INT64, (1,), (-1,)))
        else:
            found = self._added(Tensor(f"{name}_count", DType.INT64, ()))
            self._counts[tensor] = found, 0
        return found

    def _companions(self, tensors: Sequence[int]) -> list[int]:
        """Where elements of those sequences end, or how many there are, of which that is asked."""
        return [self._ends[each] if each in self._ends else self._count(each) for each in self._accompanied(tensors)]

    def _count(self, tensor: int) -> int:
        """How many elements a sequence has, a scalar."""
        op, inputs = self._counting(tensor)
        if isinstance(op, Alias):
            return inputs[0]
        found = self._added(Tensor(f"{self._graph.tensors[tensor].name}_count", DType.INT64, ()))
        (self._first if inputs[0] in self._behind else self._operators).append(Operator(op, inputs, (found,)))
        self._counts[tensor] = found, 0
        return found

    def _counting(self, tensor: int) -> tuple[Alias | Add, tuple[int, ...]]:
        """What says how many elements a sequence has: an operator and its inputs."""
        base, more = self._counts[tensor]
        if base != ABSENT and not more:
            return Alias(), (base,)
        number = self._constant(f"{self._graph.tensors[tensor].name}_more", more)
        return (Alias(), (number,)) if base == ABSENT else (Add(), (base, number))

    def _constant(self, name: str, value: int | Sequence[int]) -> int:
        """The number of a new tensor of int64 that is always the same."""
        data = np.array(value, np.int64)
        data.setflags(write=False)
        return self._added(Tensor(name, DType.INT64, data.shape, data=data))

    def _added(self, tensor: Tensor) -> int:
        """The number of a new tensor."""
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def _taken(self, tensor: int) -> int:
        """What holds the elements of a sequence; other tensors as they are."""
        return self._data.get(tensor, tensor)

    def _operator(self, operator: Operator) -> Operator:
        """What takes the place of an operator."""
        webs = [self._webs[each] for each in (*operator.inputs, *operator.outputs) if each in self._webs]
        if not webs:
            return operator
        if isinstance(operator.op, LoopZeros):
            return self._shaping(operator, operator.op)
        if isinstance(operator.op, (Branch, Invoke, PreTestedLoop)):
            return self._invoking(operator)
        changed = self._listing(operator, webs[0])
        return replace(changed, version=1) if changed.op is not operator.op else changed

    def _listing(self, operator: Operator, web: Web) -> Operator:
        """What takes the place of an operator that makes or reads a sequence."""
        op, inputs, outputs = operator.op, tuple(map(self._taken, operator.inputs)), operator.outputs
        ends = next((self._ends[each] for each in operator.inputs if each in self._ends), None)
        self._counted(operator)
        if isinstance(op, SequenceSplit):
            self._data[outputs[0]] = inputs[0]
            if web.stacked:
                return SKIP
            self._tensors[outputs[0]] = Tensor(self._tensors[outputs[0]].name, DType.INT64, (1,), (-1,))
            self._ends[outputs[0]] = outputs[0]
            return replace(operator, op=ListEnds(web.axis))
        if isinstance(op, Alias):
            if ends is not None:
                self._ends[outputs[0]] = ends
            return replace(operator, inputs=inputs)
        if isinstance(op, (SequenceConstruct, SequenceInsert, OptionalOf)):
            return self._making(operator, web, inputs)
        if isinstance(op, (OptionalGetElement, OptionalHasElement)):
            kind = ListOnly if isinstance(op, OptionalGetElement) else ListHas
            return replace(operator, op=kind(web.axis, web.stacked), inputs=inputs)
        if isinstance(op, SequenceErase):
            return self._erasing(operator, web, inputs)
        if isinstance(op, SequenceAt):
            return replace(operator, op=ListPart(web.axis, web.stacked, web.are_single),
                           inputs=inputs if ends is None else (*inputs, ends))
        if isinstance(op, SequenceLength):
            return self._length(operator, web)
        assert isinstance(op, SequenceConcat), f"{op.title} reads no sequence"
        return replace(operator, op=Alias(), inputs=inputs)

    def _erasing(self, operator: Operator, web: Web, inputs: tuple[int, ...]) -> Operator:
        """What takes the place of an operator that takes an element out of a sequence: nothing where the next one puts
        another to its place."""
        gone, = operator.outputs
        place = inputs[1] if has_place(operator) else self._constant(f"{self._graph.tensors[gone].name}_last", -1)
        if web.has_ends:
            given = (inputs[0], place, self._ends[operator.inputs[0]])
            return replace(operator, op=ListErasePart(web.axis), inputs=given, outputs=(gone, self._companion(gone)))
        readers = [each for each in self._graph.operators if gone in each.inputs]
        if has_place(operator) and gone not in self._graph.outputs and len(readers) == 1 and isinstance(
                readers[0].op, SequenceInsert) and readers[0].inputs[2:] == inputs[1:]:
            self._data[gone] = inputs[0]
            return SKIP
        return replace(operator, op=ListErase(web.axis, web.stacked, web.are_single), inputs=(inputs[0], place))

    def _making(self, operator: Operator, web: Web, inputs: tuple[int, ...]) -> Operator:
        """What takes the place of an operator that makes a sequence of elements that were none."""
        made, = operator.outputs
        if not inputs:
            if web.has_ends:
                self._ends[made] = self._constant(f"{self._graph.tensors[made].name}_ends", [])
            return replace(operator, op=ListEmpty(web.axis, web.stacked, web.sizes(0)), inputs=self._like(web))
        if isinstance(operator.op, SequenceInsert):
            return self._inserting(operator, web, inputs)
        if web.has_ends:
            op = ListJoin(web.axis, are_joined=not web.is_guessed)
            return replace(operator, op=op, outputs=(made, self._companion(made)))
        if not web.stacked:
            return replace(operator, op=Concatenation(web.axis))
        return replace(operator, op=ListStack(web.axis) if web.is_guessed else Pack(len(inputs), web.axis))

    def _inserting(self, operator: Operator, web: Web, inputs: tuple[int, ...]) -> Operator:
        """What takes the place of an operator that puts an element into a sequence."""
        how = (web.axis, web.stacked, web.are_single, not web.is_guessed)
        if has_place(operator) and not web.has_ends:
            is_set = operator.inputs[0] in self._data
            return replace(operator, op=ListSet(*how) if is_set else ListInsert(*how), inputs=inputs)
        if not web.has_ends:
            return replace(operator, op=ListAppend(*how), inputs=inputs[:2])
        given, made = (*inputs[:2 + has_place(operator)], self._ends[operator.inputs[0]]), operator.outputs[0]
        kind = ListInsertPart if has_place(operator) else ListAppendPart
        part = kind(web.axis, are_joined=not web.is_guessed)
        return replace(operator, op=part, inputs=given, outputs=(made, self._companion(made)))

    def _like(self, web: Web) -> tuple[int, ...]:
        """What tells the shape of elements of a sequence where none are, if that is there."""
        inputs = self._graph.inputs if web.element is None or not web.element.is_static else ()
        return next(((each,) for each in inputs if self._webs.get(each) is web
                     or (self._index, each) in web.examples), ())

    def _counted(self, operator: Operator) -> None:
        """Says how many elements the result of an operator that makes or hands on a sequence has."""
        if isinstance(operator.op, (SequenceConstruct, OptionalOf)):
            self._counts[operator.outputs[0]] = ABSENT, len(operator.inputs)
        elif operator.inputs[0] in self._counts:
            base, more = self._counts[operator.inputs[0]]
            changed = isinstance(operator.op, SequenceInsert) - isinstance(operator.op, SequenceErase)
            self._counts[operator.outputs[0]] = base, more + changed

    def _length(self, operator: Operator, web: Web) -> Operator:
        """What takes the place of an operator that counts the elements of a sequence."""
        tensor, = operator.inputs
        if web.is_counted:
            op, inputs = self._counting(tensor)
            return replace(operator, op=op, inputs=inputs)
        if web.has_ends:
            return replace(operator, op=LoopLength(0, dtype=DType.INT64), inputs=(self._ends[tensor],))
        return replace(operator, op=LoopLength(web.axis, dtype=DType.INT64), inputs=(self._taken(tensor),))

    def _begun(self, position: int, inputs: Sequence[int], given: int, body: int) -> int:
        """A sequence that a loop begins with, of which more is known where it is empty; so many inputs, the first ones,
        are the model's."""
        web = self._webs.get(inputs[position])
        if web is None or not web.may_be_empty or web.element is None or web.element.is_static or not self._is_new:
            return inputs[position]
        self._tensors.append(self._tensors[inputs[position]])
        fits = [k for k, each in enumerate(inputs[:given]) if k != position and _fits(self._tensors[each], web)]
        like = max(fits, key=lambda k: _is_alike(self._tensors[inputs[k]], web), default=-1)
        op = ListBegin(web.axis, web.stacked, position, body, like, web.sizes(-1))
        self._operators.append(Operator(op, tuple(inputs), (len(self._tensors) - 1,)))
        return len(self._tensors) - 1

    @property
    def _is_new(self) -> bool:
        """Whether it is a new subgraph, so that its operators need not keep their places."""
        return self._index in self._spreading.numbers

    def _invoking(self, operator: Operator) -> Operator:
        """An operator that invokes subgraphs with tensors for sequences."""
        inputs = [*map(self._taken, operator.inputs), *self._companions(operator.inputs)]
        outputs = [*operator.outputs, *map(self._companion, self._accompanied(operator.outputs))]
        changed = redirected(operator.op, self._spreading.numbers)
        if isinstance(changed, PreTestedLoop):
            given, body = len(operator.inputs), changed.body_subgraph_index
            inputs = [self._begun(k, inputs, given, body) for k in range(len(inputs))]
        return replace(operator, op=changed, inputs=tuple(inputs), outputs=tuple(outputs))

    def _shaping(self, operator: Operator, op: LoopZeros) -> Operator:
        """Of an operator that asks the body of a loop for a shape."""
        loop, own = op.loop, op.own
        inputs = [*map(self._taken, operator.inputs)]
        places = [*(each.body_input for each in loop.carried), *loop.invariants]
        given = self._spreading.inputs(loop.body_subgraph_index)
        behind, count = self._spreading.accompanied(loop.body_subgraph_index, given), len(given)
        ends = self._companions([operator.inputs[own + places.index(position)] for position in behind])
        at = len(inputs) - len(loop.scan_inputs)
        body = self._spreading.numbers.get(loop.body_subgraph_index, loop.body_subgraph_index)
        changed = replace(loop, body_subgraph_index=body, invariants=(
            *loop.invariants, *range(count, count + len(behind))))
        return replace(operator, op=replace(op, loop=changed), inputs=(*inputs[:at], *ends, *inputs[at:]))


def _declared(tensor: Tensor, web: Web) -> Tensor:
    """What a sequence is declared to be as a tensor."""
    assert web.element is not None, "the sequence has elements"
    sizes = web.sizes(-1)
    if not web.is_cut:
        sizes = (*sizes[:web.axis], -1, *sizes[web.axis + (not web.stacked):])
    return replace(tensor, dtype=web.element.dtype, held=None, has_rank=True, shape=tuple(
        max(each, 1) for each in sizes), shape_signature=sizes)


def _fits(tensor: Tensor, web: Web) -> bool:
    """Whether an element may be as long as a tensor along each axis of which nobody says how long it is."""
    declared = tensor.declared
    return declared is not None and tensor.dtype is not DType.VARIANT and all(
        size >= 0 or declared[axis:axis + 1] == (-1,) for axis, size in enumerate(web.sizes(-1)))


def _is_alike(tensor: Tensor, web: Web) -> bool:
    """Whether a tensor is declared as an element is, but for the axis along which these are joined."""
    declared, wanted = tensor.declared or (), web.sizes(-1)
    return len(declared) == len(wanted) and all(
        one == other for axis, (one, other) in enumerate(zip(declared, wanted, strict=True))
        if web.stacked or axis != web.axis)
