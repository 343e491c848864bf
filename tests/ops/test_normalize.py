"""Softmax and normalisations. Quantised expectations are LiteRT's reference kernels'."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.normalize import (
    InstanceNorm,
    L2Normalization,
    LocalResponseNormalization,
    LogSoftmax,
    RmsNorm,
    Softmax,
)
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

TOLERANCE = 1e-6


def i8(value: npt.ArrayLike, scale: float, zero_point: int = 0) -> T:
    return T(value, DType.INT8, q(scale, zero_point))


def u8(value: npt.ArrayLike, scale: float, zero_point: int = 0) -> T:
    return T(value, DType.UINT8, q(scale, zero_point))


def i16(value: npt.ArrayLike, scale: float, zero_point: int = 0) -> T:
    return T(value, DType.INT16, q(scale, zero_point))


XQ = [[-128, 0, 127, 120], [5, -6, 7, 7]]
XU = [[128, 0, 127, 120], [5, 250, 7, 7]]
EMPTY = np.zeros((2, 0), np.float32)

SOFTMAX = [
    Case("float", Softmax(0.5), [[[1.0, 2.0, 3.0], [-100.0, 0.0, 1000.0]]], [[[0.186323732, 0.307195902, 0.506480396],
                                                                   [0.0, 0.0, 1.0]]], TOLERANCE),
    Case("shift-invariant", Softmax(1.0), [[[[1e4, 1e4]]]], [[[[0.5, 0.5]]]]),
    Case("vector", Softmax(1.0), [[-np.inf, 0.0]], [[0.0, 1]]),
    Case("infinity", Softmax(1.0), [[np.inf, 0.0]], [[np.nan, np.nan]]),
    Case("empty", Softmax(1.0), [EMPTY], [EMPTY]),
    Case("int8", Softmax(1.0), [i8(XQ, 0.05, 3)], [i8([[-128, -128, 22, -22], [-60, -89, -53, -53]], 1 / 256, -128)]),
    Case("int8-far-apart", Softmax(1.0), [i8(XQ, 2)],
         [i8([[-128, -128, 127, -128], [-126, -128, -1, -1]], 1 / 256, -128)]),
    Case("uint8", Softmax(0.5), [u8(XU, 0.05, 3)], [u8([[90, 4, 88, 74], [1, 254, 1, 1]], 1 / 256)]),
    Case("int8-to-int16", Softmax(1.0), [i8(XQ, 0.05, 3)],
         [i16([[-32768, -32701, 5637, -5704], [-15464, -22784, -13644, -13644]], 1 / 32768)]),
    Case("int8-to-all-of-int16", Softmax(1.0), [i8(XQ, 0.05, 3)],
         [i16([[-32768, -32701, 5637, -5704], [-15464, -22784, -13644, -13644]], 1 / 65535, -32768)]),
    Case("int16", Softmax(1.0), [i16(np.multiply(XQ, 200), 0.0002)],
         [i16([[1, 116, 18596, 14055], [8599, 5538, 9315, 9315]], 1 / 32768)]),
    Case("scalar", Softmax(1.0), [1.0], [1.0], error="SOFTMAX works on the last dimension, found a scalar"),
    Case("integers", Softmax(1.0), [[1, 2]], [[1, 2]], error="element types int32 to int32"),
    Case("output-scale", Softmax(1.0), [i8([1, 2], 1)], [i8([1, 2], 1 / 128, -128)],
         error=r"an output of int8 with \(scale, zero point\) \(0.0078125, -128\)"),
    Case("no-scale", Softmax(1.0), [T([1, 2], DType.INT8)], [i8([1, 2], 1 / 256, -128)],
         error="quantised input without exactly one scale"),
]

LOG_SOFTMAX = [
    Case("float", LogSoftmax(), [[[1.0, 2.0, 3.0], [-100.0, 0.0, 1000.0]]], [[[-2.40760589, -1.40760589, -0.407605946],
                                                                    [-1100.0, -1000.0, 0.0]]], TOLERANCE),
    Case("int8", LogSoftmax(), [i8(XQ, 0.05, 3)], [i8([[-86, 17, 118, 113], [106, 97, 107, 107]], 1 / 16, 127)]),
    Case("reach", LogSoftmax(), [i8([[127, -128]], 0.125, 0)], [i8([[127, -128]], 1 / 16, 127)]),
    Case("uint8", LogSoftmax(), [u8(XU, 0.5, 3)], [u8([[247, 0, 239, 183], [0, 255, 0, 0]], 1 / 16, 255)]),
]

L2 = [
    Case("float", L2Normalization(), [[[3.0, 4.0], [0.0, 0.0]]], [[[0.6, 0.8], [0.0, 0.0]]], TOLERANCE),
    Case("tiny", L2Normalization(), [[[3e-8, 4e-8]]], [[[0.03, 0.04]]], TOLERANCE),
    Case("int8", L2Normalization(), [i8(XQ, 0.05, 3)], [i8([[-78, -2, 74, 70], [24, -107, 47, 47]], 1 / 128)]),
    Case("int8-zero", L2Normalization(), [i8([[3, 3], [3, 4]], 0.05, 3)], [i8([[0, 0], [0, 127]], 1 / 128)]),
    Case("uint8", L2Normalization(), [u8(XU, 0.05, 3)],
         [u8([[204, 126, 203, 199], [129, 255, 130, 130]], 1 / 128, 128)]),
    Case("activation", L2Normalization(Activation.RELU), [[1.0]], [[1.0]], error="fused activation RELU"),
]

LRN = [
    Case("window", LocalResponseNormalization(radius=1, alpha=1.0, beta=-1.0), [[[1.0, 2, 3, 4]]],
         [[[5.0, 28, 87, 100]]], TOLERANCE),
    Case("wide", LocalResponseNormalization(radius=9, bias=6.0, alpha=2.0, beta=0.5), [[[1.0, 3]]],
         [[[0.19611614, 0.58834841]]], TOLERANCE),
    Case("itself", LocalResponseNormalization(bias=1.0, alpha=1.0, beta=1.0), [[[2.0, 3]]], [[[0.4, 0.3]]], TOLERANCE),
]

IMAGE = np.array([[[[1, 10], [3, 10]], [[5, 10], [7, 10]]], [[[0, 0], [0, 2]], [[0, 4], [0, 6]]]], np.float32)
R = 1.341640786

CIRCLE = [
    Case("rms", RmsNorm(epsilon=0.0), [[[3.0, 4.0], [1.0, 1.0]], [1.0, 2.0]],
         [[[0.848528137, 2.26274170], [1.0, 2.0]]], TOLERANCE),
    Case("rms-one-gamma", RmsNorm(epsilon=3.0), [[[[1.0, 1]]], [2.0]], [[[[1.0, 1]]]], TOLERANCE),
    Case("rms-empty", RmsNorm(), [EMPTY, np.array([1.0], np.float32)], [EMPTY]),
    Case("rms-gamma", RmsNorm(), [[[3.0, 4]], [1.0, 2, 3]], [[[3.0, 4]]], error="input 1 must have 1 or 2 elements"),
    Case("rms-type", RmsNorm(), [[[3, 4]], [1.0, 2]], [[[3, 4]]], error="element types float32, int32"),
    Case("instance", InstanceNorm(), [IMAGE[1:], [1.0, 2], [0.5, -1]],
         [[[[[np.nan, -2 * R - 1], [np.nan, -2 * R / 3 - 1]], [[np.nan, 2 * R / 3 - 1], [np.nan, 2 * R - 1]]]]],
         TOLERANCE),
    Case("instance-empty", InstanceNorm(), [np.zeros((1, 0, 2, 2), np.float32), [1.0, 2], [0.5, -1]],
         [np.zeros((1, 0, 2, 2), np.float32)]),
    Case("instance-epsilon", InstanceNorm(epsilon=4.0), [IMAGE, [3.0], [1.0]],
         [T([[[[-2, 1], [0, 1]], [[2, 1], [4, 1]]], [[[1, -2], [1, 0]], [[1, 2], [1, 4]]]], DType.FLOAT32)], TOLERANCE),
    Case("instance-relu", InstanceNorm(4.0, Activation.RELU), [IMAGE, [3.0, 3], [1.0, 1]],
         [T([[[[0, 1], [0, 1]], [[2, 1], [4, 1]]], [[[1, 0], [1, 0]], [[1, 2], [1, 4]]]], DType.FLOAT32)], TOLERANCE),
    Case("instance-rank", InstanceNorm(), [[[1.0]], [1.0], [1.0]], [[[1.0]]], error=r"must have shape \(n, h, w, c\)"),
]

test_softmax = case_test(SOFTMAX)
test_log_softmax = case_test(LOG_SOFTMAX)
test_l2_normalization = case_test(L2)
test_local_response_normalization = case_test(LRN)
test_circle = case_test(CIRCLE)


@pytest.mark.parametrize("width", [31, 15])
def test_fixed_point_functions_approximate_real_ones(width: int) -> None:
    unit = 1 << width
    x = np.linspace(-(unit - 1), unit - 1, 1001).astype(np.int64)
    real = x / unit * 8
    error = 2e-7 if width == 31 else 1e-3
    for result, expected in ((fixed.exp_of_negative(-np.abs(x), 3, width), np.exp(-np.abs(real))),
                             (fixed.logistic(x, 3, width), 1 / (1 + np.exp(-real))),
                             (fixed.tanh(x, 3, width), np.tanh(real)),
                             (fixed.reciprocal_of_one_plus(np.abs(x), width), 1 / (1 + np.abs(x) / unit))):
        np.testing.assert_allclose(result / unit, expected, atol=error)


def test_fixed_point_logarithm_and_root_approximate_real_ones() -> None:
    x = np.geomspace(1 << 19, (1 << 31) - 1, 1001).astype(np.int64)
    np.testing.assert_allclose(fixed.log_of_at_least_one(x, 12, 5) / (1 << 26), np.log(x / (1 << 19)), atol=3e-6)
    mantissa, shift = fixed.inverse_square_root(x)
    np.testing.assert_allclose(mantissa * 2.0 ** (-31 - shift), 1 / np.sqrt(x), rtol=2e-6)
