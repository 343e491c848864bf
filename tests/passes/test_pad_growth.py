"""Loops that append to what they carry give the same padded as they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.reduce import ReduceMax, Sum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import Relu, Tanh
from circlet.runtime.passes.pipelines import INTERPRETED
from circlet.runtime.passes.transforms.pad_growth import pad_growth
from tests.passes.growth_cases import (
    KEPT,
    PADDED,
    WIDTH,
    Body,
    Shape,
    growing,
    growing_together,
    row_by_length,
    rows,
)
from tests.properties import holds
from tests.schema.onnx.graphs import load

ROW = np.array([[0.5, -0.25, 0.125, 1.0]], np.float32)


def padded(model: circlet.Model) -> circlet.Model:
    return pad_growth(INTERPRETED.run(model))


def is_padded(model: circlet.Model) -> bool:
    return [each.name for each in padded(model).subgraphs[0].operators] == ["CALL"]


def run(session: circlet.Session, turns: int, first: int) -> Sequence[np.ndarray]:
    cache = np.linspace(-1, 1, first * WIDTH, dtype=np.float32).reshape(first, WIDTH)
    return session.invoke(0, [np.array(turns, np.int32), ROW, cache])


def expect_same(model: circlet.Model, first: int, turns: Sequence[int], backend: str = "cpu",
                tolerance: float = 2e-6) -> None:
    """The padded model gives what the model gives as it stands."""
    plain = circlet.Session(model, "cpu")
    changed = circlet.Session(padded(model) if backend == "cpu" else model, backend)
    for count in turns:
        for expected, found in zip(run(plain, count, first), run(changed, count, first), strict=True):
            np.testing.assert_allclose(found, expected, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", PADDED)
def test_results(name: str) -> None:
    model = growing(PADDED[name])
    assert is_padded(model)
    expect_same(model, 1, (0, 1, 5, 70))


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "first"), [(Shape(0), 0), (Shape(3, more=3), 3), (Shape(-1), 0), (Shape(-1), 64)],
                         ids=str)
@pytest.mark.parametrize("name", ["attention", "sum", "heads", "mean by length"])
def test_first_lengths(name: str, shape: Shape, first: int) -> None:
    model = growing(PADDED[name], shape)
    assert is_padded(model)
    expect_same(model, first, (0, 1, 40))


@pytest.mark.parametrize("name", ["attention", "causal", "computed shapes", "max", "last"])
def test_native(name: str) -> None:
    expect_same(growing(PADDED[name]), 1, (3, 70), "native")


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_rule_stays(name: str) -> None:
    model = growing(KEPT[name])
    assert not is_padded(model)
    expect_same(model, 1, (0, 5))


@pytest.mark.parametrize("name", ["max", "argmax", "mean", "last", "transposed"])
def test_what_differs_for_no_rows_stays(name: str) -> None:
    assert is_padded(growing(PADDED[name], Shape(1)))
    assert not is_padded(growing(PADDED[name], Shape(0)))


def test_rows_put_before_the_others_stay() -> None:
    model = growing(rows, Shape(prepends=True))
    assert not is_padded(model)


def test_lengths_that_may_differ_stay_apart() -> None:
    """Caches of lengths that only a caller knows are added to each other, or each reduced by itself."""
    for adds, grows in ((True, False), (False, True)):
        assert is_padded(two_caches(adds)) is grows
    plain, changed = (circlet.Session(each, "cpu") for each in (two_caches(False), padded(two_caches(False))))
    given = [np.array(5, np.int32), ROW, np.repeat(ROW, 2, 0), np.repeat(ROW, 70, 0)]
    for expected, found in zip(plain.invoke(0, given), changed.invoke(0, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5)


def two_caches(adds: bool) -> circlet.Model:
    """A loop that appends to two tensors of any lengths."""
    def read(b: Body, caches: Sequence[Value], x: Value) -> Value:
        if adds:
            both = b(Add(), *caches, shape=(-1, WIDTH))
            return b(Sum(True), both, b.i32(0), shape=(1, WIDTH))
        one, two = (b(Sum(True), each, b.i32(0), shape=(1, WIDTH)) for each in caches)
        return b(Tanh(), b(Add(), one, two, shape=(1, WIDTH)), shape=(1, WIDTH))

    return growing_together(read, Shape(-1), 2)


STEPS: dict[str, Callable[[Body, Value, Value], Value]] = {
    "tanh": lambda b, c, x: b(Tanh(), c, shape=(-1, WIDTH)),
    "relu": lambda b, c, x: b(Relu(), c, shape=(-1, WIDTH)),
    "row": lambda b, c, x: b(Mul(), c, x, shape=(-1, WIDTH)),
    "difference": lambda b, c, x: b(Sub(), x, c, shape=(-1, WIDTH)),
    "softmax": lambda b, c, x: b(Softmax(1.0), c, shape=(-1, WIDTH)),
    "columns": lambda b, c, x: b(Transpose(), b(Softmax(1.0), b(Transpose(), c, b.i32(1, 0), shape=(WIDTH, -1)),
                                                shape=(WIDTH, -1)), b.i32(1, 0), shape=(-1, WIDTH)),
    "pairs": lambda b, c, x: b(BatchMatMul(), b(Softmax(0.5), b(BatchMatMul(adj_y=True), c, c, shape=(-1, -1)),
                                                shape=(-1, -1)), c, shape=(-1, WIDTH)),
    "moments": lambda b, c, x: b(FullyConnected(), c, b(BatchMatMul(adj_x=True), c, c, shape=(WIDTH, WIDTH)), None,
                                 shape=(-1, WIDTH)),
    "centred": lambda b, c, x: b(Sub(), c, b(ReduceMax(True), c, b.i32(1), shape=(-1, 1)), shape=(-1, WIDTH)),
    "halves": lambda b, c, x: b(Reshape(), b(Transpose(), b(Reshape(), c, b.i32(-1, 2, 2), shape=(-1, 2, 2)),
                                             b.i32(0, 2, 1), shape=(-1, 2, 2)), b.i32(-1, WIDTH), shape=(-1, WIDTH)),
}
"""What a program may do to all rows (n, 4)."""


@holds(st.lists(st.sampled_from(sorted(STEPS)), max_size=5), st.integers(0, 12), few=12, many=60)
def test_programs(names: list[str], turns: int) -> None:
    def read(b: Body, cache: Value, x: Value) -> Value:
        for each in names:
            cache = b(Tanh(), STEPS[each](b, cache, x), shape=(-1, WIDTH))
        return b(Sum(True), cache, b.i32(0), shape=(1, WIDTH))

    model = growing(read)
    assert is_padded(model)
    expect_same(model, 1, (turns,), tolerance=1e-4)  # third powers in turn make much of the last bit


def test_iterations_are_those_of_the_model() -> None:
    """Making room is no iteration."""
    model = padded(growing(rows))
    run(circlet.Session(model, "cpu", limits=circlet.Limits(max_iterations=70)), 70, 1)
    with pytest.raises(circlet.LimitError, match="max_iterations=69"):
        run(circlet.Session(model, "cpu", limits=circlet.Limits(max_iterations=69)), 70, 1)


def test_invocations_are_those_of_the_model() -> None:
    found = []
    for model in (growing(rows), padded(growing(rows))):
        counts = circlet.Counter()
        session = circlet.Session(model, "cpu")
        session.run([np.array(70, np.int32), ROW, ROW], listener=counts)
        found.append([counts.invocations[each] for each in (1, 2)])
    assert found == [[71, 70], [71, 70]]


def test_errors_name_operators_of_the_model() -> None:
    """The third turn looks up a row that the table does not have."""
    model, found = growing(row_by_length), []
    assert is_padded(model)
    for each in (model, padded(model)):
        session = circlet.Session(each, "cpu")
        run(session, 2, 1)
        with pytest.raises(circlet.ExecutionError) as error:
            run(session, 3, 1)
        found.append(str(error.value))
    assert found[0] == found[1]
    assert "subgraph 2 ('body')" in found[0]


GROWING_LOOP = """g (int64 M, float[1, 4] x) => (float[1, 4] h, float[n, 4] c, float[k, 1, 4] ys) {
    h, c, ys = Loop(M, "", x, x) <body = b (int64 i, bool k, float[1, 4] h0, float[m, 4] c0)
            => (bool k1, float[1, 4] h1, float[p, 4] c1, float[1, 4] y) {
        k1 = Identity(k) rows = Transpose<perm = [1, 0]>(c0) scores = MatMul(h0, rows)
        weights = Softmax<axis = -1>(scores) z = MatMul(weights, c0) h1 = Tanh(z) y = Neg(h1)
        c1 = Concat<axis = 0>(c0, h1) }> }"""


def test_a_loop_of_onnx() -> None:
    """Its body is called, and asked for the shape of what it collects."""
    model = load(GROWING_LOOP, 20)
    plain, changed = circlet.Session(model, "cpu"), circlet.Session(padded(model), "cpu")
    assert "LOOP_ROUNDS" in {each.name for subgraph in padded(model).subgraphs for each in subgraph.operators}
    for turns in (0, 3, 70):
        given = {"M": np.array(turns, np.int64), "x": ROW}
        for expected, found in zip(plain.run(given).values(), changed.run(given).values(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
