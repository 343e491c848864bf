"""Puts what one choice decides about a second one into the branches of the first.

Exporters of scripts write `continue`, `break` and `return` as an IF that gives a flag, and an IF by this flag around
the statements that follow. What only one way through both makes has some number in the other one, often of another
rank, so that no shape of it is known. Where each branch of the first IF has the flag as a constant, or the flag is what
the first IF goes by, a branch itself can go on with what the second one then invokes, and these numbers go nowhere. A
CALL comes first as an IF does that has one branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    subgraphs = list(model.subgraphs)
    index = 0
    while index < len(subgraphs):
        pair = next(_pairs(subgraphs, subgraphs[index]), None)
        if pair is None:
            index += 1
        else:
            subgraphs[index] = pair.joined(subgraphs)
    return model if len(subgraphs) == len(model.subgraphs) else replace(model, subgraphs=tuple(subgraphs))


@dataclass(frozen=True)
class _Flags:
    """What the booleans of a subgraph are handed on from."""

    graph: Subgraph
    makers: Mapping[int, int]
    """By tensor, the number of the operator that makes it."""

    def source(self, tensor: int) -> int:
        """What a boolean is handed on from, by ALIAS or CAST."""
        while (maker := self.maker(tensor)) is not None and isinstance(maker.op, (Alias, Cast)) and (
                self.graph.tensors[maker.inputs[0]].dtype is self.graph.tensors[tensor].dtype):
            tensor = maker.inputs[0]
        return tensor

    def maker(self, tensor: int) -> Operator | None:
        return self.graph.operators[self.makers[tensor]] if tensor in self.makers else None

    def choices(self, flag: int) -> Iterator[int]:
        """The numbers of the IF and CALL that give a flag, and of the IF that go by it."""
        for number, each in enumerate(self.graph.operators):
            if (isinstance(each.op, _CHOICES) and flag in each.outputs) or (
                    isinstance(each.op, If) and self.source(each.inputs[0]) == flag):
                yield number


def _flags(graph: Subgraph) -> _Flags:
    return _Flags(graph, {each: number for number, operator in enumerate(graph.operators) for each in operator.outputs})


@dataclass(frozen=True)
class _Pair:
    """Two choices in a subgraph, by the numbers of their operators, that can be one."""

    graph: Subgraph
    first: int
    second: int
    flag: int
    """What decides the second."""

    @property
    def _choices(self) -> tuple[Operator, Operator]:
        return self.graph.operators[self.first], self.graph.operators[self.second]

    @property
    def handing(self) -> frozenset[int]:
        """The operators between them that hand on a flag that the first gives."""
        handed, found = {self.flag} & {*self._choices[0].outputs}, set[int]()
        for number in range(self.first + 1, self.second):
            each = self.graph.operators[number]
            if isinstance(each.op, (Alias, Cast)) and handed.issuperset(each.inputs):
                found.add(number)
                handed.update(each.outputs)
        return frozenset(found)

    @property
    def behind(self) -> set[int]:
        """What is read after the second one."""
        return {*self.graph.outputs, *(
            tensor for each in self.graph.operators[self.second + 1:] for tensor in each.inputs)}

    def is_apart(self) -> bool:
        """Whether the second choice, but nothing before it, reads more than a flag of the first, which can be where the
        second is."""
        first, second = self._choices
        made, handing, operators = {*first.outputs}, self.handing, self.graph.operators
        flags = {self.flag} & made | {each for number in handing for each in operators[number].outputs}
        between = [operators[number] for number in range(self.first + 1, self.second) if number not in handing]
        return (all(each.op.pure and (made | flags).isdisjoint(each.inputs) for each in between)
                and flags.isdisjoint(self.behind | {*second.inputs[1:]})
                and not made.isdisjoint(second.inputs[1:]))

    def known(self, subgraphs: Sequence[Subgraph], place: int) -> bool | None:
        """The flag in a branch of the first choice, 0 or 1; None where it is not constant there."""
        first, _ = self._choices
        if self.flag not in first.outputs:
            return place == 0
        branch = subgraphs[first.op.callees()[place]]
        return _constant(branch, branch.outputs[first.outputs.index(self.flag)])

    def joined(self, subgraphs: list[Subgraph]) -> Subgraph:
        """The subgraph with one choice, the branches of which are added to all subgraphs."""
        first, second = self._choices
        kept = tuple(place for place, each in enumerate(first.outputs) if each in self.behind)
        given = tuple(dict.fromkeys(each for each in second.inputs[1:] if each not in first.outputs))
        operators = [SKIP if number in {self.first, *self.handing} else each
                     for number, each in enumerate(self.graph.operators)]
        operators[self.second] = Operator(
            type(first.op)(*range(len(subgraphs), len(subgraphs) + len(first.op.callees()))), (*first.inputs, *given),
            (*(first.outputs[each] for each in kept), *second.outputs))
        for place, callee in enumerate(first.op.callees()):
            subgraphs.append(self._branch(subgraphs, callee, kept, given, self.known(subgraphs, place)))
        return replace(self.graph, operators=tuple(operators))

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
        first, second = self._choices
        branch = subgraphs[index]
        own = dict(zip(first.outputs, branch.outputs, strict=True))
        behind = _Behind(branch, {**own, **{each: len(branch.tensors) + k for k, each in enumerate(given)}})
        behind.tensors += (replace(self.graph.tensors[each], data=None) for each in given)
        if known is None:
            results = behind.operator(self.graph, replace(second, inputs=(self.flag, *second.inputs[1:])))
        else:
            callee = second.op.callees()[0 if known else 1]
            results = behind.call(self.graph, replace(second, op=CallSubgraph(callee), inputs=second.inputs[1:]),
                                  subgraphs[callee])
        return replace(
            branch, tensors=tuple(behind.tensors), operators=(*branch.operators, *behind.operators),
            inputs=(*branch.inputs, *(behind.own[each] for each in given)),
            outputs=(*(branch.outputs[each] for each in kept), *results),
            origin=index if branch.origin is None else branch.origin)


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


def _pairs(subgraphs: Sequence[Subgraph], graph: Subgraph) -> Iterator[_Pair]:
    """The choices of a subgraph that can be one."""
    flags = _flags(graph)
    for number, operator in enumerate(graph.operators):
        if isinstance(operator.op, If):
            flag = flags.source(operator.inputs[0])
            for first in flags.choices(flag):
                pair = _Pair(graph, first, number, flag)
                if first < number and pair.is_apart() and _is_decided(subgraphs, pair):
                    yield pair


def _is_decided(subgraphs: Sequence[Subgraph], pair: _Pair) -> bool:
    """Whether each way through the first choice has a known flag, and the second one's branches are not too large for
    being where these go."""
    first, second = (pair.graph.operators[each] for each in (pair.first, pair.second))
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
    tensor, flags = graph.outputs[place], _flags(graph)
    known, flag = _constant(graph, tensor), flags.source(tensor)
    maker = flags.maker(flag)
    if known is not None:
        yield known
    elif maker is not None and isinstance(maker.op, _CHOICES) and depth < MOST_NESTED:
        for each in maker.op.callees():
            yield from _ways(subgraphs, each, maker.outputs.index(flag), depth + 1)
    elif any(True for _ in flags.choices(flag)):
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
