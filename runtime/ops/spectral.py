"""Operators on complex numbers and Fourier transforms."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import normalize_axis, scalar
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

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


@dataclass(frozen=True)
class Dft(Op):
    """ONNX's Fourier transform along an axis of (..., 1) real or (..., 2) complex numbers; no flatbuffer format has it.

    Input 1, optional, is the length to which the axis is cut or filled up with zeros, input 2 the axis. The result is
    complex, (..., 2), of which `onesided` keeps the first half; a one-sided inverse is real, (..., 1).
    """

    name: ClassVar[str] = "DFT"
    inputs: ClassVar[Count] = exactly(3)
    optional: ClassVar[frozenset[int]] = frozenset({1})
    inverse: bool = False
    onesided: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = list(args[0].shape)
        if len(shape) < 2 or shape[-1] not in (1, 2):
            raise ShapeError(f"input 0: expected numbers of shape (..., 1) or (..., 2), found {args[0].shape}")
        axis = normalize_axis(scalar(args[2], "axis"), len(shape))
        if axis == len(shape) - 1:
            raise ShapeError("axis: expected another one than the last, which holds the parts")
        given = args.get(1)
        real = self.inverse and self.onesided
        length = scalar(given, "length") if given is not None else 2 * shape[axis] - 2 if real else shape[axis]
        if length < 1:
            raise ShapeError(f"length: expected a positive one, found {length}")
        shape[axis] = length // 2 + 1 if self.onesided and not self.inverse else length
        return ((*shape[:-1], 1 if real else 2),)
