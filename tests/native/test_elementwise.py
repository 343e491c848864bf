"""Native elementwise operators."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_comparison import CASES as COMPARISON
from tests.ops.test_elementwise import CASES as ELEMENTWISE
from tests.ops.test_quantize import CASTS, DEQUANTIZE, FAKE_QUANT, QUANTIZE

test_elementwise = native_test(ELEMENTWISE)
test_comparison = native_test(COMPARISON)
test_conversions = native_test([*CASTS, *QUANTIZE, *DEQUANTIZE, *FAKE_QUANT])
