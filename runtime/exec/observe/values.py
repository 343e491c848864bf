"""Tells a listener of the operators of a model with the values that they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from circlet.runtime.errors import Place
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.exec.observe.moment import Invocation, Moment
from circlet.runtime.exec.observe.observer import Observer
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.types import Array


class ValueObserver(Observer):
    """Tells the listener of the operators that the model has, in the subgraphs that it has. What passes add, such as
    the WHILE that a loop of ONNX becomes, is part of the operator that it stands for."""

    def __init__(self, model: Model) -> None:
        """
        Args:
            model: as it was given; its subgraphs and operators keep their places in the one that is executed.
        """
        super().__init__(Observation.VALUES)
        self._model = model
        self._own: dict[int, int] = {}
        """The model's subgraph of which an executed one is a variant, for those that are bound."""
        self._running: list[_Running] = []
        self._calls: tuple[Invocation, ...] = ()

    def operator(self, step: Step, place: tuple[int, int], graph: Subgraph, inputs: Sequence[Array | None],
                 outputs: Sequence[Array]) -> Step:
        told = super().operator(step, place, graph, inputs, outputs)
        own = self._origin(place, graph)
        if own is None:
            return told
        given = self._model.subgraphs[own.subgraph]
        operator, executed = given.operators[own.operator], graph.operators[place[1]]
        before = _arranged(operator, executed, inputs)
        after = _kept(given, operator, before, outputs)

        def observed() -> None:
            self._tell(self.listener.will_compute, Moment(given, own, self._calls, before))
            told()
            self._tell(self.listener.did_compute, Moment(given, own, self._calls, after, _read_only(outputs)))

        return self._invoking(observed, own, operator) if operator.op.callees() else observed

    def _origin(self, place: tuple[int, int], graph: Subgraph) -> Place | None:
        """The place of the model's operator that is executed in a place; None where the model has none."""
        index, number = place
        subgraphs = self._model.subgraphs
        own = index if graph.origin is None else graph.origin
        if own >= len(subgraphs):
            return None
        self._own[index] = own
        given = subgraphs[own]
        number -= graph.added
        if not 0 <= number < len(given.operators):
            return None
        return Place(own, given.name, number, given.operators[number].name)

    def _invoking(self, step: Step, place: Place, operator: Operator) -> Step:
        """A step during which an operator invokes subgraphs."""

        def run() -> None:
            self._running.append(_Running(place, operator))
            step()
            self._running.pop()

        return run

    def will_invoke(self, subgraph: int) -> None:
        if self._running and subgraph in self._own:
            self._calls = (*self._calls, self._running[-1].invoke(self._own[subgraph]))
        super().will_invoke(subgraph)

    def did_invoke(self, subgraph: int) -> None:
        super().did_invoke(subgraph)
        if subgraph in self._own:
            self._calls = self._calls[:-1]


class _Running:
    """An operator that runs, and may invoke subgraphs."""

    def __init__(self, place: Place, operator: Operator) -> None:
        self._place = place
        self._callees = operator.op.calls()
        self._is_loop = any(each.role == "body" for each in self._callees)
        self._turn = 0
        self._invoked: Counter[int] = Counter()

    def invoke(self, subgraph: int) -> Invocation:
        """The next invocation of a subgraph, which may be condition and body of a loop at once."""
        roles = [each.role for each in self._callees if each.subgraph == subgraph]
        role = roles[self._invoked[subgraph] % len(roles)]
        self._invoked[subgraph] += 1
        turn = self._turn
        self._turn += role == "body"
        return Invocation(self._place, role, turn if self._is_loop else None)


def _arranged(own: Operator, executed: Operator, inputs: Sequence[Array | None]) -> tuple[Array | None, ...]:
    """The values of the operator's own inputs, of which a pass may have left some out."""
    found = {tensor: _view(array) for tensor, array in zip(executed.inputs, inputs, strict=True)
             if tensor != ABSENT and array is not None}
    return tuple(found.get(each) for each in own.inputs)


def _kept(graph: Subgraph, operator: Operator, inputs: Sequence[Array | None],
          outputs: Sequence[Array]) -> tuple[Array | None, ...]:
    """The inputs that the operator leaves as they are."""
    views, is_calling = operator.op.views(), bool(operator.op.callees())

    def is_kept(position: int, array: Array) -> bool:
        if is_calling or graph.tensors[operator.inputs[position]].is_variable:
            return False
        return not any(np.may_share_memory(array, each) for output, each in enumerate(outputs)
                       if views.get(output) != position)

    return tuple(each if each is not None and is_kept(position, each) else None for position, each in enumerate(inputs))


def _read_only(arrays: Sequence[Array]) -> tuple[Array, ...]:
    return tuple([_view(each) for each in arrays])


def _view(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view
