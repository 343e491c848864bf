"""Native operators on one input."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_unary import CASES

test_unary = native_test(CASES)
