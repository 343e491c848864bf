"""What the tests of the command line share: running it in process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.ir.types import DType, Quantization
from circlet.tools.main import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Program:
    """Runs `circlet` as from the root of the repository."""

    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """The exit code, stdout and stderr."""
        self.capture.readouterr()
        code = main([str(each) for each in arguments])
        found = self.capture.readouterr()
        return code, found.out, found.err

    def text(self, *arguments: object) -> str:
        """What a successful run without notes prints."""
        code, out, err = self(*arguments)
        assert (code, err) == (0, "")
        return out

    def json(self, *arguments: object) -> Any:
        """The JSON that a successful run without notes prints, which is one line, without the version of its schema."""
        found = parsed(self.text(*arguments, "--json"))
        assert found.pop("schema_version") == 1
        return found

    def json_error(self, *arguments: object) -> tuple[int, Any]:
        """The exit code and the error that a failed run prints as JSON; nothing is on stderr."""
        code, out, err = self(*arguments, "--json")
        found = parsed(out)
        assert (list(found), found["schema_version"], err) == (["schema_version", "error"], 1, "")
        return code, found["error"]

    def error(self, *arguments: object, code: int = 1) -> str:
        """The message of a failed run: one line, and nothing on stdout."""
        found, out, err = self(*arguments)
        line, rest = err.split("\n", 1)
        assert (found, out, rest) == (code, "", "")
        assert line.startswith("circlet: error: ")
        return line.removeprefix("circlet: error: ")


def parsed(out: str) -> dict[str, Any]:
    """One line of JSON."""
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.chdir(ROOT)
    return Program(capsys)


Echo = Callable[..., Path]


@pytest.fixture
def echo(tmp_path: Path) -> Echo:
    """`echo(dtype, shape, name="x", quantization=None)` is the path of a model that returns its only input."""

    def write(dtype: DType | npt.DTypeLike, shape: tuple[int, ...], name: str = "x",
              quantization: Quantization | None = None) -> Path:
        builder = circlet.ModelBuilder()
        main = builder.subgraph("main")
        main.output(main.input(name, dtype, shape, quantization))
        path = tmp_path / "echo.tflite"
        circlet.save(builder.build(), path)
        return path

    return write
