"""One subgraph while it is padded, and the buffers of the loop that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, Padded, Refused
from circlet.runtime.passes.transforms.loops.layout import scalar
from circlet.runtime.records import dataclass

Pad: TypeAlias = Callable[[int, Sequence["Padded | None"]], tuple["Padded | None", ...]]
"""Pads a subgraph, given by its index, for inputs of the given states; gives those of its outputs."""


@dataclass(frozen=True)
class Group:
    """Carried tensors that are equally long in every turn."""

    growth: int
    """How much longer they become in each."""
    least: int
    """The least length they can have before the first."""


class Buffers:
    """What the subgraphs of one loop know of its buffers."""

    def __init__(self, builder: ModelBuilder, groups: Sequence[Group]) -> None:
        self.builder = builder
        self.groups = groups
        self.need = {k: each.growth for k, each in enumerate(groups)}
        """How much longer than at the start of a turn buffers must be."""

    def at_least(self, length: Length) -> int:
        """The least that a length can be."""
        return self.groups[length.group].least + length.extra

    def reserve(self, length: Length) -> None:
        """Makes buffers long enough for a length."""
        self.need[length.group] = max(self.need[length.group], length.extra)


class Padding:
    """One subgraph on its way."""

    def __init__(self, buffers: Buffers, pad: Pad, subgraph: Subgraph, states: Sequence[Padded | None]) -> None:
        self.buffers = buffers
        self.pad = pad
        """Pads a subgraph that an operator invokes."""
        self.subgraph = subgraph
        self.states = {tensor: each for tensor, each in zip(subgraph.inputs, states, strict=True) if each is not None}
        self.values: dict[int, Array] = {}
        """Integers made of shapes with lengths: arrays of `int`, `Length` and None for what is not known."""
        self._tensors = list(subgraph.tensors)
        self._operators: list[Operator] = []
        self.lengths = [self.add(scalar(f"length_{k}", COUNTER)) for k in range(len(buffers.groups))]
        """The tensors that hold the lengths of the groups."""

    def add(self, tensor: Tensor) -> int:
        """Adds a tensor."""
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def tensor(self, index: int) -> Tensor:
        return self._tensors[index]

    def put(self, operator: Operator, states: Mapping[int, Padded | None]) -> None:
        """Adds an operator, and what its results are."""
        self._operators.append(operator)
        for tensor, state in states.items():
            if state is None:
                continue
            signature = self.subgraph.tensors[tensor].signature
            if any(axis >= len(signature) or signature[axis] != -1 for axis in state.axes):
                raise Refused(f"{operator.name} is declared to have a result of shape {signature}")
            self.states[tensor] = state

    @property
    def padded(self) -> Subgraph:
        """The subgraph with what was put in the place of its operators; the lengths are its last inputs."""
        inputs = (*self.subgraph.inputs, *self.lengths)
        return replace(self.subgraph, tensors=tuple(self._tensors), inputs=inputs, operators=tuple(self._operators))

    @property
    def results(self) -> tuple[Padded | None, ...]:
        """What the outputs are."""
        return tuple(self.states.get(each) for each in self.subgraph.outputs)
