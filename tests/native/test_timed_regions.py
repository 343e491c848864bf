"""From readings of a function's regions to times of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.native.load.timed_regions import TimedRegions
from circlet.backends.native.parts import TimedRegion
from circlet.backends.native.timed import (
    COUNT,
    FEWEST,
    FIRST_REGION,
    LOOP,
    MOST_TURNS,
    REGION,
    TICKS,
    TIMED,
    TURN_TICKS,
    TURNS_TIMED,
)
from circlet.runtime.exec.observe.recorder import Recorder
from circlet.runtime.exec.observe.regions import Kind, Node, Region

REGIONS = (TimedRegion(-1, "", -1, -1), TimedRegion(-1, "", -1, -1), TimedRegion(-1, "subgraph", 0, -1),
           TimedRegion(2, "operator", 0, 0, loop=0), TimedRegion(3, "subgraph", 1, -1))
MAIN, LOOPING, BODY = range(FIRST_REGION, len(REGIONS))


def settled(turns: int, timed: int, body: int, around: int) -> dict[Region, Node]:
    """The regions of one call of 1200 ticks, 1000 of which are those of a loop; `timed` turns of it took `body` ticks
    in its body, and `around` with what is around that."""
    words = np.zeros((len(REGIONS), REGION), np.int64)
    words[MAIN, [COUNT, TIMED, TICKS]] = 1, 1, 1200
    words[LOOPING, [COUNT, TIMED, TICKS]] = 1, 1, 1000
    words[BODY, [COUNT, TIMED, TICKS]] = turns, timed, body
    loops = np.zeros((1, LOOP), np.int64)
    loops[0, [FEWEST, MOST_TURNS, TURNS_TIMED, TURN_TICKS]] = turns, turns, timed, around
    recorder = Recorder({})
    TimedRegions(REGIONS).settle(recorder.root, recorder, 1, words, loops)
    return {each.region: each for each in recorder.root.walk()}


@pytest.mark.parametrize(("turns", "timed", "body", "around", "own", "below"), [
    (10, 2, 120, 160, 250, 750),  # 10 turns as long as these had taken 800 ticks
    (10, 2, 300, 400, 250, 750),  # 2000
    (10, 10, 600, 800, 400, 600),  # what turns do not take the loop does before and after them
    (10, 10, 900, 900, 100, 900),
])
def test_turns_take_what_their_loop_does(turns: int, timed: int, body: int, around: int, own: int, below: int) -> None:
    found = settled(turns, timed, body, around)
    assert found[Region(Kind.SUBGRAPH, 0)].own == 200
    assert found[Region(Kind.OPERATOR, 0, 0)].own == pytest.approx(own)
    assert found[Region(Kind.SUBGRAPH, 1)].own == pytest.approx(below)
    assert found[Region(Kind.SUBGRAPH, 1)].sampled == timed / turns
