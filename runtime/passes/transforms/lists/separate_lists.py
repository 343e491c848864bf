"""Makes as many tensors of a sequence as it has elements, where that is the same in each run, and a tensor of an
optional that always has one.

Scripts keep a tensor for each layer in a list, such as keys and values, and loops exchange some of them, which
exporters write as SEQUENCE_ERASE and SEQUENCE_INSERT at a constant position. A sequence is followed from where it is
made through all subgraphs that it goes to, with those that are made of it; they stay as they are where something else
is done with one of them, where it has now more and now fewer elements, and where a subgraph that it goes to is invoked
from several places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallSubgraph, If, PreTestedLoop
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.loop_options import Feed
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
)
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.lists.places import Place, connected, reached, redirected, same_values
from circlet.runtime.records import dataclass, replace

MOST = 1024
"""Elements of all sequences that are made of each other, in all subgraphs: a choice."""
_INVOKING = (If, CallSubgraph, PreTestedLoop)
_READING = (SequenceAt, SequenceConcat, SequenceLength, OptionalGetElement, OptionalHasElement)
_NEW = (SequenceConstruct, OptionalOf)
_MAKING = (*_NEW, SequenceErase, SequenceInsert)


def separate_lists(model: Model) -> Model:
    """Replaces the operators on such sequences, which keep their places. Subgraphs that sequences go to are new ones,
    as anyone may run the old ones."""
    declared = {place: elements for family in _families(model) for place, elements in family.declared(model).items()}
    return _Separated(model, declared).model() if declared else model


@dataclass(frozen=True)
class _Family:
    """Sequences that are made of each other."""

    places: frozenset[Place]
    uses: tuple[tuple[int, Operator], ...]
    """The subgraphs and operators that hand them on, make them or read them."""

    def declared(self, model: Model) -> Mapping[Place, Sequence[Tensor]]:
        """What the elements of each are declared to be; nothing where they are not to be tensors."""
        lengths = self._lengths(model)
        if len(lengths) != len(self.places) or sum(lengths.values()) > MOST:
            return {}
        elements = _Elements()
        for index, operator in self.uses:
            if not self._told(model, index, operator, lengths, elements):
                return {}
        found = {place: [elements.declared(place, k) for k in range(length)] for place, length in lengths.items()}
        return {place: [each for each in some if each is not None] for place, some in found.items()} if all(
            None not in some for some in found.values()) else {}

    def _lengths(self, model: Model) -> Mapping[Place, int]:
        """How many elements sequences have, as far as that is told and the same wherever it is."""
        found: dict[Place, int] = {}
        last = -1
        while last != len(found):
            last = len(found)
            for index, operator in self.uses:
                for one, other, more in self._steps(model, index, operator):
                    if one is None or one in found:
                        length = more if one is None else found[one] + more
                        if found.setdefault(other, length) != length or length < 0:
                            return {}
        return found

    def _steps(self, model: Model, index: int, operator: Operator) -> Iterator[tuple[Place | None, Place, int]]:
        """By how much one sequence has more elements than another, or than none."""
        op = operator.op
        if isinstance(op, _NEW):
            yield None, (index, operator.outputs[0]), len(operator.inputs)
        elif isinstance(op, (SequenceErase, SequenceInsert)):
            one, other, more = (index, operator.inputs[0]), (index, operator.outputs[0]), isinstance(op, SequenceInsert)
            yield one, other, 1 if more else -1
            yield other, one, -1 if more else 1
        for one, other in same_values(model, index, operator):
            if one in self.places:
                yield one, other, 0
                yield other, one, 0

    def _told(self, model: Model, index: int, operator: Operator, lengths: Mapping[Place, int],
              elements: _Elements) -> bool:
        """Says which elements an operator takes from where; tells whether it can."""
        graph, op = model.subgraphs[index], operator.op
        if isinstance(op, (SequenceAt, OptionalGetElement)):
            at = _read(graph, operator, lengths[index, operator.inputs[0]])
            read = graph.tensors[operator.outputs[0]]
            if at is not None and read.declared is not None:
                elements.add((index, operator.inputs[0]), at, read)
            return at is not None
        if isinstance(op, SequenceConcat):
            return lengths[index, operator.inputs[0]] > 0
        if isinstance(op, _MAKING):
            had = range(0 if isinstance(op, _NEW) else lengths[index, operator.inputs[0]])
            sources = _made(graph, operator, had)
            for k, source in enumerate(sources or ()):
                if isinstance(source, _Given):
                    elements.add((index, operator.outputs[0]), k, graph.tensors[source.tensor])
                else:
                    elements.join((index, operator.outputs[0]), k, (index, operator.inputs[0]), source)
            return sources is not None
        for one, other in same_values(model, index, operator):
            for k in range(lengths.get(one, 0)):
                elements.join(one, k, other, k)
        if isinstance(op, LoopZeros):
            return self._asks(model, index, operator, op)
        return isinstance(op, (*_INVOKING, *_READING, Alias))

    def _asks(self, model: Model, index: int, operator: Operator, op: LoopZeros) -> bool:
        """Whether the body that an operator asks for a shape takes what the operator is given."""
        body = op.loop.body_subgraph_index
        places = [*(each.body_input for each in op.loop.carried), *op.loop.invariants]
        given = zip(operator.inputs[op.own:], places, strict=False)
        return all((body, model.subgraphs[body].inputs[place]) in self.places
                   for tensor, place in given if (index, tensor) in self.places)


@dataclass(frozen=True)
class _Given:
    """An element that is put into a sequence."""

    tensor: int


def _made(graph: Subgraph, operator: Operator, had: Sequence[int]) -> list[int | _Given] | None:
    """The elements of a sequence that an operator makes of what another one had; None where that is not told."""
    op = operator.op
    if isinstance(op, _NEW):
        return list(map(_Given, operator.inputs))
    found: list[int | _Given] = list(had)
    is_more = isinstance(op, SequenceInsert)
    at = _position(graph, operator, 1 + is_more, len(found), int(is_more))
    if at is None:
        return None
    if is_more:
        found.insert(at, _Given(operator.inputs[1]))
    else:
        del found[at]
    return found


def _read(graph: Subgraph, operator: Operator, length: int) -> int | None:
    """The position of the element that an operator gives, which is the only one of an optional."""
    if isinstance(operator.op, OptionalGetElement):
        return 0 if length else None
    return _position(graph, operator, 1, length)


def _position(graph: Subgraph, operator: Operator, place: int, length: int, more: int = 0) -> int | None:
    """A position among so many elements, which is the last one where it is not given; None where it is not constant, or
    there is none such."""
    tensor = operator.inputs[place] if place < len(operator.inputs) else ABSENT
    if tensor == ABSENT:
        return length - 1 + more if length + more else None
    data = graph.tensors[tensor].data
    if data is None or data.size != 1:
        return None
    at = int(data.item())
    return at % length if -length <= at < 0 else at if 0 <= at < length + more else None


class _Elements:
    """What elements of sequences are declared to be, those that are one together."""

    def __init__(self) -> None:
        self._same: dict[tuple[Place, int], list[tuple[Place, int]]] = defaultdict(list)
        self._tensors: dict[tuple[Place, int], list[Tensor]] = defaultdict(list)

    def add(self, place: Place, number: int, tensor: Tensor) -> None:
        """An element is such a tensor."""
        self._tensors[place, number].append(tensor)

    def join(self, one: Place, first: int, other: Place, second: int) -> None:
        """Two elements are one."""
        self._same[one, first].append((other, second))
        self._same[other, second].append((one, first))

    def declared(self, place: Place, number: int) -> Tensor | None:
        """What an element is declared to be wherever it is; None where nobody says how many axes it has somewhere, or
        that is not one number."""
        same = connected(self._same, (place, number))
        tensors = [each for key in sorted(same) for each in self._tensors.get(key, ())]
        shapes = [each.declared for each in tensors if each.declared is not None]
        if len(shapes) != len(tensors) or len({(len(each.signature), each.dtype) for each in tensors}) != 1 \
                or tensors[0].dtype is DType.VARIANT:
            return None
        sizes = tuple(axis[0] if len({*axis}) == 1 else -1 for axis in zip(*shapes, strict=True))
        return Tensor("", tensors[0].dtype, tuple(max(each, 1) for each in sizes), sizes)


def _families(model: Model) -> Iterator[_Family]:
    """The sequences of what runs reach of a model that are made of each other, if nothing else is done with them."""
    begins = {0, *(each.subgraph for each in model.signatures)}
    used = begins | {each for index in begins for operator in model.subgraphs[index].operators
                     for each in reached(model, operator)}
    operators = [(index, each) for index in sorted(used) for each in model.subgraphs[index].operators]
    near: dict[Place, set[Place]] = {(index, number): set() for index in used for number, tensor in enumerate(
        model.subgraphs[index].tensors) if tensor.dtype is DType.VARIANT}
    uses: dict[Place, list[tuple[int, Operator]]] = defaultdict(list)
    for index, operator in operators:
        pairs = list(same_values(model, index, operator))
        if isinstance(operator.op, (SequenceErase, SequenceInsert)):
            pairs.append(((index, operator.outputs[0]), (index, operator.inputs[0])))
        touched = {(index, each) for each in (*operator.inputs, *operator.outputs)}
        for each in touched.union(*pairs) & near.keys():
            uses[each].append((index, operator))
        for one, other in pairs:
            if one in near and other in near:
                near[one].add(other)
                near[other].add(one)
    called = Counter(callee for _, each in operators for callee in each.op.callees())
    while near:
        family = connected(near, next(iter(near)))
        near = {place: others for place, others in near.items() if place not in family}
        if all(called[index] == 1 for index, tensor in family
               if tensor in {*model.subgraphs[index].inputs, *model.subgraphs[index].outputs}):
            known = {(index, id(each)): (index, each) for place in sorted(family) for index, each in uses[place]}
            yield _Family(frozenset(family), tuple(known.values()))


class _Separated:
    """A model in which sequences become tensors."""

    def __init__(self, model: Model, declared: Mapping[Place, Sequence[Tensor]]) -> None:
        self._model = model
        self.declared = declared
        """What the elements of each sequence are."""
        self._touched = sorted({index for index, _ in declared})
        crossed = [index for index in self._touched if any(
            (index, each) in declared for each in (*model.subgraphs[index].inputs, *model.subgraphs[index].outputs))]
        self.numbers = {index: len(model.subgraphs) + k for k, index in enumerate(crossed)}
        """The numbers of the new subgraphs, by those of the old ones."""

    def places(self, index: int) -> tuple[Sequence[range], Sequence[range]]:
        """The positions that inputs and outputs of a subgraph have now, by those they had."""
        graph = self._model.subgraphs[index]
        return self._counted(index, graph.inputs), self._counted(index, graph.outputs)

    def _counted(self, index: int, tensors: Sequence[int]) -> Sequence[range]:
        counts = [len(self.declared.get((index, each), (each,))) for each in tensors]
        return [range(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]

    def model(self) -> Model:
        """The model with all of them replaced."""
        subgraphs = [*self._model.subgraphs, *(self._model.subgraphs[each] for each in self.numbers)]
        for index in self._touched:
            subgraphs[self.numbers.get(index, index)] = _Graph(self, self._model.subgraphs[index], index).changed()
        return replace(self._model, subgraphs=tuple(subgraphs))


class _Graph:
    """A subgraph in which sequences become tensors."""

    def __init__(self, separated: _Separated, graph: Subgraph, index: int) -> None:
        self._separated = separated
        self._graph = graph
        self._index = index
        self._tensors = list(graph.tensors)
        self._elements: dict[int, Sequence[int]] = {}
        """The tensors of each sequence."""

    def changed(self) -> Subgraph:
        """The subgraph with tensors for sequences."""
        inputs = [each for tensor in self._graph.inputs for each in self._begun(tensor)]
        operators = tuple(map(self._operator, self._graph.operators))
        own = self._graph.origin
        if own is None and self._index in self._separated.numbers:
            own = self._index
        return replace(self._graph, tensors=tuple(self._tensors), operators=operators, inputs=tuple(inputs),
                       outputs=self._taken(self._graph.outputs), origin=own)

    def _begun(self, tensor: int) -> Sequence[int]:
        """New tensors for a sequence that a subgraph is given, or that comes of one; other tensors as they are."""
        declared = self._separated.declared.get((self._index, tensor))
        if declared is None:
            return (tensor,)
        name, first = self._tensors[tensor].name, len(self._tensors)
        self._tensors += (replace(each, name=f"{name}_{k}") for k, each in enumerate(declared))
        self._elements[tensor] = range(first, len(self._tensors))
        return self._elements[tensor]

    def _taken(self, tensors: Sequence[int]) -> tuple[int, ...]:
        """The elements of sequences among tensors in their places."""
        return tuple(each for tensor in tensors for each in self._elements.get(tensor, (tensor,)))

    def _operator(self, operator: Operator) -> Operator:
        """What takes the place of an operator."""
        op = operator.op
        if all((self._index, each) not in self._separated.declared for each in (*operator.inputs, *operator.outputs)):
            return operator
        if isinstance(op, _MAKING):
            had = self._elements[operator.inputs[0]] if not isinstance(op, _NEW) else ()
            made = _made(self._graph, operator, had)
            assert made is not None, "positions are constant"
            self._elements[operator.outputs[0]] = [each.tensor if isinstance(each, _Given) else each for each in made]
            return SKIP
        if isinstance(op, Alias):
            self._elements[operator.outputs[0]] = self._elements[operator.inputs[0]]
            return SKIP
        if isinstance(op, _INVOKING):
            inputs = self._taken(operator.inputs)
            outputs = tuple(each for tensor in operator.outputs for each in self._begun(tensor))
            return replace(operator, op=redirected(op, self._separated.numbers), inputs=inputs, outputs=outputs)
        if isinstance(op, LoopZeros):
            return self._shaping(operator, op)
        return replace(self._reading(operator, self._elements[operator.inputs[0]]), version=1)

    def _shaping(self, operator: Operator, op: LoopZeros) -> Operator:
        """Of an operator that asks the body of a loop for a shape."""
        loop, numbers = op.loop, self._separated.numbers
        given, made = self._separated.places(loop.body_subgraph_index)

        def fed(feed: Feed | None) -> Feed | None:
            return None if feed is None else replace(feed, body_input=given[feed.body_input].start)

        changed = replace(
            loop, body_subgraph_index=numbers.get(loop.body_subgraph_index, loop.body_subgraph_index),
            iteration=fed(loop.iteration), cond_input=fed(loop.cond_input),
            carried=tuple(replace(each, body_input=one, body_output=other) for each in loop.carried
                          for one, other in zip(given[each.body_input], made[each.body_output], strict=True)),
            invariants=tuple(place for each in loop.invariants for place in given[each]),
            scan_inputs=tuple(replace(each, body_input=given[each.body_input].start) for each in loop.scan_inputs))
        return replace(operator, op=replace(op, loop=changed, output=made[op.output].start),
                       inputs=self._taken(operator.inputs))

    def _reading(self, operator: Operator, elements: Sequence[int]) -> Operator:
        """What takes the place of an operator that reads a sequence."""
        op = operator.op
        if isinstance(op, (SequenceAt, OptionalGetElement)):
            at = _read(self._graph, operator, len(elements))
            assert at is not None, "the position is constant"
            return replace(operator, op=Alias(), inputs=(elements[at],))
        if isinstance(op, (SequenceLength, OptionalHasElement)):
            dtype = DType.INT64 if isinstance(op, SequenceLength) else DType.BOOL
            self._tensors.append(Tensor("", dtype, (), data=np.array(len(elements), dtype.numpy)))
            return replace(operator, op=Alias(), inputs=(len(self._tensors) - 1,))
        assert isinstance(op, SequenceConcat), f"{op.title} reads no sequence"
        changed = Pack(len(elements), op.axis) if op.new_axis else Concatenation(op.axis)
        return replace(operator, op=changed, inputs=tuple(elements))
