"""Half precision where there are no instructions for it: computed in single precision, and rounded.

Sums, products, quotients and roots of halves that are rounded to single precision before are rounded as if they were
not (Figueroa, When is double rounding innocuous?, 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.soft import extended, truncated


def is_half(kind: ir.Type) -> bool:
    """Whether a type is half precision, or a vector of it."""
    return isinstance(kind.element if isinstance(kind, ir.VectorType) else kind, ir.HalfType)


def _computed(name: str) -> Callable[..., ir.Value]:
    """The instruction of a name on two numbers."""
    def write(self: HalfBuilder, lhs: ir.Value, rhs: ir.Value, *options: Any, **more: Any) -> ir.Value:
        plain = getattr(super(HalfBuilder, self), name)
        if not self.has_soft_halves or not is_half(lhs.type):
            return plain(lhs, rhs, *options, **more)
        return truncated(self, plain(extended(self, lhs), extended(self, rhs), *options, **more))

    return write


def _compared(name: str) -> Callable[..., ir.Value]:
    """The comparison of a name of two numbers."""
    def write(self: HalfBuilder, relation: str, lhs: ir.Value, rhs: ir.Value, *options: Any, **more: Any) -> ir.Value:
        plain = getattr(super(HalfBuilder, self), name)
        if self.has_soft_halves and is_half(lhs.type):
            lhs, rhs = extended(self, lhs), extended(self, rhs)
        return plain(relation, lhs, rhs, *options, **more)

    return write


class HalfBuilder(ir.IRBuilder):  # type: ignore[misc]  # llvmlite is untyped
    """Writes instructions; those on halves in single precision, if the processor has none."""

    has_soft_halves = False

    fadd, fsub, fmul, fdiv = map(_computed, ("fadd", "fsub", "fmul", "fdiv"))
    fcmp_ordered, fcmp_unordered = map(_compared, ("fcmp_ordered", "fcmp_unordered"))

    def fneg(self, value: ir.Value, *options: Any, **more: Any) -> ir.Value:
        """Turns the sign over."""
        if not self.has_soft_halves or not is_half(value.type):
            return super().fneg(value, *options, **more)
        return truncated(self, super().fneg(extended(self, value)))
