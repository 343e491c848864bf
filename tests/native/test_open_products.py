"""Products of any numbers of rows and columns, whose panels are as wide as columns need."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.backends.native.gemm import product as products
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.unary import Tanh

COLUMNS = (70, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65)
DEPTH = 11


@pytest.mark.parametrize("rows", [1, 3, 9, 50, -1])
@pytest.mark.parametrize("is_transposed", [True, False])
@pytest.mark.parametrize("is_followed", [True, False])
def test_columns(rows: int, is_transposed: bool, is_followed: bool) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, rows, DEPTH))
    y = main.input("y", DType.FLOAT32, (2, -1, DEPTH) if is_transposed else (2, DEPTH, -1))
    product = main.apply(BatchMatMul(adj_y=is_transposed), x, y)
    main.output(main.apply(Tanh(), product) if is_followed else product)
    session, random = circlet.Session(builder.build(), "native"), np.random.default_rng(5)
    for count in (1, 5, 16, 60) if rows < 0 else (rows,):
        for columns in COLUMNS:
            left = random.standard_normal((2, count, DEPTH)).astype(np.float32)
            right = random.standard_normal((2, columns, DEPTH)).astype(np.float32)
            found, = session.invoke(0, [left, right if is_transposed else right.transpose(0, 2, 1).copy()])
            exact = left.astype(np.float64) @ right.transpose(0, 2, 1)
            np.testing.assert_allclose(found, np.tanh(exact) if is_followed else exact, rtol=1e-4, atol=1e-5)
            session.invoke(0, [left, np.full((2, 70, DEPTH) if is_transposed else (2, DEPTH, 70), np.nan, np.float32)])


@pytest.mark.parametrize("rows", [40, -1])
@pytest.mark.parametrize("cache", [1 << 9, 1 << 14, 1 << 18])
def test_blocks_have_as_many_rows_as_leave_their_results_in_the_cache(
        rows: int, cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an open number of columns only a run tells how many these are: one tile, some, or all."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    monkeypatch.setattr(products, "CACHE", cache)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x, y = (main.input(name, DType.FLOAT32, (2, size, DEPTH)) for name, size in (("x", rows), ("y", -1)))
    main.output(main.apply(BatchMatMul(adj_y=True), x, y))
    session, random = circlet.Session(builder.build(), "native"), np.random.default_rng(5)
    for count in (200, 1, 13, 40, 131) if rows < 0 else (rows,):
        for columns in (1, 20, 64, 65, 150, 700):
            left, right = (random.standard_normal((2, each, DEPTH)).astype(np.float32) for each in (count, columns))
            found, = session.invoke(0, [left, right])
            np.testing.assert_allclose(found, left @ right.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)
