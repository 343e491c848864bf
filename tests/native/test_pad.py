"""Native operators that enlarge a tensor."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_pad import MIRROR, PAD, SPREAD, TILE

test_pad = native_test([*PAD, *MIRROR, *SPREAD, *TILE])
