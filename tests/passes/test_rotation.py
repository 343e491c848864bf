"""Where values are after some turns of a rotation, and the copies that bring them home."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlet.runtime.passes.analyses.rotation import rotation


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """For each value the buffer that its next one is made in, and the values that spare buffers are for."""
    count = draw(st.integers(1, 7))
    after = list(draw(st.permutations(range(count))))
    spares = draw(st.lists(st.integers(0, count - 1), unique=True))
    for number, value in enumerate(spares):
        after[value] = count + number
    return after, spares


@given(plans(), st.integers(0, 30))
def test_values_are_where_turns_put_them_and_come_home(plan: tuple[list[int], list[int]], turns: int) -> None:
    after, spares = plan
    found = rotation(after, spares)
    count = len(after)
    assert [found.buffer(k, 1) for k in range(count)] == after
    places = [found.buffer(k, turns) for k in range(count)]
    assert len(set(places)) == count
    assert [found.buffer(k, turns + found.period) for k in range(count)] == places
    memory = dict(zip(places, range(count), strict=True))
    for cycle in found.cycles:
        for target, source in found.moves(cycle, found.places(turns)):
            memory[target] = memory[source]
    assert [memory[k] for k in range(count)] == list(range(count))


@pytest.mark.parametrize(("after", "spares", "turns", "copies"), [
    ([0, 1], [], 5, 0), ([1, 0], [], 1, 3), ([1, 0], [], 2, 0), ([1, 2, 0], [], 1, 4), ([2, 0], [0], 1, 2),
    ([1], [0], 1, 1),
], ids=["at_home", "swap", "swap_twice", "three", "with_a_spare", "alternating"])
def test_no_value_moves_more_often_than_it_must(after: Sequence[int], spares: Sequence[int], turns: int,
                                                copies: int) -> None:
    found = rotation(after, spares)
    assert sum(len(found.moves(each, found.places(turns))) for each in found.cycles) == copies
