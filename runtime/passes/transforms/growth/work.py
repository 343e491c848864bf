"""Pads the subgraphs of a loop: each operator on padded tensors becomes one that computes the same, if its rule can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pkgutil import iter_modules

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.late import imported
from circlet.runtime.ops.loop_steps import LoopZeros
from circlet.runtime.passes.transforms import growth
from circlet.runtime.passes.transforms.growth.elementwise import elementwise, is_elementwise
from circlet.runtime.passes.transforms.growth.padding import Buffers, Group, Padding
from circlet.runtime.passes.transforms.growth.state import Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import MADE, RULES, Rule, Step
from circlet.runtime.passes.transforms.rewrite import rewrite_operators


class Work:
    """What the subgraphs of one loop have in common."""

    def __init__(self, model: Model, groups: Sequence[Group]) -> None:
        for each in iter_modules(growth.__path__, f"{growth.__name__}."):  # the modules with rules
            imported(each.name)
        self.model = model
        self.buffers = Buffers(ModelBuilder(model), groups)
        self.padded: dict[int, Subgraph] = {}
        """What takes the place of subgraphs of the model."""
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
        padding = Padding(self.buffers, self.pad, self.model.subgraphs[index], states)
        _apply_rules(padding)
        self.padded[index] = padding.padded
        return padding.results

    def finished(self) -> Model:
        """The model with the subgraphs in their places."""
        subgraphs = list(self.buffers.builder.build().subgraphs)
        plain = {}
        for index in self.padded:
            if any(_shape_source(operator.op) == index for each in subgraphs for operator in each.operators):
                plain[index] = len(subgraphs)
                subgraphs.append(subgraphs[index])
        placed = (self.padded.get(k, each) for k, each in enumerate(subgraphs))
        return replace(self.model, subgraphs=tuple(
            rewrite_operators(each, lambda operator: _redirected(operator, plain)) for each in placed))


def _apply_rules(padding: Padding) -> None:
    for number, operator in enumerate(padding.subgraph.operators):
        try:
            _rule(padding, operator)(Step(padding, number, operator))
        except FAULTS as error:
            raise Refused(f"{operator.name} does not fit its operands: {error}") from None


def _rule(padding: Padding, operator: Operator) -> Rule:
    if any(each in padding.states for each in operator.inputs):
        rule = RULES.get(type(operator.op)) or (elementwise if is_elementwise(operator.op) else None)
        if rule is None:
            raise Refused(f"{operator.name} has no rule")
        return rule
    known = [padding.values[each] for each in operator.inputs if each in padding.values]
    if any(isinstance(each, Length) for value in known for each in value.reshape(-1).tolist()):
        return MADE.get(type(operator.op), Step.follow)
    return Step.follow if known else Step.keep


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
