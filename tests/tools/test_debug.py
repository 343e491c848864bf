"""`circlet debug`: stops, prints and writes tensors, and does what commands say."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Div, Sub
from tests.needs import ONNX
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"
CHAIN = "examples/sum_even.onnx"
FIRST = "while_body@iteration=0"
BODY = circlet.load(COLLATZ).subgraphs[4]
READ = BODY.operators[0].inputs[0]
"""A tensor that the first operator of the body reads."""


@pytest.fixture
def dividing(tmp_path: Path) -> Path:
    """A model that gives (x - x) / (x - x)."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2,))
    zero = main.op(Sub(), x, x)[0]
    main.output(main.op(Div(), zero, zero)[0])
    path = tmp_path / "dividing.tflite"
    circlet.save(b.build(), path)
    return path


def test_a_tensor_is_printed_and_written_where_it_is_asked_for(program: Program, tmp_path: Path) -> None:
    model = circlet.load(COLLATZ)
    name = model.subgraphs[4].tensors[model.subgraphs[4].operators[0].outputs[0]].name
    file = tmp_path / "x.npy"
    text = program.text("debug", COLLATZ, "-i", "n=27", "--break", "while_body:0@iteration=100", "--print", name,
                        "--dump", f"{name}={file}")
    lines = text.splitlines()
    assert lines[:3] == ["after @4[0] ADD in while_body, iteration 100: breakpoint @4[0] iteration 100",
                         f"{name} int32[] = 101", f"saved {file}"]
    assert np.load(file) == 101
    assert lines[-2:] == ["steps   int32[]  111", "peak    int32[]  9232"]


def test_files_of_further_stops_have_numbers(program: Program, tmp_path: Path) -> None:
    model = circlet.load(COLLATZ)
    name = model.subgraphs[4].tensors[model.subgraphs[4].operators[0].outputs[0]].name
    found = program.json("debug", COLLATZ, "-i", "n=2", "--dump", f"{name}={tmp_path / 'x.npy'}")
    assert [each["iteration"] for each in found["stops"]] == [0]
    found = program.json("debug", COLLATZ, "-i", "n=4", "--dump", f"{name}={tmp_path / 'x.npy'}", "--print", name)
    assert [each["files"] for each in found["stops"]] == [[str(tmp_path / "x.npy")], [str(tmp_path / "x.2.npy")]]
    assert [each["tensors"][0]["values"] for each in found["stops"]] == [1, 2]
    assert [np.load(tmp_path / each).item() for each in ("x.npy", "x.2.npy")] == [1, 2]
    assert found["outputs"] == [{"name": "steps", "values": 2}, {"name": "peak", "values": 4}]


def test_a_run_ends_at_the_first_nan(program: Program, dividing: Path) -> None:
    text = program.text("debug", dividing, "-i", "x=[1, 2]", "--stop-at", "nan")
    assert text.startswith("after @0[1] DIV in main: NaN in tensor ")
    assert "float32[2] = [nan nan]  (2 NaN)" in text
    assert text.endswith("\nthe run was ended\n")
    found = program.json("debug", dividing, "-i", "x=[1, 2]", "--stop-at", "nan")
    assert found["outputs"] is None
    assert [each["operator_name"] for each in found["stops"]] == ["DIV"]
    assert program.text("debug", COLLATZ, "-i", "n=27", "--stop-at", "nan", "--stop-at", "inf").startswith(
        "the run stopped nowhere\n")


COMMANDS = [
    ("where", "main: @0[0] WHILE runs its body, iteration 0\nwhile_body: after @4[0] ADD in while_body, iteration 0"),
    ("list", "=> [0] ADD "), ("print", " int32[] = 1"), (f"print {READ}", f"{BODY.tensors[READ].name} int32[] = 0"),
    ("next;where", "after @4[1] "), ("iteration;where", "after @4[0] ADD in while_body, iteration 1: iteration"),
    ("out", "after @0[0] WHILE in main: out"), ("o;p", "int32[] = 111"), ("c", "steps   int32[]  111"),
    ("break", "0: @4 iteration 0"), ("break ADD;delete 0;break", "0: ADD"),
    ("delete 7", "error: no breakpoint '7'; there are 1"),
    ("prnt x", "error: no command 'prnt'; did you mean 'print'?; help lists them"),
    ("print zzz", "error: no tensor 'zzz' here"), ("step 1", "error: step takes 0 words, found 1"),
    ("help", "iteration       go on to the next iteration"), ("print '", "error: No closing quotation"),
    ("quit", "the run was ended"),
]


@pytest.mark.parametrize(("commands", "expected"), COMMANDS)
def test_commands(program: Program, monkeypatch: pytest.MonkeyPatch, commands: str, expected: str) -> None:
    text = program.text("debug", COLLATZ, "-i", "n=27", "--break", FIRST, "--command", commands)
    assert text.startswith("after @4[0] ADD in while_body, iteration 0: breakpoint @4 iteration 0\n")
    assert expected in text
    monkeypatch.setattr("sys.stdin", io.StringIO(commands.replace(";", "\n") + "\n"))
    assert program.text("debug", COLLATZ, "-i", "n=27", "--break", FIRST) == text


def test_a_tensor_is_written_by_a_command(program: Program, tmp_path: Path) -> None:
    command = f"dump {READ} {tmp_path}/x.npy"
    text = program.text("debug", COLLATZ, "-i", "n=27", "-b", "while_body", "--command", command)
    assert f"saved {tmp_path}/x.npy" in text
    assert np.load(tmp_path / "x.npy") == 0


def test_an_empty_line_goes_on_as_before(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("i\n\n\nq\n"))
    text = program.text("debug", COLLATZ, "-i", "n=27", "--break", "while_body:0@iteration=0")
    assert "iteration 3: iteration" in text


@ONNX
def test_loops_of_onnx_are_shown_as_they_are(program: Program) -> None:
    text = program.text("debug", CHAIN, "-i", "items=[1, 2, 3]", "-b", "iteration=0", "--command", "where;out;c")
    assert "LOOP runs its body, iteration 0" in text
    assert "LOOP in " in text
    assert "WHILE" not in text
    assert "else_branch" not in text


@pytest.mark.parametrize(("arguments", "message"), [
    (["--break", "while_boby"], "no subgraph, tensor or operator 'while_boby'; did you mean 'while_body'?"),
    (["--print", "zzz"], "no tensor 'zzz' in the model"),
    (["--command", "q", "-i", "n=@-", "-i", "n=@-"], "the standard input can be read once; expected one - at most, or "
                                                    "commands"),
    (["-i", "n=@-"], "the standard input can be read once; expected one - at most, or commands"),
    (["-i", "n=27", "--print", "0", "--max-iterations", "3"], "no tensor '0' in the model"),
    (["-i", "n=27", "--stop-at", "nan", "--max-iterations", "3"],
     "subgraph 0 ('main'), operator 0 (WHILE): the run needs more than max_iterations=3 loop iterations"),
])
def test_errors(program: Program, arguments: list[str], message: str) -> None:
    assert program.error("debug", COLLATZ, *arguments) == message


def test_json_needs_a_run_that_nobody_attends(program: Program) -> None:
    code, error = program.json_error("debug", COLLATZ, "--command", "q")
    assert (code, error["type"]) == (2, "UsageError")
