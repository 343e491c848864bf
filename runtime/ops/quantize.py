"""Operators that change the element type."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Operands
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.registry import operator
from circlet.runtime.ops.unary import Unary
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Conversion(Unary):
    """Base: an output of the input's shape and of the element type that the model declares."""

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@operator
@dataclass(frozen=True)
class Cast(Conversion):
    """The values in another element type, which the output tensor, not the options, tells.

    Floats become integers by truncation; what is out of range becomes the nearest bound, NaN the greatest integer.
    Integers become narrower ones by wrapping. Anything but zero is true. Of complex numbers the real part is taken.
    """

    name: ClassVar[str] = "CAST"
    table: ClassVar[str | None] = "CastOptions"
    in_data_type: DType = DType.FLOAT32
    out_data_type: DType = DType.FLOAT32


@operator
@dataclass(frozen=True)
class StablehloConvert(Conversion):
    """As CAST."""

    name: ClassVar[str] = "STABLEHLO_CONVERT"


@operator
@dataclass(frozen=True)
class Quantize(Conversion):
    """The stored values of a quantised output: from floats, or from the stored values of a quantised input.

    Floats are divided by the scale, rounded with halves away from zero and clamped; NaN becomes the least value.
    """

    name: ClassVar[str] = "QUANTIZE"
    table: ClassVar[str | None] = "QuantizeOptions"


@operator
@dataclass(frozen=True)
class Dequantize(Conversion):
    """The real values of a quantised or half-precision input, as float32."""

    name: ClassVar[str] = "DEQUANTIZE"
    table: ClassVar[str | None] = "DequantizeOptions"

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.FLOAT32,)


@operator
@dataclass(frozen=True)
class FakeQuant(Unary):
    """Floats rounded to the nearest of 2 ** num_bits values evenly spread over [min, max], one of which is zero.

    NaN becomes the least value.
    """

    name: ClassVar[str] = "FAKE_QUANT"
    table: ClassVar[str | None] = "FakeQuantOptions"
    min: float = 0.0
    max: float = 0.0
    num_bits: int = 0
    narrow_range: bool = False
    """Leave out the least of the values, which makes the range symmetric."""
