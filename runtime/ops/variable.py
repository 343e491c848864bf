"""Variables: state of a session that outlives its runs."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operand, Operands, ShapeError, Unknown, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


def expect_handle(operand: Operand) -> None:
    """Checks that an operand names one variable or table."""
    if operand.dtype is not DType.RESOURCE or prod(operand.shape) != 1:
        raise ShapeError(f"expected a resource with exactly one element, found {operand.dtype.value} of shape "
                         f"{operand.shape}")


@operator
@dataclass(frozen=True)
class VarHandle(Op):
    """The handle of the variable that a container and a name address."""

    name: ClassVar[str] = "VAR_HANDLE"
    table: ClassVar[str | None] = "VarHandleOptions"
    inputs: ClassVar[Count] = exactly(0)
    pure: ClassVar[bool] = False
    container: str = ""
    shared_name: str = ""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.RESOURCE,)

    def variable(self) -> tuple[str, str]:
        return self.container, self.shared_name


@operator
@dataclass(frozen=True)
class ReadVariable(Op):
    """The value last assigned; its shape is known when it is read, unless the output declares it."""

    name: ClassVar[str] = "READ_VARIABLE"
    table: ClassVar[str | None] = "ReadVariableOptions"
    pure: ClassVar[bool] = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        raise Unknown

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class ReadDeclared(ReadVariable):
    """The value last assigned, if it has the shape that the output declares, a scalar's too.

    No format has this operator; `declare_reads` makes it.
    """

    name: ClassVar[str] = "READ_DECLARED"
    table: ClassVar[str | None] = None
    shape: Shape = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        return (self.shape,)


@operator
@dataclass(frozen=True)
class AssignVariable(Op):
    """Gives a variable a new value."""

    name: ClassVar[str] = "ASSIGN_VARIABLE"
    table: ClassVar[str | None] = "AssignVariableOptions"
    inputs: ClassVar[Count] = exactly(2)
    results: ClassVar[Count] = exactly(0)
    pure: ClassVar[bool] = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_handle(args[0])
        return ()

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return ()
