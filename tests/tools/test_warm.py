"""`circlet warm`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.lower import span
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary
from circlet.runtime.ops.sort import Unique
from tests.exec import graphs as g
from tests.tools.conftest import Program

COLLATZ, SIGNATURES = "examples/collatz.tflite", "tests/models/signatures.tflite"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "functions"))
    return tmp_path / "functions"


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one with each function that is written."""
    found: list[object] = []
    lower = span.lower_span

    def counted(*arguments: object) -> object:
        found.append(arguments)
        return lower(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(span, "lower_span", counted)
    return found


def saved(path: Path, signature: Sequence[int]) -> str:
    """A model that gives tanh(x), for x of a shape in which -1 is an open length."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, signature)
    main.output(main.apply(unary.Tanh(), x))
    circlet.save(b.build(), path)
    return str(path)


def test_a_program_compiles_nothing_then(program: Program, lowered: list[object]) -> None:
    text = program.text("warm", COLLATZ, SIGNATURES)
    assert "1 function compiled, 0 kept before" in text
    assert "2 functions compiled, 0 kept before" in text
    assert len(lowered) == 3
    circlet.Session(COLLATZ, "native").run({"n": 7})
    session = circlet.Session(circlet.load(SIGNATURES), "native")
    for each in session.model.signatures:
        tensors = session.model.subgraphs[each.subgraph].tensors
        session.signature(each.key)(**{name: np.ones([5] * len(tensors[index].shape), tensors[index].dtype.numpy)
                                       for name, index in each.inputs.items()})
    assert len(lowered) == 3
    again = program.json("warm", COLLATZ)["models"][0]
    assert [each["kept"] for each in again["functions"]] == [True]
    assert (again["left"], again["stopped"], len(lowered)) == ([], [], 3)


def test_one_signature(program: Program) -> None:
    key = circlet.load(SIGNATURES).signatures[0].key
    assert "1 function compiled" in program.text("warm", SIGNATURES, "--signature", key)
    assert program.error("warm", SIGNATURES, "--signature", "nothing").startswith("no signature 'nothing'; the model")


def test_open_lengths(program: Program, tmp_path: Path, lowered: list[object]) -> None:
    path = saved(tmp_path / "open.tflite", [-1, 4])
    (found,) = program.json("warm", path)["models"]
    assert [each["any_lengths"] for each in found["functions"]] == [True]
    session = circlet.Session(path, "native")
    for length in (2, 3, 50):
        g.run(session, [np.ones((length, 4), np.float32)])
    assert len(lowered) == 1


def test_shapes(program: Program, tmp_path: Path, lowered: list[object]) -> None:
    path = saved(tmp_path / "fixed.tflite", [-1, 4])
    program.text("warm", path, "--shape", "x=1,4")
    g.run(circlet.Session(path, "native"), [np.ones((1, 4), np.float32)])
    assert len(lowered) == 1
    assert program.error("warm", path, "--shape", "y=1").startswith("no input 'y'; the entry point takes x")
    for wrong in ("x", "x=1,b", "=1"):
        assert "expected NAME=LENGTH,LENGTH,..." in program.error("warm", path, "--shape", wrong, code=2)
    assert "found (2, 3)" in program.error("warm", path, "--shape", "x=2,3")


def test_what_numpy_computes_is_listed(program: Program, tmp_path: Path) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.apply(unary.Neg(), main.input("x", DType.FLOAT32, (7,)))
    outputs = [g.declared("y", DType.FLOAT32, (1,)), g.declared("k", DType.INT32, (7,))]
    main.output(*main.op(Unique(), x, outputs=outputs))
    circlet.save(b.build(), tmp_path / "unique.tflite")
    text = program.text("warm", tmp_path / "unique.tflite")
    assert "left to numpy: main" in text
    assert "UNIQUE  (host call: no native rule)" in text


def test_a_run_that_stops(program: Program, tmp_path: Path) -> None:
    circlet.save(g.while_model(g.at_most(1 << 20), g.counter, [g.i32(0)]), tmp_path / "long.tflite")
    text = program.text("warm", tmp_path / "long.tflite")
    assert "1 function compiled" in text
    assert "stopped: a run of main on zeros" in text


def test_quiet(program: Program) -> None:
    assert program.text("warm", COLLATZ, "--quiet") == ""


def test_errors(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No such file" in program.error("warm", "nothing.tflite")
    assert program.error("warm", code=2)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    assert program.error("warm", COLLATZ) == "nothing is kept: CIRCLET_CACHE_DIR is empty"
