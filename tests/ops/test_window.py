"""What code for any length relies on of windows."""

from __future__ import annotations

from itertools import product

import pytest

from circlet.runtime.ir.types import Padding
from circlet.runtime.ops.window import slide


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_no_side_is_padded_by_more_than_most(size: int) -> None:
    found = set()
    for length, stride, dilation in product(range(1, 40), range(1, 8), range(1, 5)):
        window = slide(length, size, stride, Padding.SAME, dilation)
        assert max(window.before, window.after) <= window.most_padded
        found.add(window.most_padded - window.after)
    assert 0 in found
