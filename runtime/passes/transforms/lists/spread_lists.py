"""Makes tensors of sequences that loops and branches fill, cut tensors into and read by position.

A sequence is an object of Python, which no code has. As a tensor its elements lie one behind another: along a new axis
where something stacks them, so that they have one shape; else along the axis on which they were cut, or are joined.
Where pieces of a tensor are read by position, the tensor of where they end goes along.

A sequence is followed from where it is made through all subgraphs that it goes to. It stays as it is where something
else is done with it, or a subgraph that it goes to is invoked from several places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.controlflow import Branch, CallSubgraph, If, Invoke, PreTestedLoop
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.lists import ListAppend, ListBegin, ListEmpty, ListEnds, ListPart
from circlet.runtime.ops.loop_steps import LoopLength, LoopZeros
from circlet.runtime.ops.sequence import (
    SequenceAt,
    SequenceConcat,
    SequenceConstruct,
    SequenceInsert,
    SequenceLength,
    SequenceSplit,
)
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.lists.places import Place, connected, reached, redirected, same_values
from circlet.runtime.records import replace

Stays: TypeAlias = "Callable[[Model, int, int], bool]"
"""Whether an operator of a subgraph becomes code with all that it invokes."""


def spread_lists(model: Model, is_code: Stays = lambda model, index, number: True) -> Model:
    """Replaces the operators on such sequences, which keep their places. Subgraphs that sequences go to are new ones,
    as anyone may run the old ones. The model itself, if loops of the new one are no code."""
    webs = [each for each in _webs(model) if each.is_right]
    if not webs:
        return model
    spreading = _Spreading(model, webs)
    changed = spreading.model()
    called = {callee for graph in changed.subgraphs for each in graph.operators for callee in each.op.callees()}
    begins = ((index, number) for index, graph in enumerate(changed.subgraphs) if index not in called
              for number, each in enumerate(graph.operators)
              if not spreading.changed.keys().isdisjoint(reached(changed, each)))
    return changed if all(is_code(changed, *each) for each in begins) else model


@dataclass
class _Web:
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
    has_ends: bool = False
    """Whether another tensor says where its elements end."""
    is_cut: bool = False
    """Whether it is a tensor that was cut."""


def _webs(model: Model) -> list[_Web]:
    """The sequences of what runs reach of a model, of which those that can be tensors are marked."""
    begins = {0, *(each.subgraph for each in model.signatures)}
    used = begins | {each for index in begins for operator in model.subgraphs[index].operators
                     for each in reached(model, operator)}
    operators = [(index, each) for index in used for each in model.subgraphs[index].operators]
    called = Counter(callee for _, each in operators for callee in each.op.callees())
    found = {(index, number): _Web({(index, number)}) for index in used
             for number, tensor in enumerate(model.subgraphs[index].tensors) if tensor.dtype is DType.VARIANT}
    for index, operator in operators:
        for one, other in _same(model, index, operator):
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
    webs = list({id(each): each for each in found.values()}.values())
    for web in webs:
        web.is_right = web.is_right and _laid_out(model, web)
    return webs


def _same(model: Model, index: int, operator: Operator) -> Iterator[tuple[Place, Place]]:
    """The values that are one by an operator, or by which a loop goes on; a sequence with one more element is."""
    if isinstance(operator.op, SequenceInsert):
        yield (index, operator.outputs[0]), (index, operator.inputs[0])
    yield from same_values(model, index, operator)


def _join(found: dict[Place, _Web], one: Place, other: Place) -> None:
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


def _laid_out(model: Model, web: _Web) -> bool:
    """Decides how the elements of a sequence lie; False where they cannot."""
    kinds = {type(operator.op) for _, operator in web.uses}
    inserts, constructs, cuts = ([each for each in web.uses if isinstance(each[1].op, kind)]
                                 for kind in (SequenceInsert, SequenceConstruct, SequenceSplit))
    if not kinds <= _KNOWN or any((*each.inputs[2:], ABSENT)[0] != ABSENT for _, each in inserts):
        return False
    if cuts:
        return len(cuts) == 1 and kinds <= _OF_PIECES and _cut(model, web, *cuts[0])
    given = [(index, each.inputs[1]) for index, each in inserts]
    given += [(index, tensor) for index, each in constructs for tensor in each.inputs]
    elements = [_described(model, each) for each in given]
    joins = {(each.op.axis, each.op.new_axis) for _, each in web.uses if isinstance(each.op, SequenceConcat)}
    if not elements or None in elements or len(joins) > 1:
        return False
    element, *others = filter(None, elements)
    if any(len(each.signature) != len(element.signature) or each.dtype is not element.dtype for each in others):
        return False
    is_one = element.is_static and all(each.is_static and each.shape == element.shape for each in others)
    is_one = is_one or len(given) == len(inserts) == 1  # whether code is made says whether they are of one shape
    (axis, web.stacked), = joins or {(0, is_one)}
    most = len(element.signature) + web.stacked
    web.axis, web.element = axis + most if axis < 0 else axis, element
    return 0 <= web.axis < most and (web.stacked or (bool(joins) and kinds.isdisjoint({SequenceAt, SequenceLength})))


_KNOWN = {SequenceAt, SequenceConcat, SequenceConstruct, SequenceInsert, SequenceLength, SequenceSplit}
_OF_PIECES = {SequenceAt, SequenceLength, SequenceSplit}


def _cut(model: Model, web: _Web, index: int, cut: Operator) -> bool:
    """The same of the pieces of a tensor, which stay where they are in it."""
    graph, op = model.subgraphs[index], cut.op
    whole, lengths = (graph.tensors[each] for each in cut.inputs)
    if not isinstance(op, SequenceSplit) or whole.declared is None or cut.outputs[0] in graph.outputs:
        return False
    rank, is_each = len(whole.declared), lengths.data is not None and lengths.shape == () and lengths.data.item() == 1
    web.axis, web.element, web.is_cut = op.axis + rank if op.axis < 0 else op.axis, whole, True
    web.has_ends, web.stacked = op.keep_axis, not op.keep_axis
    return 0 <= web.axis < rank and (op.keep_axis or is_each)


def _described(model: Model, place: Place) -> Tensor | None:
    """What an element is declared to be, here or where it goes, or as what loops carry it; None where nobody says how
    many axes it has."""
    around: dict[Place, list[Place]] = defaultdict(list)
    for index, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            for one, other in _same(model, index, operator):
                around[one].append(other)
                around[other].append(one)
    found = (place, *sorted(connected(around, place)))
    tensors = [model.subgraphs[index].tensors[tensor] for index, tensor in found]
    return next((each for each in tensors if each.declared is not None), None)


class _Spreading:
    """A model in which sequences become tensors."""

    def __init__(self, model: Model, webs: Sequence[_Web]) -> None:
        self._model = model
        self.webs = {place: web for web in webs for place in web.places}
        """By what has them."""
        touched = sorted({index for index, _ in self.webs})
        crossed = [index for index in touched if any(
            (index, each) in self.webs for each in (*model.subgraphs[index].inputs, *model.subgraphs[index].outputs))]
        self.numbers = {index: len(model.subgraphs) + k for k, index in enumerate(crossed)}
        """The numbers of the new subgraphs, by those of the old ones."""
        self.bodies = {each.op.body_subgraph_index for graph in model.subgraphs for each in graph.operators
                       if isinstance(each.op, PreTestedLoop)}
        """The subgraphs that are turns of loops."""
        self.changed = {self.numbers.get(each, each): each for each in touched}
        """The numbers of subgraphs that change, with those of what they are made of."""

    def model(self) -> Model:
        """The model with all of them replaced."""
        subgraphs = [*self._model.subgraphs, *(self._model.subgraphs[each] for each in self.numbers)]
        for number, index in self.changed.items():
            subgraphs[number] = _Graph(self, self._model.subgraphs[index], index).changed()
        return replace(self._model, subgraphs=tuple(subgraphs))

    def inputs(self, index: int) -> Sequence[int]:
        """The inputs of a subgraph as it was."""
        return self._model.subgraphs[index].inputs

    def with_ends(self, index: int) -> list[int]:
        """The inputs of a subgraph, by position, with which the ends of their elements go."""
        return [position for position, tensor in enumerate(self._model.subgraphs[index].inputs)
                if (index, tensor) in self.webs and self.webs[index, tensor].has_ends]


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

    def changed(self) -> Subgraph:
        """The subgraph with tensors for sequences."""
        inputs = [*self._graph.inputs]
        for position in self._spreading.with_ends(self._index):
            tensor = self._graph.inputs[position]
            self._ends[tensor] = self._added(tensor)
            inputs.append(self._ends[tensor])
        for each in self._graph.operators:
            self._operators.append(self._operator(each))
        outputs = [*map(self._taken, self._graph.outputs)]
        if self._is_turn:
            outputs += inputs[len(self._graph.inputs):]
        is_alike = self._is_new and len(self._operators) == len(self._graph.operators)
        own = self._index if is_alike and self._graph.origin is None else self._graph.origin
        return replace(self._graph, tensors=tuple(self._tensors), operators=tuple(self._operators),
                       inputs=tuple(inputs), outputs=tuple(outputs), origin=own)

    @property
    def _is_turn(self) -> bool:
        """Whether it is the body of a loop, which gives all that it takes."""
        return self._index in self._spreading.bodies

    def _added(self, tensor: int) -> int:
        """A new tensor for where elements of a sequence end."""
        self._tensors.append(Tensor(f"{self._tensors[tensor].name}_ends", DType.INT64, (1,), (-1,)))
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

    def _listing(self, operator: Operator, web: _Web) -> Operator:
        """What takes the place of an operator that makes or reads a sequence."""
        op, inputs, outputs = operator.op, tuple(map(self._taken, operator.inputs)), operator.outputs
        ends = next((self._ends[each] for each in operator.inputs if each in self._ends), None)
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
        if isinstance(op, SequenceConstruct):
            if inputs:
                return replace(operator, op=Pack(len(inputs), web.axis) if web.stacked else Concatenation(web.axis))
            return replace(operator, op=ListEmpty(web.axis, web.stacked, _open(web, 0)))
        if isinstance(op, SequenceInsert):
            return replace(operator, op=ListAppend(web.axis, web.stacked), inputs=inputs[:2])
        if isinstance(op, SequenceAt):
            return replace(operator, op=ListPart(web.axis, web.stacked),
                           inputs=inputs if ends is None else (*inputs, ends))
        if isinstance(op, SequenceLength):
            return replace(operator, op=LoopLength(web.axis if ends is None else 0, dtype=DType.INT64),
                           inputs=inputs if ends is None else (ends,))
        assert isinstance(op, SequenceConcat), f"{op.title} reads no sequence"
        return replace(operator, op=Alias(), inputs=inputs)

    def _begun(self, position: int, inputs: Sequence[int], body: int) -> int:
        """A sequence that a loop begins with, of which more is known where it is empty."""
        web = self._webs.get(inputs[position])
        if web is None or web.is_cut or web.element is None or web.element.is_static or not self._is_new:
            return inputs[position]
        self._tensors.append(self._tensors[inputs[position]])
        fits = [k for k, each in enumerate(inputs) if k != position and _fits(self._tensors[each], web)]
        like = max(fits, key=lambda k: _is_alike(self._tensors[inputs[k]], web), default=-1)
        op = ListBegin(web.axis, web.stacked, position, body, like, _open(web, -1))
        self._operators.append(Operator(op, tuple(inputs), (len(self._tensors) - 1,)))
        return len(self._tensors) - 1

    @property
    def _is_new(self) -> bool:
        """Whether it is a new subgraph, so that its operators need not keep their places."""
        return self._index in self._spreading.numbers

    def _invoking(self, operator: Operator) -> Operator:
        """An operator that invokes subgraphs with tensors for sequences."""
        op, numbers = operator.op, self._spreading.numbers
        first = int(isinstance(op, Branch))
        behind = [self._ends[operator.inputs[first + position]]
                  for position in self._spreading.with_ends(op.callees()[-1])]
        inputs, outputs, changed = [*map(self._taken, operator.inputs), *behind], [*operator.outputs], redirected(
            op, numbers)
        if isinstance(changed, PreTestedLoop):
            inputs = [self._begun(k, inputs, changed.body_subgraph_index) for k in range(len(inputs))]
            outputs += [self._added(operator.inputs[0]) for _ in behind]
        ends = {id(self._webs[each]): self._ends[each] for each in operator.inputs if each in self._ends}
        for tensor in operator.outputs:
            if tensor in self._webs and self._webs[tensor].has_ends:
                self._ends[tensor] = ends[id(self._webs[tensor])]
        return replace(operator, op=changed, inputs=tuple(inputs), outputs=tuple(outputs))

    def _shaping(self, operator: Operator, op: LoopZeros) -> Operator:
        """Of an operator that asks the body of a loop for a shape."""
        loop, own = op.loop, op.own
        inputs = [*map(self._taken, operator.inputs)]
        places = [*(each.body_input for each in loop.carried), *loop.invariants]
        behind = self._spreading.with_ends(loop.body_subgraph_index)
        count = len(self._spreading.inputs(loop.body_subgraph_index))
        ends = [self._ends[operator.inputs[own + places.index(position)]] for position in behind]
        at = len(inputs) - len(loop.scan_inputs)
        body = self._spreading.numbers.get(loop.body_subgraph_index, loop.body_subgraph_index)
        changed = replace(loop, body_subgraph_index=body, invariants=(
            *loop.invariants, *range(count, count + len(behind))))
        return replace(operator, op=replace(op, loop=changed), inputs=(*inputs[:at], *ends, *inputs[at:]))


def _declared(tensor: Tensor, web: _Web) -> Tensor:
    """What a sequence is declared to be as a tensor."""
    assert web.element is not None, "the sequence has elements"
    sizes = _open(web, -1)
    if not web.is_cut:
        sizes = (*sizes[:web.axis], -1, *sizes[web.axis + (not web.stacked):])
    return replace(tensor, dtype=web.element.dtype, held=None, has_rank=True, shape=tuple(
        max(each, 1) for each in sizes), shape_signature=sizes)


def _open(web: _Web, size: int) -> Shape:
    """The declared shape of an element, with a size for each that is not known."""
    assert web.element is not None, "the sequence has elements"
    return tuple(size if each < 0 else each for each in web.element.declared or ())


def _fits(tensor: Tensor, web: _Web) -> bool:
    """Whether an element may be as long as a tensor along each axis of which nobody says how long it is."""
    declared = tensor.declared
    return declared is not None and tensor.dtype is not DType.VARIANT and all(
        size >= 0 or declared[axis:axis + 1] == (-1,) for axis, size in enumerate(_open(web, -1)))


def _is_alike(tensor: Tensor, web: _Web) -> bool:
    """Whether a tensor is declared as an element is, but for the axis along which these are joined."""
    declared, wanted = tensor.declared or (), _open(web, -1)
    return len(declared) == len(wanted) and all(
        one == other for axis, (one, other) in enumerate(zip(declared, wanted, strict=True))
        if web.stacked or axis != web.axis)
