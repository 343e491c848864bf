"""`circlet compile -o NAME.circlet`, and what other commands make of such files."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from circlet.compiled import CompiledModel, load
from circlet.embed.container import TARGETS
from tests.compiled.files import described, here
from tests.tools.conftest import Program, program  # noqa: F401  # a fixture

COLLATZ = "examples/collatz.tflite"


@here
def test_a_file_for_many_machines(program: Program, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "collatz.circlet"
    lines = program.text("compile", COLLATZ, "-o", path).splitlines()
    assert lines[0] == f"{path}: {path.stat().st_size} bytes"
    assert [each.split()[0] for each in lines[3:]] == [*TARGETS, "the"]
    assert load(path).run({"n": 27})["steps"] == 111
    assert "111" in program.text("run", path, "-i", "n=27")
    assert program.json("inspect", path, "--json")["format"] == "tflite"


@here
def test_options(program: Program, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "signatures.circlet"
    found = program.json("compile", "tests/models/signatures.tflite", "--target", "host", "--target", "x86-64",
                         "--signature", "encode", "--optimize", "size", "-o", path, "--json")
    assert (found["files"], found["bytes"]) == ([str(path)], path.stat().st_size)
    assert list(found["targets"]) == ["host", "x86-64"]
    assert [each.target for each in described(path.read_bytes()).variants] == ["host", "x86-64"]
    model = load(path)
    assert isinstance(model, CompiledModel)
    assert model.signature().signature.key == "encode"


@pytest.mark.parametrize(("arguments", "wanted"), [
    (["-o", "x.circlet", "--emit", "shared"], "without --emit, --cpu and --example"),
    (["-o", "x.circlet", "--cpu", "znver4"], "without --emit, --cpu and --example"),
    (["-o", "x.circlet", "--target", "x86_64-unknown-linux-gnu"], "must say which machines they fit"),
    (["-o", "x"], "expected one --target, found 0"),
    (["-o", "x", "--target", "host", "--target", "x86-64"], "expected one --target, found 2"),
])
def test_what_does_not_go_together(program: Program, arguments: list[str], wanted: str) -> None:  # noqa: F811
    assert wanted in program.error("compile", COLLATZ, *arguments)
    assert not Path("x.circlet").exists()


def test_a_model_without_code_for_devices_is_refused(program: Program, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "complex_parts.circlet"
    assert "complex64" in program.error("compile", "tests/models/complex_parts.tflite", "-o", path)
    assert not path.exists()
    assert circlet.load("tests/models/complex_parts.tflite")
