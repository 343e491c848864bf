"""Lists of which loops take elements out, into which they put some, or of which they replace some, at positions that
the run tells, are part of the code for any lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.native.test_lengths import floats
from tests.native.test_lists_spread import expect, expect_tensors
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[b, t, 2] x, int64[k] at) => (float[m, r, s] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() ones = Constant<value = int64[1] {1}>()
    yes = Constant<value = bool {1}>() least = Constant<value = int64 {-1}>() three = Constant<value = int64 {3}>()
    size = Shape(x) steps = Gather(size, one) begin = Gather<axis = 1>(x, zero) half = Constant<value = float {0.5}>()
    """
TURN = "(int64 i, bool c, seq(float) items) => (bool more, seq(float) others) { more = Identity(yes) "
EMPTY = "empty = SequenceEmpty() "
FILL = EMPTY + "list = Loop(steps, yes, empty)<body = fill " + TURN + """row = Gather<axis = 1>(x, i)
    others = SequenceInsert(items, row) }> """
LOOP = "all = Loop(steps, yes, list)<body = body " + TURN + "row = Gather<axis = 1>(x, i) place = Gather(at, i) "
STACK = " y = ConcatFromSequence<axis = 1, new_axis = 1>(all) }"
POP = HEAD + FILL + """y2, left = Loop(steps, yes, begin, list)<body = body (int64 i, bool c, float[b, 2] v,
    seq(float) items) => (bool more, float[b, 2] new, seq(float) others) { more = Identity(yes)
    top = SequenceAt(items, PLACE) others = SequenceErase(items, PLACE) sum = Add(v, top) less = Mul(sum, half)
    new = Tanh(less) }> y = Unsqueeze(y2, ones) }"""

Elements = list[Any]


def elements(x: np.ndarray) -> Elements:
    """The rows, one for each step."""
    return [x[:, k] for k in range(x.shape[1])]


def popped(x: np.ndarray, at: np.ndarray, place: Callable[[int], int]) -> np.ndarray:
    """A state to which the elements are added that are taken out in each turn."""
    items, state = elements(x), x[:, 0]
    for k in range(x.shape[1]):
        state = np.tanh((state + items.pop(place(k))) * np.float32(0.5))
    return state[:, None]


def set_at(items: Elements, element: np.ndarray, place: int) -> None:
    """As the operators of a model: one element less, then one more."""
    items.pop(place)
    items.insert(place, element)


