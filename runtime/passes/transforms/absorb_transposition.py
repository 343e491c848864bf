"""Has products read a right factor where it lies, instead of a copy of it with rows and columns exchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs
from circlet.runtime.passes.transforms.turned import turned


def absorb_transposition(model: Model) -> Model:
    """Gives the other `adj_y` to BATCH_MATMUL of float32 whose right factor is another tensor with its last two axes
    exchanged, or that times a number, by which the other tensor is multiplied then. A TRANSPOSE that nothing else reads
    becomes a `Skip`."""
    changed = rewrite_subgraphs(model, _absorb)
    return model if changed is model else eliminate_dead(changed)


def _absorb(subgraph: Subgraph) -> Subgraph:
    factors = {operator.inputs[1] for operator in subgraph.operators if isinstance(operator.op, BatchMatMul)}
    if not factors:
        return subgraph
    sources = {operator.outputs[0]: operator.inputs[0] for operator in subgraph.operators
               if isinstance(operator.op, Transpose) and _exchanges(subgraph, operator)}
    sources.update(turned(subgraph))
    scaled = {operator.outputs[0]: source for operator in subgraph.operators if operator.outputs[:1] and (
        operator.outputs[0] in factors) and (source := _scaled(subgraph, operator, sources)) is not None}

    def absorbed(operator: Operator) -> Operator:
        op = operator.op
        if operator.outputs and operator.outputs[0] in scaled:
            source = scaled[operator.outputs[0]]
            return replace(operator, inputs=tuple(source if each in sources else each for each in operator.inputs))
        if not isinstance(op, BatchMatMul) or not (operator.inputs[1] in sources or operator.inputs[1] in scaled):
            return operator
        x, y = operator.inputs
        return replace(operator, op=replace(op, adj_y=not op.adj_y), inputs=(x, sources.get(y, y)))

    changed = rewrite_operators(subgraph, absorbed)
    if not scaled:
        return changed
    return replace(changed, tensors=tuple(_exchanged(each) if number in scaled else each
                                          for number, each in enumerate(subgraph.tensors)))


def _scaled(subgraph: Subgraph, operator: Operator, sources: Mapping[int, int]) -> int | None:
    """What is exchanged and multiplied by a number, if that is all that an operator makes, for one product alone."""
    if not isinstance(operator.op, Mul) or operator.outputs[0] in subgraph.outputs:
        return None
    readers = [each for each in subgraph.operators if operator.outputs[0] in each.inputs]
    number = next((data for each in operator.inputs if (data := subgraph.tensors[each].data) is not None), None)
    source = next((sources[each] for each in operator.inputs if each in sources), None)
    if source is None or number is None or number.size != 1 or number.ndim > 2 or len(readers) != 1:
        return None
    (reader,) = readers
    return source if isinstance(reader.op, BatchMatMul) and operator.outputs[0] != reader.inputs[0] else None


def _exchanged(tensor: Tensor) -> Tensor:
    """A tensor as it is declared with its last two axes exchanged."""
    def turn(shape: Shape) -> Shape:
        return (*shape[:-2], *reversed(shape[-2:]))

    signature = tensor.shape_signature
    return replace(tensor, shape=turn(tensor.shape), shape_signature=None if signature is None else turn(signature))


def _exchanges(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether a transposition exchanges the last two axes of float32, which the model has no value of, and nothing
    else."""
    x, axes = (subgraph.tensors[each] for each in operator.inputs)
    if x.dtype is not DType.FLOAT32 or x.data is not None or axes.data is None or axes.data.size < 2:
        return False
    *outer, row, column = axes.data.reshape(-1).tolist()
    rank = len(outer) + 2
    return outer == list(range(rank - 2)) and (row % rank, column % rank) == (rank - 1, rank - 2)
