"""Operators that write over parts of variables."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operand, Operands, at_least, between
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.variable import expect_handle
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class UpdateVariable(Op):
    """Writes over a part of the value of a variable, where it lies; its result, if it has one, is the whole value.

    Inputs are the handle, and those of `update` behind its first. No format has this operator; a pass makes it.
    """

    name: ClassVar[str] = "UPDATE_VARIABLE"
    inputs: ClassVar[Count] = at_least(2)
    results: ClassVar[Count] = between(0, 1)
    pure: ClassVar[bool] = False
    update: Op
    """What writes, as if the value were its first input and its result."""
    value: Tensor
    """The value."""
    target: tuple[str, str]
    """Container and name of the variable."""
    merged: tuple[int, ...] = ()
    """The operators, by index, whose work it does beside that of `update`."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        value = Operand(self.value.dtype, self.value.shape, quantization=self.value.quantization)
        found = self.update.infer(Operands((value, *(args[k] for k in range(1, len(args)))), 1))
        return found[:args.outputs]

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.value.dtype,) * args.outputs

    def parts(self) -> tuple[int, ...]:
        return self.merged

    def updated(self) -> tuple[str, str] | None:
        return self.target
