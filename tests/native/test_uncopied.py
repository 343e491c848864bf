"""Large inputs of open length are read where a caller has them, and large results given away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import LimitError
from circlet.runtime.exec.frames.large_frame import LargeFrame
from circlet.runtime.exec.frames.open_frame import OpenFrame
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.memory import LARGE, Room, allocate
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, StridedSlice
from tests.needs import NATIVE

pytestmark = NATIVE
WIDE = 64
ROWS = LARGE // (4 * WIDE)
"""From so many on an array of `WIDE` columns is large."""


def _caches(rows: int = -1) -> Model:
    """Two caches (rows, WIDE) and a row: both with the row behind them, their sum, and the first one as it is."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    one, other = (main.input(name, DType.FLOAT32, (rows, WIDE)) for name in ("one", "other"))
    row = main.input("row", DType.FLOAT32, (1, WIDE))
    for each in (one, other):
        main.output(main.apply(Concatenation(), each, row))
    main.output(main.apply(Add(), one, other))
    main.output(one)
    return builder.build()


def _aligned(random: np.random.Generator, rows: int) -> Array:
    found = allocate((rows, WIDE), np.dtype(np.float32))
    found[...] = random.random(found.shape)
    return found


def _elsewhere(random: np.random.Generator, rows: int) -> Array:
    """One that begins between cache lines."""
    found: Array = allocate((rows * WIDE + 1,), np.dtype(np.float32))[1:].reshape(rows, WIDE)
    found[...] = random.random(found.shape)
    return found


def _odd(random: np.random.Generator, rows: int) -> Array:
    """One whose elements lie across words."""
    found = np.empty(rows * WIDE * 4 + 1, np.uint8)[1:].view(np.float32).reshape(rows, WIDE)
    found[...] = random.random(found.shape)
    return found


def _turned(random: np.random.Generator, rows: int) -> Array:
    """One whose rows do not lie one after another."""
    return np.asfortranarray(_aligned(random, rows))


def _check(results: list[Array], one: Array, other: Array, row: Array) -> None:
    wanted = np.concatenate([one, row]), np.concatenate([other, row]), one + other, one
    for found, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("made", [_aligned, _elsewhere, _odd, _turned])
def test_inputs_of_any_kind(made: Callable[[np.random.Generator, int], Array]) -> None:
    session, random = circlet.Session(_caches(), "native"), np.random.default_rng(1)
    for rows in (ROWS, 3, ROWS + 5, ROWS + 5, ROWS - 1, 2 * ROWS):
        one, other, row = made(random, rows), made(random, rows), made(random, 1)
        before = one.copy(), other.copy()
        _check(session.invoke(0, [one, other, row]), one, other, row)
        np.testing.assert_array_equal((one, other), before)
        _check(session.invoke(0, [one, one, row]), one, one, row)


@pytest.mark.parametrize("made", [_aligned, _elsewhere, _odd, _turned])
@pytest.mark.parametrize("rows", [ROWS, ROWS - 1])
def test_inputs_of_fixed_shape(rows: int, made: Callable[[np.random.Generator, int], Array], folder: Path) -> None:
    path, random = folder.parent / "caches.tflite", np.random.default_rng(1)
    circlet.save(_caches(rows), path)
    one, other, row = made(random, rows), made(random, rows), made(random, 1)
    circlet.Session(path, "native").invoke(0, [one, other, row])
    session = circlet.Session(path, "native")
    kept: list[tuple[list[Array], list[Array]]] = []
    for _ in range(4):
        one, other, row = made(random, rows), made(random, rows), made(random, 1)
        before = one.copy(), other.copy()
        for results in (session.invoke(0, [one, other, row]), [*session.run([one, other, row]).values()]):
            _check(results, one, other, row)
            kept.append((results, [each.copy() for each in results]))
        np.testing.assert_array_equal((one, other), before)
    for found, copies in kept:
        for each, copy in zip(found, copies, strict=True):
            np.testing.assert_array_equal(each, copy)
            each[...] = 0  # nobody else has it
    _check(session.invoke(0, [one, other, row]), one, other, row)
    frame, = next(iter(session._frames._idle.values()))
    if rows == ROWS:
        assert isinstance(frame, LargeFrame)
        assert not any(np.shares_memory(mine, theirs) for mine in (*frame.inputs, *frame.outputs)
                       for found, _ in kept for theirs in (*found, one, other))


