"""Operators on complex numbers and Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly, operator
from circlet.runtime.ir.types import DType, Shape

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}
"""The type of the parts of complex numbers."""


@dataclass(frozen=True)
class ComplexToReal(Op):
    """Base: a real number for each complex one, of the type of its parts."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (_PARTS.get(args[0].dtype),)


@operator
@dataclass(frozen=True)
class Real(ComplexToReal):
    """The real part."""

    name: ClassVar[str] = "REAL"


@operator
@dataclass(frozen=True)
class Imag(ComplexToReal):
    """The imaginary part."""

    name: ClassVar[str] = "IMAG"


@operator
@dataclass(frozen=True)
class ComplexAbs(ComplexToReal):
    """The magnitude."""

    name: ClassVar[str] = "COMPLEX_ABS"


@operator
@dataclass(frozen=True)
class Rfft2D(Op):
    """The Fourier transform of real matrices (..., m, n) over the lengths (h, w) in input 1: (..., h, w // 2 + 1).

    A matrix is cut, or filled up with zeros, to these lengths. The other half of the transform is the conjugate of
    this one.
    """

    name: ClassVar[str] = "RFFT2D"
    table: ClassVar[str | None] = "Rfft2dOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, lengths = args[0].shape, args[1]
        if len(shape) < 2 or lengths.shape != (2,):
            raise ShapeError(f"expected matrices and two lengths, found shapes {shape} and {lengths.shape}")
        height, width = lengths.value.tolist()
        if min(height, width) < 1:
            raise ShapeError(f"input 1: expected positive lengths, found {[height, width]}")
        return ((*shape[:-2], height, width // 2 + 1),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.COMPLEX64,)
