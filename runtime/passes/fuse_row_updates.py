"""Recognises how TensorFlow's converter spells `list[i] = row`, and makes it one operator that writes a row.

The converter lowers TensorListSetItem to `CONCATENATION(SLICE(list, 0, i), row, SLICE(list, i + 1, -1))`, which costs
the whole list in each turn of a loop, and whose intermediate shapes are known only as it runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.types import Activation
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import UpdateRow
from circlet.runtime.ops.layout import Concatenation, Pack, Slice
from circlet.runtime.ops.shape import ExpandDims, Reshape


def fuse_row_updates(model: Model) -> Model:
    """Replaces each such CONCATENATION by an `UpdateRow`; what fed it is left for `eliminate_dead`."""
    subgraphs = tuple(_fuse(each) for each in model.subgraphs)
    unchanged = all(one is other for one, other in zip(subgraphs, model.subgraphs, strict=True))
    return model if unchanged else replace(model, subgraphs=subgraphs)


def _fuse(subgraph: Subgraph) -> Subgraph:
    match = _Matcher(subgraph)
    operators = tuple(match.row_update(each) or each for each in subgraph.operators)
    unchanged = all(one is other for one, other in zip(operators, subgraph.operators, strict=True))
    return subgraph if unchanged else replace(subgraph, operators=operators)


class _Matcher:
    def __init__(self, subgraph: Subgraph) -> None:
        self._tensors = subgraph.tensors
        self._writer = {each: operator for operator in subgraph.operators for each in operator.outputs}

    def row_update(self, operator: Operator) -> Operator | None:
        """The operator that does the same as a CONCATENATION, if that sets a row."""
        op = operator.op
        if not isinstance(op, Concatenation) or op.axis != 0 or len(operator.inputs) != 3:
            return None
        before, row, after = operator.inputs
        head, tail = self._slice(before), self._slice(after)
        result = self._tensors[operator.outputs[0]]
        plain = op.fused_activation_function is Activation.NONE and result.is_static
        if head is None or tail is None or head.inputs[0] != tail.inputs[0] or not plain:
            return None
        index = self._row_index(head, tail)
        wanted = (1, *result.shape[1:])
        if index is None or self._tensors[row].shape != wanted or not self._tensors[row].is_static:
            return None
        return replace(operator, op=UpdateRow(), inputs=(head.inputs[0], row, index), version=1)

    def _slice(self, tensor: int) -> Operator | None:
        writer = self._writer.get(tensor)
        return writer if writer is not None and isinstance(writer.op, Slice) else None

    def _row_index(self, head: Operator, tail: Operator) -> int | None:
        """The scalar i, if one slice is `list[:i]` and the other `list[i + 1:]`."""
        if not self._is_filled(head.inputs[1], 0) or not self._is_filled(tail.inputs[2], -1):
            return None
        index, following = self._leading(head.inputs[2], -1), self._leading(tail.inputs[1], 0)
        if index is None or following is None:
            return None
        return index if self._is_successor(following, index) else None

    def _is_filled(self, tensor: int, value: int) -> bool:
        data = self._tensors[tensor].data
        return data is not None and bool(np.all(data == value))

    def _leading(self, vector: int, rest: int) -> int | None:
        """The scalar s, if a vector is `[s, rest, rest, ...]`."""
        writer = self._writer.get(vector)
        if writer is None:
            return None
        if isinstance(writer.op, (Concatenation, Pack)):
            first, *others = writer.inputs
            if not all(self._is_filled(each, rest) for each in others):
                return None
            return first if isinstance(writer.op, Pack) else self._scalar(first)
        return self._scalar(vector)

    def _scalar(self, vector: int) -> int | None:
        """The scalar that a vector of one element was made from."""
        writer = self._writer.get(vector)
        if writer is None or not isinstance(writer.op, (Reshape, ExpandDims)) or self._tensors[vector].shape != (1,):
            return None
        source = self._tensors[writer.inputs[0]]
        return writer.inputs[0] if source.is_static and source.shape in ((), (1,)) else None

    def _is_successor(self, tensor: int, index: int) -> bool:
        """Whether a tensor is `index + 1`."""
        writer = self._writer.get(tensor)
        if writer is None or not isinstance(writer.op, Add) or index not in writer.inputs:
            return False
        one = writer.inputs[1 - writer.inputs.index(index)]
        return self._is_filled(one, 1) and writer.op.fused_activation_function is Activation.NONE
