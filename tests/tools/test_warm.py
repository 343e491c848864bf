"""`circlet warm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.lower import span
from circlet.runtime.exec.session import Session
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Padding, Shape
from circlet.runtime.ops import unary
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import Unique
from circlet.tools import warm
from circlet.tools.results import Value
from tests.exec import graphs as g
from tests.exec.kept import appending
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
    assert "5 functions compiled, 0 kept before" in text
    assert text.count("for interpreters") == 1
    assert len(lowered) == 6
    circlet.Session(COLLATZ, "native").run({"n": 7})
    session = circlet.Session(circlet.load(SIGNATURES), "native")
    for each, length in product(session.model.signatures, (5, 1)):
        tensors = session.model.subgraphs[each.subgraph].tensors
        session.signature(each.key)(**{name: np.ones([length] * len(tensors[index].shape), tensors[index].dtype.numpy)
                                       for name, index in each.inputs.items()})
        interpreter = circlet.Interpreter(SIGNATURES).get_signature_runner(each.key)
        interpreter(**{name: np.ones([length] * len(tensors[index].shape), tensors[index].dtype.numpy)
                       for name, index in each.inputs.items()})
    assert len(lowered) == 6
    again = program.json("warm", COLLATZ)["models"][0]
    assert [each["kept"] for each in again["functions"]] == [True]
    assert (again["left"], again["stopped"], len(lowered)) == ([], [], 6)


def test_one_signature(program: Program) -> None:
    key = circlet.load(SIGNATURES).signatures[0].key
    assert "3 functions compiled" in program.text("warm", SIGNATURES, "--signature", key)
    assert program.error("warm", SIGNATURES, "--signature", "nothing").startswith("no signature 'nothing'; the model")


def test_open_lengths(program: Program, tmp_path: Path, lowered: list[object]) -> None:
    """One at a time is what most programs run, and has code of its own."""
    path = saved(tmp_path / "open.tflite", [-1, -1, 4])
    (found,) = program.json("warm", path)["models"]
    count = len(lowered)
    assert [each["any_lengths"] for each in found["functions"]].count(True) == count - 1 > 0
    session = circlet.Session(path, "native")
    for shape in product((1, 2, 3, 50), (1, 2, 40)):
        if shape[0] == 1 or shape[1] != 1:
            g.run(session, [np.ones((*shape, 4), np.float32)])
    assert len(lowered) == count


def test_variables_of_open_lengths(program: Program, tmp_path: Path, lowered: list[object]) -> None:
    """What runs do on what others left is code of its own."""
    path = tmp_path / "appending.circle"
    circlet.save(appending(is_computed=True), path)
    program.text("warm", str(path))
    count = len(lowered)
    assert count
    for rows in ((2, 3), (1, 2), (4, 3)):
        session = circlet.Session(path, "native")
        for _ in range(3):
            session.run([np.ones((*rows, 2), np.int32)])
    assert len(lowered) == count


def test_lengths_that_a_model_is_not_for(program: Program, tmp_path: Path) -> None:
    """What is only tried is no news."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 4))
    main.output(main.apply(Reshape(), x, main.constant([-1, 8])))
    circlet.save(b.build(), tmp_path / "pairs.tflite")
    (found,) = program.json("warm", tmp_path / "pairs.tflite")["models"]
    assert found["functions"]
    assert found["stopped"] == []


@pytest.mark.parametrize(("signature", "larger"), [
    ((-1, -1, -1, 3), (1, 64, 64, 3)), ((-1, 5), (64, 5)), ((4, -1), (4, 64)), ((4, 5), None)])
def test_larger_lengths_are_tried_too(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      signature: Shape, larger: Shape | None) -> None:
    """What halves images again and again is other code where that comes to one place."""
    ran: list[Shape] = []
    ended = warm._ended

    def counted(session: Session, record: warm._Record, entry: Entry, inputs: Mapping[str, Value]) -> object:
        ran.append(np.asarray(inputs["x"]).shape)
        return ended(session, record, entry, inputs)

    monkeypatch.setattr(warm, "_ended", counted)
    program.text("warm", saved(tmp_path / "model.tflite", signature))
    assert ran[-1] == (signature if larger is None else larger)
    assert len(ran) == len(set(ran))


@pytest.mark.parametrize("window", [20, 200])
def test_lengths_that_windows_fit_into(program: Program, tmp_path: Path, lowered: list[object], window: int) -> None:
    """A signal that is shorter than a filter is tried longer."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (1, 1, -1, 1))
    weights = main.constant(np.ones((2, 1, window, 1), np.float32))
    bias = main.constant(np.zeros(2, np.float32))
    main.output(main.apply(Conv2D(padding=Padding.VALID, stride_w=1, stride_h=1), x, weights, bias))
    circlet.save(b.build(), tmp_path / "filter.tflite")
    (found,) = program.json("warm", tmp_path / "filter.tflite")["models"]
    assert [each["any_lengths"] for each in found["functions"]].count(True)
    assert found["stopped"] == []
    count = len(lowered)
    g.run(circlet.Session(tmp_path / "filter.tflite", "native"), [np.ones((1, 1, 300, 1), np.float32)])
    assert len(lowered) == count


def test_lengths_that_nothing_fits(program: Program, tmp_path: Path) -> None:
    """What is told is why the first run ended."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 4))
    main.output(main.apply(Reshape(), x, main.constant([-1, 7, 3])))
    circlet.save(b.build(), tmp_path / "odd.tflite")
    text = program.text("warm", tmp_path / "odd.tflite")
    assert "stopped: a run of main on zeros" in text
    assert "32 elements" in text


def test_runs_that_are_too_large_are_not_tried(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                              ) -> None:
    """Nor is memory taken for them, nor what has no open lengths tried again."""
    made: list[int] = []
    make = warm._zeros

    def counted(tensor: Tensor, shape: Shape) -> object:
        made.append(prod(shape))
        return make(tensor, shape)

    monkeypatch.setattr(warm, "_zeros", counted)
    for shape, sizes in (((-1, -1, -1, -1), {8**4, 8**3, 1}), ((2, 5), {10})):
        b = ModelBuilder()
        main = b.subgraph("main")
        x, undeclared = main.input("x", DType.FLOAT32, shape), Tensor("y", DType.FLOAT32, (), has_rank=False)
        main.output(*main.op(Reshape(), x, main.constant([-1, 7, 3]), outputs=[undeclared]))
        circlet.save(b.build(), tmp_path / "odd.tflite")
        (found,) = program.json("warm", tmp_path / "odd.tflite")["models"]
        assert len(found["stopped"]) == 1
        assert {*made} == sizes
        assert len(made) == len(sizes)
        made.clear()


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
    assert "UNIQUE  (host call: a number of results that the model declares)" in text


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
