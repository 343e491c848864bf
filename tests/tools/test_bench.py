"""`circlet bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.tools.measuring import peers
from circlet.tools.measuring.peers import PEERS
from tests.needs import NATIVE, ONNX
from tests.tools.conftest import Program

COLLATZ, SIGNATURES = "examples/collatz.tflite", "tests/models/signatures.tflite"
BRIEF = ("--runs", 2, "--warmup", 0)
LITERT = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="LiteRT is not installed")


def open_model(path: Path) -> str:
    """A model that gives tanh(x), for x of any number of rows."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(unary.Tanh(), main.input("x", DType.FLOAT32, (-1, 4))))
    circlet.save(b.build(), path)
    return str(path)


@NATIVE
def test_backends(program: Program) -> None:
    (found,) = program.json("bench", COLLATZ, "-i", "n=27", "--backend", "cpu,native", "--against", "none",
                            *BRIEF)["models"]
    assert (found["model"], found["threads"], found["signature"]) == (COLLATZ, 1, "serving_default")
    assert found["inputs"] == [{"name": "n", "shape": [], "random": False}]
    cpu, native = found["runtimes"]
    assert [each["runtime"] for each in (cpu, native)] == ["circlet cpu", "circlet native"]
    assert (cpu["times_circlet"], native["agrees"], native["difference"]) == (1, True, "equal")
    for each in (cpu, native):
        assert len(each["samples"]) == 2
        assert 0 < each["minimum"] <= each["p10"] <= each["median"] <= each["p90"] <= max(each["samples"])
        assert each["first_seconds"] > each["minimum"]
    assert native["times_circlet"] == native["median"] / cpu["median"]


@LITERT
def test_beside_another_runtime(program: Program) -> None:
    text = program.text("bench", COLLATZ, "-i", "n=7", "--backend", "cpu", "--against", "litert", *BRIEF)
    title, table, chart = text.split("\n\n")
    assert title == f"{COLLATZ}, 1 thread"
    own, other = table.splitlines()[1:]
    assert own.startswith("circlet cpu ")
    assert (other.split()[0], other.split()[-1]) == ("LiteRT", "equal")
    assert [line.split()[0] for line in chart.splitlines()] == ["median", "circlet", "LiteRT"]
    assert max(line.count("#") for line in chart.splitlines()) == 60


