"""Makes one update of a window of a SCATTER_ELEMENTS whose indices are all the same constant.

PyTorch's exporter writes `x[..., i, :] = y` so, with as many indices as `y` has elements. Each would be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import Combine, ScatterElements
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.shape import BroadcastArgs, BroadcastTo, ShapeOf
from circlet.runtime.passes.transforms.rewrite import rewrite_subgraphs
from circlet.runtime.records import replace


def place_slices(model: Model) -> Model:
    """Replaces each SCATTER_ELEMENTS of updates along one element of an axis, whose index is a constant inside it, by a
    DYNAMIC_UPDATE_SLICE."""
    return rewrite_subgraphs(model, lambda subgraph: _Scatters(subgraph).rewritten())


class _Scatters:
    """Those of one subgraph."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self._tensors = list(subgraph.tensors)
        self._writers: Mapping[int, Operator] = {
            each.outputs[0]: each for each in subgraph.operators if len(each.outputs) == 1}

    def rewritten(self) -> Subgraph:
        """The subgraph, itself if there are none."""
        operators = tuple(map(self._changed, self._subgraph.operators))
        return self._subgraph if len(self._tensors) == len(self._subgraph.tensors) else replace(
            self._subgraph, operators=operators, tensors=tuple(self._tensors))

    def _changed(self, operator: Operator) -> Operator:
        if not isinstance(operator.op, ScatterElements) or operator.op.combine is not Combine.REPLACE:
            return operator
        data, indices, updates = operator.inputs
        given, window = (self._tensors[each].declared for each in (data, updates))
        index = self._index(indices, updates)
        if index is None or not given or not window or len(window) != len(given):
            return operator
        axis = operator.op.axis % len(given)
        if window[axis] != 1 or not 0 <= index < given[axis]:
            return operator
        starts = np.array([index if each == axis else 0 for each in range(len(given))], np.int32)
        self._tensors.append(Tensor("", DType.INT32, starts.shape, data=starts))
        return replace(operator, op=DynamicUpdateSlice(), inputs=(data, updates, len(self._tensors) - 1), version=1)

    def _index(self, indices: int, updates: int) -> int | None:
        """What all indices are, if they are as many as the updates."""
        whole = self._tensors[indices].data
        if whole is not None and whole.size and whole.shape == self._tensors[updates].declared:
            first = int(whole.flat[0])
            return first if (whole == first).all() else None
        repeats = self._written(indices, BroadcastTo)
        if repeats is None or not self._is_shape(repeats.inputs[1], updates):
            return None
        value = self._tensors[repeats.inputs[0]].data
        return None if value is None or value.size != 1 else int(value.item())

    def _is_shape(self, tensor: int, of: int) -> bool:
        """Whether a tensor is another one's shape, perhaps broadcast with that of a single number."""
        joins = self._written(tensor, BroadcastArgs)
        if joins is not None:
            return any(self._is_single(one) and self._is_shape(other, of)
                       for one, other in (joins.inputs, joins.inputs[::-1]))
        value, declared = self._tensors[tensor].data, self._tensors[of]
        if value is not None:
            return declared.is_static and value.reshape(-1).tolist() == list(declared.shape)
        tells = self._written(tensor, ShapeOf)
        return tells is not None and tells.inputs[0] == of

    def _is_single(self, tensor: int) -> bool:
        """Whether a tensor is the shape of a number that has no axes."""
        value = self._tensors[tensor].data
        return value is not None and value.size == 0

    def _written(self, tensor: int, op: type[Op]) -> Operator | None:
        """What gives a tensor, if that is such an operator."""
        found = None if tensor == ABSENT else self._writers.get(tensor)
        return found if found is not None and isinstance(found.op, op) else None
