"""How the memory lies in which code that is timed leaves its times: words of 64 bits."""

from __future__ import annotations

from circlet.runtime.exec.observe.regions import MOST_ACTIVATIONS, OCTAVE

CALLS, CAPACITY, USED, EVENTS, ENTERED, HEAD = range(6)
"""The words before those of regions in a function that is timed: how often it was called; how many events there is room
for, how many there were, their address; the counter's value when the function was entered last."""
COUNT, TIMED, TICKS, BYTES, REGION = range(5)
"""The words of a region: how often it was entered, how often it was timed then, how long that took, and what it copied.
The first two regions are empty."""
WARM_UP, EMPTY, FIRST_REGION = range(3)
"""The first of them makes a reading quick, the second tells what it takes."""
EVENT = 5
"""The words of an event: its region, begin, end, the turn of a loop or -1, and the number of the thread of a team that
did a part of the region, 0 for events of whole regions."""
FEWEST, MOST_TURNS, TURNS_TIMED, TURN_TICKS, FIRST, FIRST_TICKS = range(1, 7)
COUNTS = 8
CLASSES = COUNTS + MOST_ACTIVATIONS
LOOP = CLASSES + 64 * OCTAVE
"""The words of a loop: how many activations were timed, the fewest and most turns of an activation, turns that were
timed and how long they took, the first ones among them; then the turns of each activation, and how many turns there
were of each class of durations."""
