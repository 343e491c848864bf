"""Plans of functions that ask the host to compute operators: what these are is kept, and the model is not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.load.codec import UnwritableError
from circlet.backends.native.plans import hosting
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.layout import ReverseSequence
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.ops.shape import ShapeOf
from circlet.runtime.ops.unary import Tanh
from circlet.schema.files import dump_model
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import looping
from tests.native.test_plans import forbid_reading, is_prepared

LENGTHS = (7, 2, 100, 3)
SCALES = np.linspace(-1, 1, 16)


def through_doubles(g: Graph, x: Value) -> Value:
    """The tangents, for which there is native code of float32 alone, of a product with a constant: (n, 16)."""
    scaled = g(Mul(), g(Cast(), x, dtype=DType.FLOAT64), g.builder.constant(SCALES), dtype=DType.FLOAT64)
    return g(Tanh(), g(Cast(), g(Tanh(), scaled, dtype=DType.FLOAT64)))


def drawn(g: Graph, x: Value) -> Value:
    """With numbers that go on from run to run: (n, 16)."""
    return g(Add(), x, g(RandomUniform(3, 4), g(ShapeOf(DType.INT32), x, dtype=DType.INT32)))


def model(write: Callable[[Graph, Value], Value], length: int) -> bytes:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(write(g, g.builder.input("x", DType.FLOAT32, (length, 16))))
    return dump_model(b.build(), "tflite")


def is_hosted(session: circlet.Session) -> bool:
    return "cpu" in {part for each in session.backend_of(0) for part in each.split("+")}


@pytest.mark.parametrize("length", [-1, 7])
@pytest.mark.parametrize("write", [through_doubles, drawn])
def test_what_the_host_computes_is_planned(folder: Path, monkeypatch: pytest.MonkeyPatch, length: int,
                                           write: Callable[[Graph, Value], Value]) -> None:
    content, lengths = model(write, length), LENGTHS if length < 0 else (length, length)
    given = [floats(each, 16) for each in lengths]
    first = circlet.Session(content, "native")
    wanted = [first.invoke(0, [each])[0] for each in given]
    assert is_hosted(first)
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    for each, expected in zip(given, wanted, strict=True):
        assert session.invoke(0, [each])[0].tobytes() == expected.tobytes()
    assert is_prepared(session)


def test_loops_that_call_the_host_are_planned(folder: Path) -> None:
    """Their body's operators are those of another subgraph."""
    content, given = dump_model(looping(3), "circle"), [floats(5, 6)]
    wanted = circlet.Session(content, "native").invoke(0, given)[0]
    session = circlet.Session(content, "native")
    assert session.invoke(0, given)[0].tobytes() == wanted.tobytes()
    assert is_prepared(session)


def test_errors_are_those_of_a_model_that_is_read(folder: Path) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, lengths = g.builder.input("x", DType.FLOAT32, (4, 6)), g.builder.input("lengths", DType.INT32, (4,))
    g.builder.output(g(ReverseSequence(1, 0), g(Tanh(), x), lengths))
    content, rows = dump_model(b.build(), "tflite"), floats(4, 6)
    said = []
    for _ in range(2):
        session = circlet.Session(content, "native")
        for last in (6, 9, 5):
            given = [rows, np.array([1, 2, 3, last], np.int32)]
            try:
                said.append(session.invoke(0, given)[0].tolist())
            except circlet.ExecutionError as error:
                said.append(str(error))
    assert is_prepared(session)
    assert said[:3] == said[3:]
    assert "REVERSE_SEQUENCE" in said[1]


def test_what_is_no_record_is_not_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(value: object) -> bytes:
        raise UnwritableError

    monkeypatch.setattr(hosting, "encode", refused)
    content, given = model(through_doubles, -1), [floats(5, 16)]
    wanted = circlet.Session(content, "native").invoke(0, given)[0]
    session = circlet.Session(content, "native")
    assert session.invoke(0, given)[0].tobytes() == wanted.tobytes()
    assert not is_prepared(session)
