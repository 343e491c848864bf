"""Look-ups for sparse ids, and hashes of items, in the midst of native code."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_lookup import LOOKED_UP, PROJECTED

test_cases = native_test([*LOOKED_UP, *PROJECTED])
