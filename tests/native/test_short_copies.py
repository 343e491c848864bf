"""Rows of a few bytes, of which only the run tells how many, are copied by registers and parts of them."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Concatenation, Slice
from tests.needs import NATIVE

pytestmark = NATIVE
BYTES = [each + k for each in (4, 8, 16, 32, 64, 128, 256, 512) for k in (-1, 0, 1)] + [1, 2, 24, 100]


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_every_byte_is_copied_and_no_other(rows: int) -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x, y = (main.input(each, DType.INT8, (-1, -1)) for each in "xy")
    both = main.apply(Concatenation(1), x, y)
    begin, sizes = (main.constant(np.array(each, np.int32)) for each in ([0, 1], [-1, -1]))
    rest = main.apply(Slice(), x, begin, sizes)
    main.output(both, rest)
    session = circlet.Session(builder.build(), "native")
    random = np.random.default_rng(0)
    for size in BYTES:
        for other in (1, 7, size):
            given = [random.integers(-128, 128, (rows, each), np.int8) for each in (size + 1, other)]
            beside, cut = session.invoke(0, given)
            np.testing.assert_array_equal(beside, np.concatenate(given, 1), strict=True)
            np.testing.assert_array_equal(cut, given[0][:, 1:], strict=True)
