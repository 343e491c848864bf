"""Native reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.reduce import (
    ArgMax,
    ArgMin,
    Cumprod,
    Cumsum,
    Mean,
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    Reduction,
    Sum,
)
from tests.native.against_cpu import NUMBERS, agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.ops.test_reduce import AXES, EXTREMES, QUANTIZED, REAL, SUMS
from tests.ops.test_reduce_window import COMBINE_WINDOW

test_reductions = native_test([*AXES, *REAL, *QUANTIZED])
test_extremes = native_test(EXTREMES)
test_windows = native_test(COMBINE_WINDOW)
test_cumulative_sums = native_test(SUMS)

KINDS: dict[type[Reduction], tuple[type[np.generic], ...]] = {
    Sum: (*NUMBERS, np.bool_, np.int16),
    Mean: (*NUMBERS, np.uint8),
    ReduceProd: (*NUMBERS, np.bool_),
    ReduceMax: (*NUMBERS, np.bool_, np.uint8),
    ReduceMin: (*NUMBERS, np.bool_, np.uint32),
    ReduceAny: (np.bool_,),
    ReduceAll: (np.bool_,),
}
LONG = st.sampled_from([1, 2, 3, 8, 17, 40, 64, 100, 300])


def axes_of(shape: Sequence[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-len(shape), len(shape) - 1) if shape else st.just(0), max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(KINDS, key=lambda op: op.name)), st.booleans(), seeds)
def test_reduction_of_any_shape(data: st.DataObject, op: type[Reduction], keep_dims: bool, seed: int) -> None:
    shape = data.draw(shapes())
    dtype = data.draw(st.sampled_from(KINDS[op]))
    axes = data.draw(axes_of(shape))
    x = values(shape, dtype, seed, special=op in (ReduceMax, ReduceMin))
    agree(applied(op(keep_dims), np.array(axes, np.int32)), x)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([Sum, Mean, ReduceMax]), st.sampled_from(NUMBERS), seeds)
def test_reduction_of_long_axes(data: st.DataObject, op: type[Reduction], dtype: type[np.generic], seed: int) -> None:
    """With elements computed as they are read, and results that others are computed from."""
    shape = data.draw(shapes(1, 3, LONG))
    axes = data.draw(axes_of(shape))

    def formula(g: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        product = g.apply(Mul(), x, y)
        reduced = g.apply(op(), product, g.constant(np.array(axes, np.int32)))
        plain = g.apply(op(), x, g.constant(np.array(axes, np.int32)))
        return [g.apply(Add(), g.apply(Mul(), reduced, reduced), reduced), plain]

    agree(formula, values(shape, dtype, seed), values(shape, dtype, seed + 1), floats=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([ArgMax, ArgMin]), st.sampled_from([*NUMBERS, np.uint8, np.bool_]),
       st.sampled_from([DType.INT32, DType.INT64]), seeds)
def test_arg(data: st.DataObject, op: type[ArgMax | ArgMin], dtype: type[np.generic], made: DType, seed: int) -> None:
    shape = data.draw(shapes(1, 4, st.sampled_from([1, 2, 3, 5, 20])))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    agree(applied(op(made), np.int32(axis)), values(shape, dtype, seed, special=True))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(NUMBERS), st.booleans(), st.booleans(), seeds)
def test_cumulative(data: st.DataObject, dtype: type[np.generic], exclusive: bool, reverse: bool,
                        seed: int) -> None:
    shape = data.draw(shapes(1, 4))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for op in (Cumsum(exclusive, reverse), Cumprod(exclusive, reverse)):
        agree(applied(op, np.int32(axis)), values(shape, dtype, seed))


@pytest.mark.parametrize("shape", [(3, 2500), (3, 2051), (3, 1152), (4, 3, 1024), (2, 1030, 3), (5, 7, 300)])
def test_rows_longer_than_a_block(shape: tuple[int, ...]) -> None:
    x = values(shape, np.float32, 5)
    for op in (Sum(), ReduceMax(), ArgMin(DType.INT32)):
        agree(applied(op, np.int32(0)), x)
