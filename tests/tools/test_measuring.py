"""What measurements are made of: agreement, samples, inputs by chance, charts, progress."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.tools.measuring.agreement import TOLERANCE, agreement
from circlet.tools.measuring.charts import Bar, Chart, svg
from circlet.tools.measuring.inputs import by_chance
from circlet.tools.measuring.peers import Peer, RefusedError
from circlet.tools.measuring.sampling import LEAST, Effort, Measured, measure
from circlet.tools.measuring.work import Work
from circlet.tools.progress import Progress
from circlet.tools.results import Value
from circlet.tools.tables import duration_text

FLOATS = np.array([1, -4, np.nan], np.float32)
WORK = Work(Path("model.tflite"), {}, ["y"])


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def test_floats_may_differ_a_little() -> None:
    almost = agreement({"y": FLOATS + np.array([0, 0.0005, 0], np.float32)}, {"y": FLOATS})
    assert almost.agrees
    assert almost.output == "y"
    assert almost.largest == pytest.approx(0.0005 / 4, rel=1e-3)
    assert almost.brief == "within 1.2e-04"
    other = agreement({"y": FLOATS * np.float32(1.01)}, {"y": FLOATS})
    assert not other.agrees
    assert other.text == "y differs by 1.0e-02 of its largest value"
    assert TOLERANCE < 0.01


@pytest.mark.parametrize(("found", "expected"), [
    ([1, 2], [1, 3]),
    ([True, False], [True, True]),
    (np.array([b"a"], object), np.array([b"b"], object)),
    (f32([1, 2]), f32([1, np.nan])),
    (f32([1, np.inf]), f32([1, -np.inf])),
    (np.array([1], np.int32), np.array([1], np.int64)),
    (f32([1]), f32([[1]])),
    ([f32([1])], [f32([1]), f32([2])]),
    ([np.array([1], np.int32)], [np.array([2], np.int32)]),
    (np.array([1], ml_dtypes.bfloat16), np.array([2], ml_dtypes.bfloat16)),
    (np.array([1j]), np.array([1 + 0j])),
], ids=str)
def test_disagreement(found: Any, expected: Any) -> None:
    """Lists without arrays stand for arrays."""
    def value(each: Any) -> Value:
        given: Value = each if isinstance(each, np.ndarray) or isinstance(each[0], np.ndarray) else np.array(each)
        return given

    assert not agreement({"y": value(found)}, {"y": value(expected)}).agrees
    assert agreement({"y": value(expected)}, {"y": value(expected)}).brief == "equal"


def test_outputs_of_other_names_disagree() -> None:
    assert agreement({"z": FLOATS}, {"y": FLOATS}).text == "outputs z instead of y"


def test_infinite_differences() -> None:
    found = agreement({"y": f32([1, np.nan])}, {"y": f32([1, 1])})
    assert (found.agrees, found.largest) == (False, math.inf)


def runs(log: list[str], name: str, result: int = 1) -> Peer:
    """A runtime that notes its runs."""
    def run() -> Mapping[str, Value]:
        log.append(name)
        return {"y": np.array(result)}

    def load(_: Work) -> Any:
        log.append(f"load {name}")
        return run

    return Peer(name, load, "circlet", "circlet", frozenset({".tflite"}))


def fails(_: Work) -> Any:
    raise RuntimeError("Exception from somewhere:\nno WHILE\n\n")


def test_runtimes_take_turns_after_results_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circlet.tools.measuring.sampling.SAMPLE", 0.0)
    log: list[str] = []
    heard: list[float] = []
    peers = [runs(log, "a"), Peer("refuses", fails, "circlet", "circlet", frozenset({".tflite"})),
             runs(log, "b", result=2)]
    a, refuses, b = measure(WORK, peers, Effort(3, warmup=2), lambda _, done: heard.append(done))
    assert log[:4] == ["load a", "a", "load b", "b"]
    assert log[4:10] == ["a"] * 3 + ["b"] * 3, "twice to warm up, and once to find how often to run"
    assert log[10:] == ["a", "b", "b", "a", "a", "b"]
    assert (len(a.samples), len(b.samples), refuses.samples) == (3, 3, ())
    assert refuses.failure == "RuntimeError: no WHILE"
    assert a.agreement is not None
    assert a.agreement.agrees
    assert b.agreement is not None
    assert b.agreement.text == "y differs in 1 of 1 elements"
    assert heard[-1] == 1


def test_time_that_is_too_short_is_for_some_samples() -> None:
    (found,) = measure(WORK, [runs([], "a")], Effort(seconds=0.0))
    assert len(found.samples) == LEAST


def test_what_cannot_be_asked() -> None:
    (found,) = measure(WORK, [Peer("other", fails, "circlet", "circlet", frozenset({".onnx"}))], Effort(1))
    assert found == Measured("other", failure="it reads .onnx, not .tflite")
    (found,) = measure(WORK, [Peer("other", fails, "no_such_module", "nothing", frozenset({".tflite"}))], Effort(1))
    assert found.failure == "not installed (pip install nothing)"
    assert issubclass(RefusedError, Exception)


@pytest.mark.parametrize("dtype", [each for each in DType if each.element is not None and each is not DType.RESOURCE])
def test_values_by_chance(dtype: DType) -> None:
    tensor = Tensor("x", dtype, (50,))
    found, again, other = (by_chance(tensor, (50,), np.random.default_rng(seed)) for seed in (1, 1, 2))
    if dtype is DType.VARIANT:
        assert found is None
        return
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (dtype.element, (50,))
    np.testing.assert_array_equal(found, again)
    assert np.any(found != other)


def test_quantised_values_have_the_whole_range() -> None:
    tensor = Tensor("x", DType.INT8, (2000,), quantization=Quantization((0.5,), (0,)))
    found = by_chance(tensor, (2000,), np.random.default_rng(0))
    assert isinstance(found, np.ndarray)
    assert (found.min(), found.max()) == (-128, 127)
    small = by_chance(Tensor("n", DType.INT32, (2000,)), (2000,), np.random.default_rng(0))
    assert isinstance(small, np.ndarray)
    assert (small.min(), small.max()) == (0, 9)


@pytest.mark.parametrize("width", [None, 30, 80, 200])
def test_bars_fit(width: int | None) -> None:
    lines = Chart("title", [Bar("a", 1.0), Bar("longer", 0.25), Bar("none", 1e-9)]).render(width, False).split("\n")
    if width is not None:
        assert max(map(len, lines)) <= width
    lengths = [line.count("#" if width is None else "█") for line in lines]
    assert lengths[0] == 0
    assert abs(lengths[2] * 4 - lengths[1]) <= 4
    assert lines[3].split() == ["none", "#" if width is None else "▏", "1", "ns"]


@pytest.mark.parametrize(("seconds", "text"), [
    (0.0009996, "1,000 us"), (0.0009994, "999 us"), (0.001, "1 ms"), (12.3456, "12.3 s"), (4567.8, "4,568 s"),
    (1.23e-9, "1.23 ns")])
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_names_in_drawings_are_escaped() -> None:
    text = svg([Chart("<&>", [Bar("a<b", 1.0, 0.5, 2.0)])])
    assert "&lt;&amp;&gt;" in text
    assert "a&lt;b" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("is_wanted", "stream", "term", "is_shown"), [
    (True, Terminal(), "xterm", True),
    (False, Terminal(), "xterm", False),
    (True, Terminal(), "dumb", False),
    (True, io.StringIO(), "xterm", False),
])
def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch, is_wanted: bool, stream: io.StringIO, term: str,
                                   is_shown: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", "1")
    with Progress(is_wanted) as progress:
        progress.show("something [odd]", 0.5)
    assert ("something [odd]" in stream.getvalue()) == is_shown
    assert "\x1b[3" not in stream.getvalue(), "no colours"
