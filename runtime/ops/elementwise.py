"""Operators that compute each output element from the elements at the same place of their inputs: arithmetic."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, at_least, exactly
from circlet.runtime.ir.types import Activation, Shape
from circlet.runtime.ops.operands import agreed_shape, broadcast_shapes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


def broadcast(args: Operands, first: int = 0) -> Shape:
    """The shape that the inputs from `first` on broadcast to by numpy's rule.

    Raises:
        ShapeError: two of them differ in a dimension where neither has 1.
    """
    shapes = [args[k].shape for k in range(first, len(args))]
    distinct = {each for each in shapes if each}
    return next(iter(distinct), ()) if len(distinct) < 2 else broadcast_shapes(shapes)


def same_types(args: Operands, first: int = 0) -> None:
    """Checks that the inputs from `first` on have one element type.

    Raises:
        ShapeError: they have not.
    """
    expected = args[first].dtype
    for k in range(first + 1, len(args)):
        if args[k].dtype != expected:
            raise ShapeError(f"input {k} has element type {args[k].dtype.value}, expected {expected.value} "
                             f"as input {first} has")


def same_shapes(args: Operands) -> Shape:
    """The one shape of all inputs.

    Raises:
        ShapeError: they differ.
    """
    shapes = [args[k].shape for k in range(len(args))]
    found: Shape | None = shapes[0]
    for each in shapes[1:]:
        found = None if found is None else agreed_shape(found, each)
    if found is None:
        raise ShapeError(f"expected inputs of one shape, found {' and '.join(map(str, shapes))}")
    return found


@dataclass(frozen=True)
class Elementwise(Op):
    """Base: inputs of one element type, broadcast against each other; an output of that type."""

    elementwise: ClassVar[bool] = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        same_types(args)
        return (broadcast(args),)


@dataclass(frozen=True)
class Binary(Elementwise):
    """Base of the operators on two inputs."""

    inputs: ClassVar[Count] = exactly(2)


@dataclass(frozen=True)
class Activated(Binary):
    """Base of the operators on two inputs whose result is clamped by a fused activation."""

    fused_activation_function: Activation = Activation.NONE


@dataclass(frozen=True)
class Aligned(Elementwise):
    """Base of the StableHLO operators, whose inputs have one shape; by default two inputs."""

    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        same_types(args)
        return (same_shapes(args),)


@operator
@dataclass(frozen=True)
class Add(Activated):
    """a + b."""

    name: ClassVar[str] = "ADD"
    table: ClassVar[str | None] = "AddOptions"
    pot_scale_int16: bool = True
    """Whether int16 operands whose scales are powers of two are added by shifts."""


@operator
@dataclass(frozen=True)
class Sub(Activated):
    """a - b."""

    name: ClassVar[str] = "SUB"
    table: ClassVar[str | None] = "SubOptions"
    pot_scale_int16: bool = True
    """As for ADD."""


@operator
@dataclass(frozen=True)
class Mul(Activated):
    """a * b."""

    name: ClassVar[str] = "MUL"
    table: ClassVar[str | None] = "MulOptions"


@operator
@dataclass(frozen=True)
class Div(Activated):
    """a / b; integers truncate towards zero, and a zero divisor of integers is an error."""

    name: ClassVar[str] = "DIV"
    table: ClassVar[str | None] = "DivOptions"


@operator
@dataclass(frozen=True)
class FloorDiv(Binary):
    """The largest whole number not above a / b, a quotient in double precision; a zero divisor is an error."""

    name: ClassVar[str] = "FLOOR_DIV"
    table: ClassVar[str | None] = "FloorDivOptions"


@operator
@dataclass(frozen=True)
class FloorMod(Binary):
    """a - b * floor(a / b), with the sign of b; a zero divisor is an error for integers and NaN for floats."""

    name: ClassVar[str] = "FLOOR_MOD"
    table: ClassVar[str | None] = "FloorModOptions"


@operator
@dataclass(frozen=True)
class Pow(Binary):
    """a to the power b; integers wrap, and a negative exponent of integers is an error."""

    name: ClassVar[str] = "POW"
    table: ClassVar[str | None] = "PowOptions"


@operator
@dataclass(frozen=True)
class Maximum(Binary):
    """a where a > b, else b: so b where either is NaN."""

    name: ClassVar[str] = "MAXIMUM"
    table: ClassVar[str | None] = "MaximumMinimumOptions"


@operator
@dataclass(frozen=True)
class Minimum(Binary):
    """a where a < b, else b: so b where either is NaN."""

    name: ClassVar[str] = "MINIMUM"
    table: ClassVar[str | None] = "MaximumMinimumOptions"


@operator
@dataclass(frozen=True)
class SquaredDifference(Binary):
    """(a - b) ** 2."""

    name: ClassVar[str] = "SQUARED_DIFFERENCE"
    table: ClassVar[str | None] = "SquaredDifferenceOptions"


@operator
@dataclass(frozen=True)
class AddN(Elementwise):
    """The sum of inputs of one shape."""

    name: ClassVar[str] = "ADD_N"
    table: ClassVar[str | None] = "AddNOptions"
    inputs: ClassVar[Count] = at_least(1)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        same_types(args)
        return (same_shapes(args),)


@operator
@dataclass(frozen=True)
class Atan2(Binary):
    """The angle of the point (x=b, y=a), in [-pi, pi]."""

    name: ClassVar[str] = "ATAN2"
    table: ClassVar[str | None] = "ATan2Options"


@operator
@dataclass(frozen=True)
class BitwiseXor(Binary):
    """The bits that differ."""

    name: ClassVar[str] = "BITWISE_XOR"
    table: ClassVar[str | None] = "BitwiseXorOptions"


@operator
@dataclass(frozen=True)
class RightShift(Binary):
    """a shifted right by b bits, filled with the sign; b is clamped to [0, width - 1]."""

    name: ClassVar[str] = "RIGHT_SHIFT"
    table: ClassVar[str | None] = "RightShiftOptions"


@operator
@dataclass(frozen=True)
class Prelu(Binary):
    """x where x >= 0, else x times the slope, input 1, which broadcasts against x."""

    name: ClassVar[str] = "PRELU"


@operator
@dataclass(frozen=True)
class StablehloAdd(Aligned):
    """a + b; of booleans, a or b."""

    name: ClassVar[str] = "STABLEHLO_ADD"


@operator
@dataclass(frozen=True)
class StablehloSubtract(Aligned):
    """a - b."""

    name: ClassVar[str] = "STABLEHLO_SUBTRACT"


@operator
@dataclass(frozen=True)
class StablehloMultiply(Aligned):
    """a * b; of booleans, a and b."""

    name: ClassVar[str] = "STABLEHLO_MULTIPLY"


@operator
@dataclass(frozen=True)
class StablehloDivide(Aligned):
    """a / b; integers truncate towards zero, and a zero divisor of integers is an error."""

    name: ClassVar[str] = "STABLEHLO_DIVIDE"


@operator
@dataclass(frozen=True)
class StablehloRemainder(Aligned):
    """a - b * truncate(a / b), with the sign of a; a zero divisor is an error for integers and NaN for floats."""

    name: ClassVar[str] = "STABLEHLO_REMAINDER"


@operator
@dataclass(frozen=True)
class StablehloPower(Aligned):
    """a to the power b; integers wrap, and a negative exponent of integers is an error."""

    name: ClassVar[str] = "STABLEHLO_POWER"


@operator
@dataclass(frozen=True)
class StablehloMaximum(Aligned):
    """The larger one, NaN where either is; of booleans, a or b."""

    name: ClassVar[str] = "STABLEHLO_MAXIMUM"


@operator
@dataclass(frozen=True)
class StablehloMinimum(Aligned):
    """The smaller one, NaN where either is; of booleans, a and b."""

    name: ClassVar[str] = "STABLEHLO_MINIMUM"


@operator
@dataclass(frozen=True)
class StablehloAnd(Aligned):
    """The bits set in both."""

    name: ClassVar[str] = "STABLEHLO_AND"


@operator
@dataclass(frozen=True)
class StablehloOr(Aligned):
    """The bits set in either."""

    name: ClassVar[str] = "STABLEHLO_OR"


@operator
@dataclass(frozen=True)
class StablehloShiftLeft(Aligned):
    """a shifted left by b bits; 0 where b is negative or not below the width."""

    name: ClassVar[str] = "STABLEHLO_SHIFT_LEFT"
    table: ClassVar[str | None] = "StablehloShiftLeftOptions"


@operator
@dataclass(frozen=True)
class StablehloClamp(Elementwise):
    """minimum(maximum(x, low), high) of inputs (low, x, high); a bound may be a scalar."""

    name: ClassVar[str] = "STABLEHLO_CLAMP"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        same_types(args)
        for k in (0, 2):
            if args[k].shape not in ((), args[1].shape):
                raise ShapeError(f"input {k} has shape {args[k].shape}, expected () or {args[1].shape} "
                                 "as input 1 has")
        return (args[1].shape,)
