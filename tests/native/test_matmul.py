"""Native matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import circlet
from circlet.backends.native.backend import NativeBackend
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import native_test
from tests.ops.test_matmul import BATCH, FLOAT, HYBRID, LOOKUPS, QUANTIZED

test_cases = native_test([*FLOAT, *BATCH, *QUANTIZED, *HYBRID])
test_lookups = native_test(LOOKUPS)

ROWS = st.sampled_from([0, 1, 1, 2, 3, 5, 7, 8, 9, 13, 25, 50, 300])
COLUMNS = st.sampled_from([1, 2, 9, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 129])
DEPTHS = st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 257, 4001])
FLOATS = 1e-4
"""Of the largest result."""
CLAMPS = st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1])


@settings(max_examples=60, deadline=None)
@given(ROWS, COLUMNS, DEPTHS, CLAMPS, st.booleans(), st.booleans(), seeds)
def test_fully_connected(rows: int, columns: int, depth: int, activation: Activation, has_bias: bool,
                         is_constant: bool, seed: int) -> None:
    weights = values((columns, depth), np.float32, seed) / np.float32(np.sqrt(max(depth, 1)))
    x, bias = values((rows, depth), np.float32, seed + 2), values((columns,), np.float32, seed + 1)
    op, rest = FullyConnected(activation, keep_num_dims=True), [bias] if has_bias else []
    if is_constant:
        agree(applied(op, weights, *rest), x, floats=FLOATS)
    else:
        agree(applied(op), x, weights, *rest, floats=FLOATS)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((2, 2), ()), ((), (3,)), ((2,), (1,)), ((1,), ())]),
       ROWS, COLUMNS, DEPTHS, st.booleans(), st.booleans(), seeds)
@example(((), ()), 300, 17, 0, False, False, 0)
@example(((2,), (2,)), 300, 17, 32, False, False, 0)
def test_batch_matmul(batches: tuple[tuple[int, ...], tuple[int, ...]], rows: int, columns: int, depth: int,
                      adj_x: bool, adj_y: bool, seed: int) -> None:
    x = values((*batches[0], *((depth, rows) if adj_x else (rows, depth))), np.float32, seed)
    y = values((*batches[1], *((columns, depth) if adj_y else (depth, columns))), np.float32, seed + 1)
    agree(applied(BatchMatMul(adj_x, adj_y)), x, y, floats=FLOATS)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((1,), (3, 2))]), st.sampled_from([0, 1, 3, 20]),
       st.sampled_from([1, 2, 17, 64]), st.sampled_from([0, 1, 5, 33]), st.booleans(), st.booleans(), st.booleans(),
       st.sampled_from([np.float64, np.int32, np.int64]), seeds)
def test_products_of_wide_numbers(batches: tuple[tuple[int, ...], tuple[int, ...]], rows: int, columns: int, depth: int,
                                  adj_x: bool, adj_y: bool, is_constant: bool, dtype: type[np.generic],
                                  seed: int) -> None:
    x = values((*batches[0], *((depth, rows) if adj_x else (rows, depth))), dtype, seed)
    y = values((*batches[1], *((columns, depth) if adj_y else (depth, columns))), dtype, seed + 1)
    op = BatchMatMul(adj_x, adj_y)
    if is_constant:
        agree(applied(op, y), x)
    else:
        agree(applied(op), x, y)


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_products_that_differ_in_constants(dtype: type[np.generic]) -> None:
    """Each has its own, though all else is the same."""
    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        for seed in range(4):
            x = g.apply(BatchMatMul(adj_y=True), x, g.constant(values((8, 8), dtype, seed)))
        return (x,)

    agree(formula, values((3, 8), dtype, 9))


@pytest.mark.parametrize(("columns", "depth"), [(1024, 16), (1100, 33), (2049, 9), (3000, 7), (20, 4001)])
def test_one_row_times_a_large_matrix(columns: int, depth: int) -> None:
    x, y = (values(shape, np.float32, 3) for shape in ((3, 1, depth), (3, depth, columns)))
    agree(applied(BatchMatMul()), x, y, floats=FLOATS)
    agree(applied(BatchMatMul()), x[0], y[0], floats=FLOATS)


@settings(max_examples=30, deadline=None)
@given(ROWS, COLUMNS, DEPTHS, CLAMPS, seeds)
def test_epilogue(rows: int, columns: int, depth: int, activation: Activation, seed: int) -> None:
    """What follows a product is computed from its results where they are made."""
    weights = values((columns, depth), np.float32, seed) / np.float32(np.sqrt(max(depth, 1)))
    scale = values((columns,), np.float32, seed + 1)

    def formula(g: SubgraphBuilder, x: Value, rest: Value) -> Sequence[Value]:
        product = g.apply(FullyConnected(activation), x, g.constant(weights))
        return [g.apply(Add(Activation.RELU), g.apply(Mul(), product, g.constant(scale)), rest)]

    agree(formula, values((rows, depth), np.float32, seed + 2), values((rows, columns), np.float32, seed + 3),
          floats=FLOATS)


def test_special_numbers() -> None:
    """Infinities and NaN stay in their rows and columns."""
    x, weights = values((9, 20), np.float32, 1), values((40, 20), np.float32, 2)
    x[3, 5], x[4, 6], weights[7, 8] = np.inf, np.nan, -np.inf
    agree(applied(FullyConnected(Activation.RELU6), weights), x)


def test_rows_a_page_apart() -> None:
    """Rows that would share few places of the cache are copied first, for each index of the outer dimensions."""
    x, y = values((2, 13, 1024), np.float32, 1), values((1024, 600), np.float32, 2) / np.float32(32)
    agree(applied(BatchMatMul()), x, np.stack([y, -y]), floats=FLOATS)
    agree(applied(FullyConnected(keep_num_dims=True), np.ascontiguousarray(y.T)), x, floats=FLOATS)


def product(weights: Array, rows: int, is_transposed: bool) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (rows, len(weights) if not is_transposed else weights.shape[1]))
    op = FullyConnected() if is_transposed else BatchMatMul()
    main.output(main.apply(op, x, main.constant(weights)))
    return b.build()


@pytest.mark.parametrize("is_transposed", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 16, 17, -1])
def test_numbers_of_halves_are_kept_as_such(rows: int, is_transposed: bool) -> None:
    """The results are those of weights of which one is no half, but for its column, to the bit."""
    depth, columns = 420, 333
    halves = values((columns, depth) if is_transposed else (depth, columns), np.float16, 0).astype(np.float32)
    halves.reshape(-1)[5:9] = -0.0, 65504, 2.0 ** -24, -(2.0 ** -15)
    others = halves.copy()
    others[-1, -1] = 0.1
    x = values((9 if rows < 0 else rows, depth), np.float32, 1)
    sizes, found = [], []
    for weights in (halves, others):
        session = circlet.Session(product(weights, rows, is_transposed), "native")
        found.append(session.invoke(0, [x])[0][:, :-1])
        (backend,) = session._executors.span_backends
        assert isinstance(backend, NativeBackend)
        sizes.append(sum(each.constants.nbytes for each in backend._functions.values() if each is not None))
    one, other = found
    np.testing.assert_array_equal(one, other)
    assert (sizes[0] < 0.6 * sizes[1]) == (rows <= 16)
