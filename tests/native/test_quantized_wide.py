"""Native products with unsigned bytes and 16-bit integers, and transposed convolutions: equal to the bit to the numpy
backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.quantized_models import Network, stored
from tests.ops.cases import q

TYPES = st.sampled_from([DType.INT8, DType.UINT8, DType.INT16])
WIDE = st.sampled_from([DType.UINT8, DType.INT16])
CLAMPS = st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6])
SCALES = st.sampled_from([1e-4, 2e-3, 0.3])
seeds = st.integers(0, 2**32 - 1)


class Maker:
    """The operands of a product whose activations have some element type."""

    def __init__(self, dtype: DType, scale: float, seed: int) -> None:
        self.network = Network()
        self.dtype = dtype
        self._scale = scale
        self._seed = seed

    def activation(self, step: float) -> Quantization:
        zero = {DType.INT8: -5, DType.UINT8: 120, DType.INT16: 0}[self.dtype]
        return q(step / 256 if self.dtype is DType.INT16 else step, zero)

    def input(self, *shape: int) -> Value:
        return self.network.input(stored(shape, self.dtype, self._seed), self.activation(0.03))

    def weights(self, *shape: int, axis: int = 0) -> Value:
        """Per axis, but unsigned ones."""
        if self.dtype is DType.UINT8:
            return self.network.constant(stored(shape, DType.UINT8, self._seed), q(self._scale, 131))
        scales = np.random.default_rng(self._seed).uniform(self._scale / 8, self._scale, shape[axis])
        values = np.maximum(stored(shape, DType.INT8, self._seed), -127).astype(np.int8)
        found = Quantization(tuple(float(np.float32(each)) for each in scales), (0,) * len(scales), axis)
        return self.network.constant(values, found)

    def bias(self, count: int) -> Value | None:
        """Some of the biases of 16-bit activations have 64 bits, and some there are none."""
        random = np.random.default_rng(self._seed)
        kind = random.choice(np.array([np.int64, np.int32])) if self.dtype is DType.INT16 else np.int32
        return self.network.constant(random.integers(-9000, 9000, count).astype(kind)) if self._seed % 4 else None

    def agree(self) -> None:
        self.network.agree(is_native=True)


makers = st.builds(Maker, TYPES, SCALES, seeds)
wide_makers = st.builds(Maker, WIDE, SCALES, seeds)


@settings(max_examples=8, deadline=None)
@given(wide_makers, st.sampled_from([1, 2, 9]), st.sampled_from([1, 15, 64, 333]), st.sampled_from([1, 20, 64]), CLAMPS)
def test_fully_connected(make: Maker, rows: int, depth: int, units: int, activation: Activation) -> None:
    make.network.op(FullyConnected(activation), make.input(rows, depth), make.weights(units, depth), make.bias(units),
                    quantization=make.activation(0.5))
    make.agree()


@settings(max_examples=8, deadline=None)
@given(wide_makers, st.sampled_from([(1, 1), (3, 3), (2, 5)]), st.sampled_from([1, 3, 16]),
       st.sampled_from([1, 24, 33]), st.integers(1, 2), st.sampled_from(Padding), st.integers(1, 2), CLAMPS)
def test_conv_2d(make: Maker, size: tuple[int, int], channels: int, filters: int, groups: int, padding: Padding,
                 stride: int, activation: Activation) -> None:
    x, w = make.input(2, 7, 11, groups * channels), make.weights(groups * filters, *size, channels)
    make.network.op(Conv2D(padding, stride, stride, activation), x, w, make.bias(groups * filters),
                    quantization=make.activation(0.4))
    make.agree()


@settings(max_examples=8, deadline=None)
@given(wide_makers, st.sampled_from([(1, 1), (3, 3), (2, 5)]), st.sampled_from([(1, 1), (3, 2), (40, 1)]),
       st.sampled_from(Padding), st.integers(1, 2), st.integers(1, 2), CLAMPS)
def test_depthwise_conv_2d(make: Maker, size: tuple[int, int], channels: tuple[int, int], padding: Padding, stride: int,
                           dilation: int, activation: Activation) -> None:
    count, times = channels
    x, w = make.input(2, 7, 11, count), make.weights(1, *size, count * times, axis=3)
    make.network.op(DepthwiseConv2D(padding, stride, stride, activation, times, dilation, dilation), x, w,
                    make.bias(count * times), quantization=make.activation(0.4))
    make.agree()


@settings(max_examples=8, deadline=None)
@given(makers, st.sampled_from([(1, 1), (3, 3), (2, 4)]), st.sampled_from([1, 3, 16]), st.sampled_from([1, 9, 40]),
       st.sampled_from(Padding), st.sampled_from([(1, 1), (2, 2), (3, 1)]))
def test_transpose_conv(make: Maker, size: tuple[int, int], depth: int, channels: int, padding: Padding,
                        strides: tuple[int, int]) -> None:
    given_size, op = (5, 6), TransposeConv(padding, *strides[::-1])
    made = [length * stride if padding is Padding.SAME else (length - 1) * stride + max(tap, stride)
            for length, stride, tap in zip(given_size, strides, size, strict=True)]
    shape = make.network.constant(np.array([2, *made, channels], np.int32))
    make.network.op(op, shape, make.weights(channels, *size, depth), make.input(2, *given_size, depth),
                    make.bias(channels), dtype=make.dtype, quantization=make.activation(0.4))
    make.agree()


@pytest.mark.parametrize(("strides", "is_native"), [((3, 3), True), ((4, 2), True), ((1, 3), True), ((1, 1), False)])
def test_taps_of_a_transposed_convolution_that_never_meet_are_not_added_up(strides: tuple[int, int],
                                                                           is_native: bool) -> None:
    """All 81 of them would be too much for 32 bits, those a stride apart are not, whatever is multiplied."""
    network, depth = Network(), 16
    shape = network.constant(np.array([1, 3 * strides[0], 4 * strides[1], 2], np.int32))
    weights = np.full((2, 9, 9, depth), 127, np.int8)
    weights[1] = -127
    w = network.constant(weights, Quantization((0.25, 0.5), (0, 0), 0))
    x = network.input(np.full((1, 3, 4, depth), 32767, np.int16), q(1e-3))
    network.op(TransposeConv(Padding.SAME, *strides[::-1]), shape, w, x, None, dtype=DType.INT16, quantization=q(40.0))
    network.agree(is_native=is_native)


def test_the_least_bias() -> None:
    """Its magnitude is no int64."""
    network = Network()
    x = network.input(np.array([[-32000, 0, 31750], [1250, -1500, 1750]], np.int16), q(1e-3))
    w = network.constant(np.array([[1, 2, 3], [-127, 50, 100]], np.int8), q(0.25))
    network.op(FullyConnected(quantized_bias_type=DType.INT64), x, w, network.constant(np.array([10, -(1 << 63)])),
               quantization=q(0.1))
    network.agree()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8, DType.INT16])
def test_left_shifts_that_leave_little_or_nothing(dtype: DType, kind: type[np.signedinteger[Any]]) -> None:
    """The channels are multiplied by about 2 ** 8, 2 ** 14, 2 ** 16, 2 ** 31, 2 ** 32 and 2 ** 50."""
    network, bias = Network(), np.array([5, -3, 1, 2, 7, -1], kind if dtype is DType.INT16 else np.int32)
    x = network.input(stored((1, 3, 4, 2), dtype, 1), q(1.0))
    scales = tuple(2.0**k for k in (7, 13, 15, 30, 31, 49))
    weights = np.arange(12, dtype=np.int8).reshape(1, 1, 2, 6) - 5
    if dtype is DType.UINT8:
        w = network.constant((weights + 5).astype(np.uint8), q(2.0**31, 5))
    else:
        w = network.constant(weights, Quantization(scales, (0,) * 6, 3))
    network.op(DepthwiseConv2D(Padding.VALID, 1, 1, depth_multiplier=3), x, w, network.constant(bias),
               quantization=q(0.75))
    network.agree()
