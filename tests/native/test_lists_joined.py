"""Lists that are read by position, joined or not, are part of the code for any lengths, of their elements too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.native.test_lengths import floats
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.native.test_lists_counted import JOINED, columns  # noqa: E402
from tests.native.test_lists_spread import NUMBERS, expect, expect_tensors  # noqa: E402
from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = "g (float[b, t, 2] x, int64 k) => (float[m, r, s] y) {" + NUMBERS + """ ones = Constant<value = int64[1] {1}>()
    size = Shape(x) steps = Gather(size, one) two = Add(one, one) minus = Constant<value = int64[1] {-1}>()
    far = Constant<value = int64[1] {9223372036854775807}>() nought = Constant<value = float {0.0}>()
    quarter = Constant<value = float {0.25}>()
    start = Slice(x, none, ones, ones) empty = SequenceEmpty() begun = SequenceConstruct(start) """
LOOP = """all = Loop(steps, yes, LIST)<body = body (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) longer) { more = Identity(yes) next = Add(i, one)
    from = Reshape(i, ones) to = Reshape(next, ones) column = Slice(x, from, to, ones) """
PAIRS = "up = Add(steps, one) pairs = Div(up, two) " + LOOP.replace("LIST", "empty").replace("steps", "pairs").replace(
    "from = Reshape(i, ones) to = Reshape(next, ones)",
    "at = Mul(i, two) end = Add(at, two) from = Reshape(at, ones) to = Reshape(end, ones)")
STATE = LOOP.replace("all = Loop(steps, yes, LIST)", "last_of, all = Loop(steps, yes, state, LIST)").replace(
    "c, seq", "c, float[m, 1, s] v, seq").replace("bool more, seq", "bool more, float[m, 1, s] w, seq")
Y = "y = Identity(joint) }"
ONE_OF = "one_of = SequenceAt(all, k) sum = ReduceSum<keepdims = 1>(one_of, ones) y = Add(joint, sum) }"


def damped(x: np.ndarray) -> np.ndarray:
    """What states are made of, so that differences of rounding do not grow from one to the next."""
    found: np.ndarray = np.tanh(x * np.float32(0.25))
    return found


def continued(x: np.ndarray, k: int) -> np.ndarray:
    """All of x, then as many columns, each made of the one before."""
    found = [x]
    for _ in columns(x):
        found.append(np.tanh(found[-1][:, -1:] + x[:, :1]))
    return np.concatenate(found, 1)


def halting(x: np.ndarray, k: int) -> np.ndarray:
    """Pairs of columns, of which the last may be one, each with the sum of the pair before."""
    found: list[np.ndarray] = []
    for at in range(0, x.shape[1], 2):
        before = found[-1].sum(1, keepdims=True) if found else np.float32(0)
        found.append(damped(x[:, at:at + 2] + before))
    return np.concatenate(found, 1)


def chosen(x: np.ndarray, k: int) -> np.ndarray:
    """One column or two, by its sum, and the sum of the element at k."""
    found = [x[:, at:at + 1 + (each.sum() > 0)] for at, each in enumerate(columns(x))]
    joint: np.ndarray = np.concatenate(found, 1) + found[k].sum(1, keepdims=True)
    return joint


def all_before(x: np.ndarray, k: int) -> np.ndarray:
    """Each column with what all before make, which are gone through."""
    found = [x[:, :1]]
    for each in columns(x):
        total = np.zeros_like(found[0])
        for other in found:
            total = damped(total + other)
        found.append(each + total)
    return np.concatenate(found, 1)


def kept(x: np.ndarray, k: int) -> np.ndarray:
    """The first column and those of positive sum, each with the one kept before, and how many there are."""
    found = [x[:, :1]]
    for each in columns(x):
        found += [np.tanh(each + found[-1])] if each.sum() > 0 else []
    joint: np.ndarray = np.concatenate(found, 1) + np.float32(len(found))
    return joint


def middle(x: np.ndarray, k: int) -> np.ndarray:
    """Each column and all of x in the end, of which the element in the middle is read."""
    found = [*map(np.tanh, columns(x)), x]
    joint: np.ndarray = np.concatenate(found, 1) + found[len(found) // 2].sum(1, keepdims=True)
    return joint


def halves(x: np.ndarray, k: int) -> np.ndarray:
    """The sum of each pair of columns, of which the last may be one, last pair first, as turns go through them."""
    found = [np.tanh(x[:, at:at + 2]) for at in range(0, x.shape[1], 2)]
    state: np.ndarray = found[0].sum(1, keepdims=True)
    for each in found[::-1]:
        state = np.tanh(state + each.sum(1, keepdims=True))
    return state


def carried(x: np.ndarray, k: int) -> np.ndarray:
    """A state with what it was before added, and where the list begins."""
    state = np.tanh(x[:, :1])
    found = [state]
    for _ in columns(x):
        state = damped(state + found[-1] + found[0])
        found.append(state)
    return np.concatenate(found, 1)


def delayed(x: np.ndarray, k: int) -> np.ndarray:
    """A state to which columns are added, and what it was three turns before."""
    state, found = np.tanh(x[:, :1]), list[np.ndarray]()
    for at, each in enumerate(columns(x)):
        state = damped(state + each)
        if at > 2:
            state = damped(state + found[at - 3])
        found.append(state)
    return np.concatenate(found, 1)


def rows(x: np.ndarray, k: int) -> np.ndarray:
    """The same of the rows of the first matrix."""
    return halves(x[:1], k)


def latest(x: np.ndarray, k: int) -> np.ndarray:
    """What is made of the first column and of all that was made, as often as there are columns of positive sum."""
    found = [x[:, :1]]
    for each in columns(x):
        found += [np.tanh(found[-1] + found[0])] if each.sum() > 0 else []
    return found[-1]


CASES: dict[str, tuple[str, Callable[[np.ndarray, int], np.ndarray]]] = {
    "continued": (HEAD + "list = SequenceConstruct(x) " + LOOP.replace("LIST", "list") + """
        last = SequenceAt(items, least) tail = Slice(last, minus, far, ones) sum = Add(tail, start) new = Tanh(sum)
        longer = SequenceInsert(items, new) """ + JOINED + Y, continued),
    "halting": (HEAD + PAIRS + """some = Greater(i, zero)
        before = If(some)<then_branch = then () => (float[m, 1, s] sum) { last = SequenceAt(items, least)
            sum = ReduceSum(last, ones) },
            else_branch = else () => (float[m, 1, s] zeros) { zeros = Mul(start, nought) }>
        shape = Constant<value = int64[3] {-1, 1, 2}>() row = Reshape(before, shape) both = Add(column, row)
        less = Mul(both, quarter) new = Tanh(less) longer = SequenceInsert(items, new) """ + JOINED + Y, halting),
    "chosen": (HEAD + LOOP.replace("LIST", "empty") + """sum = ReduceSum<keepdims = 0>(column)
        good = Greater(sum, nought) new = If(good)<then_branch = then () => (float[m, r, s] pair) {
            behind = Add(to, ones) pair = Slice(x, from, behind, ones) },
            else_branch = else () => (float[m, r, s] same) { same = Identity(column) }>
        longer = SequenceInsert(items, new) """ + JOINED + ONE_OF.replace("sum", "part"), chosen),
    "all before": (HEAD + LOOP.replace("LIST", "begun") + """count = SequenceLength(items)
        first = SequenceAt(items, zero) zeros = Mul(first, nought) total = Loop(count, yes, zeros)<body = inner
            (int64 j, bool d, float[m, r, s] v) => (bool again, float[m, r, s] w) { again = Identity(yes)
            each = SequenceAt(items, j) sum = Add(v, each) less = Mul(sum, quarter) w = Tanh(less) }>
        new = Add(column, total) longer = SequenceInsert(items, new) """ + JOINED + Y, all_before),
    "kept": (HEAD + LOOP.replace("LIST", "begun") + """sum = ReduceSum<keepdims = 0>(column) good = Greater(sum, nought)
        longer = If(good)<then_branch = then () => (seq(float) with) { last = SequenceAt(items, least)
            both = Add(column, last) new = Tanh(both) with = SequenceInsert(items, new) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }> """ + JOINED + """
        n = SequenceLength(all) real = Cast<to = 1>(n) y = Add(joint, real) }""", kept),
    "middle": (HEAD + LOOP.replace("LIST", "empty") + """new = Tanh(column) longer = SequenceInsert(items, new) }>
        whole = SequenceInsert(all, x) joint = ConcatFromSequence<axis = 1>(whole) n = SequenceLength(whole)
        half = Div(n, two) """ + ONE_OF.replace("all, k", "whole, half"), middle),
    "halves": (HEAD + PAIRS + """new = Tanh(column) longer = SequenceInsert(items, new) }>
        n = SequenceLength(all) last = Sub(n, one) one_of = SequenceAt(all, zero) state = ReduceSum(one_of, ones)
        y = Loop(n, yes, state)<body = back (int64 j, bool d, float[m, 1, s] v) => (bool again, float[m, 1, s] w) {
            again = Identity(yes) at = Sub(last, j) each = SequenceAt(all, at) part = ReduceSum(each, ones)
            both = Add(v, part) w = Tanh(both) }> }""", halves),
    "rows": (HEAD + "of = Gather(x, zero) " + PAIRS.replace("x, from, to, ones", "of, from, to, none") + """
        new = Tanh(column) longer = SequenceInsert(items, new) }>
        n = SequenceLength(all) last = Sub(n, one) one_of = SequenceAt(all, zero) state = ReduceSum(one_of, none)
        z = Loop(n, yes, state)<body = back (int64 j, bool d, float[1, s] v) => (bool again, float[1, s] w) {
            again = Identity(yes) at = Sub(last, j) each = SequenceAt(all, at) part = ReduceSum(each, none)
            both = Add(v, part) w = Tanh(both) }> y = Unsqueeze(z, none) }""", rows),
    "carried": (HEAD + "state = Tanh(start) list = SequenceConstruct(state) " + STATE.replace("LIST", "list") + """
        last = SequenceAt(items, least) first = SequenceAt(items, zero) sum = Sum(v, last, first)
        less = Mul(sum, quarter) w = Tanh(less) longer = SequenceInsert(items, w) """ + JOINED + Y, carried),
    "delayed": (HEAD + "state = Tanh(start) " + STATE.replace("LIST", "empty") + """
        late = Sub(i, three) some = GreaterOrEqual(late, zero) sum = Add(v, column) less = Mul(sum, quarter)
        new = Tanh(less) w = If(some)<then_branch = then () => (float[m, 1, s] with) { old = SequenceAt(items, late)
            both = Add(new, old) half = Mul(both, quarter) with = Tanh(half) },
            else_branch = else () => (float[m, 1, s] same) { same = Identity(new) }>
        shape = Constant<value = int64[3] {-1, 1, 2}>() flat = Reshape(w, shape)
        longer = SequenceInsert(items, flat) """ + JOINED + Y, delayed),
    "latest": (HEAD + LOOP.replace("LIST", "begun") + """sum = ReduceSum<keepdims = 0>(column)
        good = Greater(sum, nought) longer = If(good)<then_branch = then () => (seq(float) with) {
            last = SequenceAt(items, least) first = SequenceAt(items, zero) both = Add(last, first) new = Tanh(both)
            with = SequenceInsert(items, new) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }> }> y = SequenceAt(all, least) }""",
        latest),
}
GIVEN = [(floats(*size, 2), k) for k, size in enumerate(((2, 7), (3, 40), (1, 6), (4, 3), (2, 100), (1, 3), (2, 7)))]


def runs(name: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, and what y is of them."""
    return [({"x": x, "k": np.array(k % 3)}, CASES[name][1](x, k % 3)) for x, k in GIVEN]


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    expect(circlet.Session(load(CASES[name][0], 17), "native"), runs(name), 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str) -> None:
    expect_tensors(load(CASES[name][0], 17), {"LIST_APPEND", "LIST_APPEND_PART"}, runs(name), 1e-5)


