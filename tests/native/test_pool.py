"""Native pooling."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_pool import AVERAGE, L2, MAX

test_pool = native_test([each for each in (*AVERAGE, *MAX, *L2) if each.error is None])
