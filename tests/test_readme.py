"""The commands and programs of README.md and docs do what they say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.platform import Feature, current
from circlet.tools.main import main
from tests.needs import NATIVE, ONNX

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [each for folder in ("runtime/ops", "backends/cpu", "backends/native", "tests/ops")
           for each in sorted((ROOT / folder).rglob("*.py"))]
LISTINGS = ("", "llvm")
"""Languages of blocks that show something and are no program."""
ELSEWHERE = {"console": {"docs/cli.md", "docs/debug.md"}, "pycon": {"docs/network.md"}}
"""Languages of blocks that `tests/tools/test_documentation.py` and `tests/network/test_documentation.py` run."""
NOT_RUN = ("make ", "pip install ")
"""Commands that run tests themselves, or need the network."""
COMPILER = pytest.mark.skipif(None in map(shutil.which, ("cc", "bash")), reason="no C compiler")
MARKS = {"README.md": [ONNX], "compiled.md": [NATIVE], "embed.md": [COMPILER, NATIVE], "cli.md": [pytest.mark.slow],
         "onnx.md": [ONNX, pytest.mark.slow]}
"""Documents whose programs need a package, start several processes, or make all cases of the package onnx."""
PEER = "from ai_edge_litert.interpreter import Interpreter"


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: Path
    line: int
    language: str
    text: str

    @property
    def is_excerpt(self) -> bool:
        """Whether it shows a part of a source file."""
        return self.text.startswith(("@operator", "@rule", "@fused", "@nest", "    "))

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [Block(document, text.count("\n", 0, found.start()) + 1, found[1], found[2])
            for found in re.finditer(r"^ *```(.*)\n((?:.*\n)*?) *```$", text, re.MULTILINE)]


BLOCKS = [each for document in DOCUMENTS for each in blocks_of(document)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples in it; the backend is the one that users have, without its warning where
    that is numpy."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    if current().has(Feature.LLVM):
        monkeypatch.delenv("CIRCLET_BACKEND", raising=False)
    return tmp_path


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    for each in BLOCKS:
        if each.language not in ("sh", "python", *LISTINGS):
            assert each.document.relative_to(ROOT).as_posix() in ELSEWHERE[each.language], each


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.is_excerpt and each.language == "python"], ids=str)
def test_excerpts_are_in_the_sources(block: Block) -> None:
    assert any(block.text in source.read_text(encoding="utf-8") for source in SOURCES)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # in the cases of the package onnx
@pytest.mark.parametrize("document", [pytest.param(each, id=each.name, marks=MARKS.get(each.name, ()))
                                      for each in DOCUMENTS])
def test_programs(folder: Path, document: Path) -> None:
    """Blocks are run in their order; what one defines or writes, later ones may use."""
    names: dict[str, object] = {"__name__": "document"}
    for block in blocks_of(document):
        if block.language == "sh":
            run_commands(block, folder)
        elif block.language == "python" and not (block.is_excerpt or needs(block)):
            exec(compile(block.text, str(block), "exec"), names)


def needs(block: Block) -> str | None:
    """The package without which other tests run a block."""
    return next((name for name in ("torch", "ai_edge_litert") if f"import {name}" in block.text
                 or f"from {name}" in block.text), None)


def run_commands(block: Block, folder: Path) -> None:
    for line in block.text.splitlines():
        if line.startswith("circlet compile ") and not current().has(Feature.LLVM):
            assert main(shlex.split(line, comments=True)[1:]) == 1, line
        elif line.startswith("circlet ") and not re.search(r" [|>] ", line):
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
        elif not line.startswith(NOT_RUN):
            run_in_shell(line, folder)


def run_in_shell(line: str, folder: Path) -> None:
    """Runs a command line in bash, in an empty home, with the program in front of the path."""
    for name in ("bin", ".config/fish/completions"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    program = folder / "bin" / "circlet"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m circlet "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {"HOME": str(folder), "PATH": f"{folder}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True, env=environment, capture_output=True)


def test_commands_that_are_not_run_exist() -> None:
    commands = [line for each in BLOCKS if each.language == "sh" for line in each.text.splitlines()
                if line.startswith(NOT_RUN)]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    for command in commands:
        what = re.match(r'(?:make (\w+)|pip install "\.\[(\w+)\]")', command)
        if what is None:
            assert set(_packages(command)) == _dependencies(), command
        else:
            assert what[1] in targets if what[1] else what[2] in extras, command


def _packages(command: str) -> list[str]:
    """What a command installs, by name; all that circlet needs anywhere if that is circlet alone."""
    words = [each for each in shlex.split(command)[2:] if not each.startswith("--")]
    return [*_dependencies()] if words == ["."] else [re.split("[=<>]", each)[0] for each in words]


NATIVE_ONLY = ("llvmlite", "blake3")
"""What circlet needs where it makes native code."""


def _dependencies() -> set[str]:
    """What circlet needs everywhere."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    return {name for name in re.findall(r'^ *"([\w-]+)', listed, re.MULTILINE) if name not in NATIVE_ONLY}


@pytest.mark.filterwarnings("ignore")  # the exporters' own
@pytest.mark.parametrize("block", [each for each in BLOCKS if needs(each) == "torch"], ids=str)
def test_exporters(folder: Path, capsys: pytest.CaptureFixture[str], block: Block) -> None:
    """Where PyTorch is installed, what it exports runs, and is what the example stands for."""
    pytest.importorskip("torch")
    if "dynamo=True" in block.text:
        pytest.importorskip("onnxscript")
    # TorchScript reads the source of what it compiles from its file.
    file = folder / "block.py"
    file.write_text(block.text, encoding="utf-8")
    names: dict[str, object] = {"__name__": "block", "__file__": str(file)}
    exec(compile(block.text, str(file), "exec"), names)
    if "sum_even.onnx" in block.text:
        for items, total in (([1, 2, 3, 4], 6), ([], 0)):
            session = circlet.Session(circlet.load("sum_even.onnx"))
            assert session.run({"items": np.array(items, np.float32)})["s"].tolist() == [total]
    else:
        assert "{'y': array([1., 2.], dtype=float32)}\n" in capsys.readouterr().out


@ONNX
@pytest.mark.parametrize("line", [PEER, "from circlet import Interpreter"], ids=["litert", "circlet"])
def test_a_converted_model_runs_elsewhere(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    if line == PEER:
        pytest.importorskip("ai_edge_litert.interpreter")
    main(["convert", "examples/sum_even.onnx", "sum_even.tflite"])
    capsys.readouterr()
    (block,) = (each for each in BLOCKS if PEER in each.text)
    exec(block.text.replace(PEER, line), {})
    assert capsys.readouterr().out == "{'s': array([6.], dtype=float32)}\n"


@ONNX
def test_what_readme_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test_programs(folder, README)
    out = capsys.readouterr().out
    assert out.count("[6.]") == 2
    assert "{'steps': array(111" in out
    assert (folder / "sum_even.tflite").exists()
    assert (folder / "gated.tflite").exists()


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
    for target in re.findall(r"\]\((?!http)([^)#]+)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