@pytest.mark.parametrize("k", [-8, 7, 2**40])
def test_positions_behind_the_last_element_are_errors(k: int, folder: Path) -> None:
    model = load(CASES["chosen"][0], 17)
    sessions = [circlet.Session(model, backend) for backend in ("cpu", "native")]
    good, wanted = runs("chosen")[0]
    found = []
    for session in sessions:
        expect(session, [(good, wanted)], 1e-5)
        before = session.run(good)["y"]
        with pytest.raises(circlet.ExecutionError) as error:
            session.run({**good, "k": np.array(k)})
        found.append(str(error.value))
        np.testing.assert_array_equal(session.run(good)["y"], before)
    assert found[0].startswith("subgraph 0 ('g'), operator ")
    assert found[0] == found[1].replace("LIST_PART", "SEQUENCE_AT")
    assert found[0].endswith(f"(SEQUENCE_AT): position: expected -7 to 6 for 7 elements, found {k}")


def test_elements_that_cannot_be_joined_are_errors(folder: Path) -> None:
    """Of another size along the axis along which they are not joined."""
    text = CASES["continued"][0].replace("new = Tanh(sum)", "other = Concat<axis = 2>(sum, sum) new = Tanh(other)")
    for backend in ("cpu", "native"):
        with pytest.raises(circlet.ExecutionError, match="shape"):
            circlet.Session(load(text, 17), backend).run(runs("continued")[0][0])


