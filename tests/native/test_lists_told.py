"""Lists of elements whose sizes only the run tells, which something stacks, are part of the code for any lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ops.sequence import SequenceConcat
from circlet.runtime.passes.transforms.lists.collect_code import collect_lists
from tests.native.test_lists_spread import names
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[b, t, 2] x, int64[k] lengths) => (float[m, r, s] y) {
    zero = Constant<value = int64 {0}>() ones = Constant<value = int64[1] {1}>() none = Constant<value = int64[1] {0}>()
    yes = Constant<value = bool {1}>() many = Shape(lengths) count = Gather(many, zero) list = SequenceEmpty() """
LOOP = """all = Loop(count, yes, list)<body = body (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) longer) { more = Identity(yes) length = Gather(lengths, i) row = Gather(x, zero) """
END = """ longer = SequenceInsert(items, z) }> y = ConcatFromSequence<axis = 0, new_axis = 1>(all) }"""
PADDED = HEAD + "most = ReduceMax<keepdims = 1>(lengths) half = Constant<value = float {0.5}>() " + LOOP + """
    end = Reshape(length, ones) part = Slice(row, none, end, none) more_of = Sub(most, end) tanh = Tanh(part)
    two = Constant<value = int64[1] {2}>() size = Concat<axis = 0>(more_of, two) rest = Expand(half, size)
    z = Concat<axis = 0>(tanh, rest) """ + END
WINDOWS = HEAD + "four = Constant<value = int64[1] {4}>() " + LOOP + """
    begin = Reshape(length, ones) end = Add(begin, four) cut = Slice(row, begin, end, none) z = Tanh(cut) """ + END


def padded(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """As many first rows as each length says, with 0.5 behind them up to the greatest."""
    found = np.full((len(lengths), lengths.max(), 2), 0.5, np.float32)
    for k, each in enumerate(lengths):
        found[k, :each] = np.tanh(x[0, :each])
    return found


def windows(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Four rows from each place on."""
    return np.stack([np.tanh(x[0, each:each + 4]) for each in lengths])


CASES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "padded": (PADDED, padded), "windows": (WINDOWS, windows)}
SIZES = ((9, 3), (40, 7), (6, 1), (12, 5), (100, 30), (9, 3), (7, 2))


def given(size: tuple[int, int]) -> dict[str, Any]:
    """So many rows, and so many lengths that leave four of them."""
    random = np.random.default_rng(size)
    rows, count = size
    x = random.standard_normal((1, rows, 2)).astype(np.float32)
    return {"x": x, "lengths": random.integers(1, rows - 3, count)}


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    text, of = CASES[name]
    session = circlet.Session(load(text, 17), "native")
    for each in map(given, SIZES):
        np.testing.assert_allclose(session.run(each)["y"], of(each["x"], each["lengths"]), 1e-4, 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_of_no_lengths_there_is_nothing(name: str, folder: Path) -> None:
    text = CASES[name][0].replace("ReduceMax<keepdims = 1>(lengths)", "Constant<value = int64[1] {9}>()")
    session, inputs = circlet.Session(load(text, 17)), given((9, 3))
    before = session.run(inputs)["y"]
    assert session.run({**inputs, "lengths": inputs["lengths"][:0]})["y"].shape[0] == 0
    np.testing.assert_array_equal(session.run(inputs)["y"], before)


def test_elements_of_other_sizes_are_errors(folder: Path) -> None:
    for backend in ("cpu", "native"):
        session, inputs = circlet.Session(load(WINDOWS, 17), backend), given((9, 3))
        before = session.run(inputs)["y"]
        for lengths in ([2, 7, 3], [7, 2, 3]):
            with pytest.raises(circlet.ExecutionError, match="element of iteration 1 has shape"):
                session.run({**inputs, "lengths": np.array(lengths)})
        found = session.run({**inputs, "lengths": np.array([7, 7])})["y"]
        np.testing.assert_allclose(found, windows(inputs["x"], np.array([7, 7])), 1e-4, 1e-4)
        np.testing.assert_array_equal(session.run(inputs)["y"], before)


CHOSEN = """g (float[n, 4] x, int64[k] at) => (float[m, 4] y) { zero = Constant<value = int64 {0}>()
    level = Gather<axis = 1>(x, zero) yes = Constant<value = bool {1}>() nought = Constant<value = float {0.0}>()
    above = Greater(level, nought) below = Less(level, nought) many = Shape(at) count = Gather(many, zero)
    a = Compress<axis = 0>(x, above) b = Compress<axis = 0>(x, below) list = SequenceConstruct(a, b)
    empty = SequenceEmpty() all = Loop(count, yes, empty)<body = body (int64 i, bool c, seq(float) items)
        => (bool more, seq(float) longer) { more = Identity(yes) place = Gather(at, i) z = SequenceAt(list, place)
        longer = SequenceInsert(items, z) }> y = ConcatFromSequence<axis = 0>(all) }"""


def test_elements_that_nothing_joins_may_be_of_sizes_that_the_run_tells(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(CHOSEN, 17), "native")
    for count in (9, 4, 30, 1, 12):
        x = np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
        parts, at = (x[x[:, 0] > 0], x[x[:, 0] < 0]), [0, 1, 1, 0, -1]
        np.testing.assert_array_equal(session.run({"x": x, "at": np.array(at)})["y"],
                                      np.concatenate([parts[each] for each in at]))
    assert len(compiled) == 1


def stays(model: Model) -> bool:
    """Whether something joins a list."""
    return any(isinstance(each.op, SequenceConcat) for each in model.subgraphs[0].operators)


@pytest.mark.parametrize(("code", "kept"), [
    ({"LOOP_STORE", "LIST_APPEND"}, False), ({"LOOP_STORE"}, False), ({"LIST_APPEND"}, True), (set[str](), False)])
def test_a_list_stays_where_that_alone_makes_code_of_it(code: set[str], kept: bool) -> None:
    model = load(WINDOWS, 17)

    def is_code(changed: Model, index: int, number: int, are_apart: bool) -> bool:
        return not code.isdisjoint(names(changed))

    assert stays(collect_lists(model, is_code, lambda each: each)) == kept


def test_nobody_is_asked_of_elements_of_known_sizes() -> None:
    model = load(WINDOWS.replace("z = Tanh(cut)", "z = ReduceSum<keepdims = 0>(cut, none)"), 17)

    def is_code(changed: Model, index: int, number: int, are_apart: bool) -> bool:
        raise AssertionError("asked")

    assert not stays(collect_lists(model, is_code, lambda each: each))
