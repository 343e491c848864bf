"""Windows of a tensor that are changed: cases, and what LiteRT makes of those whose update a subgraph tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.ops import elementwise
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.scatter import ScatterWindows, StablehloScatter
from circlet.schema.files import dump_model
from tests.needs import NATIVE
from tests.ops.arrays import f32, i8, i64, strings
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROWS = ScatterWindows((1,), (0,), (0,), 1)
"""Rows at the indices in rows."""
ADDED = replace(ROWS, combine=Combine.ADD)
BLOCKS = ScatterWindows((1, 2), (), (0, 1), 1)
"""Blocks from the pairs of indices on."""
ELEMENTS = ScatterWindows((), (0, 1), (0, 1), 1)

SCATTER = [
    Case("rows", ROWS, [X, [[1], [1]], [[7.0, 8.0, 9.0], [4.0, 5.0, 6.0]]], [f32([[0, 1, 2], [4, 5, 6]])]),
    Case("rows-outside", ROWS, [X, i64([[2], [-1], [1 << 62]]), f32(np.ones((3, 3)))], [X]),
    Case("sums", ADDED, [X, [[1], [1], [0]], f32(np.ones((3, 3)))], [f32([[1, 2, 3], [5, 6, 7]])]),
    Case("wrapping", ADDED, [i8([[100], [0]]), [[0]], i8([[100]])], [i8([[-56], [0]])]),
    Case("bool", ADDED, [[[True], [False]], [[1], [1]], [[True], [True]]], [[[True], [True]]]),
    Case("elements", replace(ELEMENTS, combine=Combine.MULTIPLY), [X, [[1, 1], [1, 1], [0, 3]], [2.0, 3.0, 4.0]],
         [f32([[0, 1, 2], [3, 24, 5]])]),
    Case("other-order", replace(ELEMENTS, scatter_dims_to_operand_dims=(1, 0), combine=Combine.MAXIMUM),
         [X, [[2, 0], [1, 1]], [9.0, 1.0]], [f32([[0, 1, 9], [3, 4, 5]])]),
    Case("numbers", replace(ROWS, combine=Combine.MINIMUM), [X, i64([1, 0]), f32([[1, 9, 1]] * 2)],
         [f32([[0, 1, 1], [1, 4, 1]])]),
    Case("number", ScatterWindows((0,), (0,), (0,), 0), [X, 1, [7.0, 8.0, 9.0]], [f32([[0, 1, 2], [7, 8, 9]])]),
    Case("blocks-cut", BLOCKS, [X, [[1, 2], [-1, -1]], f32(np.arange(1, 9).reshape(2, 2, 2))],
         [f32([[8, 1, 2], [3, 4, 1]])]),
    Case("block-larger", BLOCKS, [X, [[-1, -2]], f32(np.arange(24).reshape(1, 4, 6))],
         [f32([[8, 9, 10], [14, 15, 16]])]),
    Case("first-rows-first", ScatterWindows((0,), (), (0,), 0), [f32([0, 0, 0]), T(np.array([[0, 1]], np.int64)),
         f32([[1, 2], [3, 4]])], [f32([1, 3, 4])]),
    Case("whole", ScatterWindows((0, 1), (), (), 0), [X, T(np.zeros(0, np.int32)), X + 1], [X + 1]),
    Case("none", ROWS, [X, T(np.zeros((0, 1), np.int32)), X[:0]], [X]),
    Case("empty", ROWS, [X[:0], [[0]], X[:1]], [X[:0]]),
    Case("scalar", ScatterWindows((), (), (), 0), [3.0, T(np.zeros(0, np.int32)), 4.0], [4.0]),
    Case("nan", replace(ELEMENTS, combine=Combine.MAXIMUM), [X, [[0, 1]], [np.nan]],
         [f32([[0, np.nan, 2], [3, 4, 5]])]),
    Case("string", ROWS, [strings([b"a"], [b"b"]), [[1]], strings([b"x"])], [strings([b"a"], [b"x"])]),
    Case("stored", ADDED, [T(i8([[4], [5]]), q=q(0.5, 3)), [[1]], T(i8([[2]]), q=q(0.5, 3))],
         [T(i8([[4], [7]]), q=q(0.5, 3))]),
    Case("vector", replace(ROWS, index_vector_dim=3), [X, [[0]], X[:1]], [X], error="expected 0 to 2, found 3"),
    Case("map", ROWS, [X, [[0, 0]], X[:1]], [X], error="scatter_dims_to_operand_dims: expected 2 axes of input 0"),
    Case("inserted", replace(ROWS, inserted_window_dims=(2,)), [X, [[0]], X[:1]], [X],
         error="inserted_window_dims: expected axes of input 0, found"),
    Case("window", replace(ROWS, update_window_dims=(2,)), [X, [[0]], X[:1]], [X],
         error=r"update_window_dims: expected 1 axes of 2, found \[2\]"),
    Case("updates", ROWS, [X, [[0]], X], [X], error=r"cannot scatter updates \(2, 3\) by indices \(1, 1\)"),
    Case("types", ROWS, [X, [[0]], [[1, 2, 3]]], [X],
         error="updates: expected float32 as input 0 has, found int32|float32, int32"),
    Case("sums-of-strings", ADDED, [strings([b"a"]), [[0]], strings([b"b"])], [strings([b"a"])],
         error="element type string, combined by add"),
]
test_scatter = case_test(SCATTER)


@dataclass(frozen=True)
class Scatter:
    """Shapes of what is changed, of indices and of updates, and how."""

    x: Shape
    indices: Shape
    updates: Shape
    op: StablehloScatter


SCATTERS = {
    "rows": Scatter((6, 5), (9, 1), (9, 5), StablehloScatter((1,), (0,), (0,), 1)),
    "columns": Scatter((5, 6), (9, 1), (5, 9), StablehloScatter((0,), (1,), (1,), 1)),
    "elements": Scatter((4, 3, 5), (3, 8), (8,), StablehloScatter((), (0, 1, 2), (2, 0, 1), 0)),
    "windows": Scatter((4, 3, 5), (6, 2, 2), (6, 2, 3, 2), StablehloScatter((2, 3), (0,), (0, 2), 2)),
    "between": Scatter((4, 3, 5), (3, 2, 2), (2, 3, 3, 2), StablehloScatter((0, 2), (1,), (2, 0), 1)),
    "one": Scatter((4, 7), (2,), (3, 2), StablehloScatter((0, 1), (), (0, 1), 0)),
    "larger": Scatter((2, 3), (4, 2), (4, 5, 6), StablehloScatter((1, 2), (), (0, 1), 1)),
}
BODIES: dict[str, Op | None] = {
    "update": None, "add": elementwise.StablehloAdd(), "multiply": elementwise.StablehloMultiply(),
    "maximum": elementwise.StablehloMaximum(), "minimum": elementwise.StablehloMinimum(),
}


def model(case: Scatter, body: Op | None, dtype: type[Any], index: type[Any] = np.int32,
          made: type[Any] | None = None) -> circlet.Model:
    """One scattering, which changes elements as the operator does, or else replaces them."""
    b = ModelBuilder()
    main, computation = b.subgraph("main"), b.subgraph("computation")
    pair = [computation.input(name, made or dtype, ()) for name in "ab"]
    computation.output(pair[1] if body is None else computation.apply(body, *pair))
    op = replace(case.op, update_computation_subgraph_index=computation.index)
    main.output(*main.op(op, main.input("x", dtype, case.x), main.input("indices", index, case.indices),
                         main.input("updates", dtype, case.updates), outputs=[Tensor("y", DType.of(dtype), case.x)]))
    return b.build()


def drawn(case: Scatter, dtype: type[Any], index: type[Any]) -> list[Array]:
    random = np.random.default_rng(7)
    x, updates = (random.uniform(-1, 1, shape) for shape in (case.x, case.updates))
    kind = np.dtype(dtype).kind
    numbers = [each > 0 if kind == "b" else each if kind == "f" else np.rint(99 * each) for each in (x, updates)]
    return [numbers[0].astype(dtype), random.integers(-3, 7, case.indices).astype(index), numbers[1].astype(dtype)]


def by_litert(content: bytes, arrays: Sequence[Array]) -> Array:
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    other = interpreter.Interpreter(model_content=content)
    other.allocate_tensors()
    for each, value in zip(other.get_input_details(), arrays, strict=True):
        other.set_tensor(each["index"], value)
    other.invoke()
    found: Array = other.get_tensor(other.get_output_details()[0]["index"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "index"), [
    (np.float32, np.int32), (np.float64, np.int64), (np.int8, np.int32), (np.int64, np.int64), (np.bool_, np.int32)])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", SCATTERS)
def test_windows_are_changed_as_by_litert(name: str, body: str, dtype: type[Any], index: type[Any]) -> None:
    case = SCATTERS[name]
    content, arrays = dump_model(model(case, BODIES[body], dtype, index), "tflite"), drawn(case, dtype, index)
    wanted = by_litert(content, arrays)
    for backend in ("native", "cpu"):
        session = circlet.Session(content, backend)
        np.testing.assert_array_equal(session.invoke(0, arrays)[0], wanted)
        assert session.backend_of(0) == (backend,)


@pytest.mark.parametrize("backend", [pytest.param("native", marks=NATIVE), "cpu"])
@pytest.mark.parametrize("body", [
    elementwise.Sub(), elementwise.Maximum(), elementwise.Add(Activation.RELU), elementwise.StablehloOr()])
def test_other_updates_are_refused(body: Op, backend: str) -> None:
    built, arrays = model(SCATTERS["rows"], body, np.int32), drawn(SCATTERS["rows"], np.int32, np.int32)
    with pytest.raises(UnsupportedError, match="STABLEHLO_SCATTER"):
        circlet.Session(built, backend).invoke(0, arrays)


def test_what_keeps_the_element_is_refused() -> None:
    """LiteRT takes it for what gives the update."""
    built = model(SCATTERS["rows"], None, np.int32)
    computation = built.subgraphs[1]
    kept = replace(built, subgraphs=(built.subgraphs[0], replace(computation, outputs=computation.inputs[:1])))
    with pytest.raises(UnsupportedError, match="STABLEHLO_SCATTER"):
        circlet.Session(kept)


def test_an_update_of_another_type_is_malformed() -> None:
    with pytest.raises(ModelError, match="an update computation of two elements of float32 that gives one, found"):
        circlet.Session(model(SCATTERS["rows"], None, np.float32, made=np.int32))