def test_elements_that_no_loop_appends_may_differ_everywhere(folder: Path) -> None:
    model = load("""g (float[a, b] x, float[c, d] y, int64 k) => (float[e, f] z) {
        list = SequenceConstruct(x, y) one_of = SequenceAt(list, k) z = Tanh(one_of) }""", 17)
    given = {"x": floats(2, 5), "y": floats(4, 3)}
    for backend in ("cpu", "native"):
        session = circlet.Session(model, backend)
        for k, each in enumerate(given.values()):
            np.testing.assert_allclose(session.run({**given, "k": np.array(k)})["z"], np.tanh(each), 1e-6)


@pytest.mark.parametrize("rows", ["a", "c"], ids=["of one name", "of two names"])
def test_elements_that_differ_by_what_is_given(rows: str, folder: Path, compiled: list[str]) -> None:
    """Alike or not, in the first run as in others."""
    text = f"g (float[a, b] x, float[{rows}, d] y, int64 k) => (float[e, f] z) {{ {NUMBERS}" + """
        list = SequenceConstruct(x, y) all = Loop(k, yes, list)<body = body (int64 i, bool c, seq(float) items)
            => (bool more, seq(float) longer) { more = Identity(yes) one_of = SequenceAt(items, i) new = Tanh(one_of)
            longer = SequenceInsert(items, new) }> z = SequenceAt(all, k) }"""
    session = circlet.Session(load(text, 17), "native")
    for k, (width, other) in enumerate(((4, 4), (4, 2), (1, 3), (5, 5), (3, 1))):
        x, y = floats(2, width), floats(2 if rows == "a" else 3, other)
        found = [x, y]
        for i in range(k):
            found.append(np.tanh(found[i]))
        np.testing.assert_allclose(session.run({"x": x, "y": y, "k": np.array(k)})["z"], found[k], 1e-6)
    assert rows == "c" or len(compiled) == 1


