"""Windows that slide over all axes: cases, and what LiteRT makes of those whose combination a subgraph tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.ops import comparison, elementwise
from circlet.runtime.ops.reduce_window import (
    Combination,
    CombineWindow,
    ReduceFunction,
    ReduceWindow,
    StablehloReduceWindow,
)
from circlet.schema.files import dump_model
from tests.ops.arrays import f32, i32
from tests.ops.cases import Case
from tests.ops.run_cases import case_test

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NAN, INF = np.nan, np.inf

COMBINE_WINDOW = [
    Case("sums", CombineWindow((1, 2)), [X, 0.0], [[[1.0, 3.0], [7.0, 9.0]]]),
    Case("from-one", CombineWindow((2, 1)), [X, 1.0], [[[4.0, 6.0, 8.0]]]),
    Case("running", CombineWindow((1, 3), padding=(0, 0, 2, 0), combination=Combination.MAXIMUM),
         [f32([[1, -5, 4], [-3, -2, NAN]]), -INF], [[[1.0, 1.0, 4.0], [-3.0, -2.0, NAN]]]),
    Case("strides", CombineWindow((1, 1), (1, 2), combination=Combination.MINIMUM), [X, INF], [X[:, ::2]]),
    Case("dilated", CombineWindow((1, 2), window_dilations=(1, 2), combination=Combination.MULTIPLY),
         [i32([[1, 2, 3], [4, 5, 6]]), 2], [i32([[6], [48]])]),
    Case("spread", CombineWindow((1, 2), base_dilations=(1, 2)), [X, 10.0],
         [[[20.0, 21.0, 21.0, 22.0], [23.0, 24.0, 24.0, 25.0]]]),
    Case("around", CombineWindow((1, 3), padding=(0, 0, 1, 1)), [X, 1.0], [[[3.0, 4.0, 5.0], [9.0, 13.0, 11.0]]]),
    Case("all", CombineWindow((2,), combination=Combination.AND), [np.array([True, True, False]), True],
         [np.array([True, False])]),
    Case("any", CombineWindow((2,), padding=(1, 0), combination=Combination.OR),
         [np.array([False, False, True]), False], [np.array([False, False, True])]),
    Case("many", CombineWindow((70,), padding=(69, 0)), [np.arange(90, dtype=np.int32), 0],
         [np.array([sum(range(max(k - 69, 0), k + 1)) for k in range(90)], np.int32)]),
    Case("none", CombineWindow((1, 2)), [X[:0], 0.0], [np.zeros((0, 2), np.float32)]),
    Case("rank", CombineWindow((1,)), [X, 0.0], [X], error="padding for each axis of"),
    Case("stride", CombineWindow((1, 1), (0, 1)), [X, 0.0], [X], error="positive strides and dilations"),
    Case("cut", CombineWindow((1, 1), padding=(0, 0, -1, 0)), [X, 0.0], [X], error="none that is negative"),
    Case("as-large", CombineWindow((1, 4)), [X, 0.0], [np.zeros((2, 0), np.float32)]),
    Case("large", CombineWindow((1, 5)), [X, 0.0], [X], error="a window that spans 5 elements does not fit"),
    Case("initial", CombineWindow((1, 1)), [X, f32([1, 2])], [X], error="initial value"),
    Case("conditions", CombineWindow((1, 1), combination=Combination.AND), [X, 0.0], [X], error="and of float32"),
]
test_combine_window = case_test(COMBINE_WINDOW)

BODIES: dict[str, tuple[Op, type[Any], float]] = {
    "add": (elementwise.Add(), np.float32, 0.5), "stablehlo": (elementwise.StablehloAdd(), np.int32, 0),
    "multiply": (elementwise.Mul(), np.float32, 1), "maximum": (elementwise.Maximum(), np.float32, -9),
    "minimum": (elementwise.Minimum(), np.int32, 9), "and": (comparison.LogicalAnd(), np.bool_, 1),
    "or": (comparison.LogicalOr(), np.bool_, 0),
}
WINDOWS = [StablehloReduceWindow(*options, 1) for options in (
    ((1, 2, 3), (1, 1, 2), (1, 1, 1), (1, 2, 1), (0, 0, 1, 1, 2, 0)),
    ((2, 2, 2), (1, 2, 1), (1, 2, 1), (1, 1, 2), (0,) * 6),
    ((1, 1, 8), (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 7, 0)))]



def model(op: StablehloReduceWindow, body: Op, dtype: type[Any], shape: Shape, initial: float, made: Shape,
          turned: bool = False) -> circlet.Model:
    b = ModelBuilder()
    main, inner = b.subgraph("main"), b.subgraph("body")
    pair = [inner.input(name, dtype) for name in "ab"]
    inner.output(inner.apply(body, *(pair[::-1] if turned else pair)))
    main.output(*main.op(op, main.input("x", dtype, shape), main.constant(dtype(initial)), outputs=[
        Tensor("y", DType.of(dtype), made)]))
    return b.build()


def drawn(dtype: type[Any], shape: Shape) -> Array:
    found = np.random.default_rng(3).integers(-4, 5, shape)
    return np.asarray(found > 0 if dtype is np.bool_ else found).astype(dtype)


@pytest.mark.parametrize("op", WINDOWS, ids=["padded", "spread", "running"])
@pytest.mark.parametrize("name", BODIES)
def test_windows_are_reduced_as_by_litert(name: str, op: StablehloReduceWindow) -> None:
    body, dtype, initial = BODIES[name]
    shape, made = (3, 5, 8), tuple(each.count for each in op.windows((3, 5, 8)))
    content, given = dump_model(model(op, body, dtype, shape, initial, made), "tflite"), drawn(dtype, shape)
    assert circlet.load(content).subgraphs[0].operators[0].op == op
    agree_with_litert(content, given, "native" if set(op.base_dilations) == {1} else "cpu")


def agree_with_litert(content: bytes, given: Array, native: str) -> None:
    """Asserts that both backends give what LiteRT does; `native` is what the native one is to compute with."""
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    other = interpreter.Interpreter(model_content=content)
    other.allocate_tensors()
    other.set_tensor(other.get_input_details()[0]["index"], given)
    other.invoke()
    wanted = other.get_tensor(other.get_output_details()[0]["index"])
    for backend, used in (("native", native), ("cpu", "cpu")):
        session = circlet.Session(content, backend)
        np.testing.assert_array_equal(session.invoke(0, [given])[0], wanted)
        assert session.backend_of(0) == (used,)


@pytest.mark.parametrize("body", [elementwise.Sub(), elementwise.Add(Activation.RELU)])
def test_other_bodies_are_refused(body: Op) -> None:
    with pytest.raises(UnsupportedError, match="STABLEHLO_REDUCE_WINDOW"):
        circlet.Session(model(WINDOWS[0], body, np.float32, (3, 5, 8), 0, (3, 5, 4))).invoke(0, [np.zeros((3, 5, 8))])


def test_a_body_of_another_type_is_malformed() -> None:
    b = ModelBuilder()
    main, inner = b.subgraph("main"), b.subgraph("body")
    inner.output(inner.apply(comparison.Less(), *(inner.input(name, np.float32) for name in "ab")))
    main.output(*main.op(WINDOWS[0], main.input("x", np.float32, (3, 5, 8)), main.constant(np.float32(0)), outputs=[
        Tensor("y", DType.FLOAT32, (3, 5, 4))]))
    with pytest.raises(ModelError, match="a body of two elements of float32"):
        circlet.Session(b.build())


def deprecated(function: ReduceFunction, dtype: type[Any], is_constant: bool = True) -> circlet.Model:
    """A REDUCE_WINDOW of (3, 5, 8)."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, initial = main.input("x", dtype, (3, 5, 8)), main.constant(dtype(1))
    windows = [main.constant(np.array(each, np.int64)) for each in ((2, 2, 3), (1, 2, 1), (1, 1, 2))]
    if not is_constant:
        windows[1] = main.input("strides", np.int64, (3,))
    main.output(*main.op(ReduceWindow(function), x, initial, *windows, outputs=[
        Tensor("y", DType.of(dtype), (2, 2, 4))]))
    return b.build()


@pytest.mark.parametrize(("function", "dtype"), [
    *((each, kind) for each in (ReduceFunction.ADD, ReduceFunction.MUL, ReduceFunction.MINIMUM, ReduceFunction.MAXIMUM)
      for kind in (np.float32, np.int32)), (ReduceFunction.ALL, np.bool_), (ReduceFunction.ANY, np.bool_)])
def test_windows_that_inputs_tell_are_reduced_as_by_litert(function: ReduceFunction, dtype: type[Any]) -> None:
    content = dump_model(deprecated(function, dtype), "tflite")
    assert circlet.load(content).subgraphs[0].operators[0].op == ReduceWindow(function)
    agree_with_litert(content, drawn(dtype, (3, 5, 8)), "native")


@pytest.mark.parametrize(("function", "is_constant"), [
    (ReduceFunction.ADD, False), (ReduceFunction.UNSUPPORTED, True)])
def test_windows_that_only_a_run_tells_are_refused(function: ReduceFunction, is_constant: bool) -> None:
    """And reductions that no name tells."""
    with pytest.raises(UnsupportedError, match="REDUCE_WINDOW"):
        circlet.Session(deprecated(function, np.int32, is_constant))
