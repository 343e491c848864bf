"""Lengths that only a run tells for which there is little room at first: a run that needs more begins anew, once for
all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.backends.native.load.open_invocation import OpenInvocation
from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Range, Reshape
from tests.native.test_lengths import Graph
from tests.native.test_lengths_hosted import INTS, model
from tests.ops.cases import check


def counted(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """0, k, 2 k and so on, as many as each number of a row says."""
    row = g(Cast(), g(Reshape(), g(Gather(0), x, g.ints(0)), g.ints(6)), dtype=INTS)
    results = []
    for position in range(6):
        count = g(Gather(0), row, g.number(position), dtype=INTS)
        numbers = g(Range(), g.number(0), count, g.number(1), dtype=INTS)
        results.append(g(Mul(), numbers, k, dtype=INTS))
    return results


def wide(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The same beside 2000 columns, some 8 kB for each."""
    columns = g.builder.constant(np.arange(1, 2001, dtype=np.int32))
    return [g(Mul(), g(Reshape(), each, g.ints(-1, 1), dtype=INTS), columns, dtype=INTS) for each in counted(g, x, k)]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[OpenInvocation]:
    """The functions that are called anew, each time."""
    found: list[OpenInvocation] = []

    def outgrew(invocation: OpenInvocation) -> None:
        found.append(invocation)

    monkeypatch.setattr(OpenInvocation, "_outgrew", outgrew)
    return found


@pytest.mark.parametrize(("counts", "most"), [
    ((3, 5, 64, 1, 2, 0), 0), ((71, 65, 80, 128, 66, 100), 1), ((300, 290, 100, 256, 129, 260), 3),
    ((3000, 2900, 2, 1, 129, 2500), 3)])
def test_room_is_asked_for_a_few_times(counts: Sequence[int], most: int, begun: list[OpenInvocation]) -> None:
    native, cpu = (circlet.Session(model(counted), backend=each) for each in ("native", "cpu"))
    given = [np.array([counts, (0,) * 6], np.float32), np.array(3, np.int32)]
    for _ in range(2):
        for got, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(got, expected, None)
    assert len(begun) == most


def test_what_runs_did_not_need_is_given_up_for_memory(begun: list[OpenInvocation]) -> None:
    session = circlet.Session(model(wide), backend="native", limits=circlet.Limits(memory=12 << 20))
    first, *_ = session.invoke(0, [np.array([(1000, 1, 2, 3, 4, 5), (0,) * 6], np.float32), np.array(3, np.int32)])
    rows, columns = np.arange(1000, dtype=np.int32), np.arange(1, 2001, dtype=np.int32)
    np.testing.assert_array_equal(first, 3 * rows[:, None] * columns)
    assert len(begun) == 1
