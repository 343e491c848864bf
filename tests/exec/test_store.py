"""Memory that outlives runs: it stays where it is, and its content can be kept and brought back."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.exec.state.store import Store
from circlet.runtime.ir.types import ALIGNMENT

F32, I8 = np.dtype(np.float32), np.dtype(np.int8)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_arrays_start_full_of_their_value_on_lines_of_their_own() -> None:
    store = Store()
    found = [store.allocate((3,), F32, 0), store.allocate((5,), I8, -7), store.allocate((), F32)]
    np.testing.assert_array_equal(found[0], np.zeros(3, np.float32))
    np.testing.assert_array_equal(found[1], np.full(5, -7, np.int8))
    assert found[2].shape == ()
    assert len({address(each) // ALIGNMENT for each in found}) == 3
    assert all(address(each) % ALIGNMENT == 0 for each in found)


@pytest.mark.parametrize("count", [1, 3, 1 << 13])
def test_no_two_share_memory(count: int) -> None:
    store = Store()
    found = [store.allocate((count,), F32) for _ in range(20)]
    for k, each in enumerate(found):
        each.fill(k)
    assert [each[-1] for each in found] == list(range(20))
    assert all(address(each) % ALIGNMENT == 0 for each in found)


def test_an_empty_array_has_an_address_of_its_own() -> None:
    store = Store()
    assert len({address(store.allocate((0, 4), F32)) for _ in range(3)}) == 3


def test_content_is_brought_back_where_it_was() -> None:
    store = Store()
    small, large = store.allocate((2,), F32), store.allocate((1 << 14,), F32, 1)
    places = [address(each) for each in (small, large)]
    small[:] = (3, 4)
    kept = store.content()
    small[:], large[:] = 9, 9
    store.restore(kept)
    np.testing.assert_array_equal(small, np.array([3, 4], np.float32))
    assert (large == 1).all()
    assert places == [address(each) for each in (small, large)]


def test_what_is_kept_does_not_change() -> None:
    store = Store()
    array = store.allocate((2,), F32)
    kept = store.content()
    array[:] = 5
    store.restore(kept)
    assert (array == 0).all()


def test_arrays_handed_out_since_become_what_they_were_at_first() -> None:
    store = Store()
    old = store.allocate((2,), F32)
    old[:] = 2
    kept = store.content()
    same_block, other_block = store.allocate((2,), I8, 3), store.allocate((1 << 15,), I8, 4)
    for each in (old, same_block, other_block):
        each.fill(6)
    store.restore(kept)
    assert (old == 2).all()
    assert (same_block == 3).all()
    assert (other_block == 4).all()


def test_nothing_kept_makes_all_as_at_first() -> None:
    store = Store()
    array = store.allocate((2,), F32, 1)
    array[:] = 8
    store.restore(())
    assert (array == 1).all()
