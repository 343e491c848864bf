"""bfloat16 in native code: held as its bits, and converted as ml_dtypes does."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.layout import Concatenation, ReverseV2
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.unary import Tanh
from tests.exec.graphs import i32
from tests.needs import NATIVE

pytestmark = NATIVE
BF16, F32 = DType.BFLOAT16, DType.FLOAT32
OTHERS = (DType.FLOAT16, F32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL)


def converting(source: DType, result: DType) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(*main.op(Cast(), main.input("x", source, (-1,)), outputs=[Tensor("", result, (1,), (-1,))]))
    return b.build()


def converted(source: DType, result: DType, x: Array) -> Array:
    """In native code alone."""
    session = circlet.Session(converting(source, result), "native")
    assert set(session.backend_of(0)) == {"native"}
    found: Array = session.invoke(0, [x])[0]
    return found


def test_all_of_them_as_floats_and_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = converted(BF16, F32, bits)
    np.testing.assert_array_equal(values.view(np.uint32), bits.astype(np.uint32) << 16)
    quiet = np.where(np.isnan(values), bits | 0x40, bits)
    np.testing.assert_array_equal(converted(F32, BF16, values), quiet)


def test_floats_are_rounded_to_the_even_one() -> None:
    random = np.random.default_rng(0).integers(0, 1 << 32, 20_000, np.uint32)
    ties = (np.arange(1 << 12, dtype=np.uint32) * 0x9_E377 & 0x7F7F) << 16 | 0x8000
    x = np.concatenate([random, ties, ties + 1, ties - 1]).view(np.float32)
    x = x[~np.isnan(x)]
    np.testing.assert_array_equal(converted(F32, BF16, x), x.astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.mark.parametrize("other", OTHERS, ids=lambda each: each.value)
def test_other_types(other: DType) -> None:
    x = np.array([0, 1, 2.5, 127, 200.75, 3, 65504 if other is DType.FLOAT16 else 77], other.numpy)
    expected = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    bits = converted(other, BF16, x)
    np.testing.assert_array_equal(bits, expected.view(np.uint16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(converted(BF16, other, bits), expected.astype(np.float32).astype(other.numpy))


def test_they_are_moved_for_any_length(folder: object, compiled: list[str]) -> None:
    """tanh of x, backwards, beside x with zeros around, as bfloat16 on the way."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kind = Tensor("", BF16, (1,), (-1,))
    (x,) = main.op(Cast(), main.input("x", F32, (-1,)), outputs=[kind])
    (turned,) = main.op(ReverseV2(), x, main.constant(i32([0])), outputs=[kind])
    (padded,) = main.op(Pad(), x, main.constant(i32([[1, 2]])), outputs=[kind])
    (both,) = main.op(Concatenation(0), turned, padded, outputs=[kind])
    main.output(main.apply(Tanh(), main.op(Cast(), both, outputs=[Tensor("", F32, (1,), (-1,))])[0]))
    session = circlet.Session(b.build(), "native")
    for n in (5, 40, 3, 700):
        given = np.random.default_rng(n).normal(size=n).astype(np.float32)
        rounded = given.astype(ml_dtypes.bfloat16).astype(np.float32)
        expected = np.tanh(np.concatenate([rounded[::-1], np.pad(rounded, (1, 2))]))
        np.testing.assert_allclose(session.invoke(0, [given])[0], expected, 1e-5, 1e-6, strict=True)
    assert len(compiled) == 1
    assert set(session.backend_of(0)) == {"native"}
