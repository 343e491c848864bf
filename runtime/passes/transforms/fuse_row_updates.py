"""Recognises how TensorFlow's converter spells `list[i] = row`, and makes it one operator that writes a row.

The converter lowers TensorListSetItem to `CONCATENATION(SLICE(list, 0, i), row, SLICE(list, i + 1, -1))`, which costs
the whole list in each turn of a loop, and whose intermediate shapes are known only as it runs. An index out of range
is an error in both spellings, but for -1, where the converter's doubles the list.
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
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs


def fuse_row_updates(model: Model) -> Model:
    """Replaces each such CONCATENATION by an `UpdateRow`; what fed it is left for `eliminate_dead`."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, _Matcher(subgraph).row_update))


class _Matcher:
    def __init__(self, subgraph: Subgraph) -> None:
        self._tensors = subgraph.tensors
        self._writer = {each: operator for operator in subgraph.operators for each in operator.outputs}

    def row_update(self, operator: Operator) -> Operator:
        """The operator that does the same, for a CONCATENATION that sets a row; else the operator itself."""
        op = operator.op
        if not isinstance(op, Concatenation) or op.axis != 0 or len(operator.inputs) != 3:
            return operator
        before, row, after = operator.inputs
        head, tail = self._slice(before), self._slice(after)
        plain = op.fused_activation_function is Activation.NONE
        if head is None or tail is None or head.inputs[0] != tail.inputs[0] or not plain:
            return operator
        index = self._row_index(head, tail)
        if index is None or self._tensors[row].signature[:1] != (1,):
            return operator
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
        made = writer is not None and isinstance(writer.op, (Reshape, ExpandDims))
        return writer.inputs[0] if made and writer and self._tensors[vector].signature == (1,) else None

    def _is_successor(self, tensor: int, index: int) -> bool:
        """Whether a tensor is `index + 1`."""
        writer = self._writer.get(tensor)
        if writer is None or not isinstance(writer.op, Add) or index not in writer.inputs:
            return False
        one = writer.inputs[1 - writer.inputs.index(index)]
        return self._is_filled(one, 1) and writer.op.fused_activation_function is Activation.NONE
