"""Matrix products and lookups. Quantised and hybrid expectations are LiteRT's reference kernels'."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.ops.matmul import (
    BatchMatMul,
    BlockEmbeddingLookup,
    BlockFullyConnected,
    EmbeddingLookup,
    FullyConnected,
)
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

TOLERANCE = 1e-6


def f32(value: npt.ArrayLike, constant: bool = False) -> T:
    return T(value, DType.FLOAT32, constant=constant)


def i8(value: npt.ArrayLike, scale: float = 1.0, zero_point: int = 0, constant: bool = False) -> T:
    return T(value, DType.INT8, q(scale, zero_point), constant)


def i16(value: npt.ArrayLike, scale: float, zero_point: int = 0) -> T:
    return T(value, DType.INT16, q(scale, zero_point))


def per_axis(*scales: float, axis: int = 0) -> Quantization:
    return Quantization(scales, (0,) * len(scales), axis)


X = f32([[1, 2, 3], [-4, 5, -6]])
WEIGHTS = [[1, 0, -1], [2, 3, 4]]
W = f32(WEIGHTS)
Y = f32([[-2, 20], [2, -17]])
RELU, RELU6, RELU_N1_TO_1 = Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1

FLOAT = [
    Case("rows", FullyConnected(), [X, W], [Y]),
    Case("absent-bias", FullyConnected(), [X, W, None], [Y]),
    Case("constant-weights", FullyConnected(), [X, f32(WEIGHTS, constant=True), f32([10, -1], constant=True)],
         [f32([[8, 19], [12, -18]])]),
    Case("flattens", FullyConnected(), [f32([[[1], [2], [3]], [[-4], [5], [-6]]]), W], [Y]),
    Case("splits-a-row", FullyConnected(), [f32([[1, 2, 3, -4, 5, -6]]), W], [Y]),
    Case("keeps-dimensions", FullyConnected(keep_num_dims=True), [f32([[[1, 2, 3]], [[-4, 5, -6]]]), W],
         [f32([[[-2, 20]], [[2, -17]]])]),
    Case("relu", FullyConnected(RELU), [X, W], [f32([[0, 20], [2, 0]])]),
    Case("relu6", FullyConnected(RELU6), [X, W], [f32([[0, 6], [2, 0]])]),
    Case("relu-n1-to-1", FullyConnected(RELU_N1_TO_1), [X, W], [f32([[-1, 1], [1, -1]])]),
    Case("bias-of-another-rank", FullyConnected(), [X, W, f32([[10, -1]])], [f32([[8, 19], [12, -18]])]),
    Case("no-rows", FullyConnected(), [f32(np.zeros((0, 3))), W], [f32(np.zeros((0, 2)))]),
    Case("no-columns", FullyConnected(), [f32(np.zeros((2, 0))), f32(np.zeros((3, 0))), f32([1, 2, 3])],
         [f32([[1, 2, 3], [1, 2, 3]])]),
    Case("weights-of-rank-3", FullyConnected(), [X, f32([WEIGHTS])], [Y],
         error=r"must have shape \(n, k\), found \(1, 2, 3\)"),
    Case("bias-too-long", FullyConnected(), [X, W, f32([1, 2, 3])], [Y], error="the bias must have 2 elements"),
    Case("indivisible", FullyConnected(), [f32([1, 2, 3, 4]), W], [Y], error="does not divide into rows of 3"),
    Case("keeps-indivisible", FullyConnected(keep_num_dims=True), [f32([[1] * 6]), W], [Y],
         error="expected a last dimension of 3"),
]

XQ = [[-128, 0, 127], [5, -6, 7]]
WQ = [[1, 2, 3], [-127, 50, 100]]
BIAS = T([10, -2000], constant=True)

QUANTIZED = [
    Case("int8", FullyConnected(), [i8(XQ, 0.5, -3), i8(WQ, 0.25), BIAS], [i8([[8, 127], [5, -30]], 8, 4)]),
    Case("int8-constant", FullyConnected(), [i8(XQ, 0.5, -3), i8(WQ, 0.25, constant=True), BIAS],
         [i8([[8, 127], [5, -30]], 8, 4)]),
    Case("int8-relu", FullyConnected(RELU), [i8(XQ, 0.5, -3), i8(WQ, 0.25, constant=True), BIAS],
         [i8([[8, 127], [5, 4]], 8, 4)]),
    Case("int8-halves-away-from-zero", FullyConnected(), [i8([[1], [3], [-1], [-3], [5]], 0.5), i8([[1]], 0.5)],
         [i8([[1], [2], [-1], [-2], [3]], 0.5)]),
    Case("int8-real-scale", FullyConnected(), [i8([[1]], 0.5), i8([[1]], 0.1), T([-760])], [i8([[-126]], 0.3)]),
    Case("int8-per-channel", FullyConnected(keep_num_dims=True),
         [i8([XQ], 0.5, -3), T(WQ, DType.INT8, per_axis(0.25, 0.0625), constant=True), BIAS],
         [i8([[[16, 127], [6, -19]]], 3, 4)]),
    Case("int8-long-sum", FullyConnected(),
         [i8(np.full((1, 70000), 127), 0.5), i8(np.full((1, 70000), 127), 0.25, constant=True), T([7])],
         [i8([[113]], 1.25e6)]),
    Case("uint8", FullyConnected(),
         [T([[128, 0, 127], [5, 250, 7]], DType.UINT8, q(0.5, 125)),
          T([[1, 2, 3], [129, 50, 100]], DType.UINT8, q(0.25, 120), constant=True), BIAS],
         [T([[106, 103], [106, 96]], DType.UINT8, q(300, 100))]),
    Case("int16-int64-bias", FullyConnected(quantized_bias_type=DType.INT64),
         [i16([[-32000, 0, 31750], [1250, -1500, 1750]], 0.001), i8(WQ, 0.25), T([10, -2000], DType.INT64)],
         [i16([[158, 18093], [9, -152]], 0.1)]),
    Case("int16-per-channel", FullyConnected(quantized_bias_type=DType.INT32),
         [i16([[-32000, 0, 31750], [1250, -1500, 1750]], 0.001), T(WQ, DType.INT8, per_axis(0.25, 0.125)), BIAS],
         [i16([[158, 9046], [9, -76]], 0.1)]),
    Case("int16-weights", FullyConnected(),
         [i16([[-32000, 12, 31750], [1250, -1500, 1750], [-32768, 32767, -32768]], 0.001),
          i16([[100, -2000, 30000], [-12700, 5000, 10001], [-32768, 32767, -32768]], 0.0003)],
         [i16([[28478, 21720, 258], [1669, -176, -4424], [-31555, 7568, 32767]], 0.01)]),
    Case("int16-weights-and-bias", FullyConnected(RELU),
         [i16([[-32000, 12, 31750], [1250, -1500, 1750]], 0.001), i16(np.multiply(WQ, 100), 0.0003),
          T([3000000, -2000000])], [i16([[280, 21659], [100, 0]], 0.01)]),
]

XF = f32([[1.5, 0.75, -1.5], [0.0, 0.0, 0.0], [0.1, 20.0, -3.0]])
BIAS_F = f32([0.5, -1.0])
SYMMETRIC, ASYMMETRIC = FullyConnected(), FullyConnected(asymmetric_quantize_inputs=True)

HYBRID = [
    Case("symmetric", SYMMETRIC, [XF, i8(WQ, 0.25), BIAS_F],
         [[[0.127952754, -76.676178], [0.5, -1.0], [8.29527569, 169.196854]]], TOLERANCE),
    Case("symmetric-per-channel", SYMMETRIC, [XF, T(WQ, DType.INT8, per_axis(0.25, 0.5), constant=True)],
         [[[-0.372047246, -151.352356], [0.0, 0.0], [7.79527569, 340.393707]]], TOLERANCE),
    Case("asymmetric", ASYMMETRIC, [XF, i8(WQ, 0.25, constant=True), BIAS_F],
         [[[0.132352948, -76.7529449], [0.5, -1.0], [8.30196095, 172.018631]]], TOLERANCE),
    Case("asymmetric-per-channel", ASYMMETRIC, [XF, T(WQ, DType.INT8, per_axis(0.25, 0.5), constant=True)],
         [[[-0.367647052, -151.50589], [0.0, 0.0], [7.80196095, 346.037262]]], TOLERANCE),
    Case("rounds-before-the-zero-point", ASYMMETRIC, [f32([[1.5, 0.75, -0.25, -0.75]]), i8(np.eye(4))],
         [[[1.50000012, 0.75000006, -0.247058839, -0.75000006]]], TOLERANCE),
    Case("uint8-bytes-are-int8", FullyConnected(Activation.TANH),
         [XF, T([[1, 2, 3], [129, 50, 100]], DType.UINT8, q(0.001)), BIAS_F],
         [[[0.460945964, -0.862417817], [0.462117136, -0.761594176], [0.486283392, -0.308794767]]], TOLERANCE),
]

AQ = [[[-128, 0, 127], [5, -6, 7]]]
BQ = [[[1, 2], [3, -4], [5, 100]], [[9, 8], [7, 6], [-5, 4]]]
AQ_T, BQ_T = np.swapaxes(AQ, 1, 2), np.swapaxes(BQ, 1, 2)
AF = np.array(AQ, np.float32) / 4

BATCH = [
    Case("matrices", BatchMatMul(), [X, f32(np.transpose(WEIGHTS))], [Y]),
    Case("adj-x", BatchMatMul(adj_x=True), [f32(X.array.T), f32(np.transpose(WEIGHTS))], [Y]),
    Case("adj-y", BatchMatMul(adj_y=True), [X, W], [Y]),
    Case("batches", BatchMatMul(), [f32([[[1, 2]]]), f32([[[[1], [2]], [[3], [4]]]])], [f32([[[[5]], [[11]]]])]),
    Case("broadcasts-both", BatchMatMul(), [f32([[[[1, 2]]], [[[3, 4]]]]), f32([[[1], [2]], [[3], [4]]])],
         [f32([[[[5]], [[11]]], [[[11]], [[25]]]])]),
    Case("mismatched", BatchMatMul(), [X, W], [Y], error="3 columns meet 2 rows"),
    Case("vector", BatchMatMul(), [f32([1, 2, 3]), W], [Y], error="expected matrices"),
    Case("unequal-batches", BatchMatMul(), [f32(np.zeros((2, 1, 1))), f32(np.zeros((3, 1, 1)))],
         [f32(np.zeros((2, 1, 1)))],
         error="the batch dimensions of shapes .* do not broadcast"),
    Case("int8", BatchMatMul(), [i8(AQ, 0.5, -3), i8(BQ, 0.25, 2)],
         [i8([[[8, 103], [4, 12]], [[-10, 0], [4, 4]]], 16, 4)]),
    Case("int8-sums-of-stored-integers", BatchMatMul(), [i8(AQ, 0.5, -3), i8(BQ, 0.25, 2)],
         [T([[[507, 12444], [22, 734]], [[-1787, -516], [-32, 32]]])]),
    Case("int16", BatchMatMul(adj_y=True), [i16(np.multiply(AQ, 100), 0.5), i16(np.multiply(BQ_T, 100), 0.25)],
         [i16([[[12675, 32767], [550, 18350]], [[-32768, -12900], [-800, 800]]], 50)]),
    Case("int16-int8", BatchMatMul(adj_x=True), [i16(np.multiply(AQ_T, 100), 0.5), i8(BQ, 0.25)],
         [i16([[[3169, 32767], [138, 4588]], [[-11169, -3225], [-200, 200]]], 2)]),
    Case("hybrid", BatchMatMul(asymmetric_quantize_inputs=True), [AF, i8(BQ, 0.25)],
         [[[[31.6875, 777.75], [1.36691177, 45.7803917]], [[-111.6875, -32.25], [-2.0041666, 1.98823535]]]],
         TOLERANCE),
    Case("hybrid-per-channel", BatchMatMul(adj_y=True),
         [AF, T(BQ_T, DType.INT8, per_axis(0.25, 0.5, axis=1), constant=True)],
         [[[[31.6850395, 1555.40161], [1.3745079, 91.7578735]],
           [[-111.685036, -64.5039368], [-1.99458659, 4.0098424]]]], TOLERANCE),
]

TABLE = f32([[1, 2], [3, 4], [5, 6]])

LOOKUPS = [
    Case("rows", EmbeddingLookup(), [[2, 0, 2], TABLE], [f32([[5, 6], [1, 2], [5, 6]])]),
    Case("nothing", EmbeddingLookup(), [T([], DType.INT32), TABLE], [f32(np.zeros((0, 2)))]),
    Case("int8", EmbeddingLookup(), [[1], i8([[1, 2], [3, 4]], 0.5)], [i8([[3, 4]], 0.5)]),
    Case("real-values", EmbeddingLookup(), [[1, 0], i8([[[1], [2]], [[-3], [4]]], 0.5)],
         [f32([[[-1.5], [2.0]], [[0.5], [1.0]]])]),
    Case("scale-of-each-row", EmbeddingLookup(), [[1, 0, 1], T([[1, 2], [-3, 4]], DType.INT8, per_axis(0.5, 2.0))],
         [f32([[-6.0, 8.0], [0.5, 1.0], [-6.0, 8.0]])]),
    Case("too-large", EmbeddingLookup(), [[0, 3], TABLE], [f32([[0, 0], [0, 0]])],
         error="index 3 is outside a table of 3 rows"),
    Case("negative", EmbeddingLookup(), [[-1], TABLE], [f32([[0, 0]])], error="index -1 is outside a table of 3 rows"),
    Case("scalar-index", EmbeddingLookup(), [0, TABLE], [f32([0, 0])], error="expected a list of indices"),
]

REFUSED = [
    Case("types", FullyConnected(), [X, T(WQ)], [Y], error="element types float32 with int32"),
    Case("tanh", FullyConnected(Activation.TANH), [X, W], [Y], error="fused activation TANH"),
    Case("shuffled", FullyConnected(weights_format=1), [X, W], [Y], error="weights format 1"),
    Case("bias", FullyConnected(), [i8(XQ), i8(WQ), f32([0, 0])], [i8(WQ[:2])], error="a bias of float32"),
    Case("no-scale", FullyConnected(), [XF, T(WQ, DType.INT8)], [XF], error="quantised weights without a scale"),
    Case("zero-point", FullyConnected(), [XF, i8(WQ, zero_point=1)], [XF], error=r"weights with zero points \[1\]"),
    Case("other-axis", FullyConnected(), [XF, T(WQ, DType.INT8, per_axis(1.0, 1.0, 1.0, axis=1))], [XF],
         error="quantised along axis 1"),
    Case("int16-weights-per-axis", FullyConnected(), [i16(XQ, 1), T(WQ, DType.INT16, per_axis(0.25, 0.5))],
         [i16(WQ, 1)], error="int16 weights quantised per axis"),
    Case("int16-weights-zero-point", FullyConnected(), [i16(XQ, 1), i16(WQ, 1, 2)], [i16(WQ, 1)], error="zero point"),
    Case("int16-zero-point", FullyConnected(), [i16(XQ, 1, 1), i8(WQ)], [i16(WQ, 1)],
         error="int16 input with zero point 1"),
    Case("batch-types", BatchMatMul(adj_y=True), [X, T(WQ)], [Y], error="element types float32 with int32"),
    Case("batch-per-axis", BatchMatMul(adj_y=True), [i8(XQ), T(WQ, DType.INT8, per_axis(1.0, 1.0))], [i8(WQ)],
         error="factors quantised per axis"),
    Case("int64-indices", EmbeddingLookup(), [T([0], DType.INT64), TABLE], [f32([[0, 0]])], error="indices of int64"),
    Case("uint8-table", EmbeddingLookup(), [[0], T([[1]], DType.UINT8, q(1))], [[[1.0]]],
         error="an output of float32 from a table of uint8"),
]

PACKED = T(np.array([0x81, 0x27, 0x0F], np.uint8), DType.INT4, q(1), constant=True, shape=(2, 3))
"""The weights are [[1, -8, 7], [2, -1, 0]], the first of two in the low half of the byte."""
INT4 = [
    Case("int4", FullyConnected(), [i8([[1, 2, 3]]), PACKED], [i8([[6, 0]])]),
    Case("hybrid-int4", FullyConnected(), [f32([[127, 0, 63]]), PACKED], [f32([[568, 254]])]),
]

BLOCKED = T([[1, 2, -3, 4], [0, 1, 1, -1]], DType.INT8, constant=True)
SCALES = f32([[0.5, 2], [1, 0.25]], constant=True)
WHOLE = f32([[127, -128, 3, 5], [0, 255, 51, 0]])
"""Rows whose scale is 1, and whose zero points are 0 and -128."""
BLOCKS = [
    Case("blocks", BlockFullyConnected(), [WHOLE, BLOCKED, SCALES], [f32([[-42.5, -128.5], [-51, 267.75]])]),
    Case("blocks-bias", BlockFullyConnected(RELU, keep_num_dims=True), [
        f32([[[127, -128, 3, 5]]]), BLOCKED, SCALES, f32([50, 1], constant=True)], [f32([[[7.5, 0]]])]),
    Case("blocks-of-rows", BlockFullyConnected(), [WHOLE, BLOCKED, f32([[1], [2]], constant=True)],
         [f32([[-118, -260], [357, 612]])]),
    Case("no-rows-of-blocks", BlockFullyConnected(), [f32(np.zeros((0, 4))), BLOCKED, SCALES],
         [f32(np.zeros((0, 2)))]),
    Case("blocks-do-not-fit", BlockFullyConnected(), [WHOLE, BLOCKED, f32([[1, 2, 3], [4, 5, 6]])],
         [f32([[0, 0], [0, 0]])], error=r"expected weights \(n, k\) and scales \(n, b\) of each k / b, found"),
    Case("blocks-of-int16", BlockFullyConnected(), [WHOLE, T([[1, 2, 3, 4]], DType.INT16), f32([[1]])],
         [f32([[0], [0]])], error="element types .*int16"),
]

BLOCK_ROWS = [
    Case("rows-of-blocks", BlockEmbeddingLookup(), [[1, 0, 1], BLOCKED, SCALES],
         [f32([[0, 1, 0.25, -0.25], [0.5, 1, -6, 8], [0, 1, 0.25, -0.25]])]),
    Case("no-indices", BlockEmbeddingLookup(), [np.zeros(0, np.int32), BLOCKED, SCALES], [f32(np.zeros((0, 4)))]),
    Case("index-too-large", BlockEmbeddingLookup(), [[0, 2], BLOCKED, SCALES], [f32(np.zeros((2, 4)))],
         error="index 2 is outside a table of 2 rows"),
    Case("index-negative", BlockEmbeddingLookup(), [[-1], BLOCKED, SCALES], [f32(np.zeros((1, 4)))],
         error="index -1 is outside a table of 2 rows"),
    Case("indices-of-rank-2", BlockEmbeddingLookup(), [[[0]], BLOCKED, SCALES], [f32(np.zeros((1, 4)))],
         error="expected a list of indices"),
    Case("int64-indices-of-blocks", BlockEmbeddingLookup(), [T([0], DType.INT64), BLOCKED, SCALES],
         [f32([[0.5, 1, -6, 8]])], error="element types .*int64"),
]

test_float = case_test(FLOAT)
test_block_rows = case_test(BLOCK_ROWS)
test_blocks = case_test(BLOCKS)
test_int4 = case_test(INT4)
test_quantized = case_test(QUANTIZED)
test_hybrid = case_test(HYBRID)
test_batch_matmul = case_test(BATCH)
test_embedding_lookup = case_test(LOOKUPS)
test_refusals = case_test(REFUSED)
