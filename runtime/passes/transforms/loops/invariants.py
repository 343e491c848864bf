"""Gives a loop a body of its own that knows those invariants which are known before the loop runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import NONE
from circlet.runtime.passes.transforms.loops.constants import shape_derived


def with_known_invariants(model: Model, index: int, operator: Operator, op: Loop) -> tuple[Model, Operator, Loop]:
    """The loop without the invariants that are constants or follow from shapes; its new body has them itself.

    Args:
        index: the subgraph of the operator.
    """
    caller, first = model.subgraphs[index], 2 + len(op.carried)
    operands = operator.inputs[first:first + len(op.invariants)]
    constants = {k: caller.tensors[each] for k, each in enumerate(operands) if caller.tensors[each].is_constant}
    derived = {k: found for k, each in enumerate(operands) if op.cond_subgraph_index == NONE and _is_parameter(
        caller.tensors[each]) and (found := shape_derived(caller, each))}
    if not constants and not derived:
        return model, operator, op
    body = _Body(_variant(model, op.body_subgraph_index), caller)
    for k, constant in constants.items():
        body.bind(op.invariants[k], constant)
    for k, operators in derived.items():
        body.derive(op.invariants[k], operands[k], operators)
    known = {*constants, *derived}
    removed = [op.invariants[k] for k in known]
    added = [body.finish(removed)]
    first_new = len(body.subgraph.inputs) - len(removed)
    new = tuple(range(first_new, first_new + len(body.sources)))
    changed = _without_inputs(op, removed, len(model.subgraphs))
    changed = replace(changed, invariants=(*changed.invariants, *new))
    if op.cond_subgraph_index != NONE:
        added.append(_bound(_variant(model, op.cond_subgraph_index),
                            {len(op.carried) + k: tensor for k, tensor in constants.items()}))
        changed = replace(changed, cond_subgraph_index=len(model.subgraphs) + 1)
    kept = tuple(each for k, each in enumerate(operands) if k not in known)
    inputs = (*operator.inputs[:first], *kept, *body.sources, *operator.inputs[first + len(operands):])
    return replace(model, subgraphs=(*model.subgraphs, *added)), replace(operator, inputs=inputs), changed


def _variant(model: Model, index: int) -> Subgraph:
    """A subgraph, to be changed."""
    subgraph = model.subgraphs[index]
    return replace(subgraph, origin=index if subgraph.origin is None else subgraph.origin)


def _is_parameter(tensor: Tensor) -> bool:
    """Whether a tensor may hold sizes or positions."""
    return tensor.dtype in (DType.INT32, DType.INT64) and len(tensor.shape) <= 1


class _Body:
    """A body that gets to know invariants."""

    def __init__(self, subgraph: Subgraph, caller: Subgraph) -> None:
        self.subgraph = subgraph
        self._caller = caller
        self._tensors = list(subgraph.tensors)
        self._operators: list[Operator] = []
        self._made: dict[int, int] = {}
        self.sources: list[int] = []
        """The caller's tensors of which the body needs the shapes, in the order of its new inputs."""
        self._new: list[int] = []

    def bind(self, position: int, constant: Tensor) -> None:
        """Makes an input a constant."""
        place = self.subgraph.inputs[position]
        self._tensors[place] = replace(constant, name=self._tensors[place].name)

    def derive(self, position: int, tensor: int, operators: Collection[Operator]) -> None:
        """Makes an input the result of operators of the caller, of which `tensor` is the result there."""
        own = {tensor: self.subgraph.inputs[position]}
        for operator in operators:
            inputs = tuple(each if each == ABSENT else own[each] if each in own else self._read(each)
                           for each in operator.inputs)
            for each in operator.outputs:
                if each not in own:
                    own[each] = self._added(self._caller.tensors[each])
            outputs = tuple(own[each] for each in operator.outputs)
            self._operators.append(replace(operator, inputs=inputs, outputs=outputs))

    def _read(self, tensor: int) -> int:
        """The body's tensor for a constant of the caller, or for one whose shape is asked for."""
        if tensor not in self._made:
            declared = self._caller.tensors[tensor]
            self._made[tensor] = self._added(declared)
            if not declared.is_constant:
                self.sources.append(tensor)
                self._new.append(self._made[tensor])
        return self._made[tensor]

    def _added(self, tensor: Tensor) -> int:
        self._tensors.append(replace(tensor, is_variable=False))
        return len(self._tensors) - 1

    def finish(self, removed: Collection[int]) -> Subgraph:
        """The body without the inputs at the positions given."""
        inputs = (each for position, each in enumerate(self.subgraph.inputs) if position not in removed)
        return replace(self.subgraph, tensors=tuple(self._tensors), inputs=(*inputs, *self._new),
                       added=self.subgraph.added + len(self._operators),
                       operators=(*self._operators, *self.subgraph.operators))


def _bound(subgraph: Subgraph, constants: Mapping[int, Tensor]) -> Subgraph:
    """The subgraph with constants instead of the inputs at the positions given."""
    body = _Body(subgraph, subgraph)
    for position, constant in constants.items():
        body.bind(position, constant)
    return body.finish(constants)


def _without_inputs(op: Loop, removed: Collection[int], body: int) -> Loop:
    """The loop over a body that lacks the inputs at the positions given, which are invariants."""
    def moved(position: int) -> int:
        return position - sum(each < position for each in removed)

    return replace(
        op, body_subgraph_index=body,
        carried=tuple(replace(each, body_input=moved(each.body_input)) for each in op.carried),
        invariants=tuple(moved(each) for each in op.invariants if each not in removed),
        scan_inputs=tuple(replace(each, body_input=moved(each.body_input)) for each in op.scan_inputs),
        iteration=op.iteration and replace(op.iteration, body_input=moved(op.iteration.body_input)),
        cond_input=op.cond_input and replace(op.cond_input, body_input=moved(op.cond_input.body_input)),
    )
