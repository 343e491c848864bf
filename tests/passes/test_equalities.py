"""Lengths that follow from what is assumed of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from circlet.runtime.ir.length import Scope
from circlet.runtime.passes.analyses.equalities import Sum, equalities, fixed_lengths

Assume = Callable[[list[int]], object]
"""Asks questions of open lengths."""


@pytest.mark.parametrize(("lengths", "assume", "expected"), [
    ([3, 4, 3], lambda s: s[0] == s[2], {2: Sum((0,))}),
    ([4, 20, 16], lambda s: s[1] - s[2] == s[0], {1: Sum((0, 2))}),
    ([2, 9, 7], lambda s: s[1] * s[0] == s[2] * s[0] + 2 * s[0], {1: Sum((2,), 2)}),
    ([8, 3, 5], lambda s: s[0] + 1 == 3 * s[1], {}),
    ([8, 3, 5, 5, 16], lambda s: (s[0] == s[1] + s[2], s[2] == s[3], s[4] == s[0] + s[0]),
     {0: Sum((1, 2)), 3: Sum((2,))}),
    ([6, 3], lambda s: s[0] == s[1], {}),
], ids=["pair", "sum", "more", "multiple", "sums of sums", "unequal"])
def test_equalities(lengths: list[int], assume: Assume, expected: Mapping[int, Sum]) -> None:
    scope = Scope(lengths)
    assume([scope.symbol(k) for k in range(len(lengths))])
    assert equalities(scope) == expected
    assert not fixed_lengths(scope)


@pytest.mark.parametrize(("lengths", "assume", "expected"), [
    ([2, 4], lambda s: s[1] == 4, (1,)),
    ([2, 80], lambda s: (s[1] // 4 * s[0] == 20 * s[0], 4 * (s[1] // 4) * s[0] == s[1] * s[0]), (1,)),
    ([2, 80], lambda s: s[1] // 4 == 20, ()),
    ([2, 80], lambda s: s[1] == 81, ()),
], ids=["number", "blocks", "quotient", "other"])
def test_fixed(lengths: list[int], assume: Assume, expected: tuple[int, ...]) -> None:
    scope = Scope(lengths)
    assume([scope.symbol(k) for k in range(len(lengths))])
    assert fixed_lengths(scope) == expected
