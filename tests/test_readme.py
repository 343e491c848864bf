"""The commands and programs of README.md do what it says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.tools.main import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PEER = "from ai_edge_litert.interpreter import Interpreter"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_commands() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("circlet ")]
    assert len(commands) >= 5
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, command


def test_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_commands()
    assert capsys.readouterr().out.count("[6.]") == 2
    assert (folder / "sum_even.tflite").exists()


@pytest.mark.parametrize("line", [PEER, "from circlet import Interpreter"], ids=["litert", "circlet"])
def test_a_converted_model_runs_elsewhere(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    if line == PEER:
        pytest.importorskip("ai_edge_litert.interpreter")
    run_commands()
    capsys.readouterr()
    (program,) = (block for block in blocks("python") if PEER in block)
    exec(program.replace(PEER, line), {})
    assert capsys.readouterr().out == "{'s': array([6.], dtype=float32)}\n"


def test_the_session_in_the_introduction(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block for block in blocks("python") if "circlet.Limits" in block)
    exec(program, {})
    assert "{'steps': array(111" in capsys.readouterr().out


def test_the_example_is_what_its_script_writes(folder: Path) -> None:
    onnx = pytest.importorskip("onnx")
    text = (ROOT / "examples" / "make_sum_even.py").read_text(encoding="utf-8")
    names: dict[str, str] = {"__name__": "", "__file__": str(folder / "make_sum_even.py")}
    exec(text, names)
    exec("main()", names)
    assert onnx.load("sum_even.onnx") == onnx.load(ROOT / "examples" / "sum_even.onnx")


@pytest.mark.parametrize(("items", "total"), [([1, 2, 3, 4], 6), ([2, -4, 0, 7], -2), ([], 0), (range(10), 20)])
def test_the_example(items: list[int], total: int) -> None:
    session = circlet.Session(circlet.load(ROOT / "examples" / "sum_even.onnx"))
    assert session.run({"items": np.array(items, np.float32)})["s"].tolist() == [total]


def test_links() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", TEXT):
        assert (ROOT / target).exists(), target
