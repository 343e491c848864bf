"""Native reductions."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_reduce import AXES, EXTREMES, QUANTIZED, REAL, SUMS

test_reductions = native_test([*AXES, *REAL, *QUANTIZED])
test_extremes = native_test(EXTREMES)
test_cumulative_sums = native_test(SUMS)
