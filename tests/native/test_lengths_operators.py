"""Operators along open axes: one function for all lengths, with the bits of the code for one length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.backends.native.load.llvm import host
from circlet.backends.native.lower.fuse import fuse_operators
from circlet.backends.native.lower.fused import Fused
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Shape
from circlet.runtime.ops import normalize, reduce
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import DynamicUpdateSlice, GatherNd
from circlet.runtime.ops.layout import Concatenation, ReverseV2, Slice, Split, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Exp, Gelu, Tanh
from tests.native.test_lengths import Graph, weights
from tests.ops.cases import check

RANDOM = np.random.default_rng(12)
LENGTHS = (7, 2, 64, 33, 150, 12, 13, 5000)
_Arrays: TypeAlias = "list[npt.NDArray[Any]]"
Write: TypeAlias = Callable[[Graph, Value], Value]


def one(op: Op, *parameters: npt.ArrayLike, dtype: DType = DType.FLOAT32, results: int = 1) -> Write:
    """An operator on the input, with constants."""
    def write(g: Graph, x: Value) -> Value:
        given = [g.builder.constant(np.asarray(each)) for each in parameters]
        kinds = [dtype, DType.INT32][:results]
        return g.builder.op(op, x, *given, outputs=[Tensor("", kind, (), has_rank=False) for kind in kinds])[-1]

    return write


def window(g: Graph, x: Value) -> Value:
    """(n, 6) with (2, 6) of its own first rows written over the last ones."""
    rows = g(Slice(), x, g.ints(0, 0), g.ints(2, 6))
    return g(DynamicUpdateSlice(), x, rows, g.ints(1 << 20, 0))


def around(g: Graph, x: Value) -> Value:
    """(n, 6) and its halves of columns, swapped, side by side."""
    left, right = g.builder.op(Split(2), g.number(1), x, outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)] * 2)
    return g(Concatenation(1), right, x, left)


def product(given: npt.NDArray[np.float32], **options: bool) -> Write:
    """A constant times the input."""
    return lambda g, x: g(BatchMatMul(**options), g.builder.constant(given), x)


def own_columns(g: Graph, x: Value) -> Value:
    """(5, n) times the first two rows of it."""
    return g(FullyConnected(), g(Slice(), x, g.ints(0, 0), g.ints(2, -1)), x)


def own_rows(g: Graph, x: Value) -> Value:
    """(n, 6), each row times its first element, summed up."""
    row = g(Transpose(), g(Slice(), x, g.ints(0, 0), g.ints(-1, 1)), g.ints(1, 0))
    return g(BatchMatMul(), row, x)


FLOAT, ONES = np.float32, np.ones(6, np.float32)
ROWS: Shape = (-1, 6)
BITS: dict[str, tuple[Write, Shape]] = {
    "sums of rows": (one(reduce.Sum(keep_dims=True), [1]), ROWS),
    "means of rows": (one(reduce.Mean(), [1]), ROWS),
    "sums of columns": (one(reduce.Sum(), [0]), ROWS),
    "sums of columns of two open axes": (one(reduce.Sum(), [0]), (5, -1)),
    "means of many columns": (one(reduce.Mean(), [0]), (-1, 300)),
    "means between": (one(reduce.Mean(keep_dims=True), [1]), (3, -1, 20)),
    "products of columns": (one(reduce.ReduceProd(), [0]), ROWS),
    "maxima": (one(reduce.ReduceMax(), [1]), (3, -1)),
    "minima of all": (one(reduce.ReduceMin(), [0, 1]), ROWS),
    "places of maxima": (one(reduce.ArgMax(output_type=DType.INT32), 1, dtype=DType.INT32), (3, -1)),
    "places of minima": (one(reduce.ArgMin(output_type=DType.INT32), 0, dtype=DType.INT32), ROWS),
    "sums so far": (one(reduce.Cumsum(), 0), ROWS),
    "sums so far, backwards": (one(reduce.Cumsum(exclusive=True, reverse=True), 1), (3, -1)),
    "softmax": (one(normalize.Softmax(1.0)), ROWS),
    "log softmax": (one(normalize.LogSoftmax()), ROWS),
    "L2": (one(normalize.L2Normalization()), ROWS),
    "mean squares": (one(normalize.RmsNorm(1e-5), ONES), ROWS),
    "images": (one(normalize.InstanceNorm(1e-5), ONES, ONES), (2, -1, 3, 6)),
    "neighbours": (one(normalize.LocalResponseNormalization(2, 1.0, 0.1, 0.5)), ROWS),
    "few neighbours": (one(normalize.LocalResponseNormalization(2, 1.0, 0.1, 0.5)), (3, -1)),
    "greatest of windows": (one(MaxPool2D(Padding.SAME, 2, 1, Activation.NONE, 3, 2)), (2, 4, 5, -1)),
    "means of windows": (one(AveragePool2D(Padding.SAME, 1, 2, Activation.RELU, 2, 3)), (2, 4, 5, -1)),
    "means of few": (one(AveragePool2D(Padding.VALID, 2, 1, Activation.NONE, 2, 2)), (2, 4, 5, -1)),
    "roots of windows": (one(L2Pool2D(Padding.VALID, 1, 1, Activation.NONE, 2, 2)), (1, 3, 3, -1)),
    "greatest": (one(TopKV2(), np.int32(2), results=2), (3, -1)),
    "backwards": (one(ReverseV2(), [0]), ROWS),
    "looked up": (one(GatherNd(), np.array([[1, 0], [0, 1]], np.int32)), ROWS),
    "window": (window, ROWS),
    "halves": (around, ROWS),
    "few rows by columns": (product(weights(3, 6), adj_y=True), ROWS),
    "few rows, deep": (own_columns, (5, -1)),
}
"""What is to have the bits of code for one length, and the shape of its input, with -1 for what is open."""
REORDERED: dict[str, tuple[Write, Shape]] = {
    "sums": (one(reduce.Sum(), [1]), (3, -1)),
    "means": (one(reduce.Mean(), [0, 1]), ROWS),
    "products": (one(reduce.ReduceProd(), [1]), (3, -1)),
    "softmax": (one(normalize.Softmax(1.0)), (3, -1)),
    "log softmax": (one(normalize.LogSoftmax()), (3, -1)),
    "L2": (one(normalize.L2Normalization()), (3, -1)),
    "mean squares": (one(normalize.RmsNorm(1e-5), FLOAT(1)), (3, -1)),
    "a row by columns": (product(weights(1, 3)), (3, -1)),
    "a row, deep": (own_rows, ROWS),
}
"""Sums along rows that are open, and products of one row. How many partial sums there are of a row depends on its
length, where that is known, and whether tiles multiply it on the size of the matrix, so that the last bits may differ
from those of code for one length; at one length they are always the same."""


def model(write: Write, shape: Shape) -> Model:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(write(g, g.builder.input("x", DType.FLOAT32, shape)))
    return b.build()


def at(shape: Shape, length: int) -> Shape:
    return tuple(length if size == -1 else size for size in shape)


def floats(shape: Shape) -> npt.NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", BITS)
def test_bits_are_those_of_code_for_one_length(name: str, folder: object, compiled: list[str]) -> None:
    write, shape = BITS[name]
    session = circlet.Session(model(write, shape), backend="native")
    given = [floats(at(shape, each)) for each in LENGTHS]
    found = [session.invoke(0, [each])[0] for each in given]
    assert len(compiled) == 1
    for x, y in zip(given, found, strict=True):
        alone, = circlet.Session(model(write, x.shape), backend="native").invoke(0, [x])
        np.testing.assert_array_equal(y, alone)
        check(y, circlet.Session(model(write, shape), backend="cpu").invoke(0, [x])[0], 1e-4)


@pytest.mark.skipif(not host().has_masks, reason="no vectors with masks")
@pytest.mark.parametrize("name", ["softmax", "log softmax"])
def test_short_rows_have_the_bits_of_code_for_one_length(name: str) -> None:
    """Those that one register holds: both kinds of code compute them in the same way."""
    write, shape = REORDERED[name]
    session = circlet.Session(model(write, shape), backend="native")
    for length in range(2, host().vector_bytes // 4 + 1):
        x = floats(at(shape, length))
        alone, = circlet.Session(model(write, x.shape), backend="native").invoke(0, [x])
        np.testing.assert_array_equal(session.invoke(0, [x])[0], alone)


@pytest.mark.parametrize("name", REORDERED)
def test_sums_of_open_rows_are_in_one_order(name: str, folder: object, compiled: list[str]) -> None:
    write, shape = REORDERED[name]
    made = model(write, shape)
    given = [floats(at(shape, each)) for each in LENGTHS]
    session, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    found = [session.invoke(0, [each])[0] for each in given]
    assert len(compiled) == 1
    other = circlet.Session(made, backend="native")
    for x, y in reversed([*zip(given, found, strict=True)]):
        np.testing.assert_array_equal(other.invoke(0, [x])[0], y)
        check(y, cpu.invoke(0, [x])[0], 1e-4)


INTEGERS: dict[str, Op] = {"sum": reduce.Sum(), "mean": reduce.Mean(), "product": reduce.ReduceProd(),
                           "greatest": reduce.ReduceMax(), "place": reduce.ArgMin(output_type=DType.INT32),
                           "so far": reduce.Cumsum()}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_to_the_bit(name: str, axis: int, folder: object, compiled: list[str]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.INT32, (-1, -1))
    g.builder.output(g(INTEGERS[name], x, g.builder.constant(np.int32(axis)), dtype=DType.INT32))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for rows, columns in ((3, 5), (2, 2), (40, 7), (7, 300), (5, 1100)):
        given = RANDOM.integers(-1000, 1000, (rows, columns)).astype(np.int32)
        np.testing.assert_array_equal(native.invoke(0, [given])[0], cpu.invoke(0, [given])[0])
    assert len(compiled) == 1


def rows_written(main: Graph, cond: Graph, body: Graph) -> Sequence[Value]:
    """A loop over the rows of x (n, 3): state = tanh(state + row), written to y (n, 4), as recurrent layers do it; x
    goes around untouched, and the state (1, 4) is what may lie in other buffers."""
    kinds = [("k", DType.INT32, ()), ("y", DType.FLOAT32, (-1, 4)), ("state", DType.FLOAT32, (1, 4)),
             ("n", DType.INT32, ()), ("x", DType.FLOAT32, (-1, 4))]
    values = [[g.builder.input(*each) for each in kinds] for g in (cond, body)]
    (k, _, _, n, _), (turn, y, state, length, x) = values
    cond.builder.output(cond(Less(), k, n, dtype=DType.BOOL))
    g = body
    place = g(Concatenation(0), g(Reshape(), turn, g.ints(1), dtype=DType.INT32), g.ints(0), dtype=DType.INT32)
    after = g(Tanh(), g(Add(), state, g(Slice(), x, place, g.ints(1, 4))))
    g.builder.output(g(Add(), turn, g.number(1), dtype=DType.INT32), g(DynamicUpdateSlice(), y, after, place), after,
                     length, x)
    x, y = (main.builder.input(name, DType.FLOAT32, (-1, 4)) for name in "xy")
    start = main.builder.constant(np.zeros((1, 4), np.float32))
    results = main.builder.op(While(cond.builder.index, body.builder.index), main.number(0), y, start,
                              main.length(x, 0), x,
                              outputs=[Tensor("", dtype, (), has_rank=False) for _, dtype, _ in kinds])
    return [results[1], results[2]]


def test_a_loop_that_writes_rows_is_one_function(folder: object, compiled: list[str]) -> None:
    b = ModelBuilder()
    graphs = [Graph(b.subgraph(name)) for name in ("main", "cond", "body")]
    graphs[0].builder.output(*rows_written(*graphs))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for n in (7, 2, 64, 33, 12):
        given = [floats((n, 4)), floats((n, 4))]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


def test_what_is_fused_does_not_depend_on_lengths() -> None:
    def made(n: int) -> list[str]:
        b = ModelBuilder()
        g = b.subgraph("main")
        x, scale = g.input("x", DType.FLOAT32, (n, 8)), g.input("scale", DType.FLOAT32, (12,))

        def tensor(*shape: int) -> Tensor:
            return Tensor("", DType.FLOAT32, tuple(max(size, 1) for size in shape), shape_signature=shape)

        factor, = g.op(Exp(), scale, outputs=[tensor(12)])
        product, = g.op(FullyConnected(keep_num_dims=True), x, g.constant(weights(12, 8)), outputs=[tensor(n, 12)])
        scaled, = g.op(Add(), product, factor, outputs=[tensor(n, 12)])
        split, = g.op(Reshape(), scaled, g.constant(np.array([-1, 3, 4], np.int32)), outputs=[tensor(n, 3, 4)])
        g.output(*g.op(Gelu(), split, outputs=[tensor(n, 3, 4)]))
        (subgraph,) = fuse_operators(b.build()).subgraphs
        return [each.op.label for each in subgraph.operators if isinstance(each.op, Fused)]

    assert made(-1) == made(32) == ["FULLY_CONNECTED+ADD+RESHAPE+GELU"]


def numbers(shape: Shape, dtype: DType) -> npt.NDArray[Any]:
    """Numbers of a type: integers of its whole range, real numbers with some NaN and infinities."""
    if dtype.numpy.kind in "iu":
        limits = np.iinfo(dtype.numpy)
        return RANDOM.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    found = RANDOM.standard_normal(shape).astype(dtype.numpy)
    found[RANDOM.random(shape) < 0.03] = np.nan
    found[RANDOM.random(shape) < 0.03] = -np.inf
    return found


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8, DType.INT16,
                                   DType.INT32, DType.UINT32, DType.INT64], ids=str)
@pytest.mark.parametrize("op", [reduce.Sum(), reduce.ReduceMax(), reduce.ReduceMin(keep_dims=True),
                                reduce.ArgMax(output_type=DType.INT64)], ids=lambda op: str(op.name))
def test_rows_of_all_lengths_to_the_last_element(op: Op, dtype: DType, folder: object) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", dtype, (3, -1))
    made = DType.INT64 if isinstance(op, reduce.ArgMax) else dtype
    g.builder.output(g(op, x, g.builder.constant(np.int32(1)), dtype=made))
    try:
        native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    except circlet.UnsupportedError:
        pytest.skip(f"{op.name} of {dtype}")
    for n in (2, 3, 4, 5, 8, 9, 13, 16, 33, 64, 65, 100, 270, 5000, 300_000):
        given = numbers((3, n), dtype)
        tolerance = {DType.FLOAT16: 0.1, DType.FLOAT32: 1e-3, DType.FLOAT64: 1e-9}.get(dtype)
        check(native.invoke(0, [given])[0], cpu.invoke(0, [given])[0],
              tolerance if isinstance(op, reduce.Sum) else None)
