"""Right factors of products as panels: columns side by side, step after step."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.tiling import Split

LANES, VECTORS = 4, 2
PANEL = LANES * VECTORS


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("columns", "depth"), [
    (5 * PANEL, 256), (9 * PANEL + 3, 1024), (PANEL, 512), (3, 256), (5 * PANEL, 300), (2 * PANEL + 1, 1),
])
def test_panels_have_columns_side_by_side(columns: int, depth: int, dtype: str) -> None:
    plan = Plan(FLOAT32, 1, columns, depth, LANES, VECTORS, Split.whole(1))
    matrix = np.random.default_rng(0).integers(1, 100, (columns, depth)).astype(dtype)
    padded = np.pad(matrix, ((0, -columns % PANEL), (0, 0)))
    expected = np.stack(np.split(padded, len(padded) // PANEL)).transpose(0, 2, 1)
    np.testing.assert_array_equal(plan.pack(matrix), expected, strict=True)
