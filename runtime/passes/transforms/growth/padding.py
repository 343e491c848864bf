"""Pads a subgraph: each operator on padded tensors becomes one that computes the same elements, if its rule can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.model import Model, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.loop_steps import LoopZeros
from circlet.runtime.passes.transforms.growth.state import Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import COUNTER, MADE, RULES, Rule, Step
from circlet.runtime.passes.transforms.loops.layout import scalar
from circlet.runtime.passes.transforms.rewrite import rewrite_operators


@dataclass(frozen=True)
class Group:
    """Carried tensors that are equally long in every turn."""

    growth: int
    """How much longer they become in each."""
    least: int
    """The least length they can have before the first."""


class Work:
    """What the subgraphs of one loop have in common."""

    def __init__(self, model: Model, groups: Sequence[Group]) -> None:
        self.model = model
        self.groups = groups
        self.builder = ModelBuilder(model)
        self.padded: dict[int, Subgraph] = {}
        """What takes the place of subgraphs of the model."""
        self.need = {k: each.growth for k, each in enumerate(groups)}
        """How much longer than at the start of a turn buffers must be."""
        self._references = Counter(
            callee for subgraph in model.subgraphs for operator in subgraph.operators
            for callee in operator.op.callees())
        self._references.update(each.subgraph for each in model.signatures)

    def pad(self, index: int, states: Sequence[Padded | None]) -> tuple[Padded | None, ...]:
        """Pads a subgraph for inputs of the given states; gives those of its outputs. The lengths of the groups become
        its last inputs.

        Raises:
            Refused: some operator cannot be padded, or others invoke the subgraph too.
        """
        if self._references[index] != 1 or not index or index in self.padded:
            raise Refused(f"subgraph {index} is invoked from several places")
        padding = Padding(self, self.model.subgraphs[index], states)
        self.padded[index] = padding.apply()
        return padding.results

    def at_least(self, length: Length) -> int:
        """The least that a length can be."""
        return self.groups[length.group].least + length.extra

    def reserve(self, length: Length) -> None:
        """Makes buffers long enough for a length."""
        self.need[length.group] = max(self.need[length.group], length.extra)

    def finished(self) -> Model:
        """The model with the subgraphs in their places."""
        subgraphs = list(self.builder.build().subgraphs)
        plain = {}
        for index in self.padded:
            if any(_shape_source(operator.op) == index for each in subgraphs for operator in each.operators):
                plain[index] = len(subgraphs)
                subgraphs.append(subgraphs[index])
        placed = (self.padded.get(k, each) for k, each in enumerate(subgraphs))
        return replace(self.model, subgraphs=tuple(
            rewrite_operators(each, lambda operator: _redirected(operator, plain)) for each in placed))


def _shape_source(op: Op) -> int | None:
    """The subgraph that an operator asks for shapes, without invoking it."""
    return op.loop.body_subgraph_index if isinstance(op, LoopZeros) else None


def _redirected(operator: Operator, plain: Mapping[int, int]) -> Operator:
    """The operator with its shapes from the subgraph as it was."""
    op = operator.op
    if not isinstance(op, LoopZeros) or op.loop.body_subgraph_index not in plain:
        return operator
    loop = replace(op.loop, body_subgraph_index=plain[op.loop.body_subgraph_index])
    return replace(operator, op=replace(op, loop=loop))


class Padding:
    """One subgraph on its way."""

    def __init__(self, work: Work, subgraph: Subgraph, states: Sequence[Padded | None]) -> None:
        self.work = work
        self.subgraph = subgraph
        self.states = {tensor: each for tensor, each in zip(subgraph.inputs, states, strict=True) if each is not None}
        self.values: dict[int, Array] = {}
        """Integers made of shapes with lengths: arrays of `int`, `Length` and None for what is not known."""
        self._tensors = list(subgraph.tensors)
        self._operators: list[Operator] = []
        self.lengths = [self.add(scalar(f"length_{k}", COUNTER)) for k in range(len(work.groups))]
        """The tensors that hold the lengths of the groups."""

    def add(self, tensor: Tensor) -> int:
        """Adds a tensor."""
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def apply(self) -> Subgraph:
        """The padded subgraph."""
        for number, operator in enumerate(self.subgraph.operators):
            try:
                self._rule(operator)(Step(self, number, operator))
            except FAULTS as error:
                raise Refused(f"{operator.name} does not fit its operands: {error}") from None
        inputs = (*self.subgraph.inputs, *self.lengths)
        return replace(self.subgraph, tensors=tuple(self._tensors), inputs=inputs, operators=tuple(self._operators))

    def _rule(self, operator: Operator) -> Rule:
        if any(each in self.states for each in operator.inputs):
            if type(operator.op) not in RULES:
                raise Refused(f"{operator.name} has no rule")
            return RULES[type(operator.op)]
        known = [self.values[each] for each in operator.inputs if each in self.values]
        if any(isinstance(each, Length) for value in known for each in value.reshape(-1).tolist()):
            return MADE.get(type(operator.op), Step.follow)
        return Step.follow if known else Step.keep

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
    def results(self) -> tuple[Padded | None, ...]:
        """What the outputs are."""
        return tuple(self.states.get(each) for each in self.subgraph.outputs)


