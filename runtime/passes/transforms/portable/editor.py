"""Rewrites the operators of a subgraph one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape


def with_scales(tensor: Tensor, places: Mapping[int, int]) -> Tensor:
    """The tensor with its references to tensors of scales at their new places."""
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise is None:
        return tensor
    blockwise = quantization.blockwise
    zero_points = blockwise.zero_points if blockwise.zero_points == ABSENT else places[blockwise.zero_points]
    moved = replace(blockwise, scales=places[blockwise.scales], zero_points=zero_points)
    return replace(tensor, quantization=replace(quantization, blockwise=moved))


class Editor:
    """A subgraph in the making: the tensors of another one, some more, and operators in order."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._subgraph = subgraph
        self.tensors = list(subgraph.tensors)
        self.operators: list[Operator] = []
        self._instead: dict[int, int] = {}

    def current(self, tensor: int) -> int:
        """The tensor that stands for another one."""
        while tensor in self._instead:
            tensor = self._instead[tensor]
        return tensor

    def use(self, tensor: int, instead: int) -> None:
        """Makes `instead` stand for a tensor that nothing writes."""
        if self.current(instead) != tensor:
            self._instead[tensor] = self.current(instead)

    def keep(self, operator: Operator) -> None:
        """Adds an operator of the subgraph."""
        inputs = tuple(each if each == ABSENT else self.current(each) for each in operator.inputs)
        self.operators.append(operator if inputs == operator.inputs else replace(operator, inputs=inputs))

    def tensor(self, tensor: Tensor) -> int:
        """Adds a tensor."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, data: npt.ArrayLike, dtype: DType) -> int:
        """Adds a constant."""
        array = np.array(data, dtype.numpy)
        array.setflags(write=False)
        return self.tensor(Tensor(f"constant_{len(self.tensors)}", dtype, array.shape, data=array))

    def add(self, op: Op, inputs: Sequence[int], dtype: DType, signature: Shape = ()) -> int:
        """Adds an operator with one result, of a shape with -1 for what is not known."""
        shape = tuple(max(size, 1) if size < 0 else size for size in signature)
        declared = Tensor(f"{op.name.lower()}_{len(self.tensors)}", dtype, shape,
                          tuple(signature) if -1 in signature else None)
        result = self.tensor(declared)
        self.write(op, inputs, result)
        return result

    def write(self, op: Op, inputs: Sequence[int], result: int) -> None:
        """Adds an operator that writes a tensor of the subgraph."""
        self.keep(Operator(op, tuple(inputs), (result,)))

    def finish(self) -> Subgraph:
        """The subgraph; tensors that others stand for are outputs no more."""
        outputs = tuple(map(self.current, self._subgraph.outputs))
        return replace(self._subgraph, tensors=tuple(self.tensors), operators=tuple(self.operators), outputs=outputs)