def test_columns_behind_the_last_one_are_errors(folder: Path) -> None:
    """Where elements are taken to be of size 1, as turns carry something of that size beside them."""
    text = HEAD + "state = Tanh(start) list = SequenceConstruct(state) " + STATE.replace("LIST", "list").replace(
        "Loop(steps", "Loop(k") + """last = SequenceAt(items, least) sum = Add(v, last) w = Tanh(sum)
        longer = SequenceInsert(items, column) """ + JOINED + Y
    session = circlet.Session(load(text, 17), "native")
    x = floats(2, 5, 2)
    for _ in range(2):
        wanted = np.concatenate([np.tanh(x[:, :1]), x], 1)
        np.testing.assert_allclose(session.run({"x": x, "k": np.array(5)})["y"], wanted, 1e-5, 1e-5)
        with pytest.raises(circlet.ExecutionError, match=r"'body'.*: expected an element of size 1 along axis 1"):
            session.run({"x": x, "k": np.array(6)})


@pytest.mark.parametrize("joined", [True, False])
def test_what_is_appended_behind_a_loop_may_be_longer(joined: bool, folder: Path) -> None:
    """States of one column, and all columns in the end."""
    text = HEAD + "list = SequenceConstruct(start) " + STATE.replace("LIST", "list").replace("state, ", "start, ") + """
        w = Tanh(v) last = SequenceAt(items, least) both = Add(w, last) longer = SequenceInsert(items, both) }>
        whole = SequenceInsert(all, x) """ + (
        "joint = ConcatFromSequence<axis = 1>(whole) one_of = SequenceAt(whole, k) sum = ReduceSum(one_of, ones) "
        "y = Add(joint, sum) }" if joined else "y = SequenceAt(whole, k) }")
    sessions = [circlet.Session(load(text, 17), backend) for backend in ("cpu", "native")]
    for x, k in GIVEN:
        found, state = [x[:, :1]], x[:, :1]
        for _ in range(x.shape[1]):
            state = np.tanh(state)
            found.append(state + found[-1])
        found.append(x)
        for place in (k % 3, -1):
            y = np.concatenate(found, 1) + found[place].sum(1, keepdims=True) if joined else found[place]
            for session in sessions:
                np.testing.assert_allclose(session.run({"x": x, "k": np.array(place)})["y"], y, 1e-4, 1e-4)


def test_products_of_no_columns_are_code(folder: Path) -> None:
    """Of the last of columns, of which there are none, by turns that are given nothing that says the batch."""
    text = HEAD + "list = SequenceConstruct(x) " + LOOP.replace("LIST", "list").replace("Loop(steps", "Loop(k").replace(
        "column = Slice(x, from, to, ones)", "") + """
        last = SequenceAt(items, least) tail = Slice(last, minus, far, ones) product = MatMul(tail, w)
        sum = Add(product, b) new = Tanh(sum) longer = SequenceInsert(items, new) """ + JOINED + Y
    w, b = floats(2, 2), floats(2)
    numbers = [" ".join(f"{each}," for each in value.flat)[:-1] for value in (w, b)]
    text = text.replace("start =", f"w = Constant<value = float[2, 2] {{{numbers[0]}}}>() "
                        f"b = Constant<value = float[2] {{{numbers[1]}}}>() start =")
    session = circlet.Session(load(text, 17), "native")
    for count, k in ((5, 3), (0, 1), (0, 2), (4, 2)):
        x = floats(2, count, 2)
        found = [x]
        for _ in range(k):
            found.append(np.tanh(found[-1][:, -1:] @ w + b))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = session.run({"x": x, "k": np.array(k)})["y"]
        np.testing.assert_allclose(y, np.concatenate(found, 1), 1e-5, 1e-6)
