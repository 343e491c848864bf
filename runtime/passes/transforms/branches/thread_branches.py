"""Puts what one choice decides about a second one into the branches of the first.

Exporters of scripts write `continue`, `break` and `return` as an IF that gives a flag, and an IF by this flag around
the statements that follow. What only one way through both makes has some number in the other one, often of another
rank, so that no shape of it is known. Where each branch of the first IF has the flag as a constant, or the flag is what
the first IF goes by, a branch itself can go on with what the second one then invokes, and these numbers go nowhere. A
CALL comes first as an IF does that has one branch.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Skip
from circlet.runtime.ops.controlflow import CallSubgraph, If
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.records import dataclass, replace

MOST_COPIES = 1024
"""The most operators, those that they invoke among them, that the branches of a second choice come to where they go."""
MOST_NESTED = 64
"""How deeply a flag is looked for in branches of branches."""
_CHOICES = (If, CallSubgraph)
"""What may come first: a CALL is a choice of one branch."""


def thread_branches(model: Model) -> Model:
    """Makes one IF, in the place of the second, of each two of which the first decides the second, gives it something,
    and gives nothing to what is between them. The branches of the new one are new subgraphs."""
    subgraphs, own = list(model.subgraphs), set[int]()
    index = 0
    while index < len(subgraphs):
        subgraphs[index] = _threaded(subgraphs, subgraphs[index], own)
        index += 1
    return model if len(subgraphs) == len(model.subgraphs) else replace(model, subgraphs=tuple(subgraphs))


def _threaded(subgraphs: list[Subgraph], graph: Subgraph, own: set[int]) -> Subgraph:
    """A subgraph with one choice for each such two; what follows a new one is looked at first."""
    choices, start, is_same = _Choices(graph), 0, True
    while True:
        pair = next(_pairs(subgraphs, choices, start), None)
        if pair is not None:
            pair.join(subgraphs, own)
            start, is_same = pair.second, False
        elif start:
            start = 0
        else:
            return graph if is_same else replace(graph, operators=tuple(choices.operators))


class _Choices:
    """A subgraph whose choices become fewer: what gives its booleans, and what goes by them."""

    def __init__(self, graph: Subgraph) -> None:
        self.graph = graph
        """As it was."""
        self.operators = list(graph.operators)
        self._makers: dict[int, int] = {}
        """By tensor, the number of the operator that makes it."""
        self._readers = dict.fromkeys(graph.outputs, len(graph.operators))
        """By tensor, the number of the last operator that reads it, or one more than there is."""
        self._by_flag: dict[int, list[int]] = {}
        """By flag, the numbers of the IF and CALL that give it, and of the IF that go by it."""
        self._flags: dict[int, frozenset[int]] = {}
        """Of each of these, what it gives and goes by."""
        for number in range(len(self.operators)):
            self._add(number)

    def _add(self, number: int) -> None:
        operator = self.operators[number]
        self._makers.update(dict.fromkeys(operator.outputs, number))
        for each in operator.inputs:
            self._readers[each] = max(number, self._readers.get(each, number))
        if isinstance(operator.op, _CHOICES):
            going_by = {self.source(operator.inputs[0])} if isinstance(operator.op, If) else set()
            self._flags[number] = frozenset(going_by.union(operator.outputs))
            for each in self._flags[number]:
                insort(self._by_flag.setdefault(each, []), number)

    def source(self, tensor: int) -> int:
        """What a boolean is handed on from, by ALIAS or CAST."""
        while (maker := self.maker(tensor)) is not None and isinstance(maker.op, (Alias, Cast)) and (
                self.graph.tensors[maker.inputs[0]].dtype is self.graph.tensors[tensor].dtype):
            tensor = maker.inputs[0]
        return tensor

    def maker(self, tensor: int) -> Operator | None:
        return self.operators[self._makers[tensor]] if tensor in self._makers else None

    def of(self, flag: int) -> Sequence[int]:
        """The numbers, in order, of the IF and CALL that give a flag, and of the IF that go by it."""
        return self._by_flag.get(flag, ())

    def is_read_behind(self, tensor: int, number: int) -> bool:
        """Whether something behind an operator reads a tensor, or it is a result."""
        return self._readers.get(tensor, number) > number

    def exchange(self, pair: _Pair, operator: Operator) -> None:
        """Puts an operator in the place of the second of a pair, for both."""
        for number in (pair.first, pair.second):
            for each in self._flags.pop(number):
                self._by_flag[each].remove(number)
        for number in {pair.first, *pair.handing}:
            self.operators[number] = SKIP
        self.operators[pair.second] = operator
        self._add(pair.second)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two choices in a subgraph, by the numbers of their operators, that can be one."""

    choices: _Choices
    first: int
    second: int
    flag: int
    """What decides the second."""

    @property
    def _pair(self) -> tuple[Operator, Operator]:
        return self.choices.operators[self.first], self.choices.operators[self.second]

    @property
    def handing(self) -> frozenset[int]:
        """The operators between them that hand on a flag that the first gives."""
        handed, found = {self.flag} & {*self._pair[0].outputs}, set[int]()
        for number in range(self.first + 1, self.second) if handed else ():
            each = self.choices.operators[number]
            if isinstance(each.op, (Alias, Cast)) and handed.issuperset(each.inputs):
                found.add(number)
                handed.update(each.outputs)
        return frozenset(found)

    def _is_behind(self, tensor: int) -> bool:
        """Whether a tensor is read after the second one."""
        return self.choices.is_read_behind(tensor, self.second)

    def is_apart(self) -> bool:
        """Whether the second choice, but nothing before it, reads more than a flag of the first, which can be where the
        second is."""
        first, second = self._pair
        made, handing, operators = {*first.outputs}, self.handing, self.choices.operators
        flags = {self.flag} & made | {each for number in handing for each in operators[number].outputs}
        between = [operators[number] for number in range(self.first + 1, self.second) if number not in handing]
        return (all(each.op.pure and (made | flags).isdisjoint(each.inputs) for each in between)
                and flags.isdisjoint(second.inputs[1:]) and not any(map(self._is_behind, flags))
                and not made.isdisjoint(second.inputs[1:]))

    def known(self, subgraphs: Sequence[Subgraph], place: int) -> bool | None:
        """The flag in a branch of the first choice, 0 or 1; None where it is not constant there."""
        first, _ = self._pair
        if self.flag not in first.outputs:
            return place == 0
        branch = subgraphs[first.op.callees()[place]]
        return _constant(branch, branch.outputs[first.outputs.index(self.flag)])

    def join(self, subgraphs: list[Subgraph], own: set[int]) -> None:
        """Makes them one, the branches of which are added to all subgraphs, or take the places of the first one's that
        were added before: so all have as many operators as there were choices, not as their square.

        Args:
            subgraphs: all of them.
            own: the numbers of those that were added and that one operator alone invokes.
        """
        first, second = self._pair
        kept = tuple(place for place, each in enumerate(first.outputs) if self._is_behind(each))
        given = tuple(dict.fromkeys(each for each in second.inputs[1:] if each not in first.outputs))
        own.difference_update(second.op.callees())
        branches = [self._branch(subgraphs, callee, kept, given, self.known(subgraphs, place))
                    for place, callee in enumerate(first.op.callees())]
        places = [_placed(subgraphs, own, *each) for each in zip(first.op.callees(), branches, strict=True)]
        self.choices.exchange(self, Operator(type(first.op)(*places), (*first.inputs, *given),
                                             (*(first.outputs[each] for each in kept), *second.outputs)))

    def _branch(self, subgraphs: Sequence[Subgraph], index: int, kept: Sequence[int], given: Sequence[int],
                known: bool | None) -> Subgraph:
        """A branch of the first choice, followed by the second one, or by what this invokes where the flag is known.

        Args:
            subgraphs: all of them.
            index: the number of the branch.
            kept: the results of the first choice that something else reads, by position.
            given: what the branches of the second read that the first does not give.
            known: the flag, or None.
        """
        graph, (first, second) = self.choices.graph, self._pair
        branch = subgraphs[index]
        own = dict(zip(first.outputs, branch.outputs, strict=True))
        behind = _Behind(branch, {**own, **{each: len(branch.tensors) + k for k, each in enumerate(given)}})
        behind.tensors += (replace(graph.tensors[each], data=None) for each in given)
        if known is None:
            results = behind.operator(graph, replace(second, inputs=(self.flag, *second.inputs[1:])))
        else:
            callee = second.op.callees()[0 if known else 1]
            results = behind.call(graph, replace(second, op=CallSubgraph(callee), inputs=second.inputs[1:]),
                                  subgraphs[callee])
        return replace(
            branch, tensors=tuple(behind.tensors), operators=(*branch.operators, *behind.operators),
            inputs=(*branch.inputs, *(behind.own[each] for each in given)),
            outputs=(*(branch.outputs[each] for each in kept), *results),
            origin=index if branch.origin is None else branch.origin)