def ring(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Three states by turns, each of which becomes half of itself and a row."""
    items = [x[:, 0]] * 3
    for k in range(x.shape[1]):
        set_at(items, np.tanh(items[k % 3] * np.float32(0.5) + x[:, k]), k % 3)
    return np.stack(items, 1)


def replaced(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows, of which those at some places are replaced."""
    items = elements(x)
    for k in range(x.shape[1]):
        set_at(items, np.tanh(x[:, k]), at[k])
    return np.stack(items, 1)


def inserted(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows, each put before a place."""
    items = [x[:, 0], x[:, 0] * np.float32(0.5)]
    for k in range(x.shape[1]):
        items.insert(at[k], np.tanh(x[:, k]))
    return np.stack(items, 1)


def branching(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A row is pushed, or the last one is taken off if there are others."""
    items = [x[:, 0]]
    for k in range(x.shape[1]):
        if at[k] > 0:
            items.append(np.tanh(x[:, k]))
        elif len(items) > 1:
            items.pop()
    return np.stack(items, 1)


def restarted(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The rows behind the last positive place, with one before all."""
    items = [x[:, 0]]
    for k in range(x.shape[1]):
        items = [] if at[k] > 0 else [*items, np.tanh(x[:, k])]
    return np.stack([x[:, 0], *items], 1)


def tree(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows, each with what became of an earlier one added, if a place is positive."""
    items: Elements = []
    for k in range(x.shape[1]):
        items.append(np.tanh(x[:, k] + (items[k - at[k]] * np.float32(0.5) if at[k] > 0 and k else 0)))
    return np.stack(items, 1)


def both(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A state, to which each turn adds the list before a row is put behind it and the first one is exchanged."""
    items, state = [x[:, 0]], x[:, 0]
    for k in range(x.shape[1]):
        old, items = items, [np.tanh(x[:, k]), *items[1:], x[:, k]]
        state = np.tanh((state + np.stack(old).mean(0)) * np.float32(0.5))
    return np.stack([state, *items])


def ascending(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The rows of which no later one has a smaller sum."""
    items: Elements = []
    for k in range(x.shape[1]):
        while items and items[-1].sum() > x[:, k].sum():
            items.pop()
        items.append(x[:, k])
    return np.stack(items, 1)


def last_exchanged(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Rows, of which each takes the place of the last one, and goes behind itself where a place is positive."""
    items = [x[:, 0], x[:, 0]]
    for k in range(x.shape[1]):
        items[-1:] = [np.tanh(x[:, k]), *[x[:, k]] * int(at[k] > 0)]
    return np.stack(items, 1)


def kept(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The last three columns, one behind another."""
    found: np.ndarray = np.tanh(x[:, -3:])
    return found


def weighted(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A state to which one of two things is added by turns, of a list that nothing changes."""
    items, state = [x[:, 0], np.tanh(x[:, 0])], x[:, 0]
    for k in range(x.shape[1]):
        state = np.tanh((state + items[at[k] % 2]) * np.float32(0.5))
    return state[:, None]


CASES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "stack": (POP.replace("PLACE", "least"), lambda x, at: popped(x, at, lambda k: -1)),
    "queue": (POP.replace("PLACE", "zero"), lambda x, at: popped(x, at, lambda k: 0)),
    "told": (POP.replace("top =", """count = SequenceLength(items) each = Gather(at, i) place = Mod(each, count)
        top =""").replace("PLACE", "place"), lambda x, at: popped(x, at, lambda k: at[k] % (x.shape[1] - k))),
    "ring": (HEAD + "list = SequenceConstruct(begin, begin, begin) " + LOOP + """turn = Mod(i, three)
        old = SequenceAt(items, turn) part = Mul(old, half) sum = Add(part, row) new = Tanh(sum)
        rest = SequenceErase(items, turn) others = SequenceInsert(rest, new, turn) }> """ + STACK, ring),
    "replaced": (HEAD + FILL + LOOP + """new = Tanh(row) rest = SequenceErase(items, place)
        others = SequenceInsert(rest, new, place) }> """ + STACK, replaced),
    "looked at between": (HEAD + FILL + LOOP + """new = Tanh(row) rest = SequenceErase(items, place)
        count = SequenceLength(rest) one_less = Sub(steps, one) is = Equal(count, one_less) f = Cast<to = 1>(is)
        same = Mul(new, f) others = SequenceInsert(rest, same, place) }> """ + STACK, replaced),
    "inserted": (HEAD + "small = Mul(begin, half) list = SequenceConstruct(begin, small) " + LOOP + """new = Tanh(row)
        others = SequenceInsert(items, new, place) }> """ + STACK, inserted),
    "branching": (HEAD + "list = SequenceConstruct(begin) " + LOOP + """count = SequenceLength(items)
        is_push = Greater(place, zero) others = If(is_push)<then_branch = push () => (seq(float) with) { new = Tanh(row)
            with = SequenceInsert(items, new) }, else_branch = look () => (seq(float) less) {
            has_more = Greater(count, one) less = If(has_more)<then_branch = pop () => (seq(float) rest) {
                rest = SequenceErase(items) }, else_branch = stay () => (seq(float) same) { same = Identity(items) }>
            }> }> """ + STACK, branching),
    "restarted": (HEAD + "list = SequenceConstruct(begin) " + LOOP.replace("all =", "last =") + """new = Tanh(row)
        is_end = Greater(place, zero) others = If(is_end)<then_branch = end () => (seq(float) fresh) {
            fresh = SequenceEmpty() }, else_branch = on () => (seq(float) with) { with = SequenceInsert(items, new) }>
        }> all = SequenceInsert(last, begin, zero) """ + STACK, restarted),
    "tree, of a rank that nobody says": (HEAD + EMPTY.replace("empty", "list") + LOOP + """
        is_there = Greater(place, zero) is_later = Greater(i, zero) has = And(is_there, is_later)
        sum = If(has)<then_branch = add () => (float with) { back = Sub(i, place) old = SequenceAt(items, back)
            part = Mul(old, half) with = Add(row, part) }, else_branch = none () => (float same) {
            same = Identity(row) }> new = Tanh(sum) others = SequenceInsert(items, new) }> """ + STACK, tree),
    "old and new": (HEAD + """list = SequenceConstruct(begin) v, all_of = Loop(steps, yes, begin, list)<body = body
        (int64 i, bool c, float[b, 2] u, seq(float) items) => (bool more, float[b, 2] w, seq(float) others) {
            more = Identity(yes) row = Gather<axis = 1>(x, i) longer = SequenceInsert(items, row) new = Tanh(row)
            rest = SequenceErase(longer, zero) others = SequenceInsert(rest, new, zero)
            old = ConcatFromSequence<axis = 0, new_axis = 1>(items) mean = ReduceMean<axes = [0], keepdims = 0>(old)
            sum = Add(u, mean) part = Mul(sum, half) w = Tanh(part) }>
        all = SequenceInsert(all_of, v, zero) """ + STACK.replace("<axis = 1", "<axis = 0"), both),
    "ascending, of an inner loop": (HEAD + EMPTY.replace("empty", "list") + LOOP + """
        low = ReduceSum<keepdims = 0>(row) count = SequenceLength(items) is_some = Greater(count, zero)
        left = Loop("", is_some, items)<body = inner (int64 j, bool d, seq(float) now) => (bool again, seq(float) then)
            { top = SequenceAt(now, least) high = ReduceSum<keepdims = 0>(top) is_more = Greater(high, low)
            then = If(is_more)<then_branch = pop () => (seq(float) rest) { rest = SequenceErase(now, least) },
                else_branch = stay () => (seq(float) same) { same = Identity(now) }>
            number = SequenceLength(then) is_left = Greater(number, zero) again = And(is_more, is_left) }>
        others = SequenceInsert(left, row) }> """ + STACK, ascending),
    "last exchanged, without a place": (HEAD + "list = SequenceConstruct(begin, begin) " + LOOP + """new = Tanh(row)
        rest = SequenceErase(items) longer = SequenceInsert(rest, new) is_more = Greater(place, zero)
        others = If(is_more)<then_branch = more_of () => (seq(float) with) { with = SequenceInsert(longer, row) },
            else_branch = stay () => (seq(float) same) { same = Identity(longer) }> }> """ + STACK, last_exchanged),
    "kept": (HEAD + EMPTY.replace("empty", "list") + LOOP + """next = Add(i, one) from = Reshape(i, ones)
        to = Reshape(next, ones) part = Slice(x, from, to, ones) new = Tanh(part) longer = SequenceInsert(items, new)
        count = SequenceLength(longer) is_long = Greater(count, three)
        others = If(is_long)<then_branch = drop () => (seq(float) rest) { rest = SequenceErase(longer, zero) },
            else_branch = stay () => (seq(float) same) { same = Identity(longer) }> }>
        y = ConcatFromSequence<axis = 1>(all) }""", kept),
    "read alone": (HEAD + """other = Tanh(begin) list = SequenceConstruct(begin, other) two = Add(one, one)
        z = Loop(steps, yes, begin)<body = body (int64 i, bool c, float[b, 2] v) => (bool more, float[b, 2] new) {
        more = Identity(yes) each = Gather(at, i) place = Mod(each, two) one_of = SequenceAt(list, place)
        sum = Add(v, one_of) part = Mul(sum, half) new = Tanh(part) }> y = Unsqueeze(z, ones) }""", weighted),
}
SIZES = ((2, 7), (3, 40), (1, 6), (4, 3), (2, 100), (2, 7), (1, 3))


def given(size: tuple[int, int]) -> dict[str, Any]:
    """Of a batch and steps: x, and places that lists of two elements have, from both ends."""
    random = np.random.default_rng(size)
    return {"x": random.standard_normal((*size, 2)).astype(np.float32), "at": random.integers(-1, 2, size[1])}


def runs(name: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, and what y is of them."""
    inputs = [given(size) for size in SIZES]
    return [(each, CASES[name][1](each["x"], each["at"])) for each in inputs]


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    expect(circlet.Session(load(CASES[name][0], 17), "native"), runs(name), 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str) -> None:
    expect_tensors(load(CASES[name][0], 17), {"LIST_ERASE", "LIST_INSERT", "LIST_SET", "LIST_PART"}, runs(name), 1e-4)


