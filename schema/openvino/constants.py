"""Constants: spans of the `.bin` file."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.schema.constants import booleans, element_count
from circlet.schema.importer.graph import Narrow, Value, constant
from circlet.schema.openvino.floats import decoded
from circlet.schema.openvino.rules import Node
from circlet.schema.openvino.types import FEW_BITS, HALVES


def read_constant(node: Node) -> Value:
    """What a Const stands for: a read-only view of the weights where they lie as numpy needs them.

    Integers of 4 bits, as compressed weights are, become bytes, and floats of 4 or 8 bits float32. OpenVINO gives a
    constant without elements a size of 1, so a size may be larger than it needs to be.

    Raises:
        ModelError: its bytes are not there, or not as many as its type and shape need.
        UnsupportedError: its element type is none that circlet computes with.
    """
    kind = node.text("element_type").lower()
    if kind in FEW_BITS:
        return _read_floats(node, kind)
    packed = HALVES.get(kind)
    dtype, shape = packed or node.dtype("element_type"), node.integers("shape", ())
    width = 2 if dtype is DType.BFLOAT16 else dtype.numpy.itemsize
    if packed is None:
        made = _view(_content(node, shape, 8 * width, dtype.value), dtype, shape)
    else:
        made = _halves(_content(node, shape, 4, kind), dtype, shape)
    return constant(made, dtype, node.layer.name)


def _read_floats(node: Node, kind: str) -> Value:
    """What a Const of floats of few bits stands for, which are to be converted."""
    shape, bits = node.integers("shape", ()), FEW_BITS[kind]
    data = _content(node, shape, bits, kind)
    codes = _halves(data, DType.UINT8, shape) if bits == 4 else np.frombuffer(data, np.uint8).reshape(shape)
    return constant(decoded(codes, kind), Narrow(kind, DType.FLOAT32), node.layer.name)


def _content(node: Node, shape: Shape, bits: int, kind: str) -> memoryview:
    """The bytes of a constant whose elements have so many bits."""
    offset, size = node.integer("offset", 0), node.integer("size", 0)
    try:
        expected = -(-element_count(shape) * bits // 8)
    except ModelError as error:
        raise node.error(str(error)) from None
    if size < expected:
        raise node.error(f"size: expected {expected} bytes for shape {shape} of {kind}, found {size}")
    return _span(node, offset, expected)


def _halves(data: memoryview, dtype: DType, shape: Shape) -> Array:
    """Two elements of a byte, the lower half first; signed ones as their sign says."""
    whole = np.frombuffer(data, np.uint8)
    values = np.stack((whole << 4, whole & 0xF0), axis=-1).reshape(-1)[:prod(shape)].reshape(shape)
    return values.view(dtype.numpy) >> 4


def _span(node: Node, offset: int, size: int) -> memoryview:
    if not size:
        return memoryview(b"")
    try:
        whole = node.unit.weights.data
    except ModelError as error:
        raise node.error(str(error)) from None
    if not 0 <= offset <= len(whole) - size:
        raise node.error(f"expected {size} bytes from {offset} on in the weights, found {len(whole)} bytes in all")
    return whole[offset:offset + size]


def _view(data: memoryview, dtype: DType, shape: Shape) -> Array:
    array: Array = np.frombuffer(data, np.uint8 if dtype is DType.BOOL else dtype.numpy).reshape(shape)
    if dtype is DType.BOOL:
        return booleans(array)
    return array if array.flags.aligned else array.copy()
