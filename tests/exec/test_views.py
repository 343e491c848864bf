"""Inputs and results at lengths that change."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import LimitError, Place
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.exec.frames.layout_code import layout_code
from circlet.runtime.exec.frames.open_layout import OpenLayout
from circlet.runtime.exec.frames.views import MOST_KEPT, View, Views
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.memory import LARGE, Room
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.terms import Symbol, Terms
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from tests.needs import NATIVE

LENGTH: Terms = ((1, (Symbol(0),)),)
BYTES: Terms = ((4, (Symbol(0),)),)
TWO: Terms = ((2, ()),)
LAYOUT = Layout(Place(0, "main", 0, ""), (0,), (1,), (Border(0, DType.INT32, (LENGTH,), 5),
                                                   Border(1, DType.INT32, (LENGTH, TWO), 9)),
                (Buffer(5, BYTES), Buffer(9, ((8, (Symbol(0),)),))))


OPEN = OpenLayout(layout_code(LAYOUT))


def at(views: Views, length: int) -> View:
    sizes = OPEN.fit(((length,),), (), True)
    assert sizes is not None
    return views.at(sizes)


def test_shapes_follow_from_lengths() -> None:
    views = Views(OPEN, {}, Run(Variables()))
    for length in (3, 1, 7):
        view = at(views, length)
        assert [each.shape for each in (*view.inputs, *view.outputs)] == [(length,), (length, 2)]
        assert [each.dtype for each in view.arrays.values()] == [np.int32, np.int32]


def test_they_are_kept_as_long_as_memory_stays_where_it_is() -> None:
    views = Views(OPEN, {}, Run(Variables()))
    for length in (20, 10):
        views.keep(((length,),), at(views, length))
    assert [*views.kept] == [((20,),), ((10,),)]
    assert np.shares_memory(views.kept[(10,),].inputs[0], views.kept[(20,),].inputs[0])
    at(views, 1 << 20)
    assert not views.kept


def test_so_many_are_kept() -> None:
    views = Views(OPEN, {}, Run(Variables()))
    at(views, MOST_KEPT + 1)
    for length in range(1, MOST_KEPT + 2):
        views.keep(((length,),), at(views, length))
        assert views.kept[(length,),].inputs[0].shape == (length,)
        assert len(views.kept) <= MOST_KEPT


def test_what_there_is_no_memory_for_is_not_kept() -> None:
    run = Run(Variables())
    run.room.limit(10_000)
    views = Views(OPEN, {}, run)
    at(views, 10)
    with pytest.raises(LimitError, match="memory=10000"):
        at(views, 1 << 20)
    assert at(views, 10).inputs[0].shape == (10,)


@NATIVE
def test_a_length_that_comes_again_is_computed_in_the_memory_that_there_is() -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.INT32, (-1,))
    main.output(main.apply(Add(), main.apply(Add(), x, x), x))
    session = circlet.Session(builder.build(), "native")
    for length in (3, 5, 3, 300_000, 5, 3, 300_000, 3_000_000, 5, 300_000, 3):
        given = np.arange(length, dtype=np.int32)
        found, = session.invoke(0, [given])
        np.testing.assert_array_equal(found, 3 * given, strict=True)


@NATIVE
def test_large_results_stay_what_they_are_whatever_runs_after_them() -> None:
    """Of shapes that come again and of others, held or dropped."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.INT32, (-1,))
    twice = main.apply(Add(), x, x)
    main.output(twice)
    main.output(main.apply(Add(), twice, x))
    session, held = circlet.Session(builder.build(), "native"), []
    for turn, length in enumerate((70_000, 70_000, 70_000, 5, 70_000, 90_000, 70_000, 70_000, 90_000, 90_000)):
        given = np.arange(turn, turn + length, dtype=np.int32)
        found = session.invoke(0, [given])
        if turn % 3:
            held.append((given, found))
        for of, (two, three) in [*held, (given, found)]:
            np.testing.assert_array_equal(two, 2 * of, strict=True)
            np.testing.assert_array_equal(three, 3 * of, strict=True)


@NATIVE
def test_large_results_for_which_there_is_no_memory_are_computed_once_there_is() -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.INT32, (-1,))
    main.output(main.apply(Add(), x, x))
    limits = Limits(memory=4_000_000)
    session, given = circlet.Session(builder.build(), "native", limits=limits), np.arange(100_000, dtype=np.int32)
    held = []
    for _ in range(12):
        held.append(session.invoke(0, [given])[0])
    for each in held:
        np.testing.assert_array_equal(each, 2 * given, strict=True)
    with pytest.raises(LimitError, match="memory=4000000"):
        session.invoke(0, [np.zeros(2_000_000, np.int32)])
    np.testing.assert_array_equal(session.invoke(0, [given])[0], 2 * given, strict=True)


@pytest.mark.parametrize(("had", "size", "made"), [
    (0, 10, 1 << 15), (0, 40_000, 80_000), (0, LARGE, LARGE), (1 << 14, (1 << 14) + 1, 1 << 15),
    (3 << 18, (3 << 18) + 1, (3 << 19))])
def test_memory_that_grows_has_room_for_more(had: int, size: int, made: int) -> None:
    assert Room().grown(had, size).nbytes == made


def test_large_memory_grows_where_it_is_as_far_as_there_is_room() -> None:
    room = Room()
    room.limit(100 << 20)
    assert room.grown(0, 2 << 20).nbytes == 8 << 20
    held = room.grown(0, 20 << 20)
    assert held.nbytes == (20 << 20) + (100 << 20) // 16


def test_memory_grows_to_what_is_needed_where_there_is_no_room_for_more() -> None:
    room = Room()
    room.limit(1000)
    held = room.grown(0, 600)
    assert held.nbytes == 600
    with pytest.raises(LimitError, match="memory=1000"):
        room.grown(0, 601)
