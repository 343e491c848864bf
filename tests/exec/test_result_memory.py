"""Memory that callers have with results in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlet.runtime.errors import LimitError
from circlet.runtime.exec import memory as exec_memory
from circlet.runtime.exec.memory import LARGE, ResultMemory, Room, result_copiers
from circlet.runtime.ir.types import Array

SIZE = 1 << 20


def _given(memory: ResultMemory, size: int = SIZE) -> Array:
    taken = memory.take(size)
    return memory.give(taken, np.ndarray((size // 4,), np.float32, taken))


def test_it_is_used_again_once_nobody_has_it() -> None:
    room = Room()
    memory = ResultMemory(2, room)
    first = _given(memory)
    assert room.taken == 0
    begin = first.ctypes.data
    assert memory.take(SIZE).ctypes.data != begin
    del first
    again = memory.take(SIZE)
    assert again.ctypes.data == begin
    assert room.taken == again.nbytes


@pytest.mark.parametrize("view", [
    lambda array: array[5:], lambda array: array.reshape(2, -1).T[1:], memoryview,
    lambda array: array.view(np.int32)[:1], lambda array: np.asarray(memoryview(array)[3:])])
def test_whoever_sees_a_part_of_it_has_it(view: Callable[[Array], object]) -> None:
    memory = ResultMemory(2)
    result = _given(memory)
    begin = result.ctypes.data
    seen = view(result)
    del result
    assert memory.take(SIZE).ctypes.data != begin
    del seen
    assert memory.take(SIZE).ctypes.data == begin


@pytest.mark.parametrize(("size", "is_used"), [
    (SIZE + SIZE // 16, True), (2 * SIZE, False), (SIZE // 2, True), (SIZE // 8, False)])
def test_it_is_used_for_results_of_about_its_size(size: int, is_used: bool) -> None:
    memory = ResultMemory(2)
    _given(memory)
    waiting, = memory._waiting
    found = memory.take(size)
    assert found.nbytes >= size
    assert (found is waiting) is is_used


def test_the_smallest_piece_is_used_that_fits_and_the_next_smaller_one_goes_if_none_does() -> None:
    memory = ResultMemory(3)
    results = [_given(memory, size) for size in (SIZE, 2 * SIZE, 4 * SIZE, 64 * SIZE)]
    results.clear()
    one, two, _, most = waiting = sorted(memory._waiting, key=len)
    assert memory.take(2 * SIZE) is two
    for size in (8 * SIZE, SIZE // 8):
        found = memory.take(size)
        assert not any(found is each for each in waiting)
        assert sorted(map(id, memory._waiting)) == sorted(map(id, (one, most)))


def test_so_much_waits_of_each_size_as_two_runs_use() -> None:
    memory = ResultMemory(2)
    results = [_given(memory, size) for size in [SIZE] * 5 + [8 * SIZE]]
    begins = [each.ctypes.data for each in results]
    results.clear()
    assert len(memory._waiting) == 5
    assert memory.take(8 * SIZE).ctypes.data == begins[-1]
    assert len({memory.take(SIZE).ctypes.data for _ in range(4)} & set(begins)) == 4
    assert not memory._waiting


def test_less_waits_that_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_memory, "LITTLE", 2 * SIZE)
    memory = ResultMemory(2)
    results = [_given(memory, size) for size in [SIZE] * 5 + [4 * SIZE] * 5]
    results.clear()
    assert sorted(each.nbytes > 2 * SIZE for each in memory._waiting) == [False] * 4 + [True] * 2


def test_lengths_that_change_find_memory_that_was_there_before() -> None:
    """Two results a run, which a caller has until the next one is over."""
    memory, random, had, begins = ResultMemory(2), np.random.default_rng(0), [], []
    for size in random.integers(1, 40, 400) * SIZE // 10:
        had = [_given(memory, int(size)) for _ in range(2)]
        begins += [each.ctypes.data for each in had]
    assert len(set(begins[400:]) - set(begins[:400])) <= 4


@pytest.mark.parametrize(("limit", "most"), [(None, SIZE + SIZE // 2), (2 * SIZE, SIZE + SIZE // 8),
                                             (SIZE + SIZE // 16, SIZE)])
def test_there_is_more_than_needed_if_there_is_room(limit: int | None, most: int) -> None:
    room = Room()
    room.limit(limit)
    assert ResultMemory(1, room).take(SIZE).nbytes == most


def test_it_counts_when_a_run_has_it() -> None:
    room = Room()
    room.limit(3 * SIZE)
    memory = ResultMemory(4, room)
    results = [_given(memory) for _ in range(4)]
    results.clear()
    held = [memory.take(SIZE) for _ in range(2)]
    with pytest.raises(LimitError, match=f"memory={3 * SIZE}"):
        held.append(memory.take(SIZE))


@pytest.mark.parametrize(("size", "is_used"), [(LARGE, True), (LARGE - 4, False)])
def test_copies_of_large_arrays_use_it_again(size: int, is_used: bool) -> None:
    array = np.arange(size // 4, dtype=np.float32).reshape(-1, 1).T
    copy, = result_copiers([array])
    first = copy()
    np.testing.assert_array_equal(first, array, strict=True)
    second = copy()
    assert not np.shares_memory(first, second)
    begin = first.ctypes.data
    first[...] = 0
    del first
    np.testing.assert_array_equal(second, array)
    third = copy()
    np.testing.assert_array_equal(third, array)
    assert not is_used or third.ctypes.data == begin
    assert third.flags.c_contiguous
