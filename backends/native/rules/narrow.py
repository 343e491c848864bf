"""Constants of float32 that the model has in fewer bits, as what DEQUANTIZE makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from circlet.backends.arithmetic.quantization import unpack_int4
from circlet.backends.native.gemm.stored import Reals
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

KINDS = frozenset({DType.INT4, DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT16})
"""What is narrower than float32."""
_FIRST, _AT_A_TIME = 1 << 12, 1 << 16
"""Numbers that are looked at before others are, as one of them mostly tells; and at a time, so that they stay in the
cache."""
_LARGEST, _NORMAL = (int(np.float32(each).view(np.uint32)) for each in (65504, 2.0 ** -14))
"""The bits of the largest number that float16 has, and of the least one that it has with all digits."""
Floats: TypeAlias = "npt.NDArray[np.float32]"


@dataclass(frozen=True, eq=False)
class Narrow:
    """A constant as the model has it.

    Attributes:
        stored: its elements, those of int4 a byte each.
        dtype: of them in the model.
        scales, zeros: one of each, or one for each index along `axis`; none of float16.
        axis: of the shape.
    """

    stored: Array
    dtype: DType
    scales: Floats
    zeros: Floats
    axis: int = 0

    @classmethod
    def of(cls, tensor: Tensor) -> Narrow | None:
        """That of the input of a DEQUANTIZE; None if it is no constant, or kept in another way."""
        found = tensor.quantization
        if tensor.data is None or tensor.dtype not in KINDS or tensor.sparsity is not None or (
                found is not None and found.blockwise is not None):
            return None
        stored = unpack_int4(tensor.data, tensor.shape) if tensor.dtype is DType.INT4 else tensor.data
        if tensor.dtype is DType.FLOAT16:
            return cls(stored, tensor.dtype, np.zeros(0, np.float32), np.zeros(0, np.float32))
        if found is None or not found.scales:
            return None
        zeros = np.broadcast_to(np.array(found.zero_points or (0,), np.float32), len(found.scales))
        return cls(stored, tensor.dtype, np.array(found.scales, np.float32), zeros, found.axis)

    @property
    def values(self) -> Floats:
        """The real numbers."""
        if self.dtype is DType.FLOAT16:
            return self.stored.astype(np.float32)
        shape = tuple(-1 if k == self.axis else 1 for k in range(self.stored.ndim)) if len(self.scales) > 1 else (-1,)
        found: Floats = (self.stored.astype(np.float32) - self.zeros.reshape(shape)) * self.scales.reshape(shape)
        return found

    def columns(self, axis: int) -> Reals | None:
        """How it is kept as a right factor whose columns are those of an axis; None if it cannot be."""
        is_each = len(self.scales) > 1
        if is_each and self.axis != axis:
            return None
        return Reals(self.dtype, is_each, bool(self.zeros.any()))

    def units(self, padded: int, panel: int) -> Floats:
        """Scales and zero points as `Reals.units` reads them: one of each, or panel by panel, for so many columns in
        all."""
        kinds = [self.scales, self.zeros] if self.zeros.any() else [self.scales]
        if len(self.scales) <= 1:
            return np.concatenate(kinds)
        rows = [np.pad(each, (0, padded - len(each))).reshape(-1, panel) for each in kinds]
        return np.ascontiguousarray(np.concatenate(rows, axis=1))

    @classmethod
    def joined(cls, parts: Sequence[Narrow]) -> Narrow | None:
        """Matrices one below the other; None if they are not kept alike."""
        first = parts[0]
        if len({each.dtype for each in parts}) > 1 or any(len(each.scales) > 1 and each.axis for each in parts):
            return None
        stored = np.concatenate([each.stored for each in parts])
        if first.dtype is DType.FLOAT16:
            return cls(stored, first.dtype, first.scales, first.zeros)
        scales, zeros = (np.concatenate([np.broadcast_to(found, len(each.stored)) for each, found in kind])
                         for kind in ([(each, each.scales) for each in parts], [(each, each.zeros) for each in parts]))
        return cls(stored, first.dtype, scales, zeros)


def are_halves(array: Array) -> bool:
    """Whether float16 has all numbers of an array of float32, to the bit."""
    bits = array.reshape(-1).view(np.uint32)
    return _are_halves(bits[:_FIRST]) and all(_are_halves(bits[k:k + _AT_A_TIME])
                                              for k in range(_FIRST, bits.size, _AT_A_TIME))


def _are_halves(bits: npt.NDArray[np.uint32]) -> bool:
    """The same of few, by what digits and exponents float16 has; the least ones, which it has with fewer digits, by
    conversion."""
    sizes = bits & 0x7fffffff
    if (bits & 0x1fff).any() or sizes.max(initial=0) > _LARGEST:
        return False
    least = sizes[sizes < _NORMAL].view(np.float32)
    return bool((least.astype(np.float16).astype(np.float32) == least).all())
