"""Keeps the values that operators compute."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.types import Array


class ValueRecorder(Listener):
    """Keeps copies of what operators give, in the order in which they run."""

    def __init__(self, tensors: Collection[str] | None = None) -> None:
        """
        Args:
            tensors: the names of those to keep; all by default, which takes the memory of all iterations together.
        """
        self._tensors = None if tensors is None else frozenset(tensors)
        self.moments: list[Moment] = []
        """The operators that ran, with copies of their outputs and without inputs."""

    def did_compute(self, moment: Moment) -> None:
        names = (moment.graph.tensors[each].name for each in moment.operator.outputs)
        if self._tensors is None or not self._tensors.isdisjoint(names):
            outputs = tuple([each.copy() for each in moment.outputs])
            self.moments.append(replace(moment, inputs=(None,) * len(moment.operator.inputs), outputs=outputs))

    def values(self, tensor: str) -> list[Array]:
        """The values of a tensor, one for each time that it was computed."""
        return [value for moment in self.moments
                for index, value in zip(moment.operator.outputs, moment.outputs, strict=True)
                if moment.graph.tensors[index].name == tensor]
