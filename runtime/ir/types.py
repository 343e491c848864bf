"""Element types, quantisation and the enumerations that operator options use."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from circlet.runtime.late import imported
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
else:
    Array = np.ndarray

Shape: TypeAlias = tuple[int, ...]
ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector."""


class DType(Enum):
    """The element type of a tensor; the value is the name used in text and messages."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT4 = "uint4"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    STRING = "string"
    RESOURCE = "resource"
    VARIANT = "variant"
    GGML_Q4_0 = "ggml_q4_0"
    GGML_Q4_1 = "ggml_q4_1"
    GGML_Q8_0 = "ggml_q8_0"
    GGML_Q8_1 = "ggml_q8_1"
    MXFP4 = "mxfp4"
    MXINT8 = "mxint8"

    def __repr__(self) -> str:
        return self.value

    __hash__ = object.__hash__

    @property
    def is_computable(self) -> bool:
        """Whether numpy arrays hold this type element by element."""
        return self in _NUMPY

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of the elements: strings are `bytes` objects, resources int32 handles, bfloat16 its bits;
        packed and opaque types are the raw bytes."""
        return _NUMPY.get(self, _RAW)

    @property
    def element(self) -> np.dtype[Any] | None:
        """The numpy type of the elements that callers give and get; None where arrays cannot hold them one by one.

        It is `numpy`, but for floats and integers that numpy lacks the type that `ml_dtypes` has for them. In memory
        each of its elements takes as many bytes as one of `numpy`.
        """
        return _of_ml_dtypes(self) if self in _LATE else _NUMPY.get(self)

    def stored(self, array: Array) -> Array:
        """An array of `element` as one of `numpy`, in the same memory; other arrays as they are."""
        return array.view(self.numpy) if array.dtype == self.element != self.numpy else array

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> DType:
        """The type whose elements numpy calls `dtype`.

        Raises:
            ValueError: no tensor holds such elements.
        """
        found = np.dtype(dtype)
        plain = _PLAIN.get(found)
        if plain is not None:
            return plain
        if found.kind in "SUO":
            return cls.STRING
        try:
            return cls(found.name)
        except ValueError:
            raise ValueError(f"no tensor type holds elements of numpy type {found}") from None


_RAW: np.dtype[Any] = np.dtype(np.uint8)
_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.STRING: np.dtype(object),
    DType.VARIANT: np.dtype(object),
    DType.RESOURCE: np.dtype(np.int32),
    DType.BFLOAT16: np.dtype(np.uint16),
} | {
    dtype: np.dtype(dtype.value)
    for dtype in DType
    # Other packages may add types to the dictionary, such as bfloat16.
    if getattr(np.sctypeDict.get(dtype.value), "__module__", "") == "numpy"
}
_PLAIN: dict[np.dtype[Any], DType] = {each: dtype for dtype, each in _NUMPY.items() if each.name == dtype.value}
_LATE = frozenset({DType.BFLOAT16, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2, DType.INT2, DType.INT4, DType.UINT4})
"""The types that `ml_dtypes` has for numpy, which is imported when a model has one of them."""


@cache
def _of_ml_dtypes(dtype: DType) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(getattr(imported("ml_dtypes"), dtype.value))
    return found


def fits(shape: Shape, signature: Shape) -> bool:
    """Whether a concrete shape is one that a declared shape, with -1 for any length, allows."""
    return len(shape) == len(signature) and all(want in (-1, dim)
                                                for dim, want in zip(shape, signature, strict=True))


def shape_text(shape: Shape | None) -> str:
    """A declared shape, e.g. `[1,?]`; `[*]` where even the rank is not known."""
    return f"[{'*' if shape is None else ','.join('?' if dim < 0 else str(dim) for dim in shape)}]"


def objects(items: Sequence[object], shape: Shape) -> Array:
    """An array of objects, whatever they are."""
    result = np.empty(len(items), object)
    result[:] = items
    return result.reshape(shape)


INTEGERS = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.UINT16, DType.UINT32,
                      DType.UINT64})
FLOATS = frozenset({DType.FLOAT16, DType.FLOAT32, DType.FLOAT64})
QUANTIZABLE = frozenset({DType.INT8, DType.UINT8, DType.INT16})
MOST_DIMENSIONS = 32
"""Of a tensor, as numpy's broadcasting has them."""


@dataclass(frozen=True)
class Blockwise:
    """Scales that live in another tensor, one for each block of `block_size` elements of the last axis."""

    scales: int
    """Index of the tensor of scales in the same subgraph."""
    zero_points: int
    """Index of the tensor of zero points, -1 where all are zero."""
    block_size: int


@dataclass(frozen=True)
class Quantization:
    """`real = scale * (stored - zero_point)`, per tensor or per slice of one axis."""

    scales: tuple[float, ...] = ()
    """float32 values; one, or one for each index of `axis`."""
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    blockwise: Blockwise | None = None

    @property
    def scale(self) -> float:
        """The only scale, as numpy's float64: what is divided by a scale of 0 is infinite, not an error of Python's."""
        scale: float = np.float64(self.scales[0])
        return scale

    @property
    def zero_point(self) -> int:
        return self.zero_points[0] if self.zero_points else 0

    @property
    def per_axis(self) -> bool:
        return len(self.scales) > 1


@dataclass(frozen=True)
class DimensionSparsity:
    """How one dimension of a sparse tensor is stored."""

    dense_size: int
    """Length of a dense dimension; 0 for a compressed one."""
    segments: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()

    @property
    def is_dense(self) -> bool:
        return not self.segments


@dataclass(frozen=True)
class Sparsity:
    """The layout of a constant that stores only its non-zero blocks (TACO's format)."""

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[DimensionSparsity, ...]


class Activation(IntEnum):
    """The function an operator applies to its result; numbers are the schema's."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class Padding(IntEnum):
    """How a window that overhangs the input is treated; numbers are the schema's."""

    SAME = 0
    VALID = 1
