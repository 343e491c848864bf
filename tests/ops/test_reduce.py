"""Operators that combine the elements along axes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.types import DType, Quantization
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
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

NAN, INF = np.nan, np.inf
X = np.array([[1, 2, -5], [-7, 5, 0]], np.float32)
INTS = np.array([[1, 2, -5], [-7, 5, 0]], np.int32)
FLAGS = np.array([[True, False], [True, True]])
TOP = 2**31 - 1
STORED = np.array([[-128, -7, 3, 127], [10, -20, 55, 0], [1, 1, 2, -1]], np.int8)
BYTES = (STORED.astype(np.int16) + 128).astype(np.uint8)
WORDS = STORED.astype(np.int16) * np.int16(200)
LEAST, GREATEST = np.finfo(np.float32).min, np.finfo(np.float32).max


def axes(*values: int) -> T:
    """A constant of rank 1."""
    return T(np.array(values, np.int32), constant=True)


def nothing(dtype: npt.DTypeLike = np.float32) -> T:
    return T(np.zeros((2, 0), dtype))


def stored(value: npt.ArrayLike, scale: float, zero_point: int = 0) -> T:
    return T(value, q=q(scale, zero_point))


AXES = [
    Case("last", Sum(), [X, axes(1)], [[-2.0, -2.0]]),
    Case("keep", Sum(keep_dims=True), [X, axes(-1)], [[[-2.0], [-2.0]]]),
    Case("scalar-axis", Sum(), [X, T(0, constant=True)], [[-6.0, 7.0, -5.0]]),
    Case("int64-axis", Sum(), [X, T(np.array([0], np.int64), constant=True)], [[-6.0, 7.0, -5.0]]),
    Case("all", Sum(), [X, axes(0, 1)], [-4.0]),
    Case("all-keep", Sum(keep_dims=True), [X, axes(1, 0)], [[[-4.0]]]),
    Case("twice", Sum(), [X, axes(0, -2, 0)], [[-6.0, 7.0, -5.0]]),
    Case("none", Sum(), [X, axes()], [X]),
    Case("scalar", Sum(), [3.0, axes(0)], [3.0]),
    Case("run-time", Sum(), [X, [-1]], [[-2.0, -2.0]]),
    Case("out-of-range", Sum(), [X, axes(2)], [0.0], error=r"expected -2 to 1 for rank 2, found 2"),
    Case("run-time-out-of-range", Sum(), [X, T(-3)], [0.0], error=r"expected -2 to 1 for rank 2, found -3"),
    Case("float-axis", Sum(), [X, [1.0]], [0.0], error=r"scalar or vector of int32 or int64, found .* of float32"),
    Case("matrix-axis", Sum(), [X, [[1]]], [0.0], error=r"found shape \(1, 1\) of int32"),
]

REAL = [
    Case("wraps", Sum(), [np.array([TOP, 1], np.int32), axes(0)], [np.int32(-TOP - 1)]),
    Case("int64", Sum(), [np.array([1 << 40, 1], np.int64), axes(0)], [np.int64((1 << 40) + 1)]),
    Case("plain-int8-wraps", Sum(), [np.array([100, 100], np.int8), axes(0)], [np.int8(-56)]),
    Case("bool", Sum(), [FLAGS, axes(0)], [[True, True]]),
    Case("nothing", Sum(), [nothing(), axes(1)], [[0.0, 0.0]]),
    Case("nan", Sum(), [[1.0, NAN], axes(0)], [NAN]),
    Case("float16", Sum(), [np.array([1.0], np.float16), axes(0)], [np.float16(1.0)], error="element type float16"),
    Case("floats", Mean(), [X, axes(1)], [[-2 / 3, -2 / 3]], tolerance=1e-6),
    Case("keep", Mean(keep_dims=True), [X, axes(0, 1)], [[[-2 / 3]]], tolerance=1e-6),
    Case("truncates", Mean(), [np.array([[-2, -3], [2, 3]], np.int32), axes(1)], [[-2, 2]]),
    Case("no-overflow", Mean(), [np.array([TOP, TOP, TOP], np.int32), axes(0)], [TOP]),
    Case("int64", Mean(), [np.array([-7, 0], np.int64), axes(0)], [np.int64(-3)]),
    Case("uint64", Mean(), [np.array([7, 1 << 63], np.uint64), axes(0)], [np.uint64((1 << 62) + 3)]),
    Case("nothing", Mean(), [nothing(), axes(1)], [[NAN, NAN]]),
    Case("nothing-of-integers", Mean(), [nothing(np.int32), axes(1)], [[0, 0]]),
    Case("bool", Mean(), [FLAGS, axes(1)], [[True, True]], error="element type bool"),
    Case("floats", ReduceProd(), [X, axes(0)], [[-7.0, 10.0, 0.0]]),
    Case("wraps", ReduceProd(), [np.array([1 << 20, 1 << 12], np.int32), axes(0)], [0]),
    Case("bool", ReduceProd(), [FLAGS, axes(1)], [[False, True]]),
    Case("nothing", ReduceProd(), [nothing(np.int64), axes(1)], [np.array([1, 1], np.int64)]),
    Case("floats", ReduceMax(), [X, axes(1)], [[2.0, 5.0]]),
    Case("ints", ReduceMax(), [INTS, axes(0)], [[1, 5, 0]]),
    Case("bool", ReduceMax(), [FLAGS, axes(1)], [[True, True]]),
    Case("nan", ReduceMax(), [[[1.0, NAN], [NAN, -INF], [NAN, NAN]], axes(1)], [[1.0, -INF, NAN]]),
    Case("nothing", ReduceMax(), [nothing(), axes(1)], [[LEAST, LEAST]]),
    Case("nothing-of-int8", ReduceMax(), [nothing(np.int8), axes(1)], [np.array([-128, -128], np.int8)]),
    Case("nothing-of-bool", ReduceMax(), [nothing(bool), axes(1)], [[False, False]]),
    Case("floats", ReduceMin(), [X, axes(1)], [[-5.0, -7.0]]),
    Case("uint8", ReduceMin(), [np.array([[200, 3], [4, 255]], np.uint8), axes(1)], [np.array([3, 4], np.uint8)]),
    Case("nan", ReduceMin(), [[[NAN, 1.0], [INF, INF]], axes(1)], [[1.0, INF]]),
    Case("nothing", ReduceMin(), [nothing(), axes(1)], [[GREATEST, GREATEST]]),
    Case("nothing-of-bool", ReduceMin(), [nothing(bool), axes(1)], [[True, True]]),
    Case("rows", ReduceAny(), [[[False, True], [False, False]], axes(1)], [[True, False]]),
    Case("nothing", ReduceAny(), [nothing(bool), axes(1)], [[False, False]]),
    Case("ints", ReduceAny(), [INTS, axes(1)], [[1, 1]], error="element type int32"),
    Case("rows", ReduceAll(), [FLAGS, axes(1)], [[False, True]]),
    Case("nothing", ReduceAll(), [nothing(bool), axes(1)], [[True, True]]),
]

QUANTIZED = [
    Case("int8", Mean(), [stored(STORED, 0.1, -3), axes(1)], [stored(np.array([9, 41, 14], np.int8), 0.04, 5)]),
    Case("uint8", Mean(), [stored(BYTES, 0.1, 130), axes(1)], [stored(np.array([114, 139, 118], np.uint8), 0.05, 120)]),
    Case("int16", Mean(), [stored(WORDS, 0.001), axes(0)],
         [stored(np.array([-11143, -2476, 5714, 12000], np.int16), 0.0007)]),
    Case("int8-nothing", Mean(), [T(np.zeros((1, 0), np.int8), q=q(1, 3)), axes(1)],
         [stored(np.array([0], np.int8), 1, 4)]),
    Case("int8-run-time", Mean(), [stored(STORED, 0.1, -3), [1]], [stored(np.array([9, 41, 14], np.int8), 0.04, 5)]),
    Case("int8", Sum(), [stored(STORED, 0.1, -3), axes(1)], [stored(np.array([7, 24, 10], np.int8), 0.3, 5)]),
    Case("uint8", Sum(), [stored(BYTES, 0.1, 130), axes(1)], [stored(np.array([115, 133, 118], np.uint8), 0.3, 120)]),
    Case("int16", Sum(), [stored(WORDS, 0.001), axes(0)],
         [stored(np.array([-7800, -1733, 4000, 8400], np.int16), 0.003)]),
    Case("clamps", Sum(), [stored(np.array([100, 100], np.int8), 0.5), axes(0)], [stored(np.int8(127), 0.5)]),
    Case("int8", ReduceProd(), [stored(STORED, 0.02, -3), axes(1)], [stored(np.array([6, 5, 5], np.int8), 0.05, 5)]),
    Case("int16", ReduceProd(keep_dims=True), [stored(WORDS, 0.0001), axes(0)],
         [stored(np.array([[-51, 6, 13, 0]], np.int16), 0.0002)]),
    Case("int8-nothing", ReduceProd(), [T(np.zeros((1, 0), np.int8), q=q(1, 3)), axes(1)],
         [stored(np.array([14], np.int8), 0.1, 4)]),
    Case("int8", ReduceMax(), [stored(STORED, 0.1, -3), axes(1)], [stored(np.array([127, 55, 2], np.int8), 0.1, -3)]),
    Case("uint8", ReduceMin(), [stored(BYTES, 0.1, 3), axes(1)], [stored(np.array([0, 108, 127], np.uint8), 0.1, 3)]),
    Case("other-scale", ReduceMax(), [stored(STORED, 0.1), axes(1)], [stored(np.array([0, 0, 0], np.int8), 0.2)],
         error="operands of different quantisation"),
    Case("per-axis", Sum(), [T(STORED, q=Quantization((1.0, 2.0, 3.0), (0, 0, 0))), axes(1)],
         [stored(np.array([0, 0, 0], np.int8), 1)], error="quantised per axis"),
]

EXTREMES = [
    Case("last", ArgMax(DType.INT32), [X, T(1, constant=True)], [[1, 1]]),
    Case("first", ArgMin(DType.INT64), [X, T(np.array([-2], np.int64), constant=True)],
         [np.array([1, 0, 0], np.int64)]),
    Case("ties", ArgMax(DType.INT32), [[3.0, 5.0, 5.0], axes(0)], [1]),
    Case("ties", ArgMin(DType.INT32), [[3.0, 3.0, 5.0], axes(0)], [0]),
    Case("run-time", ArgMax(DType.INT32), [X, [0]], [[0, 1, 1]]),
    Case("bool", ArgMax(DType.INT32), [[[False, True, True], [False, False, False]], axes(1)], [[1, 0]]),
    Case("int64", ArgMin(DType.INT32), [np.array([1 << 40, -5, 3], np.int64), axes(0)], [1]),
    Case("uint8", ArgMax(DType.INT32), [stored(np.array([1, 255, 127], np.uint8), 0.5, 9), axes(0)], [1]),
    Case("nan", ArgMax(DType.INT32), [[[1.0, NAN, 2.0], [NAN, 1.0, 0.0], [NAN, NAN, NAN]], axes(1)], [[2, 1, 0]]),
    Case("nan", ArgMin(DType.INT32), [[[1.0, NAN, 2.0], [NAN, 1.0, 0.0], [INF, INF, NAN]], axes(1)], [[0, 2, 0]]),
    *(Case(f"nothing-but-nan-{n}", op, [[[NAN] * n, [*[NAN] * (n - 1), 1.0]], axes(1)], [[0, n - 1]])
      for n in (2, 4, 8, 16, 64) for op in (ArgMax(DType.INT32), ArgMin(DType.INT32))),
    Case("empty-result", ArgMax(DType.INT32), [nothing(), axes(0)], [np.zeros(0, np.int32)]),
    Case("empty-axis-and-result", ArgMax(DType.INT32), [np.zeros((0, 0), np.float32), axes(1)],
         [np.zeros(0, np.int32)]),
    Case("empty-axis", ArgMax(DType.INT32), [nothing(), axes(1)], [[0, 0]], error="axis 1 of input 0 is empty"),
    Case("two-axes", ArgMax(DType.INT32), [X, axes(0, 1)], [0], error=r"exactly one element, found shape \(2,\)"),
    Case("scalar", ArgMax(DType.INT32), [1.0, axes(0)], [0], error="input 0 is a scalar"),
    Case("float-result", ArgMax(), [X, axes(1)], [[1.0, 1.0]], error="output type float32"),
]

SUMS = [
    Case("rows", Cumsum(), [INTS, T(1, constant=True)], [[[1, 3, -2], [-7, -2, -2]]]),
    Case("columns", Cumsum(), [X, axes(-2)], [[[1.0, 2.0, -5.0], [-6.0, 7.0, -5.0]]]),
    Case("exclusive", Cumsum(exclusive=True), [X, axes(1)], [[[0.0, 1.0, 3.0], [0.0, -7.0, -2.0]]]),
    Case("reverse", Cumsum(reverse=True), [X, axes(1)], [[[-2.0, -3.0, -5.0], [-2.0, 5.0, 0.0]]]),
    Case("both", Cumsum(exclusive=True, reverse=True), [X, T(1)], [[[-3.0, -5.0, 0.0], [5.0, 0.0, 0.0]]]),
    Case("wraps", Cumsum(), [[TOP, 1], axes(0)], [[TOP, -TOP - 1]]),
    Case("int64", Cumsum(), [np.array([TOP, 1], np.int64), axes(0)], [np.array([TOP, TOP + 1], np.int64)]),
    Case("empty", Cumsum(exclusive=True), [nothing(), axes(1)], [np.zeros((2, 0), np.float32)]),
    Case("product", Cumprod(), [X, axes(1)], [np.cumprod(X, 1, np.float32)]),
    Case("product-both", Cumprod(exclusive=True, reverse=True), [[2, 3, 5], axes(0)], [[15, 5, 1]]),
    Case("axis", Cumsum(), [X, axes(2)], [X], error=r"expected -2 to 1 for rank 2, found 2"),
    Case("scalar", Cumsum(), [1.0, axes(0)], [1.0], error="input 0 is a scalar"),
    Case("bool", Cumsum(), [FLAGS, axes(0)], [FLAGS], error="element type bool"),
]

test_axes = case_test(AXES)
test_reductions = case_test(REAL)
test_quantized_reductions = case_test(QUANTIZED)
test_extremes = case_test(EXTREMES)
test_cumulative_sums = case_test(SUMS)


@pytest.mark.parametrize("op", [Sum(), Mean(keep_dims=True), ArgMax(DType.INT32)])
def test_shape_is_unknown_until_the_axes_are(op: Op) -> None:
    with pytest.raises(Unknown):
        op.infer(Operands((Operand(DType.FLOAT32, (2, 3)), Operand(DType.INT32, (1,))), 1))


def test_shape_of_cumulative_sums_needs_no_axis() -> None:
    assert Cumsum().infer(Operands((Operand(DType.FLOAT32, (2, 3)), Operand(DType.INT32, ())), 1)) == ((2, 3),)


@pytest.mark.parametrize("op", [Sum(), Mean(), ReduceMax(), Sum(keep_dims=True)])
def test_axes_that_change_are_held_to_the_bound_shape(op: Reduction) -> None:
    x, axis = X.copy(), np.array([1], np.int32)
    out = np.zeros((2, 1) if op.keep_dims else (2,), np.float32)
    call = Call(op, (T(x).tensor, T(axis).tensor), (T(out).tensor,))
    step = CpuBackend().kernel(call).bind([x, axis], [out], Run(Variables()))
    step()
    axis[0] = 0
    with pytest.raises(ExecutionError, match=r"the result has shape \((1, )?3,?\), the model declares"):
        step()
