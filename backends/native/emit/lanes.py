"""Arithmetic on registers in Python's notation: `(x * x + 1) / y` emits the instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, Emitter
from circlet.backends.native.targets.constants import Uniform
from circlet.runtime.records import dataclass

Number: TypeAlias = "Lanes | float"
"""What stands on the right of an operator: registers, or a Python number for a constant in every lane."""
Function: TypeAlias = Callable[..., ir.Value]
"""From an emitter and the arguments."""

HALF, SINGLE, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
"""The types of real numbers, LLVM's `half`, `float` and `double`."""
_INTEGER = {SINGLE: I32, DOUBLE: I64}
"""The integer that has as many bits as a real number."""
_REAL = {kind: real for real, kind in _INTEGER.items()}
"""The real number that has as many bits as an integer."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """A number in a register, real or a signed integer or an i1, or a vector of them.

    Operators and methods take Python numbers for constants. Comparisons give i1, and are false of NaN.
    """

    e: Emitter
    value: ir.Value

    @property
    def element(self) -> ir.Type:
        """The type of one lane."""
        kind = self.value.type
        return kind.element if isinstance(kind, ir.VectorType) else kind

    def like(self, element: ir.Type) -> ir.Type:
        """The type of as many lanes as these of another element type."""
        kind = self.value.type
        return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element

    def constant(self, number: float) -> Lanes:
        """The same number in every lane."""
        kind = self.value.type
        return self._new((Uniform if isinstance(kind, ir.VectorType) else ir.Constant)(kind, number))

    def _new(self, value: ir.Value) -> Lanes:
        """What an instruction gave, in Python's notation."""
        return Lanes(self.e, value)

    def _operand(self, other: Number) -> ir.Value:
        """The register of an operand, as wide as this where it is a Python number."""
        return (other if isinstance(other, Lanes) else self.constant(other)).value

    @property
    def _is_real(self) -> bool:
        """Whether lanes are real numbers, so that instructions are those of real numbers."""
        return not isinstance(self.element, ir.IntType)

    def _apply(self, name: str, other: Number) -> Lanes:
        """The instruction of the given name for integers, with an `f` before it for real numbers."""
        method = getattr(self.e.builder, f"f{name}" if self._is_real else name)
        return self._new(method(self.value, self._operand(other)))

    def _compare(self, relation: str, other: Number) -> Lanes:
        """An i1 for each lane: the ordered comparison of real numbers, the signed one of integers."""
        b = self.e.builder
        method = b.fcmp_ordered if self._is_real else b.icmp_signed
        return self._new(method(relation, self.value, self._operand(other)))

    def __add__(self, other: Number) -> Lanes:
        return self._apply("add", other)

    def __sub__(self, other: Number) -> Lanes:
        return self._apply("sub", other)

    def __mul__(self, other: Number) -> Lanes:
        return self._apply("mul", other)

    def __truediv__(self, other: Number) -> Lanes:
        return self._apply("div", other)

    def __rtruediv__(self, other: float) -> Lanes:
        return self.constant(other) / self

    def __neg__(self) -> Lanes:
        return self._new(self.e.builder.fneg(self.value))

    def __lshift__(self, count: int) -> Lanes:
        return self._apply("shl", count)

    def __rshift__(self, count: int) -> Lanes:
        """Filled with the sign."""
        return self._apply("ashr", count)

    def shift_right(self, count: int) -> Lanes:
        """Filled with zeros."""
        return self._apply("lshr", count)

    def __and__(self, other: Number) -> Lanes:
        return self._apply("and_", other)

    def __or__(self, other: Number) -> Lanes:
        return self._apply("or_", other)

    def __xor__(self, other: Number) -> Lanes:
        return self._apply("xor", other)

    def __lt__(self, other: Number) -> Lanes:
        return self._compare("<", other)

    def __gt__(self, other: Number) -> Lanes:
        return self._compare(">", other)

    def __ge__(self, other: Number) -> Lanes:
        return self._compare(">=", other)

    def equals(self, other: Number) -> Lanes:
        """An i1 for each lane, false of NaN."""
        return self._compare("==", other)

    def where(self, one: Lanes, other: Lanes | float) -> Lanes:
        """`one` in the lanes where this i1 holds, `other` elsewhere."""
        return self._new(self.e.builder.select(self.value, one.value, one._operand(other)))

    def unless(self, condition: Lanes, other: Number) -> Lanes:
        """This, but `other` in the lanes where a condition holds."""
        return self._new(self.e.builder.select(condition.value, self._operand(other), self.value))

    def clamp(self, low: Number, high: Number) -> Lanes:
        """The nearest number in an interval; NaN of NaN."""
        return self.at_least(low).at_most(high)

    def at_least(self, low: Number) -> Lanes:
        """`low` in the lanes that are less; NaN stays."""
        return self.unless(self < low, low)

    def at_most(self, high: Number) -> Lanes:
        """`high` in the lanes that are greater; NaN stays."""
        return self.unless(self > high, high)

    def fma(self, factor: Number, term: Number) -> Lanes:
        """`self * factor + term`, rounded once where the processor can."""
        return self._new(self.e.intrinsic("fmuladd", self.value, self._operand(factor), self._operand(term)))

    def polynomial(self, coefficients: Sequence[float]) -> Lanes:
        """The polynomial whose coefficients are given from that of the lowest power on, by Horner's rule: an `fma` for
        each but the last."""
        *rest, last = coefficients
        value = self.constant(last)
        for each in reversed(rest):
            value = value.fma(self, each)
        return value

    def unary(self, intrinsic: str) -> Lanes:
        """LLVM's intrinsic of a name: `sqrt`, `fabs`, `floor`."""
        return self._new(self.e.intrinsic(intrinsic, self.value))

    def sign_of(self, other: Lanes) -> Lanes:
        """The magnitude of this with the sign of the other."""
        return self._new(self.e.intrinsic("copysign", self.value, other.value))

    def bits(self) -> Lanes:
        """The pattern of a real number as an integer."""
        return self._new(self.e.builder.bitcast(self.value, self.like(_INTEGER[self.element])))

    def real(self) -> Lanes:
        """The real number of a pattern."""
        return self._new(self.e.builder.bitcast(self.value, self.like(_REAL[self.element])))

    def widen(self, element: ir.Type) -> Lanes:
        """As a wider real type or a wider integer, which is filled with zeros."""
        method = self.e.widened if self._is_real else self.e.builder.zext
        return self._new(method(self.value, self.like(element)))

    def narrow(self, element: ir.Type) -> Lanes:
        """As a narrower type: a real number rounded once, an integer's low bits."""
        method = self.e.narrowed if self._is_real else self.e.builder.trunc
        return self._new(method(self.value, self.like(element)))

    def to_real(self, element: ir.Type) -> Lanes:
        """A signed integer as the nearest real number."""
        return self._new(self.e.builder.sitofp(self.value, self.like(element)))

    def funnel(self, low: Lanes, count: Lanes) -> Lanes:
        """The upper half of these bits followed by those of `low`, shifted left by a count modulo the width."""
        return self._new(self.e.intrinsic("fshl", self.value, low.value, count.value))


def single(function: Callable[..., Lanes]) -> Function:
    """The function on registers of type float or half of a function on lanes of type float."""
    @wraps(function)
    def emit(e: Emitter, *arguments: ir.Value) -> ir.Value:
        lanes = [Lanes(e, each) for each in arguments]
        if lanes[0].element == HALF:
            return function(*(each.widen(SINGLE) for each in lanes)).narrow(HALF).value
        return function(*lanes).value

    return emit