def test_runtimes_that_do_not_run_say_why(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    text = program.text("bench", COLLATZ, "-i", "n=1", "--backend", "cpu", "--against", "onnxruntime,litert", *BRIEF)
    assert "ONNX Runtime did not run: it reads .onnx, not .tflite\n" in text
    assert "LiteRT did not run: not installed (pip install ai-edge-litert)\n" in text
    assert "did not run" not in program.text("bench", COLLATZ, "-i", "n=1", "--backend", "cpu", *BRIEF)


@LITERT
def test_a_runtime_that_refuses_the_model(program: Program, tmp_path: Path) -> None:
    builder = ModelBuilder()
    graph = builder.subgraph("main")
    graph.output(graph.apply(unary.Tanh(), graph.input("x", DType.FLOAT64, (2,))))
    circlet.save(builder.build(), tmp_path / "wide.tflite")
    (found,) = program.json("bench", tmp_path / "wide.tflite", "--backend", "cpu", "--against", "litert",
                            *BRIEF)["models"]
    own, other = found["runtimes"]
    assert own["failure"] is None
    assert "float64" in other["failure"].lower() or "type" in other["failure"].lower()


@LITERT
@pytest.mark.parametrize("key", [each.key for each in circlet.load(SIGNATURES).signatures])
def test_a_signature(program: Program, key: str) -> None:
    (found,) = program.json("bench", SIGNATURES, "--signature", key, "--backend", "cpu", "--against", "litert",
                            *BRIEF)["models"]
    assert found["signature"] == key
    assert [each["agrees"] for each in found["runtimes"]] == [True, True]


def test_open_lengths_and_chance(program: Program, tmp_path: Path) -> None:
    path = open_model(tmp_path / "open.tflite")
    common = ("bench", path, "--backend", "cpu", "--against", "none", *BRIEF)
    (found,) = program.json(*common, "--shape", "x=3,4")["models"]
    assert found["inputs"] == [{"name": "x", "shape": [3, 4], "random": True}]
    assert program.text(*common).endswith("\n\ninputs by chance: x\n")
    assert program.error(*common, "--shape", "x=3,5") == "input 'x': expected shape [?,4], found [3,5]"
    assert program.error(*common, "--shape", "y=3") == "no input 'y'; the entry point takes x"


def test_threads_and_models(program: Program, tmp_path: Path) -> None:
    path = open_model(tmp_path / "open.tflite")
    found = program.json("bench", path, COLLATZ, "--threads", "1,2", "--backend", "cpu", "--against", "none",
                         *BRIEF)["models"]
    assert [(each["model"], each["threads"]) for each in found] == [(path, 1), (path, 2), (COLLATZ, 1), (COLLATZ, 2)]


def test_a_drawing(program: Program, tmp_path: Path) -> None:
    drawing = tmp_path / "chart.svg"
    program.text("bench", COLLATZ, "-i", "n=3", "--backend", "cpu", "--against", "none", "--chart", drawing, *BRIEF)
    root = ElementTree.parse(drawing).getroot()
    texts = [each.text for each in root if each.tag.endswith("text")]
    assert texts[:2] == [f"{COLLATZ}, 1 thread", "circlet cpu"]
    assert len(texts) == 3


@pytest.mark.parametrize(("arguments", "message"), [
    (("--against", "litrt"),
     "--against: expected some of litert, onnxruntime, openvino, onert, found 'litrt'; did you mean 'litert'?"),
    (("--backend", "cpu,nativ"),
     "--backend: expected some of auto, cpu, native, found 'nativ'; did you mean 'native'?"),
    (("--threads", "1,0"), "--threads: expected at least 1, found 0"),
    (("--runs", "0"), "--runs: expected at least 1, found 0"),
    (("--shape", "x"), "--shape: expected NAME=LENGTH,LENGTH,..., found 'x'"),
])
def test_misuse(program: Program, arguments: tuple[str, ...], message: str) -> None:
    assert program.error("bench", COLLATZ, *arguments, code=2) == message


def test_an_input_with_a_value_has_no_shape(program: Program) -> None:
    assert program.error("bench", COLLATZ, "-i", "n=1", "--shape", "n=") == "input 'n' is given a value and a shape"


def test_a_file_without_an_ending(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(Path(COLLATZ).read_bytes())
    text = program.text("bench", path, "-i", "n=1", "--backend", "cpu", "--against", "onnxruntime", *BRIEF)
    assert "\ncirclet cpu " in text
    assert text.endswith("ONNX Runtime did not run: it reads .onnx, not files without an ending\n")


@pytest.mark.parametrize("command", ["bench", "overhead"])
def test_the_standard_input_cannot_be_read_by_several(program: Program, command: str) -> None:
    assert program.error(command, "-") == "each runtime reads the model anew: expected a file, found -"


def test_every_runtime_is_named_in_the_documentation() -> None:
    text = Path("docs/cli.md").read_text(encoding="utf-8")
    assert all(name in text for name in PEERS)


@ONNX
def test_benchmarks_of_cases_measure_as_the_command_does(program: Program, tmp_path: Path) -> None:
    written, drawn = tmp_path / "cases.json", tmp_path / "cases.svg"
    arguments = ("--models", tmp_path / "none", "--only", "cond", "--backends", "cpu", "--rounds", 1,
                 "--json", written, "--chart", drawn)
    done = subprocess.run([sys.executable, "-m", "benchmarks.run", *map(str, arguments)], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (case,) = json.loads(written.read_text(encoding="utf-8"))["cases"]
    (model,) = program.json("bench", case["model"], "--backend", "cpu", "--against", "none", "--runs", 1)["models"]
    assert case.keys() == {"case", "iterations", *model}
    assert case["runtimes"][0].keys() == model["runtimes"][0].keys()
    assert [each["runtime"] for each in case["runtimes"][:2]] == ["circlet cpu", "circlet cpu, copying"]
    assert case["runtimes"][1]["agrees"]
    assert "circlet cpu, copying" in done.stdout
    assert ">cond<" in drawn.read_text(encoding="utf-8")
