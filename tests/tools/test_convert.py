"""`circlet convert`."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.tools.main import main
from tests.tools.conftest import Program

COLLATZ = "examples/collatz.tflite"


def test_a_model_is_written_in_another_format(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "collatz.circle"
    text = program.text("convert", COLLATZ, str(target))
    assert text.startswith(f"{target}: ")
    assert text.endswith("5 subgraphs, 11 operators\n\nthe operators are the same\n")
    assert circlet.load(target).format == "circle"
    assert circlet.Session(circlet.load(target)).run({"n": np.int32(27)})["steps"] == 111


def test_json(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "collatz.circle"
    assert program.json("convert", COLLATZ, str(target)) == {
        "model": COLLATZ, "output": str(target), "bytes": target.stat().st_size, "subgraphs": 5,
        "operators": {"ADD": 3, "EQUAL": 1, "FLOOR_DIV": 1, "FLOOR_MOD": 1, "GREATER": 1, "IF": 1, "MAXIMUM": 1,
                      "MUL": 1, "WHILE": 1},
    }


def test_another_format_than_the_ending_says(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    assert program.error("convert", COLLATZ, target) == "expected a format among tflite, circle, found 'bin'"
    program.text("convert", COLLATZ, target, "--to", "circle")
    assert circlet.load(target).format == "circle"


def test_standard_output(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = TextIOWrapper(BytesIO())
    monkeypatch.setattr("sys.stdout", stream)
    assert main(["convert", COLLATZ, "-", "--to", "circle"]) == 0
    content = stream.buffer
    assert isinstance(content, BytesIO)
    assert circlet.load(content.getvalue()).format == "circle"


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "a model for the standard output needs a format; expected --to tflite or --to circle"),
    (["--to", "tflite", "--json"], "--json and a model cannot both be written to the standard output; expected one"),
    (["--to", "onnx"], "--to: expected one of tflite, circle, found 'onnx'"),
])
def test_standard_output_that_cannot_be(program: Program, arguments: list[str], message: str) -> None:
    code, out, err = program("convert", COLLATZ, "-", *arguments)
    assert code == 2
    assert message in out + err


def test_a_terminal_gets_no_model(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert program.error("convert", COLLATZ, "-", "--to", "tflite").startswith("a model is no text for a terminal")
