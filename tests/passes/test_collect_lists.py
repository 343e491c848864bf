"""Lists that a loop fills become scan outputs; those that are read in another way stay lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.passes.transforms.lists.collect_lists import collect_lists
from tests.needs import NATIVE

pytest.importorskip("onnx")

from tests.schema.onnx.graphs import load

STACK = "y = ConcatFromSequence<axis = 0, new_axis = 1>(last)"
LOOP = """g (float[b, 2] x, int64 n) => (float y) {{
    yes = Constant<value = bool {{1}}>() none = SequenceEmpty()
    list, state, squares = Loop(n, yes, none, x)<body = body (int64 i, bool c, seq(float) items, float[b, 2] v)
        => (bool more, seq(float) longer, float[b, 2] next, float[b, 2] square) {{
        more = Identity(yes) next = Add(v, x) square = Mul(v, v) zero = Constant<value = int64 {{0}}>()
        wide = Identity(next) {append} }}>
    last = Identity(list) at = Constant<value = int64 {{0}}>() {join} }}"""
APPEND = "more_items = SequenceInsert(items, wide) longer = Identity(more_items)"
COLLECTED = {
    "stacked": (APPEND, STACK, lambda rows: np.stack(rows)),
    "stacked behind": (APPEND, "y = ConcatFromSequence<axis = -1, new_axis = 1>(last)",
                       lambda rows: np.stack(rows, -1)),
    "joined": (APPEND, "y = ConcatFromSequence<axis = 1>(last)", lambda rows: np.concatenate(rows, 1)),
    "both": (APPEND, "one = ConcatFromSequence<axis = -1>(last) y = Add(one, one)",
             lambda rows: 2 * np.concatenate(rows, 1)),
    "of what is a result, too": ("longer = SequenceInsert(items, square)", STACK, None),
}
KEPT = {
    "joined along an open axis": (APPEND, "y = ConcatFromSequence<axis = 0>(last)", lambda rows: np.concatenate(rows)),
    "put in front": ("longer = SequenceInsert(items, wide, zero)", STACK, lambda rows: np.stack(rows[::-1])),
    "read by position": (APPEND, "y = SequenceAt(last, at)", lambda rows: rows[0]),
    "counted": (APPEND, f"m = SequenceLength(last) k = Cast<to = 1>(m) {STACK.replace('y =', 'z =')} y = Add(z, k)",
                lambda rows: np.stack(rows) + np.float32(len(rows))),
}
CASES: dict[str, tuple[str, str, Any]] = {**COLLECTED, **KEPT}

BEGUN = "none = SequenceConstruct(x, x)"
"""In place of an empty list."""


def operators(model: circlet.Model) -> set[str]:
    """Those that a run of the model reaches."""
    found, left = set[str](), [0]
    while left:
        for operator in model.subgraphs[left.pop()].operators:
            found.add(operator.name)
            left += operator.op.callees()
    return found


def rows(x: Any, count: int) -> list[Any]:
    return [(k + 2) * x for k in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str, backend: str) -> None:
    append, join, expected = CASES[name]
    session = circlet.Session(load(LOOP.format(append=append, join=join)), backend=backend)
    for size, count in ((3, 4), (1, 2), (5, 70)):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        (found,) = session.run({"x": x, "n": np.int64(count)}).values()
        wanted = np.stack([each * each for each in [x, *rows(x, count)][:-1]]) if expected is None else (
            expected(rows(x, count)))
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("name", CASES)
def test_which_lists_are_collected(name: str) -> None:
    append, join, _ = CASES[name]
    found = operators(collect_lists(load(LOOP.format(append=append, join=join))))
    assert ("SEQUENCE_INSERT" in found) is (name in KEPT)


def test_a_list_that_is_returned_stays() -> None:
    text = LOOP.format(append=APPEND, join=STACK).replace("(float y)", "(float y, seq(float) last)")
    assert "SEQUENCE_INSERT" in operators(collect_lists(load(text)))


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", [each for each in COLLECTED if COLLECTED[each][2] is not None])
def test_what_is_in_a_list_before_the_loop(name: str, backend: str) -> None:
    append, join, expected = CASES[name]
    model = load(LOOP.format(append=append, join=join).replace("none = SequenceEmpty()", BEGUN))
    assert "SEQUENCE_INSERT" not in operators(collect_lists(model))
    session = circlet.Session(model, backend=backend)
    for size, count in ((3, 4), (5, 0), (1, 70)):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        (found,) = session.run({"x": x, "n": np.int64(count)}).values()
        np.testing.assert_array_equal(found, expected([x, x, *rows(x, count)]), strict=True)


TAKEN = """g (float[b, 2] x, int64 n) => (float y) {
    yes = Constant<value = bool {1}>() state = SequenceConstruct(x, x) begun = SequenceConstruct(x)
    list, last = Loop(n, yes, begun, state)<body = body (int64 i, bool c, seq(float) items, seq(float) kept)
        => (bool more, seq(float) longer, seq(float) next) {
        more = Identity(yes) zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
        old = SequenceAt(kept, zero) new = Add(old, x) rest = SequenceErase(kept, one)
        next = SequenceInsert(rest, new, zero) longer = SequenceInsert(items, new) }>
    y = ConcatFromSequence<axis = 1, new_axis = 1>(list) }"""
"""A loop whose state is a list of two tensors, and which appends the first one to a list with something in it."""


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_what_is_taken_from_a_list_goes_behind_what_is_in_another(backend: str) -> None:
    session = circlet.Session(load(TAKEN), backend=backend)
    for size, count in ((3, 4), (3, 0), (5, 0), (1, 9), (2, 1)):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        (found,) = session.run({"x": x, "n": np.int64(count)}).values()
        np.testing.assert_array_equal(found, np.stack([x, *rows(x, count)], 1), strict=True)


def test_bodies_stay_for_whoever_runs_them() -> None:
    model = load(LOOP.format(append=APPEND, join=STACK))
    changed = collect_lists(model)
    assert changed.subgraphs[1] is model.subgraphs[1]
    assert [each.op.callees() for each in changed.subgraphs[0].operators if each.name == "LOOP"] == [(2,)]
