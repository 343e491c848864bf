"""Operators that read elements at the same distances are written once, wherever these begin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import circlet
from circlet.backends.native.emit import parallel
from circlet.backends.native.lower.fuse import MOST_PARTS, fuse_operators
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import index, layout, matmul, shape, unary
from tests.exec import graphs as g
from tests.native.test_alike import numbers
from tests.native.test_budget import compare

STEPS, WIDTH = 12, 16
Step = Callable[[SubgraphBuilder, Value, int, int], Value]
"""What a step takes (batch, width) of (batch, steps, width), given its number and the batch."""


def strided(s: SubgraphBuilder, x: Value, k: int, _: int) -> Value:
    op = layout.StridedSlice(begin_mask=5, end_mask=5, shrink_axis_mask=2)
    return s.apply(op, x, s.constant([0, k, 0]), s.constant([0, k + 1, 0]), s.constant([1, 1, 1]))


def sliced(s: SubgraphBuilder, x: Value, k: int, batch: int) -> Value:
    found = s.apply(layout.Slice(), x, s.constant([0, k, 0]), s.constant([batch, 1, WIDTH]))
    return s.apply(shape.Reshape(), found, s.constant([batch, WIDTH]))


def gathered(s: SubgraphBuilder, x: Value, k: int, _: int) -> Value:
    return s.apply(index.Gather(axis=1), x, s.constant(np.int32(k)))


def unrolled(take: Step, batch: int, count: int) -> Model:
    """A recurrent network whose steps are written one after the other."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, state = main.input("x", DType.FLOAT32, (batch, STEPS, WIDTH)), main.input("h", DType.FLOAT32, (batch, WIDTH))
    weights, again = (main.constant(numbers(WIDTH, WIDTH, seed=k)) for k in range(2))
    for k in range(count):
        taken = main.apply(matmul.FullyConnected(), take(main, x, k, batch), weights, None)
        kept = main.apply(matmul.FullyConnected(), state, again, None)
        state = main.apply(unary.Tanh(), g.add(main, taken, kept))
    main.output(state)
    return b.build()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("take", [strided, sliced, gathered])
def test_steps_are_written_once(take: Step, batch: int) -> None:
    x, state = numbers(batch, STEPS, WIDTH), numbers(batch, WIDTH, seed=1)
    few, many = (sum(listing.module.count('define internal i32 @"operator') for listing in compare(
        unrolled(take, batch, count), [x, state]).listings) for count in (4, STEPS))
    assert 0 < few == many


@pytest.mark.parametrize("batch", [1, 3])
def test_other_operators_that_move_the_same(batch: int) -> None:
    """Alone and in groups of several."""
    takes = (strided, sliced, gathered)
    model = unrolled(lambda s, x, k, n: takes[k % 3](s, x, k, n), batch, STEPS)
    given = [numbers(batch, STEPS, WIDTH), numbers(batch, WIDTH, seed=1)]
    found, expected = (circlet.Session(model, each).invoke(0, given)[0] for each in ("native", "cpu"))
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6, strict=True)


@pytest.mark.parametrize(("count", "is_apart"), [(MOST_PARTS, False), (MOST_PARTS + 1, True)])
def test_what_is_cut_in_many_parts_is_cut_once(count: int, is_apart: bool) -> None:
    """Few parts are read where they lie."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, weights = main.input("x", DType.FLOAT32, (3, count, WIDTH)), main.constant(numbers(WIDTH, WIDTH))
    for each in main.op(layout.Split(num_splits=count), main.constant(np.int32(1)), x, count=count):
        part = main.apply(shape.Reshape(), each, main.constant([3, WIDTH]))
        main.output(main.apply(matmul.FullyConnected(), part, weights, None))
    model = b.build()
    (fused,) = fuse_operators(model).subgraphs
    assert any(isinstance(each.op, layout.Split) for each in fused.operators) is is_apart
    given = [numbers(3, count, WIDTH)]
    results = [circlet.Session(model, each).invoke(0, given) for each in ("native", "cpu")]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6, strict=True)


@pytest.mark.parametrize("first", [0, 1])
def test_parts_of_other_tensors_that_begin_at_the_same_place(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads take turns of moves what the function is called for, not what it was written for: of what each
    layer gives, that of a part of the width."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (8, WIDTH))
    for k in range(3):
        wide = main.apply(matmul.FullyConnected(), x, main.constant(numbers(2 * WIDTH, WIDTH, seed=k)), None)
        x = main.apply(layout.Slice(), wide, main.constant([0, first * WIDTH]), main.constant([8, WIDTH]))
        main.output(wide, x)
    monkeypatch.setattr(parallel, "LEAST_WORK", 1)
    compare(b.build(), [numbers(8, WIDTH)])


Move = Callable[[SubgraphBuilder, Value], Value]


@st.composite
def moves(draw: st.DrawFn, sizes: tuple[int, ...]) -> Move:
    """A part of a tensor, by steps that may go back, or its axes in another order."""
    if draw(st.booleans()):
        order = draw(st.permutations(range(len(sizes))))
        return lambda s, x: s.apply(layout.Transpose(), x, s.constant(order))
    steps = [draw(st.sampled_from((1, 1, 2, -1))) for _ in sizes]
    begins, ends = [], []
    for size, step in zip(sizes, steps, strict=True):
        first = draw(st.integers(0, size - 1))
        last = draw(st.integers(first, size - 1))
        begins.append(first if step > 0 else last)
        ends.append(last + 1 if step > 0 else first - 1 - size)  # counted from the end
    return lambda s, x: s.apply(layout.StridedSlice(), x, *map(s.constant, (begins, ends, steps)))


@given(st.data(), st.sampled_from((DType.FLOAT32, DType.INT8, DType.FLOAT16, DType.INT64, DType.BOOL)))
def test_all_that_is_moved(data: st.DataObject, dtype: DType) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", dtype, sizes)
    for move in data.draw(st.lists(moves(sizes), min_size=2, max_size=5)):
        main.output(move(main, x))
    numbers = np.random.default_rng(0).integers(0, 2 if dtype is DType.BOOL else 100, sizes)
    compare(b.build(), [numbers.astype(dtype.numpy)])
