"""Which tensors are others with their last two axes exchanged by way of three axes: a RESHAPE to (-1, rows, columns), a
TRANSPOSE and a RESHAPE to the axes before, by what the shape of the first one says, as PyTorch's newer exporter writes
it before attention's product."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.length import Scope, alike
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.op import Operand, Operands, Unknown
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.operands import shape_value
from circlet.runtime.ops.shape import Reshape, ShapeOf

MOST = 64
"""Operators in a row that a shape is computed by: more than exporters write."""


def turned(subgraph: Subgraph) -> Mapping[int, int]:
    """The tensors that are others so, by tensor."""
    makers = {tensor: each for each in subgraph.operators for tensor in each.outputs}
    found = {}
    for last in subgraph.operators:
        middle = makers.get(last.inputs[0]) if isinstance(last.op, Reshape) and len(last.inputs) == 2 else None
        first = makers.get(middle.inputs[0]) if middle is not None and isinstance(middle.op, Transpose) else None
        if first is None or not isinstance(first.op, Reshape) or len(first.inputs) != 2:
            continue
        source = subgraph.tensors[first.inputs[0]]
        if source.dtype is DType.FLOAT32 and len(source.declared or ()) > 2 and _Shapes(
                subgraph, makers, first.inputs[0]).are_exchanged(last.outputs[0]):
            found[last.outputs[0]] = first.inputs[0]
    return found


class _Shapes:
    """The shapes that follow from that of one tensor, whatever it is."""

    def __init__(self, subgraph: Subgraph, makers: Mapping[int, Operator], source: int) -> None:
        self._subgraph = subgraph
        self._makers = makers
        declared = subgraph.tensors[source].signature
        scope = Scope([1] * len(declared))
        self._source: Shape = tuple(scope.symbol(axis) if size < 0 else size for axis, size in enumerate(declared))
        scope.close()
        self._shapes = {source: self._source}

    def are_exchanged(self, tensor: int) -> bool:
        """Whether what the three operators make has the elements of the source with the last two axes exchanged."""
        *outer, rows, columns = self._source
        middle = self._makers[self._makers[tensor].inputs[0]]
        order = self._subgraph.tensors[middle.inputs[1]].data
        try:
            if order is None or order.tolist() != [0, 2, 1]:
                return False
            matrices, made = self._shape(middle.inputs[0]), self._shape(tensor)
            return alike(matrices[1:], (rows, columns)) and alike(made, (*outer, columns, rows))
        except (Unknown, *FAULTS):
            return False

    def _shape(self, tensor: int, depth: int = 0) -> Shape:
        """Raises `Unknown` where it follows from other shapes, too."""
        if tensor not in self._shapes:
            operator = self._makers.get(tensor)
            if operator is None or depth > MOST or not isinstance(operator.op, (Reshape, Transpose)):
                raise Unknown
            x, value = self._shape(operator.inputs[0], depth + 1), self._value(operator.inputs[1], depth + 1)
            self._shapes[tensor] = operator.op.infer(Operands(
                (Operand(DType.FLOAT32, x), Operand(DType.INT64, value.shape, value)), 1))[0]
        return self._shapes[tensor]

    def _value(self, tensor: int, depth: int) -> Array:
        """Integers that follow from it."""
        with LOADING:
            from circlet.runtime.passes.analyses.open_values import open_results

        data, operator = self._subgraph.tensors[tensor].data, self._makers.get(tensor)
        if data is not None:
            return data
        if operator is None or depth > MOST or not operator.op.pure or ABSENT in operator.inputs:
            raise Unknown
        if isinstance(operator.op, ShapeOf):
            return shape_value(self._shape(operator.inputs[0], depth + 1), np.dtype(np.int64))
        values = [self._value(each, depth + 1) for each in operator.inputs]
        operands = [Operand(self._subgraph.tensors[each].dtype, value.shape, value)
                    for each, value in zip(operator.inputs, values, strict=True)]
        found = open_results(operator.op, values, operator.op.infer(Operands(tuple(operands), len(operator.outputs))))
        if found is None:
            raise Unknown
        return found[operator.outputs.index(tensor)]
