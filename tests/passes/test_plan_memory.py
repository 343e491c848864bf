"""Buffers that live at the same time do not overlap, and the arena is no larger than it must be."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.ir.types import ALIGNMENT
from circlet.runtime.passes.analyses.plan_memory import Arena, Interval, plan_memory


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def test_nothing() -> None:
    assert plan_memory([]) == Arena((), 0)


@pytest.mark.parametrize(("intervals", "offsets", "size"), [
    pytest.param([(1, 0, 1), (1, 2, 3)], (0, 0), 64, id="one after another"),
    pytest.param([(1, 0, 2), (1, 2, 3)], (0, 64), 128, id="both ends count"),
    pytest.param([(65, 0, 1), (64, 0, 1)], (0, 128), 192, id="whole lines"),
    pytest.param([(64, 0, 0), (256, 0, 0)], (256, 0), 320, id="larger first"),
    pytest.param([(64, 0, 9), (64, 0, 1), (64, 0, 9), (64, 2, 3)], (0, 64, 128, 64), 192, id="lowest gap"),
    pytest.param([(64, 0, 9), (64, 0, 1), (64, 0, 9), (128, 2, 3)], (0, 64, 128, 192), 320, id="gap too small"),
    pytest.param([(0, 0, 1), (64, 0, 1)], (0, 0), 64, id="empty"),
    pytest.param([(64, 2, 3), (64, 0, 1)], (0, 0), 64, id="in any order"),
])
def test_plan(intervals: list[tuple[int, int, int]], offsets: tuple[int, ...], size: int) -> None:
    assert plan_memory([Interval(*each) for each in intervals]) == Arena(offsets, size)


@pytest.mark.parametrize("seed", range(20))
def test_none_that_live_together_overlap(seed: int) -> None:
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 20, 40)
    intervals = [Interval(int(size), int(begin), int(begin + length)) for size, begin, length in
                 zip(generator.integers(0, 999, 40), first, generator.integers(0, 8, 40), strict=True)]
    arena = plan_memory(intervals)
    for k, one in enumerate(intervals):
        assert arena.offsets[k] % ALIGNMENT == 0
        assert arena.offsets[k] + one.size <= arena.size
        for other, offset in zip(intervals[:k], arena.offsets, strict=False):
            apart = arena.offsets[k] + one.size <= offset or offset + other.size <= arena.offsets[k]
            assert apart or one.last < other.first or other.last < one.first
    needed = max(sum(rounded(each.size) for each in intervals if each.first <= time <= each.last) for time in range(30))
    assert needed <= arena.size <= sum(rounded(each.size) for each in intervals)
