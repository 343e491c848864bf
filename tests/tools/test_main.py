"""The `circlet` program as such: usage, exit codes, streams."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import circlet
from circlet.tools import run
from circlet.tools.main import COMMANDS, main
from tests.needs import NATIVE
from tests.tools.conftest import ROOT, Program

COLLATZ = "examples/collatz.tflite"


@pytest.mark.parametrize("command", [[str(Path(sys.executable).with_name("circlet"))],
                                     pytest.param([sys.executable, "-m", "circlet"], marks=pytest.mark.slow)],
                         ids=["circlet", "python -m circlet"])
def test_installed(command: list[str]) -> None:
    def execute(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    good = execute("run", COLLATZ, "-i", "n=27", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert [each["values"] for each in json.loads(good.stdout)["outputs"]] == [111, 9232]
    bad = execute("inspect", "nosuch.tflite")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "circlet: error: nosuch.tflite: No such file or directory\n"
    misused = execute("run")
    assert (misused.returncode, misused.stderr) == (2, "circlet: error: missing MODEL; see circlet run --help\n")


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "missing command; see circlet --help"),
    (["rnu"], "no command 'rnu'; did you mean 'run'?"),
    (["zzz"], f"no command 'zzz'; expected one of {', '.join(COMMANDS)}"),
    (["cache", "claer"], "no command 'claer'; did you mean 'clear'?"),
    (["--vresion"], "no option --vresion; did you mean --version?"),
    (["run", COLLATZ, "--repaet", "3"], "no option --repaet; did you mean --repeat?"),
    (["run", COLLATZ, "--zzz"], "no option --zzz"),
    (["run", COLLATZ, "--repeat"], "--repeat needs a value"),
    (["run"], "missing MODEL; see circlet run --help"),
    (["run", COLLATZ, "more"], "got unexpected extra argument (more); see circlet run --help"),
    (["run", COLLATZ, "-i", "n"], "--input: expected NAME=VALUE or NAME=@FILE, found 'n'"),
    (["run", COLLATZ, "-i", "=1"], "--input: expected NAME=VALUE or NAME=@FILE, found '=1'"),
    (["run", COLLATZ, "--repeat", "0"], "--repeat: expected at least 1, found 0"),
    (["run", COLLATZ, "--repeat", "many"], "--repeat: expected an integer, found 'many'"),
    (["run", COLLATZ, "--max-iterations", "-1"], "--max-iterations: expected at least 0, found -1"),
    (["run", COLLATZ, "--deadline", "nan"], "--deadline: expected at least 0, found nan"),
    (["run", COLLATZ, "--deadline", "soon"], "--deadline: expected a number of seconds, found 'soon'"),
    (["run", COLLATZ, "--backend", "naive"],
     "--backend: expected one of auto, cpu, native, found 'naive'; did you mean 'native'?"),
    (["completion", "csh"], "SHELL: expected one of bash, zsh, fish, found 'csh'; did you mean 'zsh'?"),
])
def test_usage(program: Program, arguments: list[str], message: str) -> None:
    assert program.error(*arguments, code=2) == message


def test_errors_as_json(program: Program) -> None:
    assert program.json_error("run", COLLATZ, "--repeat", "0") == (
        2, {"type": "UsageError", "message": "--repeat: expected at least 1, found 0", "place": None})
    assert program.json_error()[1]["message"] == "no option --json"
    assert program.json_error("run", "nosuch.tflite") == (
        1, {"type": "FileNotFoundError", "message": "nosuch.tflite: No such file or directory", "place": None})
    code, error = program.json_error("run", COLLATZ, "-i", "n=27", "--max-iterations", "3")
    assert (code, error["type"], error["place"]) == (1, "LimitError", {
        "subgraph": 0, "subgraph_name": "main", "operator": 0, "operator_name": "WHILE", "tensor": None})
    assert error["message"].endswith("the run needs more than max_iterations=3 loop iterations")


@NATIVE
def test_backend_of_the_environment(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_BACKEND", "foo")
    message = "the environment variable CIRCLET_BACKEND must be one of auto, cpu, native, found 'foo'"
    assert program.error("run", COLLATZ) == program.error("inspect", COLLATZ) == message
    assert program.json_error("run", COLLATZ)[1]["type"] == "InputError"
    monkeypatch.setenv("CIRCLET_BACKEND", "auto")
    assert program.json("run", COLLATZ, "-i", "n=1")["backend"] == "native"


@pytest.mark.parametrize(("arguments", "texts"), [
    (["--version"], [f"circlet {version('circlet')}\n"]),
    (["--help"], ["inspect ", "completion "]),
    (["run", "--help"], ["--max-iterations N", "Arguments:", "Inputs:", "Limits:"]),
    (["inspect", "--help"], ["--copies", "What is shown:"]),
    (["cache", "clear", "--help"], ["Delete all compiled functions"]),
])
def test_help(program: Program, arguments: list[str], texts: list[str]) -> None:
    found = program.text(*arguments)
    assert all(each in found for each in texts)


def test_modules_that_help_needs() -> None:
    """Help needs no tables, and who imports circlet needs nothing of the program."""
    text = ("import sys, circlet; print('click' in sys.modules, 'rich' in sys.modules); "
            "from circlet.tools.main import main; main(['--help']); print('rich' in sys.modules)")
    first, *_, last = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True,
                                     check=True).stdout.splitlines()
    assert (first, last) == ("False False", "False")


@pytest.mark.parametrize(("words", "expected"), [
    ("circlet ins", "plain,inspect"), ("circlet run --max", "plain,--max-iterations"),
    ("circlet run --backend n", "plain,native"), ("circlet cache c", "plain,clear"), ("circlet run ex", "file,ex"),
])
def test_completion(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str,
                    expected: str) -> None:
    monkeypatch.setenv("_CIRCLET_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert main([]) == 0
    assert capsys.readouterr().out == f"{expected}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_shells(program: Program, shell: str) -> None:
    assert f"_CIRCLET_COMPLETE={shell}_complete" in program.text("completion", shell)


@pytest.mark.parametrize(("error", "code", "message"), [
    (KeyboardInterrupt(), 130, ""),
    (MemoryError("Unable to allocate 8 TiB"), 1, "circlet: error: out of memory: Unable to allocate 8 TiB\n"),
    (MemoryError(), 1, "circlet: error: out of memory\n"),
    (OSError("odd"), 1, "circlet: error: odd\n"),
    (circlet.UnsupportedError("two things:\n  this\n  that"), 1, "circlet: error: two things: this; that\n"),
])
def test_exit_codes(program: Program, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int,
                    message: str) -> None:
    def fail(options: object) -> circlet.Model:
        raise error

    monkeypatch.setattr(run, "load", fail)
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