def _placed(subgraphs: list[Subgraph], own: set[int], index: int, branch: Subgraph) -> int:
    """The number of a new branch, which goes on as one does that is no longer invoked where that is the operator's
    own."""
    if index in own:
        subgraphs[index] = branch
        return index
    own.difference_update(callee for each in branch.operators for callee in each.op.callees())
    own.add(len(subgraphs))
    subgraphs.append(branch)
    return len(subgraphs) - 1


class _Behind:
    """What is added behind a subgraph, of operators of the one that it is a branch in."""

    def __init__(self, branch: Subgraph, own: Mapping[int, int]) -> None:
        self.tensors = list(branch.tensors)
        self.own = own
        """Tensors of the branch, by those around it."""
        self.operators: list[Operator] = []

    def operator(self, graph: Subgraph, operator: Operator) -> Sequence[int]:
        """Adds an operator of the graph around, and gives its results."""
        start = len(self.tensors)
        self.tensors += (replace(graph.tensors[each], data=None) for each in operator.outputs)
        results = tuple(range(start, len(self.tensors)))
        self.operators.append(replace(operator, inputs=tuple(self.own[each] for each in operator.inputs),
                                      outputs=results))
        return results

    def call(self, graph: Subgraph, operator: Operator, callee: Subgraph) -> Sequence[int]:
        """Adds a CALL and gives its results, those of a callee that only hands on what it takes without a CALL."""
        if not all(isinstance(each.op, (Alias, Skip)) for each in callee.operators):
            return self.operator(graph, operator)
        sources = dict(zip(callee.inputs, (self.own[each] for each in operator.inputs), strict=True))
        for number, each in enumerate(callee.tensors):
            if each.is_constant and number in {*callee.outputs, *(k for own in callee.operators for k in own.inputs)}:
                sources[number] = len(self.tensors)
                self.tensors.append(each)
        for own in callee.operators:
            sources.update(zip(own.outputs, (sources[each] for each in own.inputs), strict=True))
        return tuple(sources[each] for each in callee.outputs)


