"""Computes the operators of a run once more by the native backend: each alone, and those that it merges together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import circlet
from circlet.runtime.errors import CircletError
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.model import ABSENT, Model, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, Shape
from circlet.tools.comparing.found import Findings
from circlet.tools.comparing.replay import Compute, Make, Replay, native, unfit


class MergedReplay(Replay):
    """Compares what operators give alone, then where several are one, what these give together."""

    def __init__(self, model: Model, findings: Findings, make: Make = native) -> None:
        """
        Args:
            model: that is run, as it was given.
            findings: what is told of differences.
            make: computes models of some operators.
        """
        super().__init__(make, findings)
        self._groups = {(each.subgraph, number): each for each in _groups(model) for number in each.numbers}

    def will_compute(self, moment: Moment) -> None:
        super().will_compute(moment)
        group = self._groups.get((moment.place.subgraph, moment.place.operator))
        if group is not None:
            group.feed(moment)

    def did_compute(self, moment: Moment) -> None:
        super().did_compute(moment)
        group = self._groups.get((moment.place.subgraph, moment.place.operator))
        if group is None or moment.place.operator != group.numbers[-1] or not group.is_fed:
            return
        try:
            found = group.compute(self._make)
        except (CircletError, RuntimeError, ValueError) as error:
            self._findings.skip(moment, f"{group.name}: {error}".partition("\n")[0])
            return
        self._findings.compare(moment, found, group.name)


class _Group:
    """Operators of a subgraph that are merged; the last one gives their result."""

    def __init__(self, subgraph: int, graph: Subgraph, numbers: Sequence[int]) -> None:
        self.subgraph = subgraph
        self.numbers = numbers
        self.name = "+".join(graph.operators[each].name for each in numbers)
        self._graph = graph
        self._made = {tensor for each in numbers for tensor in graph.operators[each].outputs}
        self._values: dict[int, Array] = {}
        """Of the tensors from outside, as the operators that read them had them."""
        self._fed = 0
        self._computes: dict[tuple[Shape, ...], Compute] = {}

    def feed(self, moment: Moment) -> None:
        """Keeps what a member reads."""
        if moment.place.operator == self.numbers[0]:
            self._values, self._fed = {}, 0
        if unfit(moment) is None:
            self._fed += 1
            self._values.update((index, value.copy()) for index, value in moment.values.items()
                                if index not in self._made and not self._graph.tensors[index].is_constant)

    @property
    def is_fed(self) -> bool:
        """Whether all that the members read is known."""
        return self._fed == len(self.numbers)

    def compute(self, make: Make) -> Sequence[Array]:
        """What the members give together."""
        shapes = tuple(each.shape for each in self._values.values())
        if shapes not in self._computes:
            self._computes[shapes] = make(self._model())
        return self._computes[shapes](list(self._values.values()))

    def _model(self) -> Model:
        """A model of the members, at the shapes that they have; what is read and no constant is an input."""
        operators = [self._graph.operators[each] for each in self.numbers]
        used = [*self._values, *(tensor for each in operators for tensor in (*each.inputs, *each.outputs)
                                 if tensor != ABSENT)]
        places = {tensor: place for place, tensor in enumerate(dict.fromkeys(used))}
        tensors = [replace(self._tensor(each), name=f"t{place}") for each, place in places.items()]
        moved = tuple(replace(each, inputs=tuple(ABSENT if tensor == ABSENT else places[tensor]
                                                 for tensor in each.inputs),
                              outputs=tuple(places[tensor] for tensor in each.outputs)) for each in operators)
        fed = tuple(places[each] for each in self._values)
        return Model((Subgraph("main", tuple(tensors), fed, moved[-1].outputs, moved),))

    def _tensor(self, index: int) -> Tensor:
        found = self._graph.tensors[index]
        value = self._values.get(index)
        return found if value is None else replace(found, shape=value.shape, shape_signature=None)


def _groups(model: Model) -> Iterator[_Group]:
    """Those that the native backend makes of a model's own operators."""
    with suppress(CircletError):
        executed = circlet.Session(model, "native").executed
        for index, graph in enumerate(model.subgraphs):
            for operator in executed.subgraphs[index].operators:
                numbers = operator.op.parts()
                if numbers and max(numbers) < len(graph.operators):
                    yield _Group(index, graph, numbers)