@pytest.mark.parametrize(("name", "at", "message"), [
    ("replaced", [0, 3, 0], "expected -3 to 2 for 3 elements, found 3"),
    ("replaced", [0, -4, 0], "expected -3 to 2 for 3 elements, found -4"),
    ("replaced", [0, -3, 0], "expected -2 to 2 for 2 elements, found -3"),
    ("inserted", [0, 4, 0], "expected -3 to 3 for 3 elements, found 4"),
    ("inserted", [0, -4, 0], "expected -3 to 3 for 3 elements, found -4")])
def test_places_that_are_not_there_are_errors(name: str, at: list[int], message: str, folder: Path) -> None:
    for backend in ("cpu", "native"):
        session, good = circlet.Session(load(CASES[name][0], 17), backend), given((1, 3))
        for _ in range(2):
            np.testing.assert_allclose(session.run(good)["y"], CASES[name][1](good["x"], good["at"]), 1e-4, 1e-4)
            with pytest.raises(circlet.ExecutionError, match=message):
                session.run({"x": good["x"], "at": np.array(at)})


def test_nothing_is_taken_of_a_list_without_elements(folder: Path) -> None:
    text = POP.replace("PLACE", "least").replace("Loop(steps, yes, begin", "Loop(turns, yes, begin").replace(
        "y2, left", "turns = Gather(at, zero) y2, left")
    x = floats(1, 3, 2)
    for backend in ("cpu", "native"):
        session = circlet.Session(load(text, 17), backend)
        for _ in range(2):
            np.testing.assert_allclose(session.run({"x": x, "at": np.array([3])})["y"],
                                       popped(x, x, lambda k: -1), 1e-4, 1e-4)
            with pytest.raises(circlet.ExecutionError, match="for 0 elements, found -1"):
                session.run({"x": x, "at": np.array([4])})
