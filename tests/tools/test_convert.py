"""`circlet convert`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import circlet
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
