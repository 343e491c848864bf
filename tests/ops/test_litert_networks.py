"""Operators on drawn values against LiteRT's reference kernels: windows, products, normalisation, recurrence."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D, Conv3D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.matmul import BatchMatMul, EmbeddingLookup, FullyConnected
from circlet.runtime.ops.normalize import L2Normalization, LocalResponseNormalization, LogSoftmax, Softmax
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlet.runtime.ops.recurrent import Rnn, Svdf, UnidirectionalSequenceLstm, UnidirectionalSequenceRnn
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.spectral import ComplexAbs, Imag, Real, Rfft2D
from tests.ops.arrays import const
from tests.ops.cases import T, q
from tests.ops.litert import Draw, Row, litert_test, real, result, stored, whole

SAME, VALID = Padding.SAME, Padding.VALID
RELU, RELU6, TANH = Activation.RELU, Activation.RELU6, Activation.TANH
F32, I8, U8, I16, I32, I64 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64
STORED = ((I8, I8, I32, q(0.05, 7), q(0.4, -5)), (U8, U8, I32, q(0.05, 131), q(0.4, 100)),
          (I16, I8, I64, q(0.0004), q(0.003)))
"""Element types of inputs, weights and biases with the quantisation of inputs and outputs."""
SUM = 1e-5
"""The tolerance of sums of many products."""


def weights(dtype: DType, *shape: int, channels: int = 0, uniform: bool = False) -> Draw:
    """Constant weights; those of int8 have a scale for each channel unless they are `uniform`."""
    if dtype is F32:
        return real(*shape, constant=True)
    if dtype is U8:
        return stored(U8, *shape, q=q(0.01, 120), constant=True)
    scales = tuple(float(np.float32(0.01 + k / 300)) for k in range(1 if uniform else shape[channels]))
    return stored(I8, *shape, q=Quantization(scales, (0,) * len(scales), channels), constant=True, low=-127)


def bias(dtype: DType, count: int) -> Draw:
    return real(count, constant=True) if dtype is F32 else whole(dtype, count, low=-900, high=900, constant=True)


CONVOLVED = [
    *(Row(op, [real(2, 6, 7, 2), weights(F32, 4, 3, 2, 2), bias(F32, 4)], [result(F32)], SUM) for op in (
        Conv2D(SAME, 1, 1), Conv2D(SAME, 2, 2), Conv2D(VALID, 1, 2), Conv2D(VALID, 1, 1, RELU6),
        Conv2D(VALID, 1, 1, dilation_h_factor=2), Conv2D(SAME, 1, 1, dilation_w_factor=2, dilation_h_factor=3))),
    Row(Conv2D(VALID, 1, 1), [real(1, 5, 5, 4), weights(F32, 6, 3, 3, 2), real(6)], [result(F32)], SUM),
    *(Row(op, [stored(x, 2, 6, 7, 2, q=a), weights(w, 4, 3, 2, 2, uniform=uniform), bias(b, 4)], [result(x, y)])
      for x, w, b, a, y in STORED for uniform in ((False,) if w is U8 else (True, False))
      for op in (Conv2D(SAME, 2, 2), Conv2D(VALID, 1, 1, RELU), Conv2D(VALID, 1, 1, RELU6, 2, 2))),
    *(Row(op, [real(2, 6, 7, 2), weights(F32, 1, 3, 2, 2 * op.depth_multiplier), bias(F32, 2 * op.depth_multiplier)],
          [result(F32)], SUM) for op in (
        DepthwiseConv2D(SAME, 1, 1, depth_multiplier=1), DepthwiseConv2D(SAME, 2, 2, RELU, depth_multiplier=2),
        DepthwiseConv2D(VALID, 1, 1, depth_multiplier=3, dilation_h_factor=2))),
    *(Row(op, [stored(x, 2, 6, 7, 2, q=a), weights(w, 1, 3, 2, 4, channels=3, uniform=uniform), bias(b, 4)],
          [result(x, y)])
      for x, w, b, a, y in STORED for uniform in ((True, False) if x is I8 else (False,))
      for op in (DepthwiseConv2D(SAME, 2, 2, depth_multiplier=2), DepthwiseConv2D(VALID, 1, 1, RELU, 2))),
    *(Row(TransposeConv(padding, 2, 2), [const([1, *size, 3]), weights(F32, 3, 3, 3, 2), real(1, 3, 4, 2)],
          [result(F32)], SUM) for padding, size in ((SAME, (6, 8)), (VALID, (7, 9)))),
    *(Row(TransposeConv(SAME, 2, 2), [const([1, 6, 8, 3]), weights(w, 3, 3, 3, 2), stored(x, 1, 3, 4, 2, q=a)],
          [result(x, y)]) for x, w, _, a, y in STORED),
    *(Row(op, [real(1, 4, 5, 6, 2), weights(F32, 2, 2, 3, 2, 3), real(3)], [result(F32)], SUM)
      for op in (Conv3D(SAME, 1, 1, 1), Conv3D(VALID, 2, 1, 2, RELU))),
]
POOLED = [
    *(Row(make(padding, 2, 1, activation, 3, 2), [real(2, 5, 7, 3)], [result(F32)])
      for make in (AveragePool2D, MaxPool2D, L2Pool2D) for padding in (SAME, VALID)
      for activation in (Activation.NONE, RELU)),
    *(Row(make(padding, 2, 1, activation, 3, 2), [stored(dtype, 2, 5, 7, 3, q=a)], [result(dtype, a)])
      for make in (AveragePool2D, MaxPool2D) for dtype, _, _, a, _ in STORED for padding in (SAME, VALID)
      for activation in (Activation.NONE, RELU6)),
    *(Row(make(*flags), [x, const([5, 9])], [result(x.dtype, x.q)])
      for make in (ResizeBilinear, ResizeNearestNeighbor) for flags in ((), (True, False), (False, True))
      for x in (real(2, 3, 4, 2), *(stored(dtype, 2, 3, 4, 2, q=a) for dtype, _, _, a, _ in STORED))),
]
MULTIPLIED = [
    *(Row(op, [real(3, 8), weights(F32, 5, 8), added], [result(F32)], SUM)
      for op in (FullyConnected(), FullyConnected(RELU), FullyConnected(RELU6)) for added in (real(5), None)),
    Row(FullyConnected(), [real(3, 8), real(5, 8), real(5)], [result(F32)], SUM),
    Row(FullyConnected(keep_num_dims=True), [real(2, 3, 8), weights(F32, 5, 8), None], [result(F32)], SUM),
    *(Row(op, [stored(x, 6, 20, q=a), weights(w, 5, 20, uniform=True), added], [result(x, y)])
      for x, w, b, a, y in STORED for added in (bias(b, 5), None) for op in (FullyConnected(), FullyConnected(RELU6))),
    Row(FullyConnected(), [stored(I8, 6, 20, q=q(0.05, 7)), weights(I8, 5, 20), bias(I32, 5)],
        [result(I8, q(0.4, -5))]),
    *(Row(op, [real(*((2, 8, 3) if op.adj_x else (2, 3, 8))), real(*((5, 8) if op.adj_y else (8, 5)))], [result(F32)],
          SUM) for op in (BatchMatMul(), BatchMatMul(adj_x=True), BatchMatMul(adj_y=True))),
    *(Row(op, [stored(dtype, 2, 3, 8, q=a), stored(dtype, *((5, 8) if op.adj_y else (8, 5)), q=b)], [result(dtype, y)])
      for dtype, a, b, y in ((I8, q(0.05, 7), q(0.01, 3), q(0.3, -5)), (I16, q(0.0004), q(0.0003), q(0.001)))
      for op in (BatchMatMul(), BatchMatMul(adj_y=True))),
    Row(EmbeddingLookup(), [whole(I32, 4, low=0, high=5), real(6, 3)], [result(F32)]),
]
NORMALIZED = [
    *(Row(Softmax(beta), [x], [result(F32)]) for beta in (1.0, 0.5) for x in (real(3, 9), real(2, 3, 4, 5))),
    *(Row(Softmax(beta), [stored(x, 4, 9, q=a)], [result(y, b)]) for beta in (1.0, 0.7) for x, a, y, b in (
        (I8, q(0.1, 5), I8, q(1 / 256, -128)), (U8, q(0.1, 5), U8, q(1 / 256)), (I16, q(0.001), I16, q(1 / 32768)),
        (I8, q(0.03, 5), I16, q(1 / 32768)), (I8, q(0.03, 5), I16, q(1 / 65535, -32768)))),
    Row(LogSoftmax(), [real(3, 9)], [result(F32)]),
    *(Row(LogSoftmax(), [stored(x, 4, 9, q=a)], [result(x, y)])
      for x, a, y in ((I8, q(0.1, 5), q(1 / 16, 127)), (U8, q(0.1, 5), q(1 / 16, 255)))),
    Row(L2Normalization(), [real(3, 9)], [result(F32)]),
    *(Row(L2Normalization(), [stored(x, 4, 9, q=a)], [result(x, y)])
      for x, a, y in ((I8, q(0.1, 5), q(1 / 128)), (U8, q(0.1, 5), q(1 / 128, 128)))),
    # The reference kernel leaves out the last element of each window.
    Row(LocalResponseNormalization(2, 1.0, 0.5, 0.75), [real(1, 2, 3, 9)], [result(F32)], SUM, reference=False),
]


def state(*shape: int) -> T:
    return T(np.zeros(shape, np.float32), variable=True)


def stored_state(scale: float, *shape: int) -> T:
    return T(np.zeros(shape, np.int16), q=q(scale), variable=True)


FROM_INPUTS, FROM_STATE = (real(4, count, low=-1, high=1, constant=True) for count in (3, 4))
RECURRENT = [
    Row(Rnn(TANH), [real(2, 3), FROM_INPUTS, FROM_STATE, bias(F32, 4), state(2, 4)], [result(F32)]),
    *(Row(UnidirectionalSequenceRnn(RELU, time_major), [
        real(2, 2, 3), FROM_INPUTS, FROM_STATE, bias(F32, 4), state(2, 4)], [result(F32)])
      for time_major in (False, True)),
    *(Row(UnidirectionalSequenceLstm(TANH, cell_clip=clip, time_major=time_major), [
        real(2, 2, 3), *[FROM_INPUTS] * 4, *[FROM_STATE] * 4, None, None, None, *[bias(F32, 4)] * 4, None, None,
        state(2, 4), state(2, 4)], [result(F32)], SUM)
      for time_major in (False, True) for clip in (0.0, 0.5)),
    Row(Svdf(rank=2), [real(2, 3), weights(F32, 8, 3), weights(F32, 8, 5), bias(F32, 4), state(2, 40)],
        [result(F32)], SUM),
    *(Row(Svdf(RELU, rank=rank), [
        stored(I8, 2, 9, q=q(0.05, -7)), weights(I8, 8, 9, uniform=True), stored(I16, 8, 5, q=q(0.0003), constant=True),
        added, stored_state(scale, 2, 40)], [result(I8, q(0.2, -128))], version=3)
      for rank in (1, 2) for scale in (0.004, 0.0002) for added in (bias(I32, 8 // rank), None)),
]
COMPLEX = T(np.array([[3 + 4j, -1, 0], [-2.5j, 0.5 + 1j, 7]], np.complex64))
SPECTRAL = [
    *(Row(Rfft2D(), [real(2, 4, 8), const(lengths)], [result(DType.COMPLEX64)], SUM)
      for lengths in ([4, 8], [2, 4], [8, 16])),
    *(Row(op, [COMPLEX], [result(F32)]) for op in (Real(), Imag(), ComplexAbs())),
]

test_convolution = litert_test(CONVOLVED)
test_pooling = litert_test(POOLED)
test_products = litert_test(MULTIPLIED)
test_normalization = litert_test(NORMALIZED)
test_recurrence = litert_test(RECURRENT)
test_spectral = litert_test(SPECTRAL)
