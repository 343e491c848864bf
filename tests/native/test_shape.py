"""Native operators about shapes."""

from __future__ import annotations

from tests.native.native_cases import native_test
from tests.ops.test_shape import BROADCAST, DECLARED, FILL, ONE_HOT, RANGE, RESHAPE, VALUES
from tests.ops.test_shape import VIEWS as RANKS

test_shape = native_test([*RESHAPE, *RANKS, *VALUES, *FILL, *RANGE, *ONE_HOT, *BROADCAST, *DECLARED])