def _pairs(subgraphs: Sequence[Subgraph], choices: _Choices, start: int) -> Iterator[_Pair]:
    """The choices of a subgraph that can be one, of which the second is operator `start` or one behind it."""
    for number in range(start, len(choices.operators)):
        operator = choices.operators[number]
        if isinstance(operator.op, If):
            flag = choices.source(operator.inputs[0])
            for first in takewhile(number.__gt__, choices.of(flag)):
                pair = _Pair(choices, first, number, flag)
                if pair.is_apart() and _is_decided(subgraphs, pair):
                    yield pair


def _is_decided(subgraphs: Sequence[Subgraph], pair: _Pair) -> bool:
    """Whether each way through the first choice has a known flag, and the second one's branches are not too large for
    being where these go."""
    first, second = (pair.choices.operators[each] for each in (pair.first, pair.second))
    sizes = [_size(subgraphs, each) for each in second.op.callees()]
    total = 0
    for place, callee in enumerate(first.op.callees()):
        known = pair.known(subgraphs, place)
        for way in (known,) if known is not None else _ways(subgraphs, callee, first.outputs.index(pair.flag)):
            total += sizes[1] if way is False else sizes[0]
            if way is None or total > MOST_COPIES + sum(sizes):
                return False
    return True


def _ways(subgraphs: Sequence[Subgraph], index: int, place: int, depth: int = 0) -> Iterator[bool | None]:
    """The flag that a subgraph gives, for each way through it; None for one that a run tells."""
    graph = subgraphs[index]
    tensor, flags = graph.outputs[place], _Choices(graph)
    known, flag = _constant(graph, tensor), flags.source(tensor)
    maker = flags.maker(flag)
    if known is not None:
        yield known
    elif maker is not None and isinstance(maker.op, _CHOICES) and depth < MOST_NESTED:
        for each in maker.op.callees():
            yield from _ways(subgraphs, each, maker.outputs.index(flag), depth + 1)
    elif flags.of(flag):
        yield from (True, False)
    else:
        yield None


def _size(subgraphs: Sequence[Subgraph], index: int) -> int:
    """How many operators a subgraph has, with all that they invoke."""
    return sum(1 + sum(_size(subgraphs, callee) for callee in each.op.callees())
               for each in subgraphs[index].operators)


def _constant(graph: Subgraph, tensor: int) -> bool | None:
    """What a tensor of one boolean is where it is constant."""
    data = graph.tensors[tensor].data
    return bool(data.item()) if data is not None and data.size == 1 else None
