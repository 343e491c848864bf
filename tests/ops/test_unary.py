"""Operators on one input, of real values."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary as ops
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

NAN, INF = float("nan"), float("inf")
LEAST = -(1 << 31)
FLOATS = [NAN, INF, -INF, 0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 88.8, -104.0]
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, 0.4, -0.6]


def half(values: list[float]) -> T:
    return T(values, DType.FLOAT16)


CASES = [
    Case("float", ops.Abs(), [FLOATS], [[NAN, INF, INF, 0.0, 1.0, 1.0, 2.5, 2.5, 0.5, 88.8, 104.0]]),
    Case("int32", ops.Abs(), [[-5, 5, LEAST]], [[5, 5, LEAST]]),
    Case("uint8", ops.Abs(), [T([1], DType.UINT8)], [T([1], DType.UINT8)], error="element type uint8 of input 0"),
    Case("float", ops.Neg(), [[1.0, -INF, NAN]], [[-1.0, INF, NAN]]),
    Case("int32", ops.Neg(), [[5, LEAST]], [[-5, LEAST]]),
    Case("int8", ops.Neg(), [T([-128, 5], DType.INT8)], [T([-128, -5], DType.INT8)]),
    Case("float", ops.Sign(), [FLOATS], [[NAN, 1.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0]]),
    Case("int32", ops.Sign(), [[-3, 0, 5]], [[-1, 0, 1]]),
    Case("float", ops.Square(), [[3.0, -INF, 1e30]], [[9.0, INF, INF]]),
    Case("float", ops.Sqrt(), [[4.0, -1.0, INF, 0.0]], [[2.0, NAN, INF, 0.0]]),
    Case("float", ops.Rsqrt(), [[4.0, -1.0, INF, 0.0, -0.0]], [[0.5, NAN, 0.0, INF, -INF]]),
    Case("float", ops.Exp(), [FLOATS], [[NAN, INF, 0.0, 1.0, np.e, 1 / np.e, np.e**2.5, np.e**-2.5, np.e**0.5, INF,
                                         0.0]], tolerance=1e-6),
    *(Case("float64", op, [np.array([0.5, 1e-300, INF])], [np.array(found)], tolerance=1e-15)
      for op, found in ((ops.Exp(), [np.exp(0.5), 1.0, INF]), (ops.Log(), [np.log(0.5), np.log(1e-300), INF]),
                        (ops.Sin(), [np.sin(0.5), 1e-300, NAN]), (ops.Cos(), [np.cos(0.5), 1.0, NAN]))),
    Case("int32", ops.Exp(), [[1]], [[2]], error="element type int32 of input 0"),
    Case("float", ops.Log(), [[1.0, np.e, 0.0, -1.0, INF]], [[0.0, 1.0, -INF, NAN, INF]], tolerance=1e-6),
    Case("float", ops.Sin(), [[0.0, np.pi / 6, INF]], [[0.0, 0.5, NAN]], tolerance=1e-6),
    Case("float", ops.Cos(), [[0.0, np.pi / 3, INF]], [[1.0, 0.5, NAN]], tolerance=1e-6),
    Case("float", ops.Tanh(), [[0.0, 0.5, 50.0, -INF, NAN]], [[0.0, 0.46211717, 1.0, -1.0, NAN]], tolerance=1e-6),
    Case("float", ops.Logistic(), [[0.0, 1.0, -1.0, 100.0, -104.0, NAN]],
         [[0.5, 0.7310586, 0.26894143, 1.0, 0.0, NAN]], tolerance=1e-6),
    Case("float16", ops.Logistic(), [half([0.0, -8.0, -12.0])], [half([0.5, 3.3535e-4, 6.1442e-6])], tolerance=1e-3),
    Case("float", ops.Floor(), [[2.5, -2.5, -0.1, INF]], [[2.0, -3.0, -1.0, INF]]),
    Case("float", ops.Ceil(), [[2.5, -2.5, 0.1, -INF]], [[3.0, -2.0, 1.0, -INF]]),
    Case("half-to-even", ops.Round(), [HALVES], [[0.0, 2.0, 2.0, 0.0, -2.0, 0.0, -1.0]]),
    Case("float", ops.Relu(), [FLOATS], [[NAN, INF, 0.0, 0.0, 1.0, 0.0, 2.5, 0.0, 0.5, 88.8, 0.0]]),
    Case("int32", ops.Relu(), [[-3, 0, 5]], [[0, 0, 5]]),
    Case("float", ops.Relu6(), [FLOATS], [[NAN, 6.0, 0.0, 0.0, 1.0, 0.0, 2.5, 0.0, 0.5, 6.0, 0.0]]),
    Case("float", ops.ReluN1To1(), [FLOATS], [[NAN, 1.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1.0, 0.5, 1.0, -1.0]]),
    Case("float", ops.Relu0To1(), [FLOATS], [[NAN, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 1.0, 0.0]]),
    Case("float", ops.Elu(), [[-1.0, -INF, 0.5, INF, -1e-6, NAN]],
         [[-0.63212055, -1.0, 0.5, INF, -1e-6, NAN]], tolerance=1e-6),
    Case("float", ops.LeakyRelu(0.1), [[-2.5, 3.0, -INF, NAN]], [[-0.25, 3.0, -INF, NAN]], tolerance=1e-6),
    Case("steep", ops.LeakyRelu(2.0), [[-2.5, 3.0]], [[-5.0, 3.0]]),
    Case("exact", ops.Gelu(), [[1.0, -1.0, 2.5, -2.5, -1000.0, INF, -INF, NAN, 0.0]],
         [[0.84134471, -0.15865526, 2.4844759, -0.015524164, 0.0, INF, NAN, NAN, 0.0]], tolerance=1e-6),
    Case("tails", ops.Gelu(), [[-5.0, -4.0, 6.0]], [[-1.4332586e-6, -1.2668496e-4, 6.0]], tolerance=1e-7),
    Case("by-tanh", ops.Gelu(approximate=True), [[1.0, -1.0, 2.5, -2.5, INF, -INF]],
         [[0.84119201, -0.15880799, 2.4849157, -0.015084222, INF, NAN]], tolerance=1e-6),
    Case("float64", ops.Gelu(), [T([1.0], DType.FLOAT64)], [T([1.0], DType.FLOAT64)], error="element type float64"),
    Case("float16", ops.Gelu(), [half([1.0, -1.0])], [half([0.8413, -0.1587])], tolerance=1e-3),
    Case("float", ops.HardSwish(), [[-4.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, -INF]],
         [[0.0, 0.0, -1 / 3, 0.0, 2 / 3, 3.0, 10.0, NAN]], tolerance=1e-6),
    Case("bool", ops.LogicalNot(), [[[True, False]]], [[[False, True]]]),
    Case("int32", ops.LogicalNot(), [[1]], [[0]], error="element type int32 of input 0"),
    Case("int64", ops.ZerosLike(), [T([[1, 2]], DType.INT64)], [T([[0, 0]], DType.INT64)]),
    Case("scalar", ops.ZerosLike(), [3.0], [0.0]),
    Case("float", ops.StablehloAbs(), [[-1.5]], [[1.5]]),
    Case("int32", ops.StablehloNegate(), [[3]], [[-3]]),
    Case("float", ops.StablehloRsqrt(), [[4.0]], [[0.5]]),
    Case("float", ops.StablehloCbrt(), [[8.0, -27.0]], [[2.0, -3.0]], tolerance=1e-6),
    Case("float", ops.StablehloExponential(), [[1.0]], [[np.e]], tolerance=1e-6),
    Case("float", ops.StablehloLog(), [[np.e]], [[1.0]], tolerance=1e-6),
    Case("float", ops.StablehloCosine(), [[0.0]], [[1.0]]),
    Case("float", ops.StablehloTanh(), [[0.5]], [[0.46211717]], tolerance=1e-6),
    Case("float", ops.StablehloLogistic(), [[0.0]], [[0.5]]),
    Case("float", ops.StablehloFloor(), [[-0.5]], [[-1.0]]),
]
test_unary = case_test(CASES)
