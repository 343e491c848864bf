"""Inputs of an interpreter that get one shape after another: what callers wrote to the others stays."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from circlet.interpreter import Interpreter
from circlet.runtime.exec.bound import BoundRun
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.index import Where
from circlet.runtime.ops.reduce import Sum
from circlet.schema.files import dump_model
from tests.needs import NATIVE

LENGTHS = (1, 2, 3, 5, 17, 100, 3000, 40_000)
"""Some for which memory has to grow."""


def model(has_places: bool) -> bytes:
    """x (n, 3) and y (m,): y plus the sum of x, x by the sum of y, and perhaps where y is positive."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (-1, 3)), main.input("y", DType.FLOAT32, (-1,))
    all_of_x, all_of_y = (main.apply(Sum(), each, main.constant(np.array(axes, np.int32)))
                          for each, axes in ((x, [0, 1]), (y, [0])))
    results = [main.apply(Add(), y, all_of_x), main.apply(Mul(), x, all_of_y)]
    if has_places:
        results.append(main.apply(Where(), main.apply(Greater(), y, main.constant(np.array(0, np.float32)))))
    main.output(*results)
    return dump_model(b.build(), "tflite")


def expected(x: Array, y: Array) -> list[Array]:
    return [y + x.sum(), x * y.sum(), np.argwhere(y > 0)]


class Caller:
    """Does one thing after another, and knows what inputs hold."""

    def __init__(self, content: bytes, seed: int) -> None:
        self.choose, self.draw = random.Random(seed), np.random.default_rng(seed)
        self.interpreter = Interpreter(model_content=content)
        self.inputs, self.outputs = ([each["index"] for each in details] for details in (
            self.interpreter.get_input_details(), self.interpreter.get_output_details()))
        self.values: list[Array | None] = [None, None]
        self.shapes: list[tuple[int, ...]] = [(1, 3), (1,)]
        self.results: list[Array] | None = None
        """Of the last run; None where shapes changed since."""

    def resize(self, k: int) -> None:
        length = self.choose.choice(LENGTHS)
        shape = (length, 3) if k == 0 else (length,)
        self.interpreter.resize_tensor_input(self.inputs[k], shape)
        if shape != self.shapes[k]:
            self.shapes[k], self.values[k], self.results = shape, None, None

    def allocate(self) -> list[Array]:
        self.interpreter.allocate_tensors()
        held = [np.zeros(shape, np.float32) if value is None else value
                for shape, value in zip(self.shapes, self.values, strict=True)]
        self.values[:] = held
        if self.choose.random() < 0.5:
            return held
        for index, value in zip(self.inputs, held, strict=True):
            np.testing.assert_array_equal(self.interpreter.get_tensor(index), value, strict=True)
        self.look()
        return held

    def look(self) -> None:
        """Compares the results whose shapes no data decides."""
        x, y = (np.zeros(shape, np.float32) for shape in self.shapes)
        results = [y, x] if self.results is None else self.results
        for details, value in zip(self.interpreter.get_output_details(), results[:2], strict=False):
            assert tuple(details["shape"]) == value.shape
            np.testing.assert_allclose(self.interpreter.get_tensor(details["index"]), value, rtol=1e-3, atol=1e-2)

    def write(self, k: int) -> None:
        value = self.draw.standard_normal(self.shapes[k]).astype(np.float32)
        if self.choose.random() < 0.5:
            self.interpreter.set_tensor(self.inputs[k], value)
        else:
            self.interpreter.tensor(self.inputs[k])()[...] = value
        self.values[k] = value

    def invoke(self) -> None:
        held = self.allocate()
        self.interpreter.invoke()
        self.results = expected(*held)
        for index, value in zip(self.outputs, self.results, strict=False):
            np.testing.assert_allclose(self.interpreter.get_tensor(index), value, rtol=1e-3, atol=1e-2)
        self.allocate()


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("has_places", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_stays(has_places: bool, backend: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_BACKEND", backend)
    caller = Caller(model(has_places), seed)
    caller.allocate()
    for _ in range(60):
        k = caller.choose.randrange(2)
        match caller.choose.choice(["resize", "resize", "write", "write", "invoke"]):
            case "resize":
                caller.resize(k)
            case "write":
                caller.allocate()
                caller.write(k)
            case _:
                caller.invoke()


@NATIVE
def test_what_was_bound_before_is_bound_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths of 1, as the file declares them, have code of their own; callers come back to it and leave it again."""
    bind, bound = Session.bind, list[tuple[int, ...]]()

    def counted(self: Session, subgraph: int, arrays: Sequence[Array], is_resizable: bool = False) -> BoundRun:
        bound.append(arrays[0].shape)
        return bind(self, subgraph, arrays, is_resizable)

    monkeypatch.setattr(Session, "bind", counted)
    monkeypatch.setenv("CIRCLET_BACKEND", "native")
    interpreter = Interpreter(model_content=model(has_places=False))
    x, y = (each["index"] for each in interpreter.get_input_details())
    for n in (4, 1, 7, 1, 1, 9, 1):
        given = [np.full((n, 3), n, np.float32), np.arange(n, dtype=np.float32)]
        for index, value in zip((x, y), given, strict=True):
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        for index, value in zip((x, y), given, strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        for details, value in zip(interpreter.get_output_details(), expected(*given), strict=False):
            np.testing.assert_allclose(interpreter.get_tensor(details["index"]), value)
    assert bound == [(4, 3), (1, 3)]
