"""Optionals that loops set and clear are part of the code for any lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.native.test_lists_changed import given
from tests.native.test_lists_spread import expect, expect_tensors
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = """g (float[b, t, 2] x, int64[k] at) => (float[m, r, s] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() ones = Constant<value = int64[1] {1}>()
    yes = Constant<value = bool {1}>() size = Shape(x) steps = Gather(size, one)
    half = Constant<value = float {0.5}>() begin = Gather<axis = 1>(x, zero) none = Optional<type = float[b, 2]>() """
LOOP = """last = Loop(steps, yes, none)<body = body (int64 i, bool c, optional(float[b, 2]) old)
    => (bool more, optional(float[b, 2]) new) { more = Identity(yes) row = Gather<axis = 1>(x, i) place = Gather(at, i)
    is = Greater(place, zero) """
ADD = """has = OptionalHasElement(old) VALUE = If(has)<then_branch = add () => (float[b, 2] sum) {
        value = OptionalGetElement(old) small = Mul(value, half) both = Add(small, row) sum = Tanh(both) },
    else_branch = first () => (float[b, 2] same) { same = Tanh(row) }> """
END = """}> some = OptionalHasElement(last) z = If(some)<then_branch = there () => (float[b, 2] found) {
        found = OptionalGetElement(last) },
    else_branch = not_there () => (float[b, 2] instead) { instead = Mul(begin, half) }> y = Unsqueeze(z, ones) }"""
CACHE = HEAD.replace("Optional<type = float[b, 2]>", "Optional<type = float[b, n, 2]>") + """
    last, means = Loop(steps, yes, none)<body = body (int64 i, bool c, optional(float[b, n, 2]) old)
        => (bool more, optional(float[b, j, 2]) new, float[b, 2] mean) { more = Identity(yes)
        row = Gather<axis = 1>(x, i) line = Unsqueeze(row, ones) has = OptionalHasElement(old)
        longer = If(has)<then_branch = add () => (float[b, p, 2] both) { value = OptionalGetElement(old)
            both = Concat<axis = 1>(value, line) },
            else_branch = first () => (float[b, 1, 2] same) { same = Identity(line) }>
        new = Optional(longer) mean = ReduceMean<axes = [1], keepdims = 0>(longer) }>
    y = Transpose<perm = [1, 0, 2]>(means) }"""


def state(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """What becomes of the first row with all others."""
    value = np.tanh(x[:, 0])
    for k in range(1, x.shape[1]):
        value = np.tanh(value * np.float32(0.5) + x[:, k])
    return np.stack([value], 1)


def last_chosen(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The last row of a positive place, if there is one."""
    found = [np.tanh(x[:, k]) for k in range(x.shape[1]) if at[k] > 0]
    return np.stack((found or [x[:, 0] * np.float32(0.5)])[-1:], 1)


def cleared(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A state of rows, which is given up where a place is positive."""
    value: np.ndarray | None = None
    for k in range(x.shape[1]):
        new = np.tanh(x[:, k] if value is None else value * np.float32(0.5) + x[:, k])
        value = None if at[k] > 0 else new if value is not None else np.tanh(x[:, k])
    return np.stack([x[:, 0] * np.float32(0.5) if value is None else value], 1)


def means(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Of the rows so far, after each."""
    return np.stack([x[:, :k + 1].mean(1) for k in range(x.shape[1])], 1)


CASES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "state": (HEAD + LOOP + ADD.replace("VALUE", "now") + "new = Optional(now) " + END, state),
    "chosen": (HEAD + LOOP + """new = If(is)<then_branch = set () => (optional(float[b, 2]) put) { z = Tanh(row)
        put = Optional(z) }, else_branch = keep () => (optional(float[b, 2]) kept) { kept = Identity(old) }> """ + END,
               last_chosen),
    "cleared": (HEAD + LOOP + ADD.replace("VALUE", "now") + """
        new = If(is)<then_branch = clear () => (optional(float[b, 2]) gone) { gone = Optional<type = float[b, 2]>() },
            else_branch = put () => (optional(float[b, 2]) there) { there = Optional(now) }> """ + END, cleared),
    "cache": (CACHE, means),
}
SIZES = ((2, 7), (3, 40), (1, 6), (4, 3), (2, 100), (2, 7), (2, 1), (3, 2))


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    text, of = CASES[name]
    inputs = [given(size) for size in SIZES]
    expect(circlet.Session(load(text, 18), "native"), [(each, of(each["x"], each["at"])) for each in inputs], 1e-4)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_optionals(name: str) -> None:
    text, of = CASES[name]
    inputs = [given(size) for size in (*SIZES, (1, 1))]
    expect_tensors(load(text, 18), {"LIST_HAS"}, [(each, of(each["x"], each["at"])) for each in inputs], 1e-4)


def test_what_is_not_there_is_an_error(folder: Path) -> None:
    text, of = CASES["chosen"]
    end = "}> z = OptionalGetElement(last) y = Unsqueeze(z, ones) }"
    model, good = load(text.replace(END, end), 18), given((2, 7))
    for backend in ("cpu", "native"):
        session = circlet.Session(model, backend)
        for _ in range(2):
            there = {"x": good["x"], "at": np.array([0, 1, 0, 1, 0, 0, 0])}
            np.testing.assert_allclose(session.run(there)["y"], of(there["x"], there["at"]), 1e-4, 1e-4)
            with pytest.raises(circlet.ExecutionError, match="expected an optional that has a value, found an empty"):
                session.run({"x": good["x"], "at": np.zeros(7, np.int64)})
