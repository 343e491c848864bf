"""The data of constant tensors: arrays here, bytes in a file."""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, DType, Shape
from circlet.schema.flatbuffer import Content

_PACKED_BITS = {
    DType.INT2: 2, DType.INT4: 4, DType.UINT4: 4, DType.FLOAT8_E4M3FN: 8, DType.FLOAT8_E5M2: 8,
}
"""Bits of an element of the types that are held as raw bytes, where that is all there is to their size."""
_MOST_ELEMENTS = 1 << 58
MOST_MADE = 1 << 26
"""How many elements a constant may have that is made of declared shapes, so that no small file fills the memory."""


def expect_rank(shape: Shape) -> None:
    """Refuses shapes that no array has.

    Raises:
        ModelError: there are too many dimensions.
    """
    if len(shape) > MOST_DIMENSIONS:
        raise ModelError(f"expected at most {MOST_DIMENSIONS} dimensions, found {len(shape)}")


def element_count(shape: Shape) -> int:
    """The number of elements of a shape.

    Raises:
        ModelError: a dimension is negative, or there are more elements than any memory holds.
    """
    expect_rank(shape)
    if shape and min(shape) < 0:
        raise ModelError(f"expected dimensions of at least 0, found shape {shape}")
    if prod(dim or 1 for dim in shape) > _MOST_ELEMENTS:
        raise ModelError(f"shape {shape} has more elements than any memory holds")
    return prod(shape)


def is_raw(dtype: DType, sparse: bool) -> bool:
    """Whether a constant is held as the bytes of the file rather than element by element."""
    return sparse or dtype in _PACKED_BITS or not dtype.is_computable


def read_constant(content: Content, span: tuple[int, int], dtype: DType, shape: Shape, sparse: bool) -> Array:
    """The data of a constant, which lies at a position and has a size: a read-only view where numpy can view it.

    Raises:
        ModelError: the size is not that of the type and shape, or strings are malformed.
    """
    start, size = span
    if dtype is DType.VARIANT:
        raise ModelError("a constant cannot be of type variant")
    if dtype is DType.STRING:
        content.charge(size)
        array = decode_strings(bytes(content.data[start:start + size]), shape)
    elif is_raw(dtype, sparse):
        array = np.ndarray((size,), np.uint8, content.data, start)
        bits = None if sparse else _PACKED_BITS.get(dtype)
        if bits is not None:
            _check_size(size, -(-element_count(shape) * bits // 8), dtype, shape)
    else:
        _check_size(size, element_count(shape) * dtype.numpy.itemsize, dtype, shape)
        array = _view(content, start, dtype, shape)
    array.setflags(write=False)
    return array


def _check_size(found: int, expected: int, dtype: DType, shape: Shape) -> None:
    if found != expected:
        raise ModelError(f"expected {expected} bytes of data for shape {shape} of {dtype.value}, found {found}")


def _view(content: Content, start: int, dtype: DType, shape: Shape) -> Array:
    array: Array = np.ndarray(shape, dtype.numpy, content.data, start)
    if dtype is DType.BOOL:
        content.charge(array.nbytes)
        array = booleans(array)
    if not array.flags.aligned:
        content.charge(array.nbytes)
        array = array.copy()
    return array


def booleans(data: Array) -> Array:
    """An array of bytes, or of booleans that are no better than bytes, as numpy has booleans: 0 or 1. What is not 0 is
    true, as for LiteRT."""
    stored = data.view(np.uint8)
    return stored.view(np.bool_) if stored.max(initial=0) <= 1 else np.asarray(stored != 0)


def decode_strings(data: bytes, shape: Shape) -> Array:
    """The strings of a buffer: their number, the position of each and of the end of the last (all int32), the bytes.

    Raises:
        ModelError: the positions are not rising or outside of the buffer, or the number is not that of the shape.
    """
    if len(data) < 4:
        raise ModelError(f"expected a number of strings, found {len(data)} bytes")
    number = struct.unpack_from("<i", data)[0]
    if number != element_count(shape):
        raise ModelError(f"expected {element_count(shape)} strings for shape {shape}, found {number}")
    first = 4 * (number + 2)
    if first > len(data):
        raise ModelError(f"expected the positions of {number} strings, found {len(data)} bytes")
    bounds = struct.unpack_from(f"<{number + 1}i", data, 4)
    strings = np.empty(number, object)
    for index, (begin, end) in enumerate(pairwise(bounds)):
        if not first <= begin <= end <= len(data):
            raise ModelError(f"string {index} lies at bytes {begin} to {end} of {len(data)}, where strings begin at "
                             f"{first}")
        strings[index] = data[begin:end]
    return strings.reshape(shape)


def encode_strings(strings: Array) -> bytes:
    """The inverse of `decode_strings`.

    Raises:
        ModelError: an element is not bytes.
    """
    items = strings.reshape(-1).tolist()
    for item in items:
        if not isinstance(item, bytes):
            raise ModelError(f"expected elements of type bytes in a string tensor, found {type(item).__name__}")
    bounds = accumulate(map(len, items), initial=4 * (len(items) + 2))
    return struct.pack(f"<{len(items) + 2}i", len(items), *bounds) + b"".join(items)


def encode_constant(data: Array, dtype: DType, shape: Shape, sparse: bool) -> Array:
    """The bytes of a constant as a file holds them; shares memory with contiguous data.

    Raises:
        ModelError: the data is not of the type and shape that the tensor declares.
    """
    raw = is_raw(dtype, sparse)
    expected = np.dtype(np.uint8) if raw else dtype.numpy
    if data.dtype != expected:
        raise ModelError(f"expected data of numpy type {expected} for {dtype.value}, found {data.dtype}")
    if not raw and data.shape != shape:
        raise ModelError(f"expected data of shape {shape}, found {data.shape}")
    if dtype is DType.STRING:
        return np.frombuffer(encode_strings(data), np.uint8)
    if dtype is DType.VARIANT:
        raise ModelError("a constant cannot be of type variant")
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
