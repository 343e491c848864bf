"""Elementwise operators on quantised values; the expected integers are those of LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.ops import comparison, elementwise, unary
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

X8 = [-128, -100, -50, -7, -1, 0, 1, 13, 64, 127]
XU8 = [0, 1, 20, 77, 127, 128, 129, 200, 255]
X16 = [-32768, -20001, -777, -1, 0, 1, 333, 12345, 32767]
PAIRS = {
    DType.INT8: ([-128, -100, -50, -7, 0, 13, 64, 127], [127, -128, 33, -8, 1, 100, -77, 126]),
    DType.UINT8: ([0, 28, 78, 121, 128, 141, 192, 255], [255, 0, 161, 120, 129, 228, 51, 254]),
    DType.INT16: ([-32768, -20001, -777, -1, 0, 333, 12345, 32767], [32767, -32768, 4321, -8, 1, 100, -7777, 30001]),
}
UNARY: list[tuple[Op, DType, Quantization, Quantization, Sequence[int], Sequence[int]]] = [
    (unary.Abs(), DType.INT8, q(0.1, 5), q(0.07, -100), X8,
     [90, 50, -21, -83, -91, -93, -94, -89, -16, 74]),
    (unary.Abs(), DType.INT16, q(0.001), q(0.0013), X16,
     [25206, 15385, 598, 1, 0, 1, 256, 9496, 25205]),
    (unary.Exp(), DType.INT8, q(0.02, -3), q(0.06, -120), X8,
     [-119, -118, -113, -105, -103, -102, -102, -97, -56, 104]),
    (unary.Exp(), DType.INT16, q(0.0001), q(0.001), X16,
     [38, 135, 925, 1000, 1000, 1000, 1033, 3437, 26486]),
    (unary.Exp(), DType.INT16, q(2.0**-8), q(2.0**-8), [20000, 20993, 22000, 32767],
     [32767, 32767, 32767, 32767]),
    (unary.Log(), DType.INT8, q(0.05, -128), q(0.03, 10), X8,
     [-128, 21, 55, 70, 72, 72, 72, 75, 85, 95]),
    (unary.Log(), DType.INT16, q(0.001), q(0.0003), X16,
     [-32768, -32768, -32768, -27497, -27455, -27293, -3710, 8378, 11632]),
    (unary.Sqrt(), DType.INT8, q(0.1, -128), q(0.02, -128), X8,
     [-128, -45, 11, 45, 50, 50, 51, 59, 91, 124]),
    (unary.Sqrt(), DType.INT16, q(0.001), q(0.0002), [0, 1, 2, 777, 12345, 32767],
     [0, 158, 223, 4407, 17567, 28621]),
    (unary.Rsqrt(), DType.INT8, q(0.1, -128), q(0.03, -128), X8,
     [127, -108, -116, -118, -119, -119, -119, -119, -120, -121]),
    (unary.Rsqrt(), DType.INT16, q(0.001), q(0.0005), [0, 1, 200, 777, 12345, 32767],
     [27144, 26975, 4615, 2268, 570, 349]),
    (unary.Tanh(), DType.INT8, q(0.03, 4), q(1 / 128), X8,
     [-128, -128, -118, -41, -19, -15, -11, 34, 121, 127]),
    (unary.Tanh(), DType.UINT8, q(0.03, 120), q(1 / 128, 128), XU8,
     [0, 0, 1, 18, 154, 158, 162, 254, 255]),
    (unary.Tanh(), DType.INT16, q(0.0002), q(2.0**-15), X16,
     [-32767, -32746, -5050, -5, 0, 5, 2178, 32302, 32767]),
    (unary.Tanh(), DType.INT16, q(2.0**-12), q(2.0**-15), X16,
     [-32767, -32764, -6142, -8, 0, 8, 2659, 32611, 32767]),
    (unary.Logistic(), DType.INT8, q(0.05, 4), q(1 / 256, -128), X8,
     [-128, -127, -112, -34, -16, -13, -10, 28, 116, 127]),
    (unary.Logistic(), DType.INT8, q(1 / 256), q(1 / 256, -128), [-2, 0, 2, 3],
     [0, 0, 0, 1]),
    (unary.Logistic(), DType.UINT8, q(0.05, 120), q(1 / 256), XU8,
     [1, 1, 2, 27, 150, 153, 156, 251, 255]),
    (unary.Logistic(), DType.INT16, q(0.0002), q(2.0**-15), X16,
     [47, 589, 15114, 16383, 16384, 16385, 16929, 30210, 32721]),
    (unary.Relu(), DType.INT8, q(0.1, -10), q(0.07, 3), X8,
     [3, 3, 3, 7, 16, 17, 19, 36, 109, 127]),
    (unary.Relu(), DType.UINT8, q(0.1, 127), q(0.07, 3), XU8,
     [3, 3, 3, 3, 3, 4, 6, 107, 186]),
    (unary.Relu(), DType.INT16, q(0.001), q(0.0011), X16,
     [0, 0, 0, 0, 0, 1, 303, 11223, 29788]),
    (unary.Relu6(), DType.INT8, q(0.1, -10), q(0.05, -128), X8,
     [-128, -128, -128, -122, -110, -108, -106, -82, -8, -8]),
    (unary.Relu6(), DType.INT16, q(0.001), q(0.0003), X16,
     [0, 0, 0, 0, 0, 3, 1110, 20000, 20000]),
    (unary.ReluN1To1(), DType.INT8, q(0.1, -10), q(0.01, 3), X8,
     [-97, -97, -97, 33, 93, 103, 103, 103, 103, 103]),
    (unary.Relu0To1(), DType.UINT8, q(0.1, 127), q(0.01, 3), XU8,
     [3, 3, 3, 3, 3, 13, 23, 103, 103]),
    (unary.LeakyRelu(0.3), DType.INT8, q(0.1, -10), q(0.09, 3), X8,
     [-37, -27, -11, 6, 13, 14, 15, 29, 85, 127]),
    (unary.LeakyRelu(0.3), DType.UINT8, q(0.1, 127), q(0.09, 130), XU8,
     [87, 88, 94, 113, 130, 131, 132, 211, 255]),
    (unary.LeakyRelu(-0.5), DType.INT16, q(0.001), q(0.0011), X16,
     [14895, 9092, 353, 1, 0, 1, 303, 11223, 29788]),
    (unary.LeakyRelu(-0.25), DType.INT8, q(0.25), q(0.25), [-128, -127, -126, -125, -2, 4],
     [32, 32, 32, 31, 1, 4]),
    (unary.Gelu(), DType.INT8, q(0.05, -10), q(0.04, -100), X8,
     [-100, -100, -101, -98, -92, -91, -90, -75, -8, 71]),
    (unary.Gelu(approximate=True), DType.INT8, q(0.05, -10), q(0.04, -100), X8,
     [-100, -100, -101, -98, -92, -91, -90, -75, -8, 71]),
    (unary.Gelu(), DType.INT16, q(0.0002), q(0.0003), X16,
     [0, 0, -228, -1, -1, -1, 117, 8174, 21844]),
    (unary.HardSwish(), DType.INT8, q(0.06, -10), q(0.04, -100), X8,
     [-100, -100, -106, -98, -92, -91, -90, -75, 11, 105]),
    (unary.HardSwish(), DType.UINT8, q(0.06, 127), q(0.04, 10), XU8,
     [10, 10, 10, 10, 10, 11, 12, 119, 202]),
    (unary.HardSwish(), DType.INT8, q(0.005, 20), q(0.002, -30), X8,
     [-128, -128, -107, -62, -55, -54, -53, -39, 29, 127]),
]
BINARY: list[tuple[Op, DType, Quantization, Quantization, Quantization | None, Sequence[int]]] = [
    (elementwise.Add(), DType.INT8, q(0.1, 5), q(0.07, -9), q(0.13, 2),
     [-27, -128, -18, -7, 4, 67, 11, 127]),
    (elementwise.Add(Activation.RELU6), DType.UINT8, q(0.1, 120), q(0.07, 130), q(0.03, 7),
     [7, 7, 7, 7, 31, 207, 63, 207]),
    (elementwise.Add(pot_scale_int16=False), DType.INT16, q(0.001), q(0.0007), q(0.0013),
     [-7562, -32768, 1729, -5, 1, 310, 5309, 32767]),
    (elementwise.Add(), DType.INT16, q(2.0**-10), q(2.0**-8), q(2.0**-8),
     [24575, -32768, 4127, -8, 1, 183, -4691, 32767]),
    (elementwise.Sub(), DType.INT8, q(0.1, 5), q(0.07, -9), q(0.13, 2),
     [-128, -15, -63, -8, -7, -51, 84, 23]),
    (elementwise.Sub(Activation.RELU), DType.UINT8, q(0.1, 120), q(0.07, 130), q(0.13, 7),
     [7, 7, 7, 13, 14, 7, 105, 44]),
    (elementwise.Sub(pot_scale_int16=False), DType.INT16, q(0.001), q(0.0007), q(0.0013),
     [-32768, 2259, -2924, 4, -1, 202, 13684, 9051]),
    (elementwise.Sub(), DType.INT16, q(2.0**-8), q(2.0**-10), q(2.0**-8),
     [-32768, -11809, -1857, 1, 0, 308, 14289, 25267]),
    (elementwise.Mul(), DType.INT8, q(0.1, 5), q(0.07, -9), q(0.5, 2),
     [-128, 127, -30, 2, 1, 14, -54, 127]),
    (elementwise.Mul(Activation.RELU_N1_TO_1), DType.UINT8, q(0.1, 120), q(0.07, 130), q(0.02, 100),
     [50, 150, 50, 96, 97, 150, 50, 150]),
    (elementwise.Mul(), DType.INT16, q(0.001), q(0.0007), q(0.01),
     [-32768, 32767, -235, 0, 0, 2, -6720, 32767]),
    (elementwise.Div(), DType.INT8, q(0.1, 5), q(0.07, -9), q(0.05, 2),
     [-26, 27, -35, -128, -12, 4, -23, 28]),
    (elementwise.Div(), DType.UINT8, q(0.1, 120), q(0.07, 130), q(0.05, 100),
     [73, 120, 61, 97, 0, 106, 74, 131]),
    (elementwise.Div(), DType.INT16, q(0.001), q(0.0007), q(0.0005),
     [-2857, 1744, -514, 357, 0, 9514, -4535, 3121]),
    (elementwise.SquaredDifference(), DType.INT8, q(0.1, 5), q(0.07, -9), q(1.5, -100),
     [127, -97, -53, -99, -99, -69, -24, -95]),
    (elementwise.Prelu(), DType.INT8, q(0.1, 5), q(0.02, -9), q(0.09, 2),
     [-128, 127, -49, 2, 1, 11, 68, 127]),
    (elementwise.Prelu(), DType.UINT8, q(0.1, 120), q(0.02, 130), q(0.09, 100),
     [0, 255, 71, 101, 109, 123, 180, 250]),
    (elementwise.Maximum(), DType.INT8, q(0.1, 5), q(0.1, 5), q(0.1, 5),
     [127, -100, 33, -7, 1, 100, 64, 127]),
    (elementwise.Minimum(), DType.INT16, q(0.1), q(0.1), q(0.1),
     [-32768, -32768, -777, -8, 0, 100, -7777, 30001]),
    (comparison.Equal(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [False, False, False, False, False, False, False, False]),
    (comparison.NotEqual(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [True, True, True, True, True, True, True, True]),
    (comparison.Less(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [True, False, True, False, False, True, False, False]),
    (comparison.LessEqual(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [True, False, True, False, False, True, False, False]),
    (comparison.Greater(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [False, True, False, True, True, False, True, True]),
    (comparison.GreaterEqual(), DType.INT8, q(0.1, -44), q(0.07, -8), None,
     [False, True, False, True, True, False, True, True]),
    (comparison.Less(), DType.UINT8, q(0.1, 60), q(0.07, 90), None,
     [True, False, True, False, False, True, False, False]),
    (comparison.GreaterEqual(), DType.INT16, q(0.1), q(0.1), None,
     [False, True, False, True, False, True, True, True]),
]
REFUSED = [
    Case("uint8", unary.Abs(), [T([1], DType.UINT8, q(0.1))], [T([1], DType.UINT8, q(0.1))],
         error=r"quantised uint8 \(supported: int16, int8\)"),
    Case("half", unary.Relu(), [T([1], DType.INT8, q(0.1))], [T([1], DType.INT8)], error="is not quantised"),
    Case("per-axis", unary.Relu(), [T([1, 1], DType.INT8, Quantization((0.1, 0.2)))], [T([1, 1], DType.INT8, q(0.1))],
         error="quantised per axis"),
    Case("zero-point", unary.Exp(), [T([1], DType.INT16, q(0.1, 1))], [T([1], DType.INT16, q(0.1))],
         error="has zero point 1"),
    Case("scale", unary.Tanh(), [T([1], DType.INT16, q(0.1))], [T([1], DType.INT16, q(0.1))],
         error="of another scale than"),
    Case("negative", unary.Sqrt(), [T([4, 2], DType.INT8, q(0.1, 3))], [T([0, 0], DType.INT8, q(0.1))],
         error="the square root of a negative number"),
    Case("zero", elementwise.Div(), [T([4, 2], DType.INT8, q(0.1)), T([4, 3], DType.INT8, q(0.1, 3))],
         [T([0, 0], DType.INT8, q(0.1))], error="division by zero"),
    Case("floor-div", elementwise.FloorDiv(), [T([4], DType.INT8, q(0.1)), T([4], DType.INT8, q(0.1))],
         [T([0], DType.INT8, q(0.1))], error=r"quantised int8 \(supported: none\)"),
    Case("tanh", elementwise.Mul(Activation.TANH), [T([4], DType.INT8, q(0.1)), T([4], DType.INT8, q(0.1))],
         [T([0], DType.INT8, q(0.1))], error="fused activation TANH"),
]


def of_one(op: Op, dtype: DType, source: Quantization, target: Quantization, x: Sequence[int],
           y: Sequence[int]) -> Case:
    return Case(dtype.value, op, [T(x, dtype, source)], [T(y, dtype, target)])


def of_two(op: Op, dtype: DType, first: Quantization, second: Quantization, target: Quantization | None,
           y: Sequence[int]) -> Case:
    a, b = PAIRS[dtype]
    result = T(y) if target is None else T(y, dtype, target)
    return Case(dtype.value, op, [T(a, dtype, first), T(b, dtype, second)], [result])


SCALARS = [
    Case("scalar", elementwise.Add(), [T(-100, DType.INT8, q(0.1, 5)), T(-128, DType.INT8, q(0.07, -9))],
         [T(-128, DType.INT8, q(0.13, 2))]),
    Case("scalar", unary.Relu(), [T(-1, DType.INT8, q(0.1, -10))], [T(16, DType.INT8, q(0.07, 3))]),
    Case("equal", comparison.Equal(), [T([10, 11], DType.INT8, q(0.5)), T([23, 24], DType.INT8, q(0.25, 3))],
         [[True, False]]),
    Case("broadcast", elementwise.Mul(), [T([[4], [-4]], DType.INT8, q(0.5)), T([2, 8], DType.INT8, q(0.5))],
         [T([[4, 16], [-4, -16]], DType.INT8, q(0.5))]),
]
test_unary = case_test([of_one(*each) for each in UNARY])
test_binary = case_test([of_two(*each) for each in BINARY])
test_shapes = case_test(SCALARS)
test_refused = case_test(REFUSED)
