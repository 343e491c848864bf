"""Operators on drawn values against LiteRT's reference kernels: arithmetic, conversion, reduction, movement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops import (
    comparison,
    elementwise,
    index,
    layout,
    pad,
    quantize,
    reduce,
    segment,
    shape,
    sort,
    spatial,
    unary,
)
from tests.ops.arrays import const
from tests.ops.cases import T, q
from tests.ops.litert import Draw, Row, flags, litert_test, real, result, stored, whole

NONE, RELU, RELU6, RELU_N1_TO_1 = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
F32, I8, U8, I16, I32, I64 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64
BOOL = DType.BOOL
STORED = (
    (I8, q(0.1, 5), q(0.07, -9), q(0.13, 2)),
    (U8, q(0.1, 120), q(0.07, 130), q(0.13, 97)),
    (I16, q(0.001), q(0.0007), q(0.0013)),
)
"""Element types with the quantisations of two inputs and of an output."""


def binary(op: Op, dtype: DType, low: float = -20, high: float = 20) -> list[Row]:
    """An operator on two inputs of real values: of one shape, of a row and a column, and with a scalar."""
    def draw(*dims: int) -> Draw:
        return real(*dims, low=low, high=high) if dtype is F32 else whole(dtype, *dims, low=int(low), high=int(high))

    return [Row(op, [draw(2, 3, 4), draw(2, 3, 4)], [result(dtype)]),
            Row(op, [draw(2, 1, 3), draw(4, 1)], [result(dtype)]),
            Row(op, [draw(5), draw()], [result(dtype)])]


def quantized(op: Op, types: Sequence[DType] = (I8, U8, I16)) -> list[Row]:
    """An operator on two quantised inputs."""
    return [Row(op, [stored(dtype, 5, 7, q=a), stored(dtype, 7, q=b)], [result(dtype, y)])
            for dtype, a, b, y in STORED if dtype in types]


ARITHMETIC = [
    *(row for make in (elementwise.Add, elementwise.Sub, elementwise.Mul) for dtype in (F32, I32, I64)
      for row in binary(make(), dtype)),
    *(Row(make(activation), [real(3, 5), real(3, 5)], [result(F32)])
      for make in (elementwise.Add, elementwise.Sub, elementwise.Mul) for activation in (RELU, RELU6, RELU_N1_TO_1)),
    *binary(elementwise.Div(), F32, 1, 9), *binary(elementwise.Div(), I32, 1, 9),
    *(row for activation in (NONE, RELU, RELU6) for row in (
        *quantized(elementwise.Add(activation, pot_scale_int16=False)),
        *quantized(elementwise.Sub(activation, pot_scale_int16=False)), *quantized(elementwise.Mul(activation)))),
    *binary(elementwise.FloorDiv(), F32, 1, 9), *binary(elementwise.FloorDiv(), I32, 1, 9),
    *binary(elementwise.FloorMod(), F32, 1, 9), *binary(elementwise.FloorMod(), I32, 1, 9),
    *binary(elementwise.FloorMod(), I64, 1, 9), *binary(elementwise.Pow(), F32, 0.5, 2),
    *binary(elementwise.Pow(), I32, 0, 5),
    *(row for dtype in (F32, I32, I64, I8, U8) for make in (elementwise.Maximum, elementwise.Minimum)
      for row in binary(make(), dtype)),
    *binary(elementwise.SquaredDifference(), F32), *binary(elementwise.SquaredDifference(), I32),
    *quantized(elementwise.SquaredDifference(), (I8,)), *quantized(elementwise.Prelu(), (I8, U8)),
    Row(elementwise.Div(), [stored(U8, 5, 7, q=q(0.1, 120)), stored(U8, 7, q=q(0.07, 3), low=4)],
        [result(U8, q(0.05, 100))]),
    Row(elementwise.Prelu(), [real(2, 3, 4), real(4)], [result(F32)]),
    Row(elementwise.AddN(), [real(2, 3), real(2, 3), real(2, 3)], [result(F32)]),
    Row(elementwise.AddN(), [whole(I32, 4), whole(I32, 4)], [result(I32)]),
    Row(elementwise.Atan2(), [real(3, 4), real(3, 4)], [result(F32)]),
    Row(elementwise.BitwiseXor(), [whole(I32, 3, 4), whole(I32, 4)], [result(I32)]),
    Row(elementwise.RightShift(), [whole(I32, 3, 4, low=-900, high=900), whole(I32, 3, 4, low=0, high=31)],
        [result(I32)]),
]
COMPARED = [
    *(Row(make(), [draw(3, 4), draw(4)], [result(BOOL)])
      for make in (comparison.Equal, comparison.NotEqual, comparison.Less, comparison.LessEqual, comparison.Greater,
                   comparison.GreaterEqual)
      for draw in (real, lambda *dims: whole(I32, *dims, low=-2, high=2),
                   lambda *dims: whole(I64, *dims, low=-2, high=2), lambda *dims: stored(I8, *dims, q=q(0.1, -44)),
                   lambda *dims: stored(U8, *dims, q=q(0.1, 60)))),
    *(Row(make(), [stored(I8, 9, 9, q=q(0.1, -44)), stored(I8, 9, q=q(0.07, -8))], [result(BOOL)])
      for make in (comparison.Equal, comparison.Less, comparison.GreaterEqual)),
    Row(comparison.LogicalAnd(), [flags(3, 4), flags(4)], [result(BOOL)]),
    Row(comparison.LogicalOr(), [flags(3, 4), flags(4)], [result(BOOL)]),
    *(Row(comparison.SelectV2(), [flags(3, 1), draw, draw], [result(draw.dtype)])
      for draw in (real(3, 4), whole(I32, 3, 4), whole(I64, 3, 4), flags(3, 4))),
    Row(comparison.Select(), [flags(3), real(3, 4), real(3, 4)], [result(F32)]),
]
UNARY = [
    *(Row(op, [real(3, 5, low=low)], [result(F32)], 2e-6) for op, low in (
        (unary.Abs(), -3), (unary.Neg(), -3), (unary.Square(), -3), (unary.Sqrt(), 0), (unary.Rsqrt(), 0.1),
        (unary.Exp(), -3), (unary.Log(), 0.1), (unary.Sin(), -3), (unary.Cos(), -3), (unary.Tanh(), -3),
        (unary.Logistic(), -9), (unary.Floor(), -3), (unary.Relu(), -3), (unary.Relu6(), -9), (unary.ReluN1To1(), -3),
        (unary.Relu0To1(), -3), (unary.LeakyRelu(0.25), -3), (unary.Gelu(), -3), (unary.Gelu(True), -3),
        (unary.HardSwish(), -5), (unary.ZerosLike(), -3), (unary.Sign(), -3))),
    *(Row(op, [x], [result(F32)], reference=False) for op in (unary.Ceil(), unary.Round(), unary.Elu())
      for x in (real(3, 5), T(np.arange(-20, 20, dtype=np.float32) / 4))),
    *(Row(op, [whole(I32, 9)], [result(I32)]) for op in (unary.Abs(), unary.Neg(), unary.ZerosLike(), unary.Sign())),
    Row(unary.LogicalNot(), [flags(7)], [result(BOOL)]),
    *(Row(op, [stored(dtype, 300, q=x, low=low)], [result(dtype, y)]) for op, dtype, x, y, low in (
        (unary.Abs(), I8, q(0.1, 5), q(0.07, -100), None), (unary.Abs(), I16, q(0.001), q(0.0013), None),
        (unary.Exp(), I8, q(0.02, -3), q(0.06, -120), None), (unary.Exp(), I16, q(0.0001), q(0.001), None),
        (unary.Log(), I8, q(0.05, -128), q(0.03, 10), None), (unary.Log(), I16, q(0.001), q(0.0003), 1),
        (unary.Sqrt(), I8, q(0.1, -128), q(0.02, -128), None), (unary.Rsqrt(), I8, q(0.1, -128), q(0.03, -128), None),
        (unary.Tanh(), I8, q(0.03, 4), q(1 / 128), None), (unary.Tanh(), U8, q(0.03, 120), q(1 / 128, 128), None),
        (unary.Tanh(), I16, q(0.0002), q(2.0**-15), None), (unary.Logistic(), I8, q(0.05, 4), q(1 / 256, -128), None),
        (unary.Logistic(), U8, q(0.05, 120), q(1 / 256), None), (unary.Logistic(), I16, q(0.0002), q(2.0**-15), None),
        (unary.Relu(), I8, q(0.1, -10), q(0.07, 3), None), (unary.Relu(), U8, q(0.1, 127), q(0.07, 3), None),
        (unary.Relu(), I16, q(0.001), q(0.0011), None), (unary.Relu6(), I8, q(0.1, -10), q(0.05, -128), None),
        (unary.Relu6(), I16, q(0.001), q(0.0003), None), (unary.LeakyRelu(0.3), I8, q(0.1, -10), q(0.09, 3), None),
        (unary.LeakyRelu(0.3), U8, q(0.1, 127), q(0.09, 130), None),
        (unary.LeakyRelu(-0.5), I16, q(0.001), q(0.0011), None), (unary.Gelu(), I8, q(0.05, -10), q(0.04, -100), None),
        (unary.Gelu(True), I8, q(0.05, -10), q(0.04, -100), None),
        (unary.HardSwish(), I8, q(0.06, -10), q(0.04, -100), None),
        (unary.HardSwish(), I8, q(7.5e-9, 14), q(1.2e-8, 4), None),
        (unary.HardSwish(), I8, q(2e-7, 3), q(3e-7, 4), None),
        (unary.HardSwish(), U8, q(0.06, 127), q(0.04, 10), None))),
]
CONVERTED = [
    *(Row(quantize.Cast(x, y), [real(20, low=-100, high=100) if x is F32 else whole(x, 20, low=-99, high=99)],
          [result(y)]) for x in (F32, I32, I64, I8, U8) for y in (F32, I32, I64, I8, BOOL) if x is not y),
    *(Row(quantize.Quantize(), [real(40, low=-20, high=20)], [result(dtype, y)]) for dtype, _, _, y in STORED),
    *(Row(quantize.Dequantize(), [stored(dtype, 40, q=x)], [result(F32)]) for dtype, x, _, _ in STORED),
    *(Row(quantize.Quantize(), [stored(x, 99, q=a)], [result(y, b)]) for x, a, y, b in (
        (I8, q(0.1, 5), I8, q(0.07, -9)), (U8, q(0.1, 120), U8, q(0.13, 97)), (I8, q(0.1, 5), U8, q(0.1, 133)),
        (U8, q(0.1, 120), I8, q(0.1, -8)), (I16, q(0.001), I16, q(0.0007)), (I16, q(0.001), I8, q(0.2, 3)),
        (I8, q(0.1, 5), I16, q(0.002)))),
    Row(quantize.FakeQuant(-1.3, 2.2, 8), [real(30)], [result(F32)]),
]
REDUCED = [
    *(Row(make(keep), [real(2, 3, 4, low=-2, high=2), const(axes)], [result(F32)])
      for make in (reduce.Sum, reduce.Mean, reduce.ReduceProd, reduce.ReduceMax, reduce.ReduceMin)
      for keep, axes in ((False, [1]), (True, [-1, 0]))),
    *(Row(make(), [whole(I32, 2, 3, 4, low=-5, high=5), const([0, 2])], [result(I32)])
      for make in (reduce.Sum, reduce.ReduceProd, reduce.ReduceMax, reduce.ReduceMin, reduce.Mean)),
    *(Row(make(), [whole(I64, 2, 3), const([0])], [result(I64)]) for make in (reduce.Sum, reduce.ReduceMax)),
    *(Row(make(), [flags(3, 4), const([1])], [result(BOOL)]) for make in (reduce.ReduceAny, reduce.ReduceAll)),
    *(Row(reduce.Mean(), [stored(dtype, 3, 4, 5, q=x), const(axes)], [result(dtype, y)])
      for dtype, x, _, y in STORED for axes in ([1], [1, 2])),
    *(Row(make(), [stored(dtype, 3, 4, 5, q=x), const([1])], [result(dtype, x)])
      for dtype, x, _, _ in STORED for make in (reduce.ReduceMax, reduce.ReduceMin)),
    *(Row(reduce.ReduceProd(), [stored(dtype, 3, 4, q=x), const([1])], [result(dtype, y)])
      for dtype, x, y in ((I8, q(0.01, 5), q(0.01, -3)), (I16, q(0.0001), q(0.0001)))),
    Row(reduce.Sum(), [stored(U8, 3, 4, 5, q=q(0.1, 120)), const([1])], [result(U8, q(0.4, 97))]),
    *(Row(make(y), [x, const(1)], [result(y)]) for make in (reduce.ArgMax, reduce.ArgMin) for x, y in (
        (real(2, 9, 3), I32), (whole(I32, 2, 9), I64), (stored(I8, 2, 9, q=q(0.1, 5)), I32),
        (stored(U8, 2, 9, q=q(0.1, 5)), I32))),
    *(Row(reduce.Cumsum(exclusive, reverse), [x, const(1)], [result(x.dtype)]) for x, exclusive, reverse in (
        (real(2, 5), False, False), (real(2, 5), True, True), (whole(I32, 2, 5), True, False),
        (whole(I64, 2, 5), False, True))),
    Row(segment.SegmentSum(), [real(5, 2), const([0, 0, 1, 2, 2])], [result(F32)], reference=False),
    *(Row(make(), [x, const([2, 0, 2, -1, 1]), const(4)], [result(x.dtype)]) for make in (
        segment.UnsortedSegmentSum, segment.UnsortedSegmentProd, segment.UnsortedSegmentMax,
        segment.UnsortedSegmentMin) for x in (real(5, 2), whole(I32, 5, 2))),
]
MOVABLE = (real(2, 3, 4), whole(I32, 2, 3, 4), whole(I64, 2, 3, 4), stored(I8, 2, 3, 4, q=q(0.1, 3)), flags(2, 3, 4))


def moved(op: Op, *parameters: T, results: int = 1, draws: Sequence[Draw] = MOVABLE) -> list[Row]:
    """An operator that moves elements of each type."""
    return [Row(op, [x, *parameters], [result(x.dtype, x.q)] * results) for x in draws]


MOVED = [
    *moved(layout.Transpose(), const([2, 0, 1])), *moved(layout.Slice(), const([0, 1, 1]), const([2, -1, 2])),
    *moved(layout.StridedSlice(), const([0, 2, -1]), const([2, 0, 0]), const([1, -1, -2])),
    *moved(layout.StridedSlice(begin_mask=1, end_mask=4, shrink_axis_mask=2), const([9, 1, 1]), const([1, 2, 9]),
           const([1, 1, 2])),
    *moved(layout.StridedSlice(ellipsis_mask=1, new_axis_mask=2), const([0, 0, 1]), const([0, 0, 3]), const([1, 1, 1])),
    *moved(layout.ReverseV2(), const([1])), *moved(shape.Reshape((4, 6)), const([4, 6])),
    *moved(shape.ExpandDims(), const(1)), *moved(pad.Tile(), const([2, 1, 3]), draws=MOVABLE[:3]),
    *moved(pad.Pad(), const([[1, 0], [0, 2], [1, 1]]), draws=MOVABLE[:4]),
    *moved(pad.MirrorPad(pad.MirrorPadMode.REFLECT), const([[1, 0], [2, 1], [0, 3]]), draws=MOVABLE[:3]),
    *moved(pad.MirrorPad(pad.MirrorPadMode.SYMMETRIC), const([[1, 2], [2, 1], [0, 3]]), draws=MOVABLE[:3]),
    *moved(layout.SplitV(2), const([1, 2]), const(1), results=2, draws=MOVABLE[:4]),
    *moved(layout.Unpack(3, 1), results=3, draws=(*MOVABLE[:2], *MOVABLE[3:])),
    *moved(index.Gather(), const([1, 0, 1])), *moved(index.Gather(axis=2), const([[3, 0], [1, 1]])),
    *moved(index.Gather(axis=2, batch_dims=1), const([[3], [0]])),
    *moved(index.GatherNd(), const([[1, 2], [0, 0]]), draws=MOVABLE[:4]),
    *(Row(layout.Split(2), [const(2), x], [result(x.dtype, x.q)] * 2) for x in MOVABLE[:4]),
    *(Row(layout.Pack(2, 1), [x, x], [result(x.dtype, x.q)]) for x in MOVABLE[:4]),
    *(Row(layout.Concatenation(2), [x, x], [result(x.dtype, x.q)]) for x in MOVABLE),
    Row(layout.Concatenation(1), [stored(U8, 3, 20, q=q(0.1, 120)), stored(U8, 3, 30, q=q(0.07, 3))],
        [result(U8, q(0.13, 97))]),
    *(Row(pad.PadV2(), [x, const([[1, 0], [0, 2]]), T(np.array(3, x.dtype.numpy), x.dtype, constant=True)],
          [result(x.dtype)]) for x in (real(2, 3), whole(I32, 2, 3), whole(I64, 2, 3))),
    *(Row(layout.ReverseSequence(1, 0), [x, const([2, 3])], [result(x.dtype)]) for x in MOVABLE[:3]),
    *(Row(index.ScatterNd(), [const([[1], [3], [1]]), x, const([5, 2])], [result(x.dtype)])
      for x in (real(3, 2), whole(I32, 3, 2), whole(I64, 3, 2))),
    *(Row(shape.Fill(), [const([2, 3]), x], [result(x.dtype)]) for x in (real(), whole(I32), whole(I64), flags())),
    *(Row(shape.OneHot(-1), [whole(I32, 5, low=-1, high=4), const(4), x, x], [result(x.dtype)])
      for x in (real(), whole(I32), whole(I64))),
    *(Row(shape.BroadcastTo(), [x, const([2, 3, 4])], [result(x.dtype)], version=2)
      for x in (real(3, 1), whole(I32, 4))),
    Row(shape.Range(), [whole(I32, low=0, high=3), whole(I32, low=9, high=20), whole(I32, low=1, high=3)],
        [result(I32)]),
    *(Row(index.Where(), [x], [result(I64)]) for x in (flags(3, 4), whole(I32, 3, 4, low=0, high=1))),
    *(Row(sort.TopKV2(), [x, const(3)], [result(x.dtype, x.q), result(I32)])
      for x in (real(2, 9), whole(I32, 2, 9), whole(I64, 2, 9), stored(I8, 2, 9, q=q(0.1, 3)))),
    *(Row(sort.Unique(), [x], [result(x.dtype), result(I32)]) for x in (whole(I32, 9, low=0, high=4), real(5))),
    Row(sort.Bucketize((-1.0, 0.5, 2.0)), [real(9)], [result(I32)]),
    *(Row(index.DynamicUpdateSlice(), [x, y, whole(I32, 2, low=-2, high=6)], [result(x.dtype)])
      for x, y in ((real(4, 5), real(2, 2)), (whole(I32, 4, 5), whole(I32, 2, 2)))),
    *(Row(spatial.DepthToSpace(2), [x], [result(x.dtype, x.q)])
      for x in (real(1, 2, 3, 8), stored(I8, 1, 2, 3, 8, q=q(0.1, 3)))),
    *(Row(spatial.SpaceToDepth(2), [x], [result(x.dtype, x.q)])
      for x in (real(1, 4, 6, 2), stored(I8, 1, 4, 6, 2, q=q(0.1, 3)))),
    *(Row(spatial.SpaceToBatchND(), [x, const([2, 2]), const([[1, 0], [2, 1]])], [result(x.dtype, x.q)])
      for x in (real(1, 3, 3, 2), stored(I8, 1, 3, 3, 2, q=q(0.1, 3)))),
    *(Row(spatial.BatchToSpaceND(), [x, const([2, 2]), const([[1, 0], [0, 1]])], [result(x.dtype, x.q)])
      for x in (real(4, 2, 3, 2), stored(I8, 4, 2, 3, 2, q=q(0.1, 3)))),
    Row(layout.MatrixDiag(), [real(2, 3)], [result(F32)]),
    Row(layout.MatrixSetDiag(), [real(2, 3, 4), real(2, 3)], [result(F32)]),
]

test_arithmetic = litert_test(ARITHMETIC)
test_comparison = litert_test(COMPARED)
test_unary = litert_test(UNARY)
test_conversion = litert_test(CONVERTED)
test_reduction = litert_test(REDUCED)
test_movement = litert_test(MOVED)
