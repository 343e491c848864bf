"""Native ordering."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.sort import Bucketize, TopKV2
from tests.native.against_cpu import agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.ops.test_sort import BUCKETS, DISTINCT, TOP

test_sort = native_test([*TOP, *DISTINCT, *BUCKETS])


@settings(max_examples=40, deadline=None)
@given(st.data(), shapes(1, 3, st.sampled_from([0, 1, 2, 5, 30])), st.sampled_from([np.float32, np.int32, np.uint8]),
       st.booleans(), seeds)
def test_top_k(data: st.DataObject, shape: list[int], dtype: type[np.generic], equal: bool, seed: int) -> None:
    """Values without repetition and with much of it, NaN among them."""
    x = values(shape, dtype, seed, special=True)
    k = data.draw(st.integers(0, shape[-1]))
    agree(applied(TopKV2(), np.int32(k)), np.sign(x).astype(dtype) if equal else x)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([65, 66, 100, 128, 257]),
       st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                        np.uint64]), st.booleans(), st.integers(1, 3), st.data(), seeds)
def test_long_rows(length: int, dtype: type[np.generic], equal: bool, rows: int, data: st.DataObject,
                   seed: int) -> None:
    x = values([rows, length], dtype, seed, special=True)
    k = data.draw(st.integers(1, length))
    agree(applied(TopKV2(), np.int32(k)), np.sign(x).astype(dtype) if equal and x.dtype.kind != "u" else x)


@pytest.mark.parametrize("shape", [(3, 100), (-1, -1)])
@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT16])
def test_as_many_as_the_run_asks_for(shape: tuple[int, ...], dtype: DType) -> None:
    """A k that is an input, from none to all; the error of one that is too large is numpy's."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, k = main.input("x", DType.FLOAT32, shape), main.input("k", dtype, ())
    main.output(*main.op(TopKV2(), x, k, outputs=[
        Tensor(name, kind, (), has_rank=False) for name, kind in (("values", DType.FLOAT32), ("places", dtype))]))
    model = b.build()
    native, cpu = (circlet.Session(model, backend=backend) for backend in ("native", "cpu"))
    rows = values([3, 100], np.float32, 1, special=True)
    for count in (5, 0, 1, 64, 99, 100, 7):
        given = [rows, np.array(count, dtype.numpy)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert set(native.backend_of(0)) == {"native"}
    for count in (101, -1):
        for session in (cpu, native):
            with pytest.raises(ExecutionError, match=f"expected 0 to 100, .* found {count}"):
                session.invoke(0, [rows, np.array(count, dtype.numpy)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([-np.inf, -3.5, -1.0, 0.0, 0.25, 1.0, 2.0, 7.0, 16777220.0, np.inf]), max_size=40),
       st.sampled_from([np.float32, np.float64, np.int32, np.int64]), st.sampled_from([0, 1, 7, 100]), seeds)
def test_buckets(boundaries: list[float], dtype: type[np.generic], length: int, seed: int) -> None:
    """Elements on boundaries and beyond all of them among others."""
    x = values([length], dtype, seed, special=True)
    near = np.random.default_rng(seed).choice([*boundaries, 0.0], length)
    finite = np.where(np.isfinite(near), near, 0.0) if np.dtype(dtype).kind == "i" else near
    found = np.where(np.random.default_rng(seed + 1).random(length) < 0.5, finite, x).astype(dtype)
    agree(applied(Bucketize(tuple(sorted(boundaries)))), found)
