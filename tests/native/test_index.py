"""Native operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, GatherNd, ScatterNd, StablehloGather, UpdateRow
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Slice, StridedSlice, Transpose
from circlet.runtime.ops.scatter import ScatterWindows
from circlet.runtime.ops.shape import Reshape
from circlet.schema.files import dump_model
from tests.exec import graphs as g
from tests.exec.graphs import Array, i32
from tests.native.against_cpu import agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.ops.test_index import GATHER, GATHER_ND, SCATTER_ND, SPARSE, STABLEHLO_GATHER, UPDATE, WHERE
from tests.properties import holds

test_index = native_test([*GATHER, *GATHER_ND, *STABLEHLO_GATHER, *SCATTER_ND, *SPARSE, *WHERE, *UPDATE])

ROWS, COLUMNS = 4, 3


@pytest.mark.parametrize("is_grouped", [False, True])
def test_more_indices_than_declared(is_grouped: bool) -> None:
    """For one index, as declared, there is other code."""
    b = ModelBuilder()
    main = b.subgraph("main")
    indices, updates = main.input("indices", DType.INT32, (1, 1)), main.input("updates", DType.INT32, (1,))
    scattered = main.apply(ScatterNd(), indices, updates, main.constant(i32([4])))
    picked = main.apply(Gather(), main.constant(i32([4, 5, 6, 7])), indices)
    main.output(*(main.apply(Add(), each, each) if is_grouped else each for each in (scattered, picked)))
    model, given = b.build(), [i32([[2], [0]]), i32([3, 5])]
    for backend in ("cpu", "native"):
        scattered_rows, picked_rows = circlet.Session(model, backend).invoke(0, given)
        times = 2 if is_grouped else 1
        np.testing.assert_array_equal(scattered_rows, times * i32([5, 0, 3, 0]))
        np.testing.assert_array_equal(picked_rows, times * i32([[6], [4]]))


@pytest.mark.parametrize("declared", [(-1, -1, 1), (-1, 1, 1), (-1, -1, -1)])
def test_scattering_where_the_number_of_rows_is_open(declared: tuple[int, ...]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    indices, updates = main.input("indices", DType.INT32, declared), main.input("updates", DType.INT32, (-1, -1))
    main.output(main.apply(ScatterNd(), indices, updates, main.constant(i32([4]))))
    model, given = b.build(), [i32([[[2]], [[0]], [[2]]]), i32([[3], [5], [7]])]
    for backend in ("cpu", "native"):
        g.assert_equal(circlet.Session(model, backend).invoke(0, given), [i32([5, 0, 10, 0])])


@settings(max_examples=25, deadline=None)
@given(shapes(1, 4, st.integers(1, 5)), st.data(), seeds)
def test_gathering_along_any_axis(shape: list[int], data: st.DataObject, seed: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    batch = data.draw(st.integers(0, axis))
    wanted = (*shape[:batch], *data.draw(shapes(0, 2, st.integers(1, 3))))
    indices = np.random.default_rng(seed).integers(0, shape[axis], wanted).astype(np.int32)
    agree(applied(Gather(axis, batch)), values(shape, np.float32, seed), indices)


@holds(shapes(1, 4, st.integers(1, 5)), st.data(), seeds, few=4, many=25)
def test_gathering_and_scattering_slices(shape: list[int], data: st.DataObject, seed: int) -> None:
    depth = data.draw(st.integers(0, len(shape)))
    count = data.draw(shapes(0, 2, st.integers(1, 3)))
    random = np.random.default_rng(seed)
    indices = np.stack([random.integers(0, size, count) for size in shape[:depth]], -1).astype(np.int64) if depth \
        else np.zeros((*count, 0), np.int64)
    agree(applied(GatherNd()), values(shape, np.float32, seed), indices)
    updates = values((*count, *shape[depth:]), np.int32, seed)
    agree(applied(ScatterNd(), np.array(shape, np.int32)), indices, updates)


@dataclass(frozen=True)
class Instruction:
    """One operation on earlier matrices or rows; not all use both."""

    name: str
    a: int
    b: int


class Turn:
    """What a loop body has computed so far: matrices (4, 3), rows (1, 3), and an index into the rows of a matrix."""

    def __init__(self, s: SubgraphBuilder, count: Value, matrices: Sequence[Value]) -> None:
        self.s = s
        self.matrices = list(matrices)
        self.rows = [s.constant(i32([[7, 8, 9]]))]
        self.index = g.modulo(s, count, ROWS)

    def add(self, each: Instruction) -> None:
        m, n = (self.matrices[k % len(self.matrices)] for k in (each.a, each.b))
        r, q = (self.rows[k % len(self.rows)] for k in (each.a, each.b))
        if each.name in MATRICES:
            self.matrices.append(MATRICES[each.name](self, m, n, q))
        else:
            self.rows.append(READS[each.name](self, m, r, q))

    def op(self, op: Op, *inputs: Value | Array | list[int]) -> Value:
        given = [each if isinstance(each, Value) else self.s.constant(i32(each)) for each in inputs]
        return self.s.apply(op, *given)

    def vector(self, column: int | None = None) -> Value:
        """The index as a vector, perhaps with a column behind it."""
        return g.reshaped(self.s, self.index) if column is None else self.op(Pack(2, 0), self.index, i32(column))

    def window(self, m: Value) -> Value:
        """`m[index:index + 1]`, whose shape only the declaration tells."""
        after = self.op(Pack(2, 0), g.plus(self.s, self.index), i32(COLUMNS))
        strides = self.s.constant(i32([1, 1]))
        (result,) = self.s.op(StridedSlice(), m, self.vector(0), after, strides,
                              outputs=[g.declared("window", DType.INT32, (1, COLUMNS))])
        return result


SUMS = ScatterWindows((1,), (0,), (0,), 1, combine=Combine.ADD)
Compute = Callable[[Turn, Value, Value, Value], Value]
MATRICES: dict[str, Compute] = {
    "add": lambda t, m, n, r: t.op(Add(), m, n),
    "scale": lambda t, m, n, r: t.op(Mul(), m, i32(3)),
    "broadcast": lambda t, m, n, r: t.op(Add(), m, r),
    "update": lambda t, m, n, r: t.op(DynamicUpdateSlice(), m, r, t.vector(1)),
    "row": lambda t, m, n, r: t.op(UpdateRow(), m, r, t.index),
    "block": lambda t, m, n, r: t.op(DynamicUpdateSlice(), m, t.op(Slice(), n, [1, 1], [2, 2]), t.vector(0)),
    "shift": lambda t, m, n, r: t.op(Concatenation(0), r, t.op(Slice(), m, [0, 0], [ROWS - 1, COLUMNS])),
    "slide": lambda t, m, n, r: t.op(DynamicUpdateSlice(), m, t.op(Slice(), m, [0, 0], [ROWS - 1, COLUMNS]), [1, 0]),
    "reverse": lambda t, m, n, r: t.op(ReverseV2(), m, [0]),
    "transpose": lambda t, m, n, r: t.op(Reshape(), t.op(Transpose(), m, [1, 0]), [ROWS, COLUMNS]),
    "scatter": lambda t, m, n, r: t.op(ScatterNd(), t.op(Reshape(), t.index, [1, 1]), r, [ROWS, COLUMNS]),
    "change": lambda t, m, n, r: t.op(SUMS, m, i32([[2], [0], [2]]), t.op(Slice(), m, [1, 0], [3, COLUMNS])),
    "cover": lambda t, m, n, r: t.op(ScatterWindows((0, 1), (), (1, 0), 0), m, t.vector(1), t.op(Add(), m, n)),
    "collect": lambda t, m, n, r: t.op(ScatterNd(), i32([[2], [0], [2], [1]]), m, [ROWS, COLUMNS]),
}
READS: dict[str, Compute] = {
    "gather": lambda t, m, r, q: t.op(Gather(), m, t.vector()),
    "slice": lambda t, m, r, q: t.op(Slice(), m, t.vector(0), [1, COLUMNS]),
    "window": lambda t, m, r, q: t.window(m),
    "pick": lambda t, m, r, q: t.op(Reshape(), t.op(StridedSlice(end_mask=2, shrink_axis_mask=1), m, t.vector(0),
                                                    t.vector(0), [1, 1]), [1, COLUMNS]),
    "plus": lambda t, m, r, q: t.op(Add(), r, q),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[tuple[Instruction, ...], tuple[int, int]]:
    names = st.sampled_from([*MATRICES, *READS])
    last = st.integers(0, 9)
    found = tuple(Instruction(draw(names), draw(last), draw(last)) for _ in range(draw(st.integers(1, 8))))
    return found, (draw(last), draw(last))


def loop(body: tuple[Instruction, ...], results: tuple[int, int], state: Sequence[Array]) -> Model:
    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        found = Turn(s, v[0], v[1:])
        for each in body:
            found.add(each)
        chosen = [found.matrices[-1 - k % len(found.matrices)] for k in results]
        return [g.plus(s, v[0]), *chosen]

    return g.while_model(g.at_most(5), turn, [i32(0), *state])


@holds(bodies(), few=4, many=25)
def test_updates_in_place_change_nothing_else(body: tuple[tuple[Instruction, ...], tuple[int, int]]) -> None:
    state = [np.arange(12, dtype=np.int32).reshape(ROWS, COLUMNS), -np.ones((ROWS, COLUMNS), np.int32)]
    model = loop(*body, state)
    wanted = g.run(circlet.Session(model, backend="cpu", copy_elision=False), [i32(0), *state])
    for elide in g.ELISION:
        session = circlet.Session(model, backend="native", copy_elision=elide)
        for _ in range(2):
            g.assert_equal(g.run(session, [i32(0), *state]), wanted)


def failing(s: SubgraphBuilder, v: Sequence[Value], name: str) -> Sequence[Value]:
    """A turn that reads or writes a row by the count, which becomes too large."""
    found = Turn(s, v[0], v[1:])
    found.index = v[0]
    found.add(Instruction(name, 0, 0))
    return [g.plus(s, v[0]), g.add(s, v[1], found.rows[-1]) if name in READS else found.matrices[-1]]


@pytest.mark.parametrize(("name", "message"), [
    ("gather", r"GATHER.*: index 4 is out of range for an axis of size 4"),
    ("slice", r"SLICE.*: begin 4 and size 1 leave an axis of size 4"),
    ("window", r"STRIDED_SLICE.*: the result has shape \(0, 3\), the model declares \(1, 3\)"),
    ("pick", r"STRIDED_SLICE.*: index 4 with stride 1 does not select from an axis of size 4"),
    ("row", r"UPDATE_ROW.*: index 4 is out of range for 4 rows"),
    ("scatter", r"SCATTER_ND.*: index 4 is out of range for an axis of size 4"),
])
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_an_index_that_becomes_too_large_is_an_error(backend: str, name: str, message: str) -> None:
    state = np.arange(12, dtype=np.int32).reshape(ROWS, COLUMNS)
    model = g.while_model(g.at_most(5), lambda s, v: failing(s, v, name), [i32(0), state])
    session = circlet.Session(model, backend=backend)
    for _ in range(2):
        with pytest.raises(circlet.ExecutionError, match=message):
            session.run([i32(0), state])


def from_old_row(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Row i becomes thrice what it was."""
    t = Turn(s, v[0], v[1:])
    return [g.plus(s, v[0]), t.op(UpdateRow(), v[1], t.op(Mul(), t.op(Gather(), v[1], t.vector()), [3]), t.index), v[2]]


