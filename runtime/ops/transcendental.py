"""Functions of real numbers; no flatbuffer format has these operators."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ops.unary import Unary
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Erf(Unary):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t ** 2) from 0 to x."""

    name: ClassVar[str] = "ERF"


@dataclass(frozen=True)
class Tan(Unary):
    """The tangent of x radians."""

    name: ClassVar[str] = "TAN"


@dataclass(frozen=True)
class Asin(Unary):
    """The angle in [-pi / 2, pi / 2] whose sine is x; NaN outside of [-1, 1]."""

    name: ClassVar[str] = "ASIN"


@dataclass(frozen=True)
class Acos(Unary):
    """The angle in [0, pi] whose cosine is x; NaN outside of [-1, 1]."""

    name: ClassVar[str] = "ACOS"


@dataclass(frozen=True)
class Atan(Unary):
    """The angle in [-pi / 2, pi / 2] whose tangent is x."""

    name: ClassVar[str] = "ATAN"


@dataclass(frozen=True)
class Sinh(Unary):
    """The hyperbolic sine."""

    name: ClassVar[str] = "SINH"


@dataclass(frozen=True)
class Cosh(Unary):
    """The hyperbolic cosine."""

    name: ClassVar[str] = "COSH"


@dataclass(frozen=True)
class Asinh(Unary):
    """The number whose hyperbolic sine is x."""

    name: ClassVar[str] = "ASINH"


@dataclass(frozen=True)
class Acosh(Unary):
    """The number, not a negative one, whose hyperbolic cosine is x; NaN below 1."""

    name: ClassVar[str] = "ACOSH"


@dataclass(frozen=True)
class Atanh(Unary):
    """The number whose hyperbolic tangent is x; NaN outside of [-1, 1]."""

    name: ClassVar[str] = "ATANH"
