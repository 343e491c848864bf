"""Finds the carried tensors of a loop to which every turn appends."""

from __future__ import annotations

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ops.controlflow import CallSubgraph, PreTestedLoop
from circlet.runtime.ops.layout import Concatenation, StablehloConcatenate, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.shape import Alias
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Growth:
    """What becomes of a carried tensor in a turn."""

    position: int
    """Among the carried values."""
    axis: int
    """Counted from the front."""
    size: int
    """How many elements are appended along it."""


@dataclass(frozen=True)
class _Path:
    """A tensor made of an input of a subgraph by appending to it."""

    input: int
    axis: int | None = None
    size: int = 0


def find_growth(model: Model, op: PreTestedLoop) -> list[Growth]:
    """The carried tensors whose next value is the last one and more behind it, along an axis of unknown size."""
    body = model.subgraphs[op.body_subgraph_index]
    found: list[Growth] = []
    for position, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        path = _path(model, body, after)
        signature = body.tensors[before].signature
        if path is None or path.input != position or path.axis is None or path.size < 1:
            continue
        if signature[path.axis:path.axis + 1] == (-1,):
            found.append(Growth(position, path.axis, path.size))
    return found


def _path(model: Model, subgraph: Subgraph, tensor: int) -> _Path | None:
    if tensor in subgraph.inputs:
        return _Path(subgraph.inputs.index(tensor))
    writer = next((each for each in subgraph.operators if tensor in each.outputs), None)
    if writer is None or ABSENT in writer.inputs or not writer.inputs:
        return None
    if isinstance(writer.op, (Concatenation, StablehloConcatenate)):
        return _appended(_path(model, subgraph, writer.inputs[0]), subgraph, writer, writer.op)
    if isinstance(writer.op, Alias):
        return _path(model, subgraph, writer.inputs[0])
    if isinstance(writer.op, CallSubgraph):
        callee = model.subgraphs[writer.op.subgraph]
        inner = _path(model, callee, callee.outputs[writer.outputs.index(tensor)])
        outer = None if inner is None else _path(model, subgraph, writer.inputs[inner.input])
        return None if inner is None or outer is None else _joined(outer, inner.axis, inner.size)
    return None


def _appended(path: _Path | None, subgraph: Subgraph, writer: Operator,
              op: Concatenation | StablehloConcatenate) -> _Path | None:
    rank = len(subgraph.tensors[writer.outputs[0]].signature)
    if path is None or not -rank <= op.along < rank:
        return None
    axis = op.along % rank
    sizes = [subgraph.tensors[each].signature[axis:axis + 1] for each in writer.inputs[1:]]
    if any(each in ((), (-1,)) for each in sizes):
        return None
    return _joined(path, axis, sum(each[0] for each in sizes))


def _joined(path: _Path, axis: int | None, size: int) -> _Path | None:
    """More appended to a path."""
    if axis is None or path.axis in (None, axis):
        return _Path(path.input, path.axis if axis is None else axis, path.size + size)
    return None


def origin(subgraph: Subgraph, tensor: int, axis: int) -> tuple[int, int]:
    """The tensor, and its axis, whose length an axis of a tensor surely has: the first one that can be told."""
    writer = next((each for each in subgraph.operators if tensor in each.outputs), None)
    found = None if writer is None or ABSENT in writer.inputs[:2] else _source(subgraph, writer, axis)
    return (tensor, axis) if found is None else origin(subgraph, *found)


def _source(subgraph: Subgraph, writer: Operator, axis: int) -> tuple[int, int] | None:
    op, first = writer.op, writer.inputs[:1]
    rank = len(subgraph.tensors[writer.outputs[0]].signature)
    ranks = [len(subgraph.tensors[each].signature) for each in writer.inputs if each != ABSENT]
    if isinstance(op, FullyConnected) and axis < rank - 1 and rank == ranks[0] and (op.keep_num_dims or rank == 2):
        return first[0], axis
    if isinstance(op, BatchMatMul) and axis == rank - 2 and not op.adj_x:
        return first[0], ranks[0] - 2
    if isinstance(op, Transpose):
        order = subgraph.tensors[writer.inputs[1]].data
        return None if order is None or order.size != rank else (first[0], int(order.reshape(-1)[axis]) % rank)
    if op.elementwise and first:
        unknown = [each for each in writer.inputs if each != ABSENT and -1 in subgraph.tensors[each].signature]
        alike = len(unknown) == 1 and len(subgraph.tensors[unknown[0]].signature) == rank
        if alike and subgraph.tensors[unknown[0]].signature[axis] == -1:
            return unknown[0], axis
    return None
