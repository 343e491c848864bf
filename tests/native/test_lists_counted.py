"""Lists that are joined, and of which scripts ask how long they are, are part of the code for any lengths."""

from __future__ import annotations

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

from tests.native.test_lists_spread import NUMBERS, expect, expect_tensors  # noqa: E402
from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = "g (float[b, t, 2] x) => (float[m, r, s] y) {" + NUMBERS + """ ones = Constant<value = int64[1] {1}>()
    size = Shape(x) steps = Gather(size, one) two = Add(one, one) nought = Constant<value = float {0}>() """
PART = """more = Identity(yes) next = Add(i, one) from = Reshape(i, ones) to = Reshape(next, ones)
    part = Slice(x, from, to, ones) """
TURN = "(int64 i, bool c, seq(float) items) => (bool more, seq(float) longer) {"
LOOP = "all = Loop(steps, yes, list)<body = body " + TURN
EMPTY = "list = SequenceEmpty() "
JOINED = "}> joint = ConcatFromSequence<axis = 1>(all) "
SUM = "n = SequenceLength(all) real = Cast<to = 1>(n) y = Add(joint, real) }"


def columns(x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, x.shape[1], 1)


def kept(x: np.ndarray) -> np.ndarray:
    """Columns whose sum is positive; none where no sum is."""
    return np.concatenate([x[:, :0], *(each for each in columns(x) if each.sum() > 0)], 1)


def summed(x: np.ndarray) -> np.ndarray:
    """Columns twice while there are few, then the sum of all before."""
    found: list[np.ndarray] = []
    for each in columns(x):
        found += [np.concatenate(found, 1).sum(1, keepdims=True)] if len(found) > 3 else [each, each]
    return np.concatenate(found, 1)


def begun(x: np.ndarray) -> np.ndarray:
    """All and all of it again, then columns while there are less than five, and how many these are."""
    found = [x, x]
    for each in columns(x):
        found += [each] * (len(found) < 5)
    joint: np.ndarray = np.concatenate(found, 1) + np.float32(len(found))
    return joint


def several(x: np.ndarray) -> np.ndarray:
    """Odd columns twice, the others once, and how many there were after each turn, in all."""
    found, total = list[np.ndarray](), 0
    for k, each in enumerate(columns(x)):
        found += [each] * (1 + k % 2)
        total += len(found)
    joint: np.ndarray = np.concatenate(found, 1) + np.float32(total)
    return joint


def nested(x: np.ndarray) -> np.ndarray:
    """Columns as often as their number modulo 3, and the first one, and how many these are."""
    found = [x[:, :1]]
    for k, each in enumerate(columns(x)):
        found += [each] * (k % 3)
    joint: np.ndarray = np.concatenate(found, 1) + np.float32(len(found))
    return joint


CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "kept": (HEAD + EMPTY + LOOP + PART + """sum = ReduceSum<keepdims = 0>(part) good = Greater(sum, nought)
        longer = If(good)<then_branch = then () => (seq(float) with) { with = SequenceInsert(items, part) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }> }>
        n = SequenceLength(all) some = Greater(n, zero)
        y = If(some)<then_branch = any () => (float[m, r, s] joint) { joint = ConcatFromSequence<axis = 1>(all) },
            else_branch = no () => (float[m, r, s] nothing) { nothing = Slice(x, none, none, ones) }> }""", kept),
    "summed": (HEAD + EMPTY + LOOP + PART + """n = SequenceLength(items) many = Greater(n, three)
        longer = If(many)<then_branch = then () => (seq(float) with) { before = ConcatFromSequence<axis = 1>(items)
                sum = ReduceSum(before, ones)
                like = Shape(part) row = Reshape(sum, like) with = SequenceInsert(items, row) },
            else_branch = else () => (seq(float) both) { first = SequenceInsert(items, part)
                both = SequenceInsert(first, part) }> """ + JOINED + "y = Identity(joint) }", summed),
    "begun": (HEAD + "list = SequenceConstruct(x, x) five = Add(two, three)" + LOOP + PART + """
        n = SequenceLength(items) few = Less(n, five)
        longer = If(few)<then_branch = then () => (seq(float) with) { with = SequenceInsert(items, part) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }> """ + JOINED + SUM, begun),
    "several": (HEAD + EMPTY + """last, all = Loop(steps, yes, zero, list)<body = body
            (int64 i, bool c, int64 v, seq(float) items) => (bool more, int64 total, seq(float) longer) {
        """ + PART + """rest = Mod(i, two) odd = Equal(rest, one)
        some = If(odd)<then_branch = then () => (seq(float) with) { with = SequenceInsert(items, part) },
            else_branch = else () => (seq(float) same) { same = Identity(items) }>
        longer = SequenceInsert(some, part) n = SequenceLength(longer) total = Add(v, n) """ + JOINED + """
        real = Cast<to = 1>(last) y = Add(joint, real) }""", several),
    "nested": (HEAD + "first = Slice(x, none, ones, ones) list = SequenceConstruct(first)" + LOOP + PART + """
        often = Mod(i, three) longer = Loop(often, yes, items)<body = inner (int64 j, bool d, seq(float) these)
            => (bool again, seq(float) further) { again = Identity(yes) further = SequenceInsert(these, part) }> """
        + JOINED + SUM, nested),
    "appended in the end": (HEAD + EMPTY + LOOP + PART + """longer = SequenceInsert(items, part) }>
        whole = SequenceInsert(all, x) joint = ConcatFromSequence<axis = 1>(whole) n = SequenceLength(whole)
        real = Cast<to = 1>(n) y = Add(joint, real) }""",
        lambda x: np.concatenate([x, x], 1) + np.float32(x.shape[1] + 1)),
}
GIVEN = [floats(*size, 2) for size in ((2, 7), (3, 40), (4, 2), (2, 100), (2, 7))]
GIVEN.insert(2, -abs(GIVEN[0]))


def runs(name: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, and what y is of them."""
    return [({"x": x}, CASES[name][1](x)) for x in GIVEN]


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    expect(circlet.Session(load(CASES[name][0], 17), "native"), runs(name), 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_lists(name: str) -> None:
    model = load(CASES[name][0], 17)
    expect_tensors(model, {"LIST_APPEND", "LIST_APPEND_PART"}, runs(name), 1e-5)
    expect(circlet.Session(model, "native"), runs(name), 1e-5)


def test_errors_name_the_operators_of_the_model() -> None:
    """Behind the operator that counts what is appended."""
    text = CASES["several"][0].replace("rest = Mod", "at = Gather<axis = 1>(x, next) column = Unsqueeze(at, ones) "
                                       "rest = Mod").replace("Insert(some, part)", "Insert(some, column)")
    model = load(text, 17)
    found = []
    for backend in ("cpu", "native"):
        with pytest.raises(circlet.ExecutionError) as error:
            circlet.Session(model, backend).run({"x": floats(2, 3, 2)})
        found.append(str(error.value))
    number = next(k for k, each in enumerate(model.subgraphs) if each.name == "body")
    assert found[0] == found[1]
    assert found[0].startswith(f"subgraph {number} ('body'), operator ")
    assert found[0].endswith("(GATHER): index 3 is out of range for an axis of size 3")
