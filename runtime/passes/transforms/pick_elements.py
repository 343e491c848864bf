"""Makes slices of one element, whose axes are removed then, take that element.

Converters of TensorFlow write `x[i]` for ONNX as a slice from `i` to as far as may be, in steps that are longer than
any axis, of which a SQUEEZE removes the axis. How many elements a slice has only a run knows, so that what follows
would be bound in the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import LogicalAnd, NotEqual, Select, SelectV2
from circlet.runtime.ops.elementwise import Maximum
from circlet.runtime.ops.layout import Concatenation, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias, ExpandDims, Reshape, Squeeze
from circlet.runtime.passes.transforms.eliminate_dead import SKIP
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs

LONG = 10 ** 9
"""Longer than any axis: what TensorFlow's converters take for that."""
_MOST_FOLLOWED = 32
"""Operators in a row: more than converters write."""
_INTEGERS = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64})


def pick_elements(model: Model) -> Model:
    """Replaces each STRIDED_SLICE in steps of `LONG` or more, and the SQUEEZE that alone reads it, by one that takes an
    index, where the slice ends behind the axis."""
    return rewrite_subgraphs(model, lambda subgraph: _Slices(subgraph).rewritten())


class _Slices:
    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph

    def rewritten(self) -> Subgraph:
        """The subgraph, itself if there are no such slices."""
        operators = list(self._subgraph.operators)
        for number, operator in enumerate(self._subgraph.operators):
            place = self._squeezed(operator)
            if place is not None and isinstance(operator.op, StridedSlice):
                squeeze = self._subgraph.operators[place]
                entries = sum(1 << each for each in self._axes(squeeze, self._rank(operator.inputs[0])))
                op = replace(operator.op, shrink_axis_mask=entries)
                operators[number] = replace(operator, op=op, outputs=squeeze.outputs)
                operators[place] = SKIP
        return self._subgraph if operators == list(self._subgraph.operators) else replace(
            self._subgraph, operators=tuple(operators))

    def _squeezed(self, operator: Operator) -> int | None:
        """The SQUEEZE of all axes of which a slice takes one element."""
        op = operator.op
        if not isinstance(op, StridedSlice) or op.offset or (
                op.ellipsis_mask or op.new_axis_mask or op.shrink_axis_mask or op.begin_mask):
            return None
        readers = self._readers.get(operator.outputs[0], ())
        strides, rank = self._subgraph.tensors[operator.inputs[3]].data, self._rank(operator.inputs[0])
        if strides is None or strides.size > rank or len(readers) != 1:
            return None
        squeeze = self._subgraph.operators[readers[0]]
        single = {axis for axis, stride in enumerate(strides.reshape(-1).tolist()) if stride >= LONG}
        if not single or not isinstance(squeeze.op, Squeeze) or self._axes(squeeze, rank) != single:
            return None
        ends_behind = all(op.end_mask >> each & 1 for each in single) or self._least(operator.inputs[2], 0) >= LONG
        return readers[0] if ends_behind else None

    def _axes(self, squeeze: Operator, rank: int) -> set[int]:
        assert isinstance(squeeze.op, Squeeze), "the reader removes axes"
        return {each % rank for each in squeeze.op.squeeze_dims if -rank <= each < rank}

    def _rank(self, tensor: int) -> int:
        """As it is declared; 0 where it is not."""
        return len(self._subgraph.tensors[tensor].declared or ())

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """The operators that read a tensor, and one behind all of them where it is a result."""
        found: dict[int, list[int]] = {}
        for number, each in enumerate(self._subgraph.operators):
            for tensor in each.inputs:
                found.setdefault(tensor, []).append(number)
        for tensor in self._subgraph.outputs:
            found.setdefault(tensor, []).extend((-1, -1))
        return found

    @cached_property
    def _makers(self) -> Mapping[int, Operator]:
        return {tensor: each for each in self._subgraph.operators for tensor in each.outputs}

    def _least(self, tensor: int, depth: int) -> float:
        """What all elements of a tensor are at the least; -inf where that is not known."""
        data, maker = self._subgraph.tensors[tensor].data, self._makers.get(tensor)
        if data is not None:
            return float(data.min()) if data.size and data.dtype.kind in "if" else -np.inf
        if maker is None or depth >= _MOST_FOLLOWED:
            return -np.inf
        given = maker.inputs
        match maker.op:
            case Cast() | Reshape() | Alias() | Squeeze() | ExpandDims():
                return self._least(given[0], depth + 1)
            case Maximum():
                return max(self._least(each, depth + 1) for each in given)
            case Concatenation():
                return min(self._least(each, depth + 1) for each in given)
            case Select() | SelectV2():
                chosen = given[2:] if self._is_false(given[0]) else given[1:]
                return min(self._least(each, depth + 1) for each in chosen)
        return -np.inf

    def _is_false(self, tensor: int) -> bool:
        """Whether no element of a condition is true."""
        maker = self._makers.get(tensor)
        if maker is None:
            return self._is_zero(self._subgraph.tensors[tensor].data)
        match maker.op:
            case LogicalAnd():
                return any(map(self._is_false, maker.inputs))
            case NotEqual():
                return len({*maker.inputs}) == 1 and self._is_whole(maker.inputs[0])
        return False

    def _is_zero(self, data: Array | None) -> bool:
        return data is not None and not data.any()

    def _is_whole(self, tensor: int) -> bool:
        """Whether a tensor has integers, perhaps as another type."""
        maker = self._makers.get(tensor)
        is_cast = maker is not None and isinstance(maker.op, Cast)
        return self._subgraph.tensors[tensor].dtype in _INTEGERS or (
            is_cast and maker is not None and self._is_whole(maker.inputs[0]))
