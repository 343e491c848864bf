"""What of a loop is known before it runs: conditions that never end it, values that follow from shapes."""

from __future__ import annotations

from collections.abc import Mapping

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.comparison import LogicalAnd
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import NONE
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Rank, ShapeOf, View

MOST_DERIVED = 32
"""The most operators that are computed again to have a count at hand."""


def never_ends(model: Model, op: Loop, first: Tensor | None) -> bool:
    """Whether the condition of a loop, which begins as `first`, is true in each iteration."""
    if first is not None and not _is_true(first):
        return False
    if op.cond_output == NONE:
        return True
    body = model.subgraphs[op.body_subgraph_index]
    own = None if op.cond_input is None else body.inputs[op.cond_input.body_input]
    return _stays_true(body, body.outputs[op.cond_output], own, _writers(body))


def _is_true(tensor: Tensor) -> bool:
    return tensor.data is not None and tensor.data.size == 1 and bool(tensor.data.all())


def _stays_true(body: Subgraph, tensor: int, own: int | None, writers: Mapping[int, Operator]) -> bool:
    """Whether a tensor of a body is true if its tensor `own` is."""
    if tensor == own or _is_true(body.tensors[tensor]):
        return True
    writer = writers.get(tensor)
    if writer is None:
        return False
    if isinstance(writer.op, LogicalAnd):
        return all(_stays_true(body, each, own, writers) for each in writer.inputs)
    kept = isinstance(writer.op, (View, Cast)) and body.tensors[writer.inputs[0]].dtype is body.tensors[tensor].dtype
    return kept and _stays_true(body, writer.inputs[0], own, writers)


def _writers(subgraph: Subgraph) -> dict[int, Operator]:
    return {tensor: operator for operator in subgraph.operators for tensor in operator.outputs}


def shape_derived(subgraph: Subgraph, tensor: int) -> tuple[Operator, ...]:
    """The operators that make a tensor of nothing but constants and shapes, in order; none where it depends on data,
    or on too much."""
    writers, found = _writers(subgraph), dict[int, Operator]()
    pending, seen = [tensor], set[int]()
    numbers = {id(operator): number for number, operator in enumerate(subgraph.operators)}
    while pending:
        each = pending.pop()
        if each == ABSENT or each in seen or subgraph.tensors[each].is_constant:
            continue
        seen.add(each)
        writer = writers.get(each)
        if writer is None or not writer.op.pure or writer.op.callees() or len(found) == MOST_DERIVED:
            return ()
        found[numbers[id(writer)]] = writer
        if not isinstance(writer.op, (ShapeOf, Rank)):
            pending.extend(writer.inputs)
    return tuple(found[number] for number in sorted(found))
