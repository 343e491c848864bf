"""How many numbers there are up to another one, in steps that only the run tells, is a length that the run computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.elementwise import Maximum, Minimum, Mul, Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.shape import Range
from circlet.runtime.ops.unary import Tanh
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, model
from tests.native.test_lengths_told import LENGTHS
from tests.needs import NATIVE
from tests.ops.cases import check

pytestmark = NATIVE


def stepped(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Every k-th place, rows from there, and places from the last of at most k rows down, two at a time."""
    step = g(Maximum(), k, g.number(1), dtype=INTS)
    places = g(Range(), g.number(0), g.length(x, 0), step, dtype=INTS)
    last = g(Sub(), g(Minimum(), k, g.length(x, 0), dtype=INTS), g.number(1), dtype=INTS)
    down = g(Range(), last, g.number(-1), g.number(-2), dtype=INTS)
    return [places, g(Tanh(), g(Gather(), x, places)), g(Mul(), down, down, dtype=INTS)]


def test_one_function_serves_all_steps(folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(stepped), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        given = [floats(rows, 6), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}


@pytest.mark.parametrize("step", [0, 1])
def test_steps_that_lead_nowhere_are_numpys_error(step: int, folder: object) -> None:
    """None, and one away from the limit."""
    def apart(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        return [g(Range(), g.length(x, 0), g.number(0), k, dtype=INTS)]

    for backend in ("cpu", "native"):
        session = circlet.Session(model(apart), backend=backend)
        with pytest.raises(ExecutionError, match="delta: expected a step from start 5 towards limit 0"):
            session.invoke(0, [floats(5, 6), np.array(step, np.int32)])
        check(session.invoke(0, [floats(5, 6), np.array(-2, np.int32)])[0], np.array([5, 3, 1], np.int32), None)
