"""Native operators on lists that are tensors."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_lists import CASES

test_cases = native_test(CASES)
