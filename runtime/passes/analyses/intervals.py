"""Between which numbers the elements of small vectors lie, as far as operators on a few numbers tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf, prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import Operator, Subgraph
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import LogicalAnd, NotEqual, Select, SelectV2
from circlet.runtime.ops.elementwise import Maximum
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias, ExpandDims, Reshape, Squeeze

Interval: TypeAlias = "tuple[float, float]"
"""The least and the largest that an element may be."""
_MOST = 16
"""Elements of a tensor: more than a shape has. A choice."""
_MOST_FOLLOWED = 32
"""Operators in a row: more than converters write. A choice."""
_ANY = -inf, inf
_INTEGERS = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64})


class Intervals:
    """Those of one subgraph's tensors."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._found: dict[int, Sequence[Interval]] = {}
        """By tensor, as far as they were asked for."""
        self._false: dict[int, bool] = {}
        """The same of conditions."""

    def of(self, tensor: int) -> Sequence[Interval]:
        """One for each element of a number or vector; none of other tensors, and of long ones."""
        return self._of(tensor, 0)

    def _of(self, tensor: int, depth: int) -> Sequence[Interval]:
        if tensor not in self._found:
            self._found[tensor] = self._told(tensor, depth)
        return self._found[tensor]

    def _told(self, tensor: int, depth: int) -> Sequence[Interval]:
        declared = self._subgraph.tensors[tensor]
        size = prod(declared.shape)
        if not declared.is_static or len(declared.shape) > 1 or size > _MOST:
            return ()
        if declared.data is not None:
            found = declared.data.reshape(-1).tolist() if declared.data.dtype.kind in "if" else []
            return [(each, each) if each == each else _ANY for each in found]  # NaN is not itself
        maker = self._makers.get(tensor)
        found = () if maker is None or depth >= _MOST_FOLLOWED else self._made(maker, depth + 1)
        whole = _range(declared.dtype)
        return [_within(each, whole) for each in found] if len(found) == size else [whole] * size

    def _made(self, operator: Operator, depth: int) -> Sequence[Interval]:
        """What an operator makes of its inputs; nothing where that is not known."""
        given = operator.inputs
        match operator.op:
            case Cast() | Reshape() | Alias() | Squeeze() | ExpandDims():
                return self._of(given[0], depth)
            case Maximum():
                pairs = self._together([self._of(each, depth) for each in given])
                return [(max(one[0], other[0]), max(one[1], other[1])) for one, other in pairs]
            case Concatenation():
                parts = [self._of(each, depth) for each in given]
                return [each for part in parts for each in part] if all(parts) else ()
            case Gather(axis=0, batch_dims=0):
                return self._gathered(self._of(given[0], depth), given[1])
            case Select() | SelectV2():
                if self._is_false(given[0], depth):
                    return self._of(given[2], depth)
                pairs = self._together([self._of(each, depth) for each in given[1:]])
                return [(min(one[0], other[0]), max(one[1], other[1])) for one, other in pairs]
        return ()

    def _gathered(self, elements: Sequence[Interval], indices: int) -> Sequence[Interval]:
        """Those of a vector that constant indices choose."""
        data = self._subgraph.tensors[indices].data
        places = [] if data is None or data.size > _MOST else data.reshape(-1).tolist()
        return [elements[each] for each in places] if all(0 <= each < len(elements) for each in places) else ()

    def _together(self, operands: Sequence[Sequence[Interval]]) -> Sequence[Sequence[Interval]]:
        """Elements of operands that are computed with; one of a single element is for all of the others."""
        size = max(map(len, operands))
        if not all(len(each) in (1, size) for each in operands):
            return ()
        return list(zip(*(each if len(each) == size else [*each] * size for each in operands), strict=True))

    def _is_false(self, tensor: int, depth: int) -> bool:
        """Whether no element of a condition is true."""
        if tensor not in self._false:
            self._false[tensor] = depth < _MOST_FOLLOWED and self._is_never(tensor, depth + 1)
        return self._false[tensor]

    def _is_never(self, tensor: int, depth: int) -> bool:
        data, maker = self._subgraph.tensors[tensor].data, self._makers.get(tensor)
        if maker is None:
            return data is not None and not data.any()
        match maker.op:
            case LogicalAnd():
                return any(self._is_false(each, depth) for each in maker.inputs)
            case NotEqual():
                return len({*maker.inputs}) == 1 and self._is_whole(maker.inputs[0])
        return False

    def _is_whole(self, tensor: int) -> bool:
        """Whether a tensor has integers, perhaps as another type, and so nothing that is no number."""
        maker = self._makers.get(tensor)
        source = maker.inputs[0] if maker is not None and isinstance(maker.op, Cast) else tensor
        return self._subgraph.tensors[source].dtype in _INTEGERS

    @cached_property
    def _makers(self) -> Mapping[int, Operator]:
        """The operator that gives a tensor."""
        return {tensor: each for each in self._subgraph.operators for tensor in each.outputs}


def _range(dtype: DType) -> Interval:
    """All that a type has."""
    if dtype not in _INTEGERS:
        return _ANY
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _within(interval: Interval, whole: Interval) -> Interval:
    """What is left of an interval in a type: anything, if the type has not all of it, or a bound is no number."""
    return interval if whole[0] <= interval[0] <= interval[1] <= whole[1] else whole
