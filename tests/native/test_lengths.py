"""One function serves all lengths that a model leaves open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, SelectV2
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.index import Gather, GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import Mean, ReduceMax, ReduceMin, Sum
from circlet.runtime.ops.shape import Reshape, ShapeOf
from circlet.runtime.ops.unary import Rsqrt, Tanh
from tests.ops.cases import check

RANDOM = np.random.default_rng(11)
DEPTH, HEADS = 24, 3


def weights(*shape: int) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = (RANDOM.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    return found


class Graph:
    """A subgraph whose results are declared without a shape, as exporters do where lengths are open."""

    def __init__(self, builder: SubgraphBuilder) -> None:
        self.builder = builder

    def __call__(self, op: Op, *inputs: Value, dtype: DType = DType.FLOAT32) -> Value:
        (result,) = self.builder.op(op, *inputs, outputs=[Tensor("", dtype, (), has_rank=False)])
        return result

    def ints(self, *numbers: int) -> Value:
        return self.builder.constant(np.array(numbers, np.int32))

    def number(self, value: float | int) -> Value:
        return self.builder.constant(np.array(value, np.int32 if isinstance(value, int) else np.float32))

    def length(self, x: Value, axis: int) -> Value:
        """The length of an axis, a scalar."""
        shape = self(ShapeOf(DType.INT32), x, dtype=DType.INT32)
        return self(StridedSlice(shrink_axis_mask=1), shape, self.ints(axis), self.ints(axis + 1), self.ints(1),
                    dtype=DType.INT32)


def encoder(g: Graph) -> Sequence[Value]:
    """Embedding, attention, normalisation: ids (n,) to (n, DEPTH)."""
    ids = g.builder.input("ids", DType.INT32, (-1,))
    n = g.length(ids, 0)
    split = g(Pack(3), n, g.number(HEADS), g.number(DEPTH // HEADS), dtype=DType.INT32)
    joined = g(Pack(2), n, g.number(DEPTH), dtype=DType.INT32)
    places = g(StridedSlice(begin_mask=1), g.builder.constant(weights(200, DEPTH)), g.ints(0),
               g(Reshape(), n, g.ints(1), dtype=DType.INT32), g.ints(1))
    x = g(Add(), g(Gather(), g.builder.constant(weights(50, DEPTH)), ids), places)
    heads = [g(Transpose(), g(Reshape(), g(FullyConnected(keep_num_dims=True), x, g.builder.constant(
        weights(DEPTH, DEPTH))), split), g.ints(1, 0, 2)) for _ in range(3)]
    scores = g(Softmax(1.0), g(BatchMatMul(adj_y=True), heads[0], heads[1]))
    mixed = g(Reshape(), g(Transpose(), g(BatchMatMul(), scores, heads[2]), g.ints(1, 0, 2)), joined)
    x = g(Add(), x, mixed)
    centred = g(Sub(), x, g(Mean(keep_dims=True), x, g.ints(-1)))
    spread = g(Mean(keep_dims=True), g(Mul(), centred, centred), g.ints(-1))
    return [g(Mul(), centred, g(Rsqrt(), g(Add(), spread, g.number(1e-5))))]


def layers(g: Graph) -> Sequence[Value]:
    """Two layers: (batch, DEPTH) to (batch, 5)."""
    x = g.builder.input("x", DType.FLOAT32, (-1, DEPTH))
    hidden = g(Tanh(), g(FullyConnected(), x, g.builder.constant(weights(40, DEPTH)), g.builder.constant(weights(40))))
    return [g(FullyConnected(), hidden, g.builder.constant(weights(5, 40)))]


def joined(g: Graph) -> Sequence[Value]:
    """Two inputs of open lengths, one after the other, and their product: (n, 3), (m, 3) to (n + m, 3), (n, m)."""
    x, y = (g.builder.input(name, DType.FLOAT32, (-1, 3)) for name in "xy")
    return [g(Concatenation(0), x, y), g(BatchMatMul(adj_y=True), x, y)]


def loop(main: Graph, cond: Graph, body: Graph) -> Sequence[Value]:
    """A carried matrix of open size: (n, n), k times x = tanh(x @ x)."""
    for g in (cond, body):
        k, x = g.builder.input("k", DType.INT32, ()), g.builder.input("x", DType.FLOAT32, (-1, -1))
        if g is cond:
            g.builder.output(g(Less(), g.number(0), k, dtype=DType.BOOL))
        else:
            g.builder.output(g(Sub(), k, g.number(1), dtype=DType.INT32), g(Tanh(), g(BatchMatMul(), x, x)))
    k, x = main.builder.input("k", DType.INT32, ()), main.builder.input("x", DType.FLOAT32, (-1, -1))
    results = main.builder.op(While(cond.builder.index, body.builder.index), k, x, outputs=[
        Tensor("", DType.INT32, ()), Tensor("", DType.FLOAT32, (), has_rank=False)])
    return [results[1]]


def chosen(g: Graph) -> Sequence[Value]:
    """Rows whose sum is positive, through a layer: (n, 4) to (c, 5) and their places (c, 1)."""
    x = g.builder.input("x", DType.FLOAT32, (-1, 4))
    positive = g(Greater(), g(Sum(), x, g.ints(-1)), g.number(0.0), dtype=DType.BOOL)
    places = g(Where(), positive, dtype=DType.INT64)
    return [g(FullyConnected(), g(GatherNd(), x, places), g.builder.constant(weights(5, 4))), places]


def cut(g: Graph) -> Sequence[Value]:
    """Row k doubled, by slices: (n, 3) and k to (n, 3)."""
    x, k = g.builder.input("x", DType.FLOAT32, (-1, 3)), g.builder.input("k", DType.INT32, (1,))
    after = g(Add(), k, g.ints(1), dtype=DType.INT32)
    head = g(StridedSlice(begin_mask=1), x, g.ints(0), k, g.ints(1))
    row = g(StridedSlice(), x, k, after, g.ints(1))
    tail = g(StridedSlice(end_mask=1), x, after, g.ints(0), g.ints(1))
    return [g(Concatenation(0), head, g(Add(), row, row), tail)]


def fixed_and_chosen(g: Graph) -> Sequence[Value]:
    """Where elements are not zero, of a shape that is declared."""
    x = g.builder.input("x", DType.INT32, (4, 6))
    places = g(Where(), x, dtype=DType.INT64)
    return [places, g(GatherNd(), x, places, dtype=DType.INT32)]


def model(write: Callable[..., Sequence[Value]], subgraphs: int = 1) -> Model:
    b = ModelBuilder()
    graphs = [Graph(b.subgraph(f"graph{k}")) for k in range(subgraphs)]
    graphs[0].builder.output(*write(*graphs))
    return b.build()


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


LENGTHS = (7, 2, 64, 33, 150, 12, 13)
MODELS: dict[str, tuple[Model, Callable[[int], Sequence[npt.NDArray[np.generic]]]]] = {
    "encoder": (model(encoder), lambda n: [RANDOM.integers(0, 50, n).astype(np.int32)]),
    "layers": (model(layers), lambda n: [floats(n, DEPTH)]),
    "joined": (model(joined), lambda n: [floats(n, 3), floats(3 * n // 2, 3)]),
    "chosen": (model(chosen), lambda n: [floats(n, 4)]),
    "cut": (model(cut), lambda n: [floats(n, 3), np.array([n // 2], np.int32)]),
    "fixed and chosen": (model(fixed_and_chosen), lambda n: [RANDOM.integers(0, 2, (4, 6)).astype(np.int32)]),
    "loop": (model(loop, 3), lambda n: [np.array(3, np.int32), floats(n, n) / np.float32(n)]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_one_function_serves_all_lengths(name: str, threads: int, folder: object, compiled: list[str]) -> None:
    made, inputs = MODELS[name]
    native = circlet.Session(made, backend="native", num_threads=threads)
    cpu = circlet.Session(made, backend="cpu")
    for n in (*LENGTHS, *LENGTHS):
        given = inputs(n)
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", MODELS)
def test_the_next_process_takes_it_from_the_disk(name: str, folder: object, compiled: list[str]) -> None:
    made, inputs = MODELS[name]
    first, second = inputs(9), inputs(40)
    circlet.Session(made, backend="native").invoke(0, first)
    compiled.clear()
    found, = circlet.Session(made, backend="native").invoke(0, second)[:1]
    check(found, circlet.Session(made, backend="cpu").invoke(0, second)[0], 1e-5)
    assert not compiled


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int32, np.int64, np.float32])
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 9), (2, 3, 4)])
def test_where_finds_what_numpy_finds(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(g(Where(), g.builder.input("x", DType.of(np.dtype(dtype)), (-1,) * len(shape)), dtype=DType.INT64))
    session = circlet.Session(b.build(), backend="native")
    for chance in (0.5, 0.0, 1.0):
        x = (RANDOM.random(shape) < chance).astype(dtype)
        (found,) = session.invoke(0, [x])
        np.testing.assert_array_equal(found, np.argwhere(x))


def test_nan_is_not_zero_and_minus_zero_is() -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(g(Where(), g.builder.input("x", DType.FLOAT32, (-1,)), dtype=DType.INT64))
    x = np.array([np.nan, -0.0, 0.0, -1.0, np.inf], np.float32)
    for backend in ("native", "cpu"):
        np.testing.assert_array_equal(circlet.Session(b.build(), backend=backend).invoke(0, [x])[0], [[0], [3], [4]])


def test_results_outlive_a_run_that_has_larger_ones() -> None:
    made, inputs = MODELS["layers"]
    session = circlet.Session(made, backend="native")
    first = inputs(3)
    (kept,) = session.invoke(0, first)
    expected = kept.copy()
    for n in (400, 5, 3):
        session.invoke(0, inputs(n))
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_array_equal(session.invoke(0, first)[0], expected)


def test_memory_is_limited_at_every_length() -> None:
    made, inputs = MODELS["layers"]
    session = circlet.Session(made, backend="native", limits=circlet.Limits(memory=1 << 20))
    expected = circlet.Session(made, backend="cpu")
    session.invoke(0, inputs(100))
    with pytest.raises(circlet.LimitError):
        session.invoke(0, inputs(1 << 16))
    given = inputs(50)
    check(session.invoke(0, given)[0], expected.invoke(0, given)[0], 1e-5)


def test_threads_of_one_session_have_lengths_of_their_own() -> None:
    made, inputs = MODELS["layers"]
    session, cpu = circlet.Session(made, backend="native"), circlet.Session(made, backend="cpu")
    given = [inputs(n) for n in (3, 90, 17, 41) * 5]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: session.invoke(0, each)[0], given))
    for each, result in zip(given, found, strict=True):
        check(result, cpu.invoke(0, each)[0], 1e-5)


def test_texts_of_any_number() -> None:
    """Python's objects do not lie in bytes that grow."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    words = g.builder.input("words", DType.STRING, (-1,))
    count = g(ShapeOf(DType.INT32), words, dtype=DType.INT32)
    g.builder.output(g(Add(), count, count, dtype=DType.INT32))
    session = circlet.Session(b.build(), backend="native")
    for n in (3, 7, 2, 3):
        assert session.invoke(0, [np.full(n, b"word", object)])[0].tolist() == [2 * n]


