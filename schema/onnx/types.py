"""The types of ONNX values, and the tensors that ONNX stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper, numpy_helper

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.held import OptionalOf, SequenceOf, ValueType
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.schema.constants import booleans
from circlet.schema.importer.graph import Narrow, Type

_NAMES = {"FLOAT": DType.FLOAT32, "DOUBLE": DType.FLOAT64}
NARROW = {name: Narrow(name, held) for names, held in (
    (("INT2", "INT4"), DType.INT8), (("UINT2", "UINT4"), DType.UINT8),
    (("FLOAT4E2M1", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"), DType.FLOAT32),
) for name in names}
"""By ONNX's name."""
_OPAQUE = frozenset({DType.RESOURCE, DType.VARIANT})


def dtype_of(number: int) -> DType:
    """The element type that ONNX gives a number.

    Raises:
        ModelError: there is no such number.
        UnsupportedError: circlet does not compute with the type.
    """
    try:
        name = TensorProto.DataType.Name(number)
    except ValueError:
        raise ModelError(f"element type {number} is not known to ONNX") from None
    if name == "UNDEFINED":
        raise ModelError("expected an element type, found none")
    found = _NAMES.get(name) or next((each for each in DType if each.value == name.lower()), None)
    if found is None or not found.is_computable or found in _OPAQUE:
        raise UnsupportedError(f"element type {name.lower()}")
    return found


def number_of(dtype: DType) -> int:
    """The number that ONNX gives an element type."""
    back = {each: name for name, each in _NAMES.items()}
    return int(TensorProto.DataType.Value(back.get(dtype) or dtype.value.upper()))


def type_of(proto: Any) -> ValueType | None:
    """The type that a TypeProto declares; None where it declares none."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return dtype_of(proto.tensor_type.elem_type) if proto.tensor_type.elem_type else None
    if kind in ("sequence_type", "optional_type"):
        element = type_of(getattr(proto, kind).elem_type)
        if element is None:
            return None
        return SequenceOf(element) if kind == "sequence_type" else OptionalOf(element)
    if kind is None:
        return None
    raise UnsupportedError(f"values of type {kind.removesuffix('_type')}")


def shape_of(proto: Any) -> Shape | None:
    """The dimensions that a TypeProto declares, -1 for those that it leaves open; None where the rank is open too."""
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(each.dim_value if each.HasField("dim_value") and each.dim_value >= 0 else -1
                 for each in proto.tensor_type.shape.dim)


def axes_of(proto: Any) -> tuple[str, ...]:
    """What a TypeProto calls dimensions, "" those without a name."""
    return tuple(each.dim_param for each in proto.tensor_type.shape.dim) if proto.HasField("tensor_type") else ()


def proto_of(type: Type, shape: Shape | None) -> Any:
    """The TypeProto of a value."""
    proto = TypeProto()
    if isinstance(type, (DType, Narrow)):
        proto.tensor_type.elem_type = \
            number_of(type) if isinstance(type, DType) else TensorProto.DataType.Value(type.name)
        if shape is not None:
            proto.tensor_type.shape.SetInParent()
            for size in shape:
                dim = proto.tensor_type.shape.dim.add()
                if size >= 0:
                    dim.dim_value = size
    elif isinstance(type, SequenceOf):
        proto.sequence_type.elem_type.CopyFrom(proto_of(type.element, None))
    else:
        proto.optional_type.elem_type.CopyFrom(proto_of(type.element, None))
    return proto


def read_tensor(proto: Any, folder: Path | None, content: memoryview | None = None) -> tuple[DType | Narrow, Array]:
    """The element type and the value of a stored tensor, read-only.

    Args:
        proto: a TensorProto.
        folder: where files lie that hold tensors; None where there is no place to look for them.
        content: its `raw_data`, of a plain type, where it is without.

    Raises:
        ModelError: the data does not fit the shape, or lies in a file that is not there.
        UnsupportedError: circlet does not compute with the type.
    """
    narrow = NARROW.get({number: name for name, number in TensorProto.DataType.items()}.get(proto.data_type, ""))
    dtype = dtype_of(proto.data_type) if narrow is None else narrow.held
    if proto.data_location == TensorProto.EXTERNAL and folder is None:
        raise ModelError(f"tensor {proto.name!r}: its data lies in another file; load the model by its path")
    try:
        data = numpy_helper.to_array(proto, str(folder or "")) if content is None else _copied(proto, content)
    except (ValueError, TypeError, OSError, KeyError, IndexError) as problem:
        raise ModelError(f"tensor {proto.name!r}: {problem}") from None
    except Exception as problem:
        if type(problem).__name__ != "ValidationError":
            raise
        raise ModelError(f"tensor {proto.name!r}: {problem}") from None
    if tuple(data.shape) != tuple(proto.dims):
        raise ModelError(f"tensor {proto.name!r}: expected data of shape {tuple(proto.dims)}, found {data.shape}")
    if narrow is not None:
        return narrow, stored(data.astype(dtype.numpy), dtype)
    return dtype, stored(data, dtype)


def _copied(proto: Any, content: memoryview) -> Array:
    """The value of a tensor, given its `raw_data`, which is little-endian and may begin anywhere.

    Raises:
        ValueError: it does not fit the shape.
    """
    dtype = helper.tensor_dtype_to_np_dtype(proto.data_type)
    given = np.frombuffer(content, dtype.newbyteorder("<")).reshape(tuple(proto.dims))
    found = allocate(given.shape, dtype)
    found[...] = given
    return found


def stored(data: Array, dtype: DType) -> Array:
    """An array as circlet holds it: strings are bytes, bfloat16 is its bits, booleans are 0 or 1."""
    if dtype is DType.STRING:
        flat = [each.encode() if isinstance(each, str) else each for each in data.reshape(-1).tolist()]
        result = np.empty(len(flat), object)
        result[:] = flat
        data = result.reshape(data.shape)
    elif data.dtype != dtype.numpy:
        data = data.view(dtype.numpy) if data.dtype.itemsize == dtype.numpy.itemsize else data.astype(dtype.numpy)
    if dtype is DType.BOOL:
        data = booleans(data)
    data = data if data.flags.c_contiguous else np.ascontiguousarray(data)
    data.setflags(write=False)
    return data
