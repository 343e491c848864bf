"""Native softmax and normalisations."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_normalize import CIRCLE, L2, LOG_SOFTMAX, LRN, SOFTMAX

test_softmax = native_test([*SOFTMAX, *LOG_SOFTMAX])
test_normalizations = native_test([*L2, *LRN, *CIRCLE])
