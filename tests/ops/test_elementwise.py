"""Arithmetic on several inputs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops import elementwise as ops
from tests.ops.cases import Case, T, as_t, q
from tests.ops.run_cases import case_test

NAN, INF = float("nan"), float("inf")
LEAST, MOST = -(1 << 31), (1 << 31) - 1
FEW = [0.3, 1.0, 5.0, 1e100, INF]
INTEGERS = ([7, -7, 7, -7, 6, -6, 0], [2, 2, -2, -2, 3, 3, 5])


def int8(values: list[int]) -> T:
    return T(values, DType.INT8)


def uint8(values: list[int]) -> T:
    return T(values, DType.UINT8)


CASES = [
    Case("int32", ops.Add(), [[1, -2, 3], [10, 20, 30]], [[11, 18, 33]]),
    Case("scalar", ops.Add(), [3, 4], [7]),
    Case("wraps", ops.Add(), [[MOST, LEAST], [1, -1]], [[LEAST, MOST]]),
    Case("int64", ops.Add(), [T([1 << 40], DType.INT64), T([1], DType.INT64)], [T([(1 << 40) + 1], DType.INT64)]),
    Case("plain-int16-wraps", ops.Add(), [T([32767], DType.INT16), T([1], DType.INT16)], [T([-32768], DType.INT16)]),
    Case("float", ops.Add(), [[1.5, INF, INF, NAN, 3e38], [2.0, 1.0, -INF, 1.0, 3e38]], [[3.5, INF, NAN, NAN, INF]]),
    Case("float16", ops.Add(), [T([1.5, 65504], DType.FLOAT16), T([0.25, 65504], DType.FLOAT16)],
         [T([1.75, INF], DType.FLOAT16)]),
    Case("relu", ops.Add(Activation.RELU), [[-2.0, 0.5, NAN], [1.0, 1.0, 1.0]], [[0.0, 1.5, NAN]]),
    Case("relu6", ops.Add(Activation.RELU6), [[-2.0, 0.5, 9.0], [1.0, 1.0, 1.0]], [[0.0, 1.5, 6.0]]),
    Case("relu1", ops.Add(Activation.RELU_N1_TO_1), [[-2, 0, 9], [0, 0, 0]], [[-1, 0, 1]]),
    Case("int32-relu", ops.Add(Activation.RELU), [[-2, 5], [1, 1]], [[0, 6]]),
    Case("tanh", ops.Add(Activation.TANH), [1.0, 1.0], [0.0], error="fused activation TANH"),
    Case("broadcast-row", ops.Add(), [[[1, 2], [3, 4]], [10, 20]], [[[11, 22], [13, 24]]]),
    Case("broadcast-both", ops.Add(), [[[1], [2]], [10, 20, 30]], [[[11, 21, 31], [12, 22, 32]]]),
    Case("broadcast-scalar", ops.Add(), [5, [[[1], [2]]]], [[[[6], [7]]]]),
    Case("broadcast-empty", ops.Add(), [T(np.zeros((0, 2), np.int32)), [1, 2]], [T(np.zeros((0, 2), np.int32))]),
    Case("shapes", ops.Add(), [[1, 2, 3], [1, 2]], [0], error=r"shapes \(3,\) and \(2,\) do not broadcast"),
    Case("types", ops.Add(), [[1, 2], [1.0, 2.0]], [0],
         error="input 1 has element type float32, expected int32 as input 0 has"),
    Case("bool", ops.Add(), [[True], [True]], [[True]], error="element type bool of input 0"),
    Case("float", ops.Sub(), [[1.5, INF], [2.0, INF]], [[-0.5, NAN]]),
    Case("int64-relu6", ops.Sub(Activation.RELU6), [T([9, 2], DType.INT64), T([1, 5], DType.INT64)],
         [T([6, 0], DType.INT64)]),
    Case("wraps", ops.Mul(), [[MOST, 1 << 16], [2, 1 << 16]], [[-2, 0]]),
    Case("uint32", ops.Mul(), [T([1 << 31, 7], DType.UINT32), T([2, 7], DType.UINT32)], [T([0, 49], DType.UINT32)]),
    Case("float", ops.Mul(), [[1.5, INF, -0.0], [2.0, 0.0, 2.0]], [[3.0, NAN, -0.0]]),
    Case("truncates", ops.Div(), INTEGERS, [[3, -3, -3, 3, 2, -2, 0]]),
    Case("by-a-constant", ops.Div(), [INTEGERS[0], T(INTEGERS[1], constant=True)], [[3, -3, -3, 3, 2, -2, 0]]),
    Case("saturates", ops.Div(), [[LEAST, LEAST, MOST], [-1, 2, -1]], [[MOST, LEAST // 2, -MOST]]),
    Case("saturates-by-a-constant", ops.Div(), [[LEAST, -5], T([-1], constant=True)], [[MOST, 5]]),
    Case("uint8", ops.Div(), [uint8([255, 7]), uint8([2, 255])], [uint8([127, 0])]),
    Case("relu6", ops.Div(Activation.RELU6), [[70, -7], [2, 2]], [[6, 0]]),
    Case("zero", ops.Div(), [[1, 2], [1, 0]], [[0, 0]], error="division by zero"),
    Case("zero-scalar", ops.Div(), [1, 0], [0], error="division by zero"),
    Case("zero-constant", ops.Div(), [[1, 2], T([1, 0], constant=True)], [[0, 0]], error="division by zero"),
    Case("float", ops.Div(), [[1.0, 0.0, -1.0], [0.0, 0.0, 4.0]], [[INF, NAN, -0.25]]),
    Case("int32", ops.FloorDiv(), INTEGERS, [[3, -4, -4, 3, 2, -2, 0]]),
    Case("wraps", ops.FloorDiv(), [[LEAST], [-1]], [[LEAST]]),
    Case("int8", ops.FloorDiv(), [int8([-7, 7]), int8([2, -2])], [int8([-4, -4])]),
    Case("float", ops.FloorDiv(), [[1.0, 7.5, -7.5], [0.1, -2.0, 2.0]], [[9.0, -4.0, -4.0]]),
    Case("zero", ops.FloorDiv(), [7, 0], [0], error="division by zero"),
    Case("float-zero", ops.FloorDiv(), [[7.0], [-0.0]], [[0.0]], error="division by zero"),
    Case("int32", ops.FloorMod(), INTEGERS, [[1, 1, -1, -1, 0, 0, 0]]),
    Case("least", ops.FloorMod(), [[LEAST], [-1]], [[0]]),
    Case("float", ops.FloorMod(), [[5.0, -5.0, 5.0, -5.0, 7.5, 1.0], [3.0, 3.0, -3.0, -3.0, INF, 0.0]],
         [[2.0, 1.0, -1.0, -2.0, 7.5, NAN]]),
    Case("zero", ops.FloorMod(), [[7, 8], [1, 0]], [[0, 0]], error="division by zero"),
    Case("int32", ops.Pow(), [[2, -3, 0, 5, 2], [3, 3, 0, 0, 32]], [[8, -27, 1, 1, 0]]),
    Case("negative", ops.Pow(), [[2, 1], [1, -1]], [[0, 0]], error="an integer to a negative power"),
    Case("float", ops.Pow(), [[2.0, 5.0, -8.0, NAN, 0.0], [0.5, -3.0, 3.0, 0.0, -1.0]],
         [[2**0.5, 0.008, -512.0, 1.0, INF]], tolerance=1e-6),
    *(Case("float64", ops.Pow(), [np.array(FEW), np.array([exponent])], [np.array([each**exponent for each in FEW])],
           tolerance=1e-15) for exponent in (-1.5, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 2.5)),
    Case("float64s", ops.Pow(),
         [np.array([-INF, -0.0, -2.0, -2.0, 0.0, NAN]), np.array([0.5, 0.5, 3.0, 0.5, -1.0, 0.0])],
         [np.array([INF, 0.0, -8.0, NAN, INF, 1.0])], tolerance=1e-15),
    Case("root", ops.Pow(), [np.array([-INF, -0.0, -2.0, NAN]), np.array([0.5])], [np.array([INF, 0.0, NAN, NAN])]),
    Case("nan", ops.Maximum(), [[NAN, 1.0, NAN, 2.0], [1.0, NAN, NAN, 3.0]], [[1.0, NAN, NAN, 3.0]]),
    Case("int64", ops.Maximum(), [T([-1, 5], DType.INT64), T([1, 2], DType.INT64)], [T([1, 5], DType.INT64)]),
    Case("nan", ops.Minimum(), [[NAN, 1.0, NAN, 2.0], [1.0, NAN, NAN, 3.0]], [[1.0, NAN, NAN, 2.0]]),
    Case("broadcast", ops.Minimum(), [[[3], [1]], [2]], [[[2], [1]]]),
    Case("quantizations", ops.Maximum(), [T([1], DType.INT8, q(0.5)), T([1], DType.INT8, q(0.25))],
         [T([1], DType.INT8, q(0.5))], error="operands of different quantisation"),
    Case("float", ops.SquaredDifference(), [[1.0, -2.0], [3.0]], [[4.0, 25.0]]),
    Case("wraps", ops.SquaredDifference(), [[MOST, 3], [0, -5]], [[1, 64]]),
    Case("one", ops.AddN(), [[1, 2]], [[1, 2]]),
    Case("two", ops.AddN(), [[1, 2], [3, 4]], [[4, 6]]),
    Case("four", ops.AddN(), [[1.0], [2.0], [4.0], [8.0]], [[15.0]]),
    Case("shapes", ops.AddN(), [[1], [1, 2]], [0], error="expected inputs of one shape"),
    Case("quadrants", ops.Atan2(), [[1.0, 1.0, -1.0, -1.0, 0.0, -0.0], [1.0, -1.0, 1.0, -1.0, -0.0, 0.0]],
         [[np.pi / 4, 3 * np.pi / 4, -np.pi / 4, -3 * np.pi / 4, np.pi, 0.0]], tolerance=1e-6),
    Case("int32", ops.BitwiseXor(), [[0b1100, -1], [0b1010, 1]], [[0b0110, -2]]),
    Case("uint8", ops.BitwiseXor(), [uint8([255]), uint8([15, 240])], [uint8([240, 15])]),
    Case("signed", ops.RightShift(), [[-100, -100, 100, 100, -100, 100], [1, 40, 3, 40, -2, -2]],
         [[-50, -1, 12, 0, -100, 100]]),
    Case("unsigned", ops.RightShift(), [uint8([255, 100]), T([40, 3], DType.UINT8, constant=True)], [uint8([1, 12])]),
    Case("channel", ops.Prelu(), [[[1.0, -2.0], [-3.0, NAN]], [0.5, 2.0]], [[[1.0, -4.0], [-1.5, NAN]]]),
    Case("bool", ops.StablehloAdd(), [[True, True, False], [True, False, False]], [[True, True, False]]),
    Case("int8-wraps", ops.StablehloAdd(), [int8([127]), int8([1])], [int8([-128])]),
    Case("shapes", ops.StablehloAdd(), [[1, 2], [1]], [0], error="expected inputs of one shape"),
    Case("float", ops.StablehloSubtract(), [[1.0], [3.0]], [[-2.0]]),
    Case("bool", ops.StablehloMultiply(), [[True, True], [True, False]], [[True, False]]),
    Case("int32", ops.StablehloDivide(), INTEGERS, [[3, -3, -3, 3, 2, -2, 0]]),
    Case("int32", ops.StablehloRemainder(), INTEGERS, [[1, -1, 1, -1, 0, 0, 0]]),
    Case("float", ops.StablehloRemainder(), [[5.0, -5.0, 1.0], [3.0, 3.0, 0.0]], [[2.0, -2.0, NAN]]),
    Case("float", ops.StablehloPower(), [[2.0, 9.0], [3.0, 0.5]], [[8.0, 3.0]], tolerance=1e-6),
    Case("nan", ops.StablehloMaximum(), [[NAN, 1.0, 1.0], [1.0, NAN, 2.0]], [[NAN, NAN, 2.0]]),
    Case("nan", ops.StablehloMinimum(), [[NAN, 1.0, 1.0], [1.0, NAN, 2.0]], [[NAN, NAN, 1.0]]),
    Case("int32", ops.StablehloAnd(), [[5, 4], [6, -1]], [[4, 4]]),
    Case("bool", ops.StablehloOr(), [[True, False], [False, False]], [[True, False]]),
    Case("int32", ops.StablehloShiftLeft(), [[1, -3, 5, 5], [4, 1, 32, -1]], [[16, -6, 0, 0]]),
    Case("scalars", ops.StablehloClamp(), [0.0, [-1.0, 0.5, 2.0], 1.0], [[0.0, 0.5, 1.0]]),
    Case("tensors", ops.StablehloClamp(), [[0, 1], [5, 0], [3, 2]], [[3, 1]]),
    Case("shapes", ops.StablehloClamp(), [[0], [1, 2], [3, 4]], [0], error=r"input 0 has shape \(1,\), expected \(\)"),
]
test_arithmetic = case_test(CASES)


def bound(op: Op, inputs: list[T], out: Array) -> Step:
    """The step of an operator whose output may lie on one of its inputs."""
    output = as_t(out).tensor
    call = Call(op, tuple(each.tensor for each in inputs), (output,))
    arrays = [out if each.value is out else each.array for each in inputs]
    return CpuBackend().kernel(call).bind(arrays, [out], Run(Variables()))


def test_a_plain_sum_is_nothing_but_the_ufunc() -> None:
    step = bound(ops.Add(), [T(1), T(2)], np.zeros((), np.int32))
    assert isinstance(step, partial)
    assert step.func is np.add


@pytest.mark.parametrize("op", [ops.FloorDiv(), ops.FloorMod()])
def test_a_constant_divisor_is_checked_once(op: Op) -> None:
    step = bound(op, [T(7), T(2, constant=True)], np.zeros((), np.int32))
    assert isinstance(step, partial)


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("op", [ops.AddN(), ops.StablehloClamp()])
def test_the_output_may_lie_on_any_input(op: Op, position: int) -> None:
    values = [np.array([1, 5], np.int32), np.array([4, 2], np.int32), np.array([3, 9], np.int32)]
    out = values[position]
    expected = sum(values) if op.name == "ADD_N" else np.minimum(np.maximum(values[1], values[0]), values[2])
    bound(op, [T(each) for each in values], out)()
    np.testing.assert_array_equal(out, expected)
