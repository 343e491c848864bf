"""`circlet overhead`, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import DType
from circlet.tools import overhead
from circlet.tools.measuring import empty
from circlet.tools.measuring.empty import FLAG, TURNS, Probe, Turning, beside_counter, empty_model, slopes
from circlet.tools.measuring.peers import PEERS, RefusedError, circlet_peer
from circlet.tools.measuring.sites import Passed, Site, Surveyor
from circlet.tools.results import Value
from tests.models.expectations import read
from tests.needs import NATIVE, ONNX
from tests.tools.conftest import Program

COLLATZ, STRAIGHT = "examples/collatz.tflite", "tests/models/cnn.tflite"
BRIEF = ("--runs", 1)
KINDS = [
    Passed("loop", ((DType.INT32, ()), (DType.FLOAT32, (2, 3)), (DType.FLOAT32, (2, 3)))),
    Passed("branch", ((DType.FLOAT32, (4,)), (DType.INT8, (2,)))),
    Passed("call", ((DType.FLOAT32, (4,)),)),
    Passed("loop", ()),
    Passed("branch", ((DType.STRING, (2,)),)),
]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures little, and in circlet alone."""
    monkeypatch.setattr(empty, "ENOUGH", 1e-4)
    monkeypatch.setattr(overhead, "ROUNDS", 1)
    monkeypatch.setattr(overhead, "PEERS", {"litert": replace(PEERS["litert"], module="no_such_module")})


def surveyed(path: str, inputs: Mapping[str, Value]) -> list[Site]:
    surveyor = Surveyor()
    circlet.Session(circlet.load(path), "cpu").run(inputs, listener=surveyor)
    return [surveyor.sites[key] for key in sorted(surveyor.sites)]


def test_sites_are_counted() -> None:
    loop, branch = surveyed(COLLATZ, {"n": np.array(27, np.int32)})
    assert (loop.name, loop.count, loop.times, loop.passed.text) == ("WHILE", 111, 1, "int32[] x 4")
    assert (branch.name, branch.count, branch.passed.text) == ("IF", 111, "int32[]")
    assert (loop.subgraph, branch.subgraph) == (0, 4)


def test_nested_sites_are_told_apart() -> None:
    path = "tests/models/nested_while.tflite"
    inputs = dict(read(Path(path).with_suffix(".npz"))[0].inputs)
    counter = circlet.Counter()
    model = circlet.load(path)
    circlet.Session(model, "cpu").run(inputs, listener=counter)
    outer, inner = surveyed(path, inputs)
    assert inner.times == outer.count
    assert [each.body is not None and counter.invocations[each.body] for each in (outer, inner)] == [
        outer.count, inner.count]


@ONNX
def test_a_loop_of_onnx() -> None:
    loop, branch = surveyed("examples/sum_even.onnx", {"items": np.ones(7, np.float32)})
    assert (loop.name, loop.count, branch.name, branch.count) == ("LOOP", 7, "IF", 7)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("passed", KINDS, ids=str)
def test_empty_models_pass_on_what_they_are_given(passed: Passed, is_bare: bool, backend: str) -> None:
    model = empty_model(passed, is_bare)
    rng = np.random.default_rng(0)
    values = {f"value_{k}": rng.integers(0, 9, shape).astype("S" if dtype is DType.STRING else dtype.numpy)
              for k, (dtype, shape) in enumerate(beside_counter(passed))}
    flags = {FLAG: np.array(True)} if passed.kind == "branch" else {}
    counter = circlet.Counter()
    given = {TURNS: np.array(5, np.int32), **flags, **values}
    left, *found = circlet.Session(model, backend).run(given, listener=counter).values()
    assert left == 0
    for value, result in zip((*flags.values(), *values.values()), found, strict=True):
        np.testing.assert_array_equal(result.astype(value.dtype), value)
    assert (counter.invocations[1], counter.invocations[2]) == (6, 5)
    is_through = passed.kind != "loop" and not is_bare
    assert sum(counter.invocations[each] for each in range(3, len(model.subgraphs))) == (5 if is_through else 0)


def test_an_empty_loop_carries_what_the_model_does() -> None:
    """And one number more where none of them can count."""
    for passed, count in zip(KINDS, (3, 4, 2, 1, 3), strict=True):
        assert len(empty_model(passed).subgraphs[2].inputs) == count


