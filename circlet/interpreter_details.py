"""What LiteRT's interpreter tells about tensors, operators and signatures: the same keys, types and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from circlet.runtime.errors import InputError
from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization, Shape, Sparsity

if TYPE_CHECKING:
    import numpy.typing as npt

Details: TypeAlias = dict[str, Any]

_SHOWN: dict[DType, type[np.generic]] = {
    DType.STRING: np.bytes_,
    DType.RESOURCE: np.object_,
    DType.VARIANT: np.object_,
    DType.FLOAT8_E4M3FN: np.int8,
    DType.FLOAT8_E5M2: np.int8,
    DType.INT2: np.int8,
    DType.INT4: np.int8,
    DType.UINT4: np.uint8,
}


def shown_type(dtype: DType) -> type[np.generic]:
    """The class that details give as `dtype`.

    Raises:
        InputError: numpy has no such type.
    """
    if dtype in _SHOWN:
        return _SHOWN[dtype]
    if dtype.element is None:
        raise InputError(f"Invalid data-type for array: {dtype.value}")
    return dtype.element.type


def tensor_details(tensors: Sequence[Tensor], index: int, shape: Shape, compress: bool) -> Details:
    """The details of tensor `index` of a subgraph.

    Args:
        tensors: all tensors of the subgraph.
        index: which one.
        shape: its shape at present.
        compress: one zero point stands for many that are all zero.

    Raises:
        InputError: numpy has no such element type.
    """
    tensor = tensors[index]
    signature = tensor.shape_signature or shape
    scales, zero_points, axis, block_size = _quantization(tensor.quantization, tensors)
    if compress and zero_points.size > 1 and not zero_points.any():
        zero_points = zero_points[:1]
    return {
        "name": tensor.name,
        "index": index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": shown_type(tensor.dtype),
        "quantization": _per_tensor(tensor.quantization),
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zero_points,
            "quantized_dimension": axis,
            "block_size": block_size,
        },
        "sparsity_parameters": {} if tensor.sparsity is None else _sparsity(tensor.sparsity),
    }


def _per_tensor(quantization: Quantization | None) -> tuple[float, int]:
    if quantization is None or len(quantization.scales) != 1:
        return 0.0, 0
    return float(np.float32(quantization.scale)), quantization.zero_point


def _quantization(quantization: Quantization | None, tensors: Sequence[Tensor]) -> tuple[Array, Array, int, int]:
    """Scales, zero points, axis and block size."""
    none = np.array([], np.float32), np.array([], np.int32), 0, 0
    if quantization is None:
        return none
    block = quantization.blockwise
    if block is not None:
        return (_constant(tensors, block.scales, np.float16), _constant(tensors, block.zero_points, np.int32),
                quantization.axis, block.block_size)
    count = len(quantization.scales)
    if not count:
        return none
    zero_points = quantization.zero_points if len(quantization.zero_points) == count else quantization.zero_point
    return (np.array(quantization.scales, np.float32), np.full(count, zero_points, np.int32), quantization.axis, 0)


def _constant(tensors: Sequence[Tensor], index: int, dtype: npt.DTypeLike) -> Array:
    """The elements of a constant; none where it is absent."""
    data = None if index == ABSENT else tensors[index].data
    return np.array([], dtype) if data is None else data.reshape(-1).astype(dtype)


def _sparsity(sparsity: Sparsity) -> Details:
    return {
        "traversal_order": np.array(sparsity.traversal_order, np.int32),
        "block_map": np.array(sparsity.block_map, np.int32),
        "dim_metadata": [
            {"format": 0, "dense_size": each.dense_size} if each.is_dense else {
                "format": 1,
                "array_segments": np.array(each.segments, np.int32),
                "array_indices": np.array(each.indices, np.int32),
            }
            for each in sparsity.dimensions
        ],
    }


def operator_details(operator: Operator, index: int, tensors: Sequence[Tensor]) -> Details:
    """The details of an operator; -1 stands for an operand that is absent."""
    return {
        "index": index,
        "op_name": operator.name,
        "inputs": np.array(operator.inputs, np.int32),
        "outputs": np.array(operator.outputs, np.int32),
        "operand_types": [shown_type(tensors[each].dtype) for each in operator.inputs if each != ABSENT],
        "result_types": [shown_type(tensors[each].dtype) for each in operator.outputs if each != ABSENT],
    }


def signature_details(model: Model) -> dict[str, dict[str, dict[str, int]]]:
    """`{key: {'inputs': {name: tensor}, 'outputs': {name: tensor}}}`, names in alphabetical order."""
    return {
        each.key: {"inputs": dict(sorted(each.inputs.items())), "outputs": dict(sorted(each.outputs.items()))}
        for each in model.signatures
    }
