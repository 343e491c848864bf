"""Numbers that only a run tells, and that cancel in the lengths that are computed with them, may be any: code for them
is one function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.elementwise import Add, FloorDiv, Mul, Sub
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Fill, Range, Reshape
from circlet.runtime.ops.unary import Neg
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, Write, model

STARTS = (3, 0, -7, 5000, -(1 << 29), 2, 0)


def counted(g: Graph, x: Value, k: Value, step: Value) -> Value:
    """As ONNX's Range from k up to k and a step for each row of x comes down to RANGE."""
    limit = g(Add(), k, g(Mul(), g.length(x, 0), step, dtype=INTS), dtype=INTS)
    turns = g(Neg(), g(FloorDiv(), g(Sub(), k, limit, dtype=INTS), step, dtype=INTS), dtype=INTS)
    numbers = g(Range(), g.number(0), turns, g.number(1), dtype=INTS)
    return g(Add(), g(Mul(), numbers, step, dtype=INTS), k, dtype=INTS)


def beside_rows(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    numbers = counted(g, x, k, g.number(3))
    column = g(Reshape(), g(Cast(), numbers), g.ints(-1, 1))
    return [numbers, g(Mul(), x, column)]


def told_later(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The start is a length of its own behind that, too."""
    return [*beside_rows(g, x, k), g(Fill(), g(Reshape(), k, g.ints(1), dtype=INTS), g.number(2.0))]


def _expect(write: Write, rows: int, k: int, session: circlet.Session) -> None:
    x = floats(rows, 6)
    found = session.invoke(0, [x, np.array(k, np.int32)])
    numbers = (k + np.arange(rows, dtype=np.int64) * 3).astype(np.int32)
    np.testing.assert_array_equal(found[0], numbers)
    np.testing.assert_array_equal(found[1], x * numbers.astype(np.float32)[:, None])
    if write is told_later:
        np.testing.assert_array_equal(found[2], np.full(k, 2, np.float32))


@pytest.mark.parametrize("write", [beside_rows, told_later])
def test_starts_that_cancel_are_any(write: Write, folder: object, compiled: list[str]) -> None:
    session = circlet.Session(model(write), backend="native")
    for n, k in enumerate(STARTS):
        if write is beside_rows or k > 0:
            _expect(write, 8 + n, k, session)
    assert len(compiled) == 1


def test_those_that_would_overflow_are_left_to_numpy(folder: object) -> None:
    session = circlet.Session(model(beside_rows), backend="native")
    for k in (5, (1 << 31) - 40, (1 << 31) - 8, -(1 << 31), 6):
        _expect(beside_rows, 9, k, session)
