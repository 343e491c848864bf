"""Random loops over several values: native code, with elision and without, and plain Python agree to the bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import circlet
from tests.exec import graphs as g
from tests.exec.test_loop_programs import SLOTS, START, Program, expected, loop_model, programs


@settings(max_examples=30, deadline=None)
@given(programs(SLOTS, SLOTS), programs(SLOTS, SLOTS), programs(SLOTS, SLOTS))
def test_native_loops_are_python_loops(body: Program, then: Program, other: Program) -> None:
    model = loop_model(body, then, other)
    sessions = [circlet.Session(model, backend="native", copy_elision=elide) for elide in g.ELISION]
    for turns in (3, 0, 4, 1):
        wanted = expected(body, then, other, turns, START)
        for session in sessions:
            g.assert_equal(list(session.run([*START, np.int32(turns)]).values()), wanted)
