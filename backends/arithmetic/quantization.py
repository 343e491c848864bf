"""What the stored elements of a tensor mean."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.arithmetic.fixed_point import Int64s
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType, Quantization, Shape


def is_quantized(tensor: Tensor | None) -> bool:
    """Whether the elements stand for other values than themselves."""
    return (tensor is not None and tensor.dtype in QUANTIZABLE and tensor.quantization is not None
            and bool(tensor.quantization.scales or tensor.quantization.blockwise))


def quantization_of(tensor: Tensor) -> Quantization | None:
    """The quantisation of a tensor; None where it has no scale."""
    found = tensor.quantization
    return found if found is not None and found.scales else None


def scale_and_zero_point(tensor: Tensor) -> tuple[float, int] | None:
    """The parameters of a tensor quantised as a whole; None for all others."""
    found = tensor.quantization
    return None if found is None or len(found.scales) != 1 else (found.scales[0], found.zero_point)


def stored_values(dtype: DType) -> Int64s:
    """Every value the type stores, in the order of its bits read as an unsigned integer."""
    bits = 8 * dtype.numpy.itemsize
    return np.arange(1 << bits, dtype=np.dtype(f"u{dtype.numpy.itemsize}")).view(dtype.numpy).astype(np.int64)


def unpack_int4(data: Array, shape: Shape) -> Array:
    """The elements of an int4 constant, stored two a byte, low half first."""
    packed = data.reshape(-1).view(np.int8)
    return np.stack((packed << 4 >> 4, packed >> 4), axis=-1).reshape(-1)[:prod(shape)].reshape(shape)