def read_before(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Row i, as it was before the update, is used behind it."""
    t = Turn(s, v[0], v[1:])
    old = t.op(Gather(), v[1], t.vector())
    updated = t.op(UpdateRow(), v[1], i32([[1, 2, 3]]), t.index)
    return [g.plus(s, v[0]), updated, t.op(Add(), v[2], old)]


def beside_a_scatter(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """`x * (1 - scatter(1)) + scatter(1)`"""
    t = Turn(s, v[0], v[1:])
    ones = t.op(ScatterNd(), t.op(Reshape(), t.index, [1, 1]), i32([[1, 1, 1]]), [ROWS, COLUMNS])
    kept = t.op(Mul(), v[1], t.op(Sub(), i32(1), ones))
    return [g.plus(s, v[0]), t.op(Add(), kept, ones), v[2]]


@pytest.mark.parametrize("body", [from_old_row, read_before, beside_a_scatter])
def test_what_is_fused_leaves_updates_in_place(body: g.Formula) -> None:
    state = [np.arange(12, dtype=np.int32).reshape(ROWS, COLUMNS), np.zeros((ROWS, COLUMNS), np.int32)]
    model = g.while_model(g.at_most(5), body, [i32(0), *state])
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    carried = [each.action.value for each in native.copies() if each.edge.startswith("carry")]
    assert carried[1] == "in_place"
    g.assert_equal(g.run(native, [i32(0), *state]), g.run(cpu, [i32(0), *state]))


GATHERED: list[tuple[StablehloGather, tuple[int, ...], tuple[int, ...]]] = [
    (StablehloGather((1, 2), (0,), (0,), 1, (1, 3, 5)), (7, 1), (7, 3, 5)),
    (StablehloGather((0,), (0, 1), (0, 1), 1, (1, 1, 2)), (6, 2), (2, 6)),
    (StablehloGather((1, 3), (1,), (2, 0), 2, (2, 1, 3)), (4, 3, 2), (4, 2, 3, 3)),
    (StablehloGather((), (0, 1, 2), (2, 1, 0), 2, (1, 1, 1)), (2, 3, 3), (2, 3)),
]
"""Operators on (4, 3, 5), the shape of their indices and of their results."""


@pytest.mark.parametrize(("dtype", "indices"), [(np.float32, np.int32), (np.int8, np.int64)])
@pytest.mark.parametrize(("op", "shape", "made"), GATHERED)
def test_slices_are_gathered_as_by_litert(op: StablehloGather, shape: tuple[int, ...], made: tuple[int, ...],
                                          dtype: type[Any], indices: type[Any]) -> None:
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    b = ModelBuilder()
    main = b.subgraph("main")
    x, places = main.input("x", dtype, (4, 3, 5)), main.input("places", indices, shape)
    # LiteRT relies on the rank that is declared of the result
    main.output(*main.op(op, x, places, outputs=[Tensor("y", DType.of(dtype), made)]))
    content, random = dump_model(b.build(), "tflite"), np.random.default_rng(1)
    arrays = [random.integers(-9, 9, (4, 3, 5)).astype(dtype), random.integers(-2, 6, shape).astype(indices)]
    other = interpreter.Interpreter(model_content=content)
    other.allocate_tensors()
    for each, value in zip(other.get_input_details(), arrays, strict=True):
        other.set_tensor(each["index"], value)
    other.invoke()
    wanted = other.get_tensor(other.get_output_details()[0]["index"])
    for backend in ("native", "cpu"):
        session = circlet.Session(content, backend)
        np.testing.assert_array_equal(session.invoke(0, arrays)[0], wanted)
        assert session.backend_of(0) == (backend,)
