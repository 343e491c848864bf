"""Lists of elements of other lengths, of which loops take some out, into which they put some, or of which they replace
some, at positions that the run tells, are part of the code for any lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.native.test_lists_spread import expect_tensors
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[n, 2] x, int64[n] at) => (float[m, r] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() ones = Constant<value = int64[1] {1}>()
    none = Constant<value = int64[1] {0}>() yes = Constant<value = bool {1}>() half = Constant<value = float {0.5}>()
    least = Constant<value = int64 {-1}>() two = Constant<value = int64[1] {2}>() size = Shape(x)
    steps = Gather(size, zero) start = Slice(x, none, ones) pair = Slice(x, none, two)
    first = Squeeze(start, none) """
LIST = "list = SequenceConstruct(start, pair, start) "
LOOP = """all = Loop(steps, yes, list)<body = body (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) others) { more = Identity(yes) place = Gather(at, i) from = Reshape(i, ones)
    to = Add(from, ones) row = Slice(x, from, to, none) """
FILL = "empty = SequenceEmpty() " + LOOP.replace("all = Loop(steps, yes, list)<body = body", """
    filled = Loop(steps, yes, empty)<body = fill""")
JOIN = " y = ConcatFromSequence<axis = 0>(all) }"
STATE = LOOP.replace("all = Loop(steps, yes, list)", "y2, all = Loop(steps, yes, first, list)").replace(
    "bool c, ", "bool c, float[2] v, ").replace("(bool more,", "(bool more, float[2] w,")
GIVE = " y = Unsqueeze(y2, none) }"
MEAN = """ mean = ReduceMean<axes = [0], keepdims = 0>(part) sum = Add(v, mean) less = Mul(sum, half) w = Tanh(less) """
LONGER = "old = SequenceAt(items, place) long = Concat<axis = 0>(old, row) "
SET = "rest = SequenceErase(items, place) others = SequenceInsert(rest, long, place) "
HEADS = "before = Abs(place) count_of = Reshape(before, ones) some = Slice(x, none, count_of, none) "

Elements = list[Any]


def begun(x: np.ndarray) -> Elements:
    """What lists begin with."""
    return [x[:1], x[:2], x[:1]]


def moved(v: np.ndarray, part: np.ndarray) -> np.ndarray:
    """A state to which the mean of a part is added."""
    found: np.ndarray = np.tanh((v + part.mean(0)) * np.float32(0.5))
    return found


def grown(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows are put behind the elements at some places, as of groups."""
    items = begun(x)
    for k, place in enumerate(at):
        items.insert(place, np.concatenate([items.pop(place), x[k:k + 1]]))
    return np.concatenate(items)


def inserted(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """As many first rows as places say are put before these, none among them."""
    items = begun(x)
    for place in at:
        items.insert(place, x[:abs(place)])
    return np.concatenate(items)


def queued(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The first element is taken, and goes behind all with a row more."""
    items, state = begun(x), x[0]
    for k in range(len(x)):
        part = items.pop(0)
        state = moved(state, part)
        items.append(np.concatenate([part, x[k:k + 1]]))
    return np.expand_dims(state, 0)


def stacked(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows are pushed with others, or the last ones are taken off if there are more."""
    items = begun(x)
    for k, place in enumerate(at):
        if place >= 0:
            items.append(np.concatenate([x[:place], x[k:k + 1]]))
        elif len(items) > 1:
            items.pop()
    return np.concatenate(items)


def both(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Those that are only appended to in one loop, and those that are changed in another one."""
    return np.concatenate([*(x[:abs(each)] for each in at), grown(x, at)])


CASES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "set": (HEAD + LIST + LOOP + LONGER + SET + "}>" + JOIN, grown),
    "inserted": (HEAD + LIST + LOOP + HEADS + "others = SequenceInsert(items, some, place) }>" + JOIN, inserted),
    "queue": (HEAD + LIST + STATE + """part = SequenceAt(items, zero) rest = SequenceErase(items, zero)
        long = Concat<axis = 0>(part, row) others = SequenceInsert(rest, long) """ + MEAN + "}>" + GIVE, queued),
    "stack": (HEAD + LIST + LOOP + """count = SequenceLength(items) is_pop = Less(place, zero)
        others = If(is_pop)<then_branch = look () => (seq(float) less) { has_more = Greater(count, one)
            less = If(has_more)<then_branch = pop () => (seq(float) rest) { rest = SequenceErase(items) },
                else_branch = stay () => (seq(float) same) { same = Identity(items) }> },
        else_branch = push () => (seq(float) with) { """ + HEADS + """long = Concat<axis = 0>(some, row)
            with = SequenceInsert(items, long) }> }>""" + JOIN, stacked),
    "beside others": (HEAD + LIST + FILL + HEADS + """others = SequenceInsert(items, some) }>
        a = ConcatFromSequence<axis = 0>(filled) """ + LOOP + LONGER + SET + """}>
        b = ConcatFromSequence<axis = 0>(all) y = Concat<axis = 0>(a, b) }""", both)}
SIZES = (7, 40, 2, 3, 100, 7, 12, 2)


def given(size: int) -> dict[str, Any]:
    """Rows, and places that lists of two elements have, from both ends."""
    random = np.random.default_rng(size)
    return {"x": random.standard_normal((size, 2)).astype(np.float32), "at": random.integers(-1, 2, size)}


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    text, of = CASES[name]
    session = circlet.Session(load(text, 17), "native")
    for each in map(given, SIZES):
        np.testing.assert_allclose(session.run(each)["y"], of(each["x"], each["at"]), 1e-4, 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str) -> None:
    text, of = CASES[name]
    runs = [(each, of(each["x"], each["at"])) for each in map(given, SIZES)]
    expect_tensors(load(text, 17), {"LIST_ERASE_PART", "LIST_INSERT_PART"}, runs, 1e-4)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("name", "at", "message"), [
    ("set", [0, 3, 0], "expected -3 to 2 for 3 elements, found 3"),
    ("set", [0, -4, 0], "expected -3 to 2 for 3 elements, found -4"),
    ("set", [0, -3, 0], "expected -2 to 2 for 2 elements, found -3"),
    ("inserted", [0, 5, 0], "expected -4 to 4 for 4 elements, found 5"),
    ("inserted", [-4, 0, 0], "expected -3 to 3 for 3 elements, found -4")])
def test_places_that_are_not_there_are_errors(name: str, at: list[int], message: str, backend: str, folder: Path
                                              ) -> None:
    session, good = circlet.Session(load(CASES[name][0], 17), backend), given(3)
    for _ in range(2):
        np.testing.assert_allclose(session.run(good)["y"], CASES[name][1](good["x"], good["at"]), 1e-4, 1e-4)
        with pytest.raises(circlet.ExecutionError, match=message):
            session.run({"x": good["x"], "at": np.array(at)})


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_elements_that_do_not_fit_are_errors(backend: str, folder: Path) -> None:
    text = CASES["set"][0].replace("row = Slice(x, from, to, none)", """one_row = Slice(x, from, to, none)
        width = Add(place, two) row = Slice(one_row, none, width, ones)""")
    session, good = circlet.Session(load(text, 17), backend), {**given(3), "at": np.array([0, 1, 0])}
    for _ in range(2):
        np.testing.assert_allclose(session.run(good)["y"], grown(good["x"], good["at"]), 1e-4, 1e-4)
        with pytest.raises(circlet.ExecutionError):
            session.run({**good, "at": np.array([0, -1, 0])})
