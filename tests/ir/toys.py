"""Operators and short spellings from which the tests of the intermediate representation make models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, at_least, between, exactly
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Shape

F32, I32, BOOL = DType.FLOAT32, DType.INT32, DType.BOOL


@dataclass(frozen=True)
class Add(Op):
    """An operator with an option whose operands have one type."""

    name: ClassVar[str] = "ADD"
    inputs: ClassVar[Count] = exactly(2)
    fused_activation_function: Activation = Activation.NONE
    pot_scale_int16: bool = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (np.broadcast_shapes(args[0].shape, args[1].shape),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        if args[0].dtype is not args[1].dtype:
            raise ShapeError(f"expected operands of one type, found {args[0].dtype.value} and {args[1].dtype.value}")
        return (args[0].dtype,)


@dataclass(frozen=True)
class Less(Op):
    """An operator whose result has another type than its inputs."""

    name: ClassVar[str] = "LESS"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.BOOL,)


@dataclass(frozen=True)
class Clip(Op):
    """An operator with optional inputs and one that may be left out at the end."""

    name: ClassVar[str] = "CLIP"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({1})
    bounds: tuple[float, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)


@dataclass(frozen=True)
class Split(Op):
    """An operator with several outputs."""

    name: ClassVar[str] = "SPLIT"
    results: ClassVar[Count] = at_least(1)
    num_splits: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,) * self.num_splits

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype,) * self.num_splits


def t(name: str, dtype: DType = F32, shape: Shape = (2,), **more: Any) -> Tensor:
    return Tensor(name, dtype, shape, **more)


def const(name: str, value: Any, dtype: DType = F32, **more: Any) -> Tensor:
    data = np.array(value, dtype.numpy)
    return Tensor(name, dtype, data.shape, data=data, **more)


def run(op: Op, inputs: Sequence[int], outputs: Sequence[int], **more: Any) -> Operator:
    return Operator(op, tuple(inputs), tuple(outputs), **more)


def graph(tensors: Sequence[Tensor], inputs: Sequence[int], outputs: Sequence[int], *operators: Operator,
          name: str = "main") -> Subgraph:
    return Subgraph(name, tuple(tensors), tuple(inputs), tuple(outputs), operators)


def model(*subgraphs: Subgraph, **more: Any) -> Model:
    return Model(subgraphs, **more)
