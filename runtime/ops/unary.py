"""Operators on one input, element by element."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Op, Operands
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Unary(Op):
    """Base: an output of the input's shape and type."""

    elementwise: ClassVar[bool] = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)


@operator
@dataclass(frozen=True)
class Abs(Unary):
    """The magnitude; that of the least integer wraps to itself."""

    name: ClassVar[str] = "ABS"
    table: ClassVar[str | None] = "AbsOptions"


@operator
@dataclass(frozen=True)
class Neg(Unary):
    """-x; integers wrap."""

    name: ClassVar[str] = "NEG"
    table: ClassVar[str | None] = "NegOptions"


@operator
@dataclass(frozen=True)
class Sign(Unary):
    """-1, 0 or 1; NaN of NaN."""

    name: ClassVar[str] = "SIGN"
    table: ClassVar[str | None] = "SignOptions"


@operator
@dataclass(frozen=True)
class Square(Unary):
    """x * x."""

    name: ClassVar[str] = "SQUARE"
    table: ClassVar[str | None] = "SquareOptions"


@operator
@dataclass(frozen=True)
class Sqrt(Unary):
    """The square root; NaN below zero."""

    name: ClassVar[str] = "SQRT"


@operator
@dataclass(frozen=True)
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "RSQRT"


@operator
@dataclass(frozen=True)
class Exp(Unary):
    """e to the power x."""

    name: ClassVar[str] = "EXP"
    table: ClassVar[str | None] = "ExpOptions"


@operator
@dataclass(frozen=True)
class Log(Unary):
    """The natural logarithm; -inf of zero, NaN below."""

    name: ClassVar[str] = "LOG"


@operator
@dataclass(frozen=True)
class Sin(Unary):
    """The sine of x radians."""

    name: ClassVar[str] = "SIN"


@operator
@dataclass(frozen=True)
class Cos(Unary):
    """The cosine of x radians."""

    name: ClassVar[str] = "COS"
    table: ClassVar[str | None] = "CosOptions"


@operator
@dataclass(frozen=True)
class Tanh(Unary):
    """The hyperbolic tangent."""

    name: ClassVar[str] = "TANH"


@operator
@dataclass(frozen=True)
class Logistic(Unary):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "LOGISTIC"


@operator
@dataclass(frozen=True)
class Floor(Unary):
    """The largest whole number not above x."""

    name: ClassVar[str] = "FLOOR"


@operator
@dataclass(frozen=True)
class Ceil(Unary):
    """The smallest whole number not below x."""

    name: ClassVar[str] = "CEIL"


@operator
@dataclass(frozen=True)
class Round(Unary):
    """The nearest whole number, halves to the even one."""

    name: ClassVar[str] = "ROUND"


@operator
@dataclass(frozen=True)
class Relu(Unary):
    """max(x, 0)."""

    name: ClassVar[str] = "RELU"


@operator
@dataclass(frozen=True)
class Relu6(Unary):
    """x clamped to [0, 6]."""

    name: ClassVar[str] = "RELU6"


@operator
@dataclass(frozen=True)
class ReluN1To1(Unary):
    """x clamped to [-1, 1]."""

    name: ClassVar[str] = "RELU_N1_TO_1"


@operator
@dataclass(frozen=True)
class Relu0To1(Unary):
    """x clamped to [0, 1]."""

    name: ClassVar[str] = "RELU_0_TO_1"


@operator
@dataclass(frozen=True)
class Elu(Unary):
    """x where x >= 0, else exp(x) - 1."""

    name: ClassVar[str] = "ELU"


@operator
@dataclass(frozen=True)
class LeakyRelu(Unary):
    """x where x > 0, else alpha * x."""

    name: ClassVar[str] = "LEAKY_RELU"
    table: ClassVar[str | None] = "LeakyReluOptions"
    alpha: float = 0.0


@operator
@dataclass(frozen=True)
class Gelu(Unary):
    """x * (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh."""

    name: ClassVar[str] = "GELU"
    table: ClassVar[str | None] = "GeluOptions"
    approximate: bool = False
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2."""


@dataclass(frozen=True)
class Silu(Unary):
    """x * logistic(x). No format has this operator; a pass makes it."""

    name: ClassVar[str] = "SILU"


@operator
@dataclass(frozen=True)
class HardSwish(Unary):
    """x * relu6(x + 3) / 6."""

    name: ClassVar[str] = "HARD_SWISH"
    table: ClassVar[str | None] = "HardSwishOptions"


@operator
@dataclass(frozen=True)
class LogicalNot(Unary):
    """The opposite of a boolean."""

    name: ClassVar[str] = "LOGICAL_NOT"
    table: ClassVar[str | None] = "LogicalNotOptions"


@operator
@dataclass(frozen=True)
class ZerosLike(Unary):
    """Zeros."""

    name: ClassVar[str] = "ZEROS_LIKE"
    table: ClassVar[str | None] = "ZerosLikeOptions"


@operator
@dataclass(frozen=True)
class StablehloAbs(Unary):
    """The magnitude; that of the least integer wraps to itself."""

    name: ClassVar[str] = "STABLEHLO_ABS"


@operator
@dataclass(frozen=True)
class StablehloNegate(Unary):
    """-x; integers wrap."""

    name: ClassVar[str] = "STABLEHLO_NEGATE"


@operator
@dataclass(frozen=True)
class StablehloRsqrt(Unary):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "STABLEHLO_RSQRT"


@operator
@dataclass(frozen=True)
class StablehloCbrt(Unary):
    """The real cube root."""

    name: ClassVar[str] = "STABLEHLO_CBRT"


@operator
@dataclass(frozen=True)
class StablehloExponential(Unary):
    """e to the power x."""

    name: ClassVar[str] = "STABLEHLO_EXPONENTIAL"


@operator
@dataclass(frozen=True)
class StablehloLog(Unary):
    """The natural logarithm; -inf of zero, NaN below."""

    name: ClassVar[str] = "STABLEHLO_LOG"


@operator
@dataclass(frozen=True)
class StablehloCosine(Unary):
    """The cosine of x radians."""

    name: ClassVar[str] = "STABLEHLO_COSINE"


@operator
@dataclass(frozen=True)
class StablehloTanh(Unary):
    """The hyperbolic tangent."""

    name: ClassVar[str] = "STABLEHLO_TANH"


@operator
@dataclass(frozen=True)
class StablehloLogistic(Unary):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "STABLEHLO_LOGISTIC"


@operator
@dataclass(frozen=True)
class StablehloFloor(Unary):
    """The largest whole number not above x."""

    name: ClassVar[str] = "STABLEHLO_FLOOR"
