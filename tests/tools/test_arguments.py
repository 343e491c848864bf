"""How a model is to be read, as commands are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schema.openvino.text import seed_scan
from tests.tools.conftest import Program

OVERRUN = ["--slice-overrun", "hold_last"]
ABSENT_COND = ["--onnx-absent-cond", "ort"]
STOPPING = """g (int64 n) => (int64[k] turns) {
    turns = Loop(n, "") <body = body (int64 i, bool c) => (bool d, int64 j) {
    d = Constant<value = bool {0}>() j = Identity(i) }> }"""


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A TensorIterator that adds five slices of three elements to a number."""
    path = tmp_path / "scan.xml"
    path.write_text(seed_scan().replace('axis="0"', 'axis="0" end="5"'), encoding="utf-8")
    return path


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """An ONNX Loop without `cond` whose body says false."""
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import parse

    path = tmp_path / "loop.onnx"
    path.write_bytes(parse(STOPPING))
    return path


def values(program: Program, path: Path, inputs: list[str], *options: str) -> object:
    arguments = [each for value in inputs for each in ("-i", value)]
    return program.json("run", path, *arguments, *options)["outputs"][0]["values"]


def test_slice_overrun(program: Program, scan: Path) -> None:
    inputs = ["parameter_0=[1, 2, 3]", "parameter_1=[10]"]
    assert values(program, scan, inputs, *OVERRUN) == [10 + 1 + 2 + 3 + 3 + 3]
    assert "index 3 is out of range" in program.error("run", scan, "-i", inputs[0], "-i", inputs[1])


def test_onnx_absent_cond(program: Program, loop: Path) -> None:
    assert values(program, loop, ["n=3"]) == [0, 1, 2]
    assert values(program, loop, ["n=3"], *ABSENT_COND) == [0]


def test_every_command_takes_them(program: Program, scan: Path, loop: Path) -> None:
    assert "overrun: HOLD_LAST" in program.text("inspect", scan, *OVERRUN)
    for path, options in ((scan, OVERRUN), (loop, ABSENT_COND)):
        plain, asked = path.with_suffix(".plain.tflite"), path.with_suffix(".asked.tflite")
        program.text("convert", path, plain)
        program.text("convert", path, asked, *options)
        assert plain.read_bytes() != asked.read_bytes()