def test_an_index_is_checked_against_the_length_of_this_run() -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    table, indices = g.builder.input("table", DType.FLOAT32, (-1, 2)), g.builder.input("indices", DType.INT32, (-1,))
    g.builder.output(g(Gather(), table, indices))
    session = circlet.Session(b.build(), backend="native")
    for rows in (4, 9):
        session.invoke(0, [floats(rows, 2), np.array([0, rows - 1], np.int32)])
        with pytest.raises(circlet.ExecutionError, match=rf"index {rows} is out of range for an axis of size {rows}"):
            session.invoke(0, [floats(rows, 2), np.array([0, rows], np.int32)])


@pytest.mark.parametrize("relation", [Equal(), NotEqual(), Less(), LessEqual(), Greater(), GreaterEqual(), Cast()])
def test_numbers_of_what_is_found_are_compared(relation: Op) -> None:
    """With 3, 1 and 0 which a run may find as well as any other number, and with -1 and 9."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1,))
    count = g.length(g(Where(), g(Greater(), x, g.number(0.0), dtype=DType.BOOL), dtype=DType.INT64), 0)
    limits = g.ints(3, 1, 0, -1, 9)
    found = g(relation, *([count] if isinstance(relation, Cast) else [count, limits]), dtype=DType.BOOL)
    g.builder.output(g(SelectV2(), found, g.ints(5), g.ints(6), dtype=DType.INT32))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for row in ([1, 2, 3, -1], [1, -2, 3], [-1, -2, -3], [-1, 2], [3, 2, 1]):
        given = [np.array(row, np.float32)]
        assert native.invoke(0, given)[0].tolist() == cpu.invoke(0, given)[0].tolist(), row


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
@pytest.mark.parametrize("op", [ReduceMax(), ReduceMin(), Sum()])
def test_nothing_is_found_and_combined(op: Op, axes: list[int]) -> None:
    """Extremes of nothing are the other ends of the type, of NaN alone they are NaN."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1,))
    places = g(Where(), g(NotEqual(), x, g.number(0.0), dtype=DType.BOOL), dtype=DType.INT64)
    rows = g(Mul(), g(GatherNd(), x, places), g.builder.constant(np.ones((3, 1), np.float32)))
    g.builder.output(g(op, rows, g.ints(*axes)), g(op, g(Transpose(), rows, g.ints(1, 0)), g.ints(*axes)))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for row in ([1, 2, 0, -3], [0, 0, 0, 0], [np.nan, 0, 0, 0], [0, 5, 0, np.nan], list(range(40)), [0, 0]):
        given = [np.array(row, np.float32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_lengths_are_numbers_of_their_type(axis: int) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    g = Graph(main)
    x = main.input("x", DType.FLOAT32, (-1, 4))
    shape = g(ShapeOf(DType.INT64), x, dtype=DType.INT64)
    main.output(g(StridedSlice(), shape, g.ints(axis), g.ints(axis + 1), g.ints(1), dtype=DType.INT64))
    session = circlet.Session(builder.build(), "native")
    for length in (7, 3):
        (found,) = session.run([np.zeros((length, 4), np.float32)]).values()
        assert found.dtype == np.int64
        assert found.tolist() == [(length, 4)[axis]]


@pytest.mark.parametrize("name", ["layers", "loop", "chosen"])
def test_an_interpreter_is_resized_and_back_without_compiling(name: str, folder: object, compiled: list[str],
                                                              tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_BACKEND", "native")
    made, inputs = MODELS[name]
    path = tmp_path / "model.tflite"
    circlet.save(made, path)
    interpreter = circlet.Interpreter(str(path))
    cpu = circlet.Session(made, backend="cpu")
    for n in (50, 9, 50, 33, 9):
        given = inputs(n)
        for position, each in enumerate(given):
            interpreter.resize_tensor_input(interpreter.get_input_details()[position]["index"], each.shape)
        interpreter.allocate_tensors()
        for position, each in enumerate(given):
            interpreter.set_tensor(interpreter.get_input_details()[position]["index"], each)
        interpreter.invoke()
        for detail, expected in zip(interpreter.get_output_details(), cpu.invoke(0, given), strict=True):
            check(interpreter.get_tensor(detail["index"]), expected, 1e-4)
    assert len(compiled) == 1