@pytest.mark.parametrize("dtype", [DType.VARIANT, DType.RESOURCE, DType.MXFP4])
def test_what_arrays_do_not_hold_is_refused(dtype: DType) -> None:
    with pytest.raises(RefusedError, match=f"values of type {dtype.value} pass"):
        empty_model(Passed("loop", ((dtype, ()),)))


def test_a_slope_is_without_what_a_run_takes_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that a run advances by 5 ms and 2 us for each turn."""
    now, turns = [0.0], np.array(0, np.int32)

    def run() -> dict[str, Value]:
        now[0] += 5e-3 + 2e-6 * int(turns)
        return {}

    monkeypatch.setattr(empty, "CLOCK", lambda: now[0])
    (found,) = slopes([Turning(run, turns)], 3)
    assert found.seconds == pytest.approx(2e-6)
    assert found.turns * 2e-6 + 5e-3 >= empty.ENOUGH


@pytest.mark.parametrize("passed", KINDS[:3], ids=str)
def test_a_probe(passed: Passed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a call it takes the difference to a loop without it."""
    seen: list[tuple[int, int]] = []

    def sloped(loops: Sequence[Turning], rounds: int) -> list[empty.Slope]:
        seen.append((len(loops), rounds))
        return [empty.Slope(3e-6, 16), empty.Slope(1e-6, 16)][:len(loops)]

    monkeypatch.setattr(empty, "slopes", sloped)
    probe = Probe(passed, tmp_path, 7)
    assert probe.seconds(circlet_peer("cpu")) == pytest.approx(3e-6 if passed.kind == "loop" else 2e-6)
    assert seen == [(1 if passed.kind == "loop" else 2, 7)]


@NATIVE
@pytest.mark.usefixtures("hasty")
def test_json(program: Program) -> None:
    found = program.json("overhead", COLLATZ, "-i", "n=27", *BRIEF)
    names = ["circlet cpu, copying", "circlet cpu", "circlet native, copying", "circlet native"]
    assert [each["variant"] for each in found["variants"]][:4] == names
    copying, eliding, *_ = found["variants"]
    assert (copying["copies"], eliding["copies"]) == (1562, 4)
    assert all(each["agrees"] for each in found["variants"] if each["failure"] is None)
    loop, branch = found["sites"]
    assert (loop["name"], loop["kind"], loop["count"], branch["kind"], branch["count"]) == (
        "WHILE", "loop", 111, "branch", 111)
    assert loop["passes"] == [{"dtype": "int32", "shape": []}] * 4
    assert list(loop["seconds"])[:4] == names
    assert all(each is not None and each >= 0 for each in list(loop["seconds"].values())[:4])
    for each in found["variants"][:4]:
        expected = 111 * (loop["seconds"][each["variant"]] + branch["seconds"][each["variant"]])
        assert each["invoking_seconds"] == pytest.approx(expected)


@NATIVE
@pytest.mark.usefixtures("hasty")
def test_text_and_drawing(program: Program, tmp_path: Path) -> None:
    drawing = tmp_path / "chart.svg"
    text = program.text("overhead", COLLATZ, "-i", "n=27", "--chart", drawing, *BRIEF)
    title, runs, sites, how, *charts = text.rstrip("\n").split("\n\n")
    assert title == COLLATZ
    assert headings(runs)[:2] == ["variant", "run"]
    assert [line.split()[:2] for line in sites.splitlines()[1:]] == [["@0[0]", "WHILE"], ["@4[3]", "IF"]]
    assert how == overhead.HOW
    assert [each.splitlines()[0] for each in charts[:3]] == [
        "collatz.tflite: median of a run", "a turn of an empty loop, passing int32[] x 4",
        "an empty branch, passing int32[]"]
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


def headings(table: str) -> Sequence[str]:
    return table.splitlines()[0].split()


@NATIVE
@pytest.mark.usefixtures("hasty")
def test_a_model_that_invokes_nothing(program: Program) -> None:
    text = program.text("overhead", STRAIGHT, *BRIEF)
    assert "the run invokes no subgraphs\n" in text
    assert overhead.HOW not in text


@pytest.mark.usefixtures("hasty")
def test_errors(program: Program) -> None:
    assert program.error("overhead", "nosuch.tflite") == "nosuch.tflite: No such file or directory"
    assert program.error("overhead", COLLATZ, "--signature", "none").startswith("no signature 'none'; the model has")
