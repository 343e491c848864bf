"""Has products read a right factor where it lies, instead of a copy of it with rows and columns exchanged."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs


def absorb_transposition(model: Model) -> Model:
    """Gives the other `adj_y` to BATCH_MATMUL of float32 whose right factor is another tensor with its last two axes
    exchanged. A TRANSPOSE that nothing else reads becomes a `Skip`."""
    changed = rewrite_subgraphs(model, _absorb)
    return model if changed is model else eliminate_dead(changed)


def _absorb(subgraph: Subgraph) -> Subgraph:
    sources = {operator.outputs[0]: operator.inputs[0] for operator in subgraph.operators
               if isinstance(operator.op, Transpose) and _exchanges(subgraph, operator)}

    def absorbed(operator: Operator) -> Operator:
        op = operator.op
        if not isinstance(op, BatchMatMul) or operator.inputs[1] not in sources:
            return operator
        x, y = operator.inputs
        return replace(operator, op=replace(op, adj_y=not op.adj_y), inputs=(x, sources[y]))

    return rewrite_operators(subgraph, absorbed)


def _exchanges(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether a transposition exchanges the last two axes of float32, which the model has no value of, and nothing
    else."""
    x, axes = (subgraph.tensors[each] for each in operator.inputs)
    if x.dtype is not DType.FLOAT32 or x.data is not None or axes.data is None or axes.data.size < 2:
        return False
    *outer, row, column = axes.data.reshape(-1).tolist()
    rank = len(outer) + 2
    return outer == list(range(rank - 2)) and (row % rank, column % rank) == (rank - 1, rank - 2)
