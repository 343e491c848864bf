"""The `circlet` program as such: usage, exit codes, streams."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import circlet
from circlet.tools import run
from circlet.tools.main import main
from tests.tools.conftest import ROOT, Program

COLLATZ = "examples/collatz.tflite"


@pytest.mark.parametrize("command", [[str(Path(sys.executable).with_name("circlet"))],
                                     [sys.executable, "-m", "circlet"]], ids=["circlet", "python -m circlet"])
def test_installed(command: list[str]) -> None:
    def execute(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    good = execute("run", COLLATZ, "-i", "n=27", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert [each["values"] for each in json.loads(good.stdout)["outputs"]] == [111, 9232]
    bad = execute("inspect", "nosuch.tflite")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "circlet: error: nosuch.tflite: No such file or directory\n"
    assert execute("run").stderr.startswith("usage: circlet run ")


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "the following arguments are required: COMMAND"),
    (["nope"], "invalid choice: 'nope'"),
    (["run"], "the following arguments are required: MODEL"),
    (["run", COLLATZ, "-i", "n"], "expected NAME=VALUE or NAME=@FILE, found 'n'"),
    (["run", COLLATZ, "-i", "=1"], "expected NAME=VALUE or NAME=@FILE, found '=1'"),
    (["run", COLLATZ, "--repeat", "0"], "argument --repeat: expected at least 1, found 0"),
    (["run", COLLATZ, "--max-iterations", "-1"], "argument --max-iterations: expected at least 0, found -1"),
    (["run", COLLATZ, "--deadline", "nan"], "argument --deadline: expected at least 0, found nan"),
    (["run", COLLATZ, "--backend", "nope"], "argument --backend: invalid choice: 'nope'"),
    (["inspect", COLLATZ, "--subgraph", "-1"], "argument --subgraph: expected at least 0, found -1"),
    (["inspect", COLLATZ, "--subgraph", "one"], "argument --subgraph: invalid"),
])
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert message in found.err.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "text"), [
    (["--version"], f"circlet {circlet.__version__}\n"),
    (["--help"], "inspect "),
    (["run", "--help"], "--max-iterations"),
    (["inspect", "--help"], "--copies"),
])
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(("error", "code", "message"), [
    (KeyboardInterrupt(), 130, ""),
    (MemoryError("Unable to allocate 8 TiB"), 1, "circlet: error: out of memory: Unable to allocate 8 TiB\n"),
    (MemoryError(), 1, "circlet: error: out of memory\n"),
    (OSError("odd"), 1, "circlet: error: odd\n"),
    (circlet.UnsupportedError("two things:\n  this\n  that"), 1, "circlet: error: two things: this; that\n"),
])
def test_exit_codes(program: Program, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int,
                    message: str) -> None:
    def fail(options: object) -> str:
        raise error

    monkeypatch.setattr(run, "execute", fail)
    assert program("run", COLLATZ) == (code, "", message)


def test_reader_that_goes_away() -> None:
    command = [sys.executable, "-m", "circlet", "inspect", COLLATZ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_stream_that_holds_ascii_only(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["run", "tests/models/string_gather.tflite", "-i", "words=['ñ']", "-i", "index=0"]) == 0
    stream.seek(0)
    assert "'\\xf1'" in stream.read()
