"""Native operators that read or write where data says."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_index import GATHER, GATHER_ND, SCATTER_ND, SPARSE, UPDATE, WHERE

test_index = native_test([*GATHER, *GATHER_ND, *SCATTER_ND, *SPARSE, *WHERE, *UPDATE])
