"""Constants: spans of the `.bin` file."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.schema.constants import booleans, element_count
from circlet.schema.importer.graph import Value, constant
from circlet.schema.openvino.rules import Node


def read_constant(node: Node) -> Value:
    """What a Const stands for: a read-only view of the weights where they lie as numpy needs them.

    OpenVINO gives a constant without elements a size of 1, so a size may be larger than it needs to be.

    Raises:
        ModelError: its bytes are not there, or not as many as its type and shape need.
        UnsupportedError: its element type is none that circlet computes with.
    """
    dtype, shape = node.dtype("element_type"), node.integers("shape", ())
    offset, size = node.integer("offset", 0), node.integer("size", 0)
    width = 2 if dtype is DType.BFLOAT16 else dtype.numpy.itemsize
    try:
        expected = element_count(shape) * width
    except ModelError as error:
        raise node.error(str(error)) from None
    if size < expected:
        raise node.error(f"size: expected {expected} bytes for shape {shape} of {dtype.value}, found {size}")
    data = _span(node, offset, expected)
    return constant(_view(data, dtype, shape), dtype, node.layer.name)


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
