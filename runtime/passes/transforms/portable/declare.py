"""Declares the shapes that follow from those of the inputs, and makes constants of sizes that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Skip, Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.controlflow import Branch
from circlet.runtime.ops.loop_steps import LoopZeros, body_shapes
from circlet.runtime.passes.analyses.specialize import Specialization, Specializer
from circlet.runtime.passes.transforms.portable.signatures import with_subgraphs
from circlet.runtime.passes.transforms.rewrite import is_same

SKIP = Operator(Skip(), (), ())
FOLDED = (DType.INT32, DType.INT64, DType.BOOL)
MOST_ELEMENTS = 1 << 10
"""Larger constants, and those of other types, are computed in each run as the model says: weights stay packed."""


def declare_shapes(model: Model, specializer: Specializer) -> Model:
    """The model with what is known of subgraphs that are invoked with one set of shapes.

    Entry points whose inputs have open lengths, and what they invoke, are left as they are.
    """
    found: dict[int, set[tuple[Shape, ...]]] = {}
    for index in {0, *(each.subgraph for each in model.signatures)}:
        inputs = [model.subgraphs[index].tensors[each] for each in model.subgraphs[index].inputs]
        if not all(each.is_static for each in inputs):
            return model
        _collect(specializer, index, tuple(each.shape for each in inputs), found)
    alone = {index: next(iter(shapes)) for index, shapes in found.items() if len(shapes) == 1}
    return with_subgraphs(model, [
        _declared(specializer, specializer.at(index, alone[index])) if index in alone else subgraph
        for index, subgraph in enumerate(model.subgraphs)])


def _collect(specializer: Specializer, index: int, shapes: tuple[Shape, ...],
             found: dict[int, set[tuple[Shape, ...]]]) -> None:
    """Notes with which shapes a subgraph, and those that it invokes, run."""
    if shapes in found.setdefault(index, set()):
        return
    found[index].add(shapes)
    try:
        spec = specializer.at(index, shapes)
    except (ExecutionError, LimitError):
        # It may never be invoked; and if it is, it fails as it would have.
        found[index].clear()
        return
    for operator in spec.subgraph.operators[:spec.stop]:
        first = 1 if isinstance(operator.op, Branch) else 0
        operands = tuple(spec.shape(each) for each in operator.inputs[first:] if each != ABSENT)
        for callee in operator.op.callees():
            _collect(specializer, callee, operands, found)


def _guessed(specializer: Specializer, spec: Specialization) -> Iterator[int]:
    """The tensors for elements of which only a run can tell the shape."""
    for operator in spec.subgraph.operators[:spec.stop]:
        if isinstance(operator.op, LoopZeros):
            operands = operator.inputs[operator.op.own:]
            shapes = body_shapes(operator.op.loop, tuple(map(spec.shape, operands)))
            try:
                specializer.callee(operator.op.loop.body_subgraph_index, shapes)
            except Unknown:
                yield from operator.outputs


def _declared(specializer: Specializer, spec: Specialization) -> Subgraph:
    subgraph, guessed = spec.subgraph, set(_guessed(specializer, spec))
    kept = {*subgraph.outputs, *subgraph.inputs}
    known = {index: array for index, array in spec.known.items()
             if index not in kept and array.size <= MOST_ELEMENTS and subgraph.tensors[index].dtype in FOLDED}
    # LiteRT wants room for an element even where none is stored, so that such zeros are not what is written.
    operators = tuple(SKIP if each.outputs and all(tensor in known for tensor in each.outputs)
                      and not isinstance(each.op, LoopZeros) else each for each in subgraph.operators)
    written = {tensor for each in operators for tensor in each.outputs}
    tensors = tuple(each if index in guessed else
                    _typed(each, spec.shapes[index], None if index in written else known.get(index))
                    for index, each in enumerate(subgraph.tensors))
    if is_same(operators, subgraph.operators) and is_same(tensors, subgraph.tensors):
        return subgraph
    return replace(subgraph, operators=operators, tensors=tensors)


def _typed(tensor: Tensor, shape: Shape | None, value: Array | None) -> Tensor:
    if shape is None or tensor.is_constant:
        return tensor
    if value is None and (shape, None, True) == (tensor.shape, tensor.shape_signature, tensor.has_rank):
        return tensor
    return replace(tensor, shape=shape, shape_signature=None, has_rank=True, data=value)
