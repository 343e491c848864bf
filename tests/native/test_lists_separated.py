"""Lists of as many elements in each run are part of the code where loops collect something beside them."""

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

from tests.native.test_lists_spread import NUMBERS, expect  # noqa: E402
from tests.schema.onnx.graphs import load  # noqa: E402

HEAD = "g (float[b, t, 2] x) => (float[m, r, s] y) {" + NUMBERS + """ ones = Constant<value = int64[1] {1}>()
    size = Shape(x) steps = Gather(size, one) begin = Gather<axis = 1>(x, zero) start = Slice(x, none, ones, ones) """
LOOP = """all, z = Loop(steps, yes, list)<body = body (int64 i, bool c, seq(float) items)
    => (bool more, seq(float) others, float[m, s] made) { more = Identity(yes) row = Gather<axis = 1>(x, i) """
END = "}> y = Transpose<perm = [1, 0, 2]>(z) }"


def states(x: np.ndarray) -> np.ndarray:
    """What the second of two layers gives in each turn, each of which has a state."""
    first = second = x[:, 0]
    found = []
    for k in range(x.shape[1]):
        first = np.tanh(first + x[:, k])
        second = np.tanh(second + first)
        found.append(second)
    return np.stack(found, 1)


def window(x: np.ndarray) -> np.ndarray:
    """The sum of the last three rows, with the first one before them."""
    found = [x[:, 0]] * 2 + [x[:, k] for k in range(x.shape[1])]
    return np.stack([sum(found[k:k + 3]) for k in range(x.shape[1])], 1)


def caches(x: np.ndarray) -> np.ndarray:
    """The mean of all that one of two caches has, which grow by what the other one's is."""
    first, second, found = x[:, :1], np.tanh(x[:, :1]), []
    for k in range(x.shape[1]):
        first = np.concatenate([first, x[:, k:k + 1] + second.mean(1, keepdims=True)], 1)
        second = np.concatenate([second, np.tanh(first.mean(1, keepdims=True))], 1)
        found.append(second.mean(1))
    return np.stack(found, 1)


CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "states": (HEAD + "list = SequenceConstruct(begin, begin) " + LOOP + """first = SequenceAt(items, zero)
        second = SequenceAt(items, one) sum = Add(first, row) new = Tanh(sum) both = Add(second, new) made = Tanh(both)
        rest = SequenceErase(items, zero) changed = SequenceInsert(rest, new, zero)
        less = SequenceErase(changed, one) others = SequenceInsert(less, made, one) """ + END, states),
    "window": (HEAD + "list = SequenceConstruct(begin, begin, begin) " + LOOP + """longer = SequenceInsert(items, row)
        two = Add(one, one) others = SequenceErase(longer, zero) a = SequenceAt(others, zero)
        b = SequenceAt(others, one) c2 = SequenceAt(others, two) made = Sum(a, b, c2) """ + END, window),
    "caches": (HEAD + "warm = Tanh(start) list = SequenceConstruct(start, warm) " + LOOP + """
        first = SequenceAt(items, zero) second = SequenceAt(items, one) mean = ReduceMean<axes = [1]>(second)
        line = Unsqueeze(row, ones) more_of = Add(line, mean) long = Concat<axis = 1>(first, more_of)
        rest = SequenceErase(items, zero) changed = SequenceInsert(rest, long, zero)
        other = ReduceMean<axes = [1]>(long) warmer = Tanh(other) longer = Concat<axis = 1>(second, warmer)
        less = SequenceErase(changed, one) others = SequenceInsert(less, longer, one)
        made = ReduceMean<axes = [1], keepdims = 0>(longer) """ + END, caches),
}
GIVEN = [floats(*size, 2) for size in ((2, 7), (3, 40), (1, 6), (4, 2), (2, 100), (1, 1), (2, 7))]


def runs(name: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, and what y is of them."""
    return [({"x": x}, CASES[name][1](x)) for x in GIVEN]


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_lengths(name: str, folder: Path, compiled: list[str]) -> None:
    model = load(CASES[name][0], 17)
    for backend in ("cpu", "native"):
        expect(circlet.Session(model, backend), runs(name), 1e-5)
    assert len(compiled) == 1


def test_errors_name_the_operators_of_the_model(folder: Path) -> None:
    """Of a row behind the last one."""
    model = load(CASES["states"][0].replace("x, i)", "x, at)").replace("row =", "at = Add(i, three) row ="), 17)
    found = []
    for backend in ("cpu", "native"):
        with pytest.raises(circlet.ExecutionError) as error:
            circlet.Session(model, backend).run({"x": floats(2, 5, 2)})
        found.append(str(error.value))
    assert found[0] == found[1]
    assert found[0].endswith("(GATHER): index 5 is out of range for an axis of size 5")