def test_results_are_the_callers_and_may_be_inputs() -> None:
    session, random = circlet.Session(_caches(), "native"), np.random.default_rng(1)
    one, other = _aligned(random, ROWS), _aligned(random, ROWS)
    kept: list[tuple[list[Array], list[Array]]] = []
    for _ in range(6):
        row = _aligned(random, 1)
        results = session.invoke(0, [one, other, row])
        _check(results, one, other, row)
        kept.append((results, [each.copy() for each in results]))
        one, other = results[:2]
    for found, copies in kept:
        for each, copy in zip(found, copies, strict=True):
            np.testing.assert_array_equal(each, copy)
            each[...] = 0  # nobody else has it
    _check(session.invoke(0, [one, other, row]), one, other, row)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01])
def test_results_of_which_only_the_run_tells_the_length(share: float) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, WIDE))
    first = main.apply(StridedSlice(shrink_axis_mask=2, begin_mask=1, end_mask=1), x, main.constant([0, 0]),
                       main.constant([0, 1]), main.constant([1, 1]))
    few = main.apply(Less(), first, main.constant(share))
    main.output(main.apply(GatherNd(), x, main.apply(Where(), few)))
    session, random = circlet.Session(builder.build(), "native"), np.random.default_rng(1)
    kept: list[tuple[Array, Array]] = []
    for rows in (3 * ROWS, 3 * ROWS, 5, 2 * ROWS, 4 * ROWS):
        given = _aligned(random, rows)
        found, = session.invoke(0, [given])
        kept.append((found, given[given[:, 0] < np.float32(share)]))
        np.testing.assert_array_equal(*kept[-1], strict=True)
    for found, wanted in kept:
        np.testing.assert_array_equal(found, wanted)


def _frame(session: circlet.Session) -> OpenFrame:
    frame = session._frames.latest[0]
    assert isinstance(frame, OpenFrame)
    return frame


def test_nothing_is_kept_of_what_was_given_away() -> None:
    session, random = circlet.Session(_caches(), "native"), np.random.default_rng(1)
    one = _aligned(random, ROWS)
    results = session.invoke(0, [one, one, _aligned(random, 1)])
    frame = _frame(session)
    assert frame.size < 3 * one.nbytes  # the own memory of two inputs, of which nothing is touched
    assert not any(np.shares_memory(each, one) for each in results)
    assert frame.run.room.taken < 3 * one.nbytes


def test_results_are_within_the_limit_of_a_run_and_not_counted_behind_it() -> None:
    random = np.random.default_rng(1)
    one, row = _aligned(random, ROWS), _aligned(random, 1)
    session = circlet.Session(_caches(), "native", limits=Limits(memory=8 * one.nbytes))
    held = [session.invoke(0, [one, one, row]) for _ in range(10)]
    for each in held:
        _check(each, one, one, row)
    small = circlet.Session(_caches(), "native", limits=Limits(memory=one.nbytes))
    with pytest.raises(LimitError, match=f"memory={one.nbytes}"):
        small.invoke(0, [one, one, row])


def test_what_is_released_is_counted_no_more() -> None:
    room = Room()
    one, other = (room.allocate((size,), np.dtype(np.uint8)) for size in (1000, 3 << 20))
    room.release(other)
    assert room.taken == 1000
    room.release(other)
    del other
    assert room.taken == 1000
    del one
    assert room.taken == 0
