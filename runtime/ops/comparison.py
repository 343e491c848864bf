"""Operators that compare, and operators that decide by booleans."""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.elementwise import Aligned, Binary, broadcast, same_types
from circlet.runtime.ops.operands import agreed_shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Comparison(Binary):
    """Base: booleans that tell how two inputs of one type compare; nothing compares with NaN but by `!=`."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.BOOL,)


@operator
@dataclass(frozen=True)
class Equal(Comparison):
    """a == b; booleans and strings too."""

    name: ClassVar[str] = "EQUAL"
    table: ClassVar[str | None] = "EqualOptions"


@operator
@dataclass(frozen=True)
class NotEqual(Comparison):
    """a != b; booleans and strings too."""

    name: ClassVar[str] = "NOT_EQUAL"
    table: ClassVar[str | None] = "NotEqualOptions"


@operator
@dataclass(frozen=True)
class Less(Comparison):
    """a < b."""

    name: ClassVar[str] = "LESS"
    table: ClassVar[str | None] = "LessOptions"


@operator
@dataclass(frozen=True)
class LessEqual(Comparison):
    """a <= b."""

    name: ClassVar[str] = "LESS_EQUAL"
    table: ClassVar[str | None] = "LessEqualOptions"


@operator
@dataclass(frozen=True)
class Greater(Comparison):
    """a > b."""

    name: ClassVar[str] = "GREATER"
    table: ClassVar[str | None] = "GreaterOptions"


@operator
@dataclass(frozen=True)
class GreaterEqual(Comparison):
    """a >= b."""

    name: ClassVar[str] = "GREATER_EQUAL"
    table: ClassVar[str | None] = "GreaterEqualOptions"


class Direction(IntEnum):
    """How STABLEHLO_COMPARE compares; numbers are the schema's."""

    EQ = 0
    NE = 1
    GE = 2
    GT = 3
    LE = 4
    LT = 5


class CompareType(IntEnum):
    """What the inputs of STABLEHLO_COMPARE are compared as; numbers are the schema's."""

    NOTYPE = 0
    FLOAT = 1
    FLOAT_TOTAL_ORDER = 2
    SIGNED = 3
    UNSIGNED = 4


@operator
@dataclass(frozen=True)
class StablehloCompare(Aligned):
    """Booleans that tell whether two inputs of one shape and type compare as `comparison_direction` says."""

    name: ClassVar[str] = "STABLEHLO_COMPARE"
    table: ClassVar[str | None] = "StablehloCompareOptions"
    comparison_direction: Direction = Direction.EQ
    compare_type: CompareType = CompareType.NOTYPE

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.BOOL,)


@operator
@dataclass(frozen=True)
class LogicalAnd(Binary):
    """a and b, of booleans."""

    name: ClassVar[str] = "LOGICAL_AND"
    table: ClassVar[str | None] = "LogicalAndOptions"


@operator
@dataclass(frozen=True)
class LogicalOr(Binary):
    """a or b, of booleans."""

    name: ClassVar[str] = "LOGICAL_OR"
    table: ClassVar[str | None] = "LogicalOrOptions"


@dataclass(frozen=True)
class Selection(Op):
    """Base: inputs (condition, a, b); a where the boolean condition holds, else b."""

    inputs: ClassVar[Count] = exactly(3)
    elementwise: ClassVar[bool] = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[0].dtype != DType.BOOL:
            raise ShapeError(f"the condition, input 0, has element type {args[0].dtype.value}, expected bool")
        same_types(args, first=1)
        return (self.shape(args),)

    @abstractmethod
    def shape(self, args: Operands) -> Shape:
        """The shape of the output."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[1].dtype,)


@operator
@dataclass(frozen=True)
class Select(Selection):
    """a and b have one shape; the condition has it too, or is a scalar, or has one element for each row of a and b."""

    name: ClassVar[str] = "SELECT"
    table: ClassVar[str | None] = "SelectOptions"

    def shape(self, args: Operands) -> Shape:
        condition, a, b = (args[k].shape for k in range(3))
        if agreed_shape(a, b) is None:
            raise ShapeError(f"input 2 has shape {b}, expected {a} as input 1 has")
        if condition not in (a, (), a[:1]):
            raise ShapeError(f"the condition, input 0, has shape {condition}, expected {a}, () or {a[:1]}")
        return a


@operator
@dataclass(frozen=True)
class SelectV2(Selection):
    """Condition, a and b broadcast against each other."""

    name: ClassVar[str] = "SELECT_V2"
    table: ClassVar[str | None] = "SelectV2Options"

    def shape(self, args: Operands) -> Shape:
        return broadcast(args)


@operator
@dataclass(frozen=True)
class StablehloSelect(Selection):
    """a and b have one shape, which the condition has too unless it is a scalar."""

    name: ClassVar[str] = "STABLEHLO_SELECT"

    def shape(self, args: Operands) -> Shape:
        condition, a, b = (args[k].shape for k in range(3))
        if a != b or condition not in ((), a):
            raise ShapeError(f"expected shapes {a} or () and twice {a}, found {condition}, {a} and {b}")
        return a
