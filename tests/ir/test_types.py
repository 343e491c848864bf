"""Element types and quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import (
    FLOATS,
    INTEGERS,
    QUANTIZABLE,
    Activation,
    DimensionSparsity,
    DType,
    Padding,
    Quantization,
)

NUMPY = {
    DType.FLOAT16: np.float16, DType.FLOAT32: np.float32, DType.FLOAT64: np.float64, DType.BOOL: np.bool_,
    DType.INT8: np.int8, DType.INT16: np.int16, DType.INT32: np.int32, DType.INT64: np.int64,
    DType.UINT8: np.uint8, DType.UINT16: np.uint16, DType.UINT32: np.uint32, DType.UINT64: np.uint64,
    DType.COMPLEX64: np.complex64, DType.COMPLEX128: np.complex128,
}
OBJECTS = {DType.STRING, DType.VARIANT}
BITS = {DType.RESOURCE: np.int32, DType.BFLOAT16: np.uint16}
RAW = [each for each in DType if each not in NUMPY and each not in OBJECTS and each not in BITS]


@pytest.mark.parametrize("dtype", NUMPY)
def test_numbers_are_numpy_numbers(dtype: DType) -> None:
    assert dtype.numpy == np.dtype(NUMPY[dtype])
    assert DType.of(NUMPY[dtype]) is dtype
    assert DType.of(np.zeros(1, NUMPY[dtype]).dtype) is dtype
    assert dtype.is_computable


@pytest.mark.parametrize("dtype", RAW)
def test_packed_and_opaque_types_are_bytes(dtype: DType) -> None:
    assert not dtype.is_computable
    assert dtype.numpy == np.uint8


def test_objects_and_handles() -> None:
    assert {each for each in DType if each.numpy.hasobject} == OBJECTS
    assert {each: each.numpy for each in BITS} == BITS
    assert all(each.is_computable for each in (*OBJECTS, *BITS))


@pytest.mark.parametrize("given", [object, "S4", "U4"])
def test_text_is_string(given: str) -> None:
    assert DType.of(given) is DType.STRING


@pytest.mark.parametrize("given", ["datetime64[s]", np.longdouble, [("a", int)]])
def test_of_refuses_what_no_tensor_holds(given: Any) -> None:
    with pytest.raises(ValueError, match="no tensor type holds elements of numpy type"):
        DType.of(given)


def test_byte_order_is_not_part_of_the_type() -> None:
    assert DType.of(">f4") is DType.FLOAT32


def test_prints_as_text_and_messages_name_it() -> None:
    assert repr(DType.FLOAT32) == DType.FLOAT32.value == "float32"
    assert all(each.value == each.name.lower() for each in DType)


def test_sets_of_types() -> None:
    assert {each.numpy.kind for each in INTEGERS} == {"i", "u"}
    assert {each.numpy.kind for each in FLOATS} == {"f"}
    assert QUANTIZABLE < INTEGERS


def test_quantization() -> None:
    none, one, many = Quantization(), Quantization((0.5,), (3,)), Quantization((0.5, 0.25), (1, 2), axis=1)
    assert (one.scale, one.zero_point, one.per_axis) == (0.5, 3, False)
    assert (many.scale, many.zero_point, many.per_axis) == (0.5, 1, True)
    assert Quantization((0.5,)).zero_point == none.zero_point == 0
    assert not none.per_axis
    assert one == Quantization((0.5,), (3,))
    assert hash(one) == hash(Quantization((0.5,), (3,)))


def test_sparse_dimensions() -> None:
    assert DimensionSparsity(4).is_dense
    assert not DimensionSparsity(0, (0, 1), (2,)).is_dense


def test_enumerations_have_the_numbers_of_the_schema() -> None:
    assert [each.name for each in Activation] == ["NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"]
    assert [each.value for each in Activation] == list(range(6))
    assert (Padding.SAME, Padding.VALID) == (0, 1)


STATIC = [
    (Tensor("", DType.BOOL, ()), (), True),
    (Tensor("", DType.BOOL, (2, 3)), (2, 3), True),
    (Tensor("", DType.BOOL, (1, 3), (-1, 3)), (-1, 3), False),
    (Tensor("", DType.BOOL, (), has_rank=False), (), False),
    (Tensor("", DType.BOOL, (2,), has_rank=False), (2,), True),
]


@pytest.mark.parametrize(("tensor", "signature", "static"), STATIC)
def test_declared_shapes(tensor: Tensor, signature: tuple[int, ...], static: bool) -> None:
    assert tensor.signature == signature
    assert tensor.is_static is static
