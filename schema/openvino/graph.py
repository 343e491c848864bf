"""A subgraph under construction, whose values carry what is known of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.runtime.ir.builder import declared
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph, Tensor
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.probe import Outline, operands, result_shapes
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.ranks import open_shape


@dataclass(frozen=True, eq=False)
class Value(Outline):
    """A tensor of a graph, or a constant of any."""

    name: str = ""

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)


def constant(data: Array | np.generic, name: str = "", dtype: DType | None = None,
             shape: Shape | None = None) -> Value:
    """A constant; type and shape are those of the data unless it is raw bytes."""
    data = np.asarray(data)
    data.setflags(write=False)
    return Value(dtype or DType.of(data.dtype), data.shape if shape is None else shape, data, name=name)


class Graph:
    """Collects the tensors and operators of one subgraph."""

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        """The subgraph's index, as control flow names it."""
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._indices: dict[Value, int] = {}

    def tensor(self, dtype: DType, shape: Shape | None, name: str = "") -> Value:
        """Adds a tensor without a value."""
        value = Value(dtype, shape, name=name)
        self._indices[value] = self._add(value)
        return value

    def input(self, dtype: DType, shape: Shape | None, name: str) -> Value:
        """Adds an input."""
        value = self.tensor(dtype, shape, name)
        self.inputs.append(value)
        return value

    def apply(self, op: Op, *inputs: Value | None, dtype: DType | None = None) -> Value:
        """Applies an operator that has one output, of type `dtype` where the operator's rule leaves it open."""
        return self.op(op, *inputs, dtypes=[dtype])[0]

    def op(self, op: Op, *inputs: Value | None, dtypes: Sequence[DType | None] = (None,),
           shapes: Sequence[Shape | None] | None = None) -> tuple[Value, ...]:
        """Applies an operator. `dtypes`, one for each output, and `shapes` say what its own rules leave open.

        Raises:
            ShapeError: the operands do not fit.
        """
        indices = tuple(ABSENT if each is None else self.tensor_index(each) for each in inputs)
        args = operands(inputs, len(dtypes))
        first = next((each.dtype for each in inputs if each is not None), DType.FLOAT32)
        kinds = [kind or wanted or first for kind, wanted in zip(op.types(args), dtypes, strict=True)]
        found = result_shapes(op, inputs, len(dtypes), open_shape) if shapes is None else shapes
        outputs = tuple(self.tensor(kind, shape, f"{op.name.lower()}_{len(self._tensors) + k}")
                        for k, (kind, shape) in enumerate(zip(kinds, found, strict=True)))
        self._operators.append(Operator(op, indices, tuple(self._indices[each] for each in outputs)))
        return outputs

    def declare(self, value: Value, name: str, shape: Shape) -> Value:
        """The value under another name, with the dimensions that `shape` knows beyond its own."""
        known = value.shape
        if known is None:
            known = shape or None
        elif len(shape) == len(known):
            known = tuple(own if own >= 0 else declared for own, declared in zip(known, shape, strict=True))
        named = replace(value, name=name, shape=known)
        index = self._indices[value]
        self._indices[named] = index
        self._tensors[index] = tensor_of(named)
        return named

    def tensor_index(self, value: Value) -> int:
        """The index of the value's tensor; a constant is added when it is first used."""
        if value not in self._indices:
            assert value.data is not None, f"{value.name!r} belongs to another subgraph"
            self._indices[value] = self._add(value)
        return self._indices[value]

    def owns(self, value: Value) -> bool:
        """Whether the value is a tensor of this subgraph already."""
        return value in self._indices

    def build(self) -> Subgraph:
        inputs, outputs = (tuple(map(self.tensor_index, each)) for each in (self.inputs, self.outputs))
        return Subgraph(self.name, tuple(self._tensors), inputs, outputs, tuple(self._operators))

    def _add(self, value: Value) -> int:
        self._tensors.append(tensor_of(value))
        return len(self._tensors) - 1


def tensor_of(value: Value) -> Tensor:
    """The tensor that holds a value."""
    return declared(value.name, value.dtype, value.shape, value.data)
