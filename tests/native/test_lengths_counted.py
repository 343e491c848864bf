"""How many numbers there are up to another one, in steps that only the run tells, is a length that the run computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less, LogicalAnd, NotEqual, SelectV2
from circlet.runtime.ops.elementwise import Add, Div, Maximum, Minimum, Mul, StablehloRemainder, Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, Pack, Slice, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Range, Reshape
from circlet.runtime.ops.unary import Tanh
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, model
from tests.native.test_lengths_told import LENGTHS
from tests.needs import NATIVE
from tests.ops.cases import check

pytestmark = NATIVE
BOOL = DType.BOOL
Write: TypeAlias = "Callable[[Graph, Value, Value], Sequence[Value]]"


def stepped(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Every k-th place, rows from there, and places from the last of at most k rows down, two at a time."""
    step = g(Maximum(), k, g.number(1), dtype=INTS)
    places = g(Range(), g.number(0), g.length(x, 0), step, dtype=INTS)
    last = g(Sub(), g(Minimum(), k, g.length(x, 0), dtype=INTS), g.number(1), dtype=INTS)
    down = g(Range(), last, g.number(-1), g.number(-2), dtype=INTS)
    return [places, g(Tanh(), g(Gather(), x, places)), g(Mul(), down, down, dtype=INTS)]


def halved(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Pairs of the first k rows, as many as there are, by what OpenVINO makes of a quotient that is rounded down: one
    rounded towards zero, less 1 where there is a remainder and one of both is negative."""
    rows = g(StridedSlice(), x, g.ints(0), g(Reshape(), k, g.ints(1), dtype=INTS), g.ints(1))
    n, two = g.length(rows, 0), g.number(2)
    rest = g(NotEqual(), g(StablehloRemainder(), n, two, dtype=INTS), g.number(0), dtype=BOOL)
    is_less = g(LogicalAnd(), rest, g(Less(), n, g.number(0), dtype=BOOL), dtype=BOOL)
    less = g(SelectV2(), is_less, g.number(-1), g.number(0), dtype=INTS)
    pairs = g(Add(), g(Div(), n, two, dtype=INTS), less, dtype=INTS)
    even = g(Slice(), rows, g.ints(0, 0), g(Pack(2), g(Mul(), pairs, two, dtype=INTS), g.number(6), dtype=INTS))
    return [g(Tanh(), g(Reshape(), even, g.ints(-1, 12))), pairs]


def spaced(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Every k-th row, and of every other one, from the second on, every k-th column but the last ones."""
    step = g(Reshape(), k, g.ints(1), dtype=INTS)
    rows = g(StridedSlice(begin_mask=1, end_mask=1), x, g.ints(0), g.ints(0), step)
    steps = g(Concatenation(0), g.ints(2), step, dtype=INTS)
    return [g(Tanh(), rows), g(StridedSlice(end_mask=1), x, g.ints(1, 0), g.ints(0, -1), steps), g.length(rows, 0)]


@pytest.mark.parametrize("write", [stepped, halved, spaced])
def test_one_function_serves_all_steps(write: Write, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(write), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        given = [floats(rows, 6), np.array(max(k, 1) if write is spaced else k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}


def test_numbers_from_zero_on_too(folder: object, compiled: list[str]) -> None:
    """So many numbers as there are rows, from a start on that the run tells, in steps that it tells, too."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, start, step = (g.builder.input(*each) for each in (
        ("x", DType.FLOAT32, (-1,)), ("start", INTS, ()), ("step", INTS, ())))
    limit = g(Add(), start, g(Mul(), g.length(x, 0), step, dtype=INTS), dtype=INTS)
    g.builder.output(g(Mul(), x, g(Cast(), g(Range(), start, limit, step, dtype=INTS))))
    session = circlet.Session(b.build(), "native")
    for rows, first, by in ((9, 2, 3), (40, 0, 1), (5, 7, 2), (12, 0, 4)):
        expected = np.arange(first, first + rows * by, by).astype(np.float32)
        found = session.invoke(0, [np.full(rows, 2, np.float32), np.array(first, np.int32), np.array(by, np.int32)])
        check(found[0], 2 * expected, None)
    assert len(compiled) == 1


def test_strides_of_any_sign(folder: object) -> None:
    def backwards(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        step = g(Reshape(), k, g.ints(1), dtype=INTS)
        return [g(Tanh(), g(StridedSlice(begin_mask=1, end_mask=1), x, g.ints(0), g.ints(0), step))]

    for backend in ("cpu", "native"):
        session = circlet.Session(model(backwards), backend=backend)
        for step in (2, -1, 3, -4, 2):
            x = floats(9, 6)
            check(session.invoke(0, [x, np.array(step, np.int32)])[0], np.tanh(x[::step]), 1e-5)
            with pytest.raises(ExecutionError, match="strides: expected none that is 0"):
                session.invoke(0, [x, np.array(0, np.int32)])


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
