"""Native convolutions and products of quantised tensors: equal to the bit to the numpy backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.backends.native.rules.quantized import conv as quantized_conv
from circlet.backends.native.rules.quantized.fully_connected import BYTES, PAIRS, Form
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops import elementwise
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.native_cases import native_test
from tests.native.quantized_models import Network, stored
from tests.ops.cases import Case, as_t, q
from tests.ops.test_conv import CONV_2D, DEPTHWISE_CONV_2D
from tests.ops.test_matmul import INT4, QUANTIZED

CLAMPS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]


def quantized(cases: list[Case]) -> list[Case]:
    """The cases whose results are integers."""
    return [case for case in cases if case.error is None and as_t(case.outputs[0]).array.dtype.kind != "f"]


test_conv_cases = native_test(quantized([*CONV_2D, *DEPTHWISE_CONV_2D]))
test_matmul_cases = native_test(quantized([*QUANTIZED, *INT4]))


def weights(network: Network, shape: tuple[int, ...], axis: int, per_axis: bool, seed: int, scale: float) -> Value:
    """int8 weights without -128; the scales of channels differ by up to 16."""
    count = shape[axis] if per_axis else 1
    factors = np.random.default_rng(seed).uniform(1 / 16, 1, count)
    scales = tuple(float(np.float32(scale * each)) for each in factors)
    values = np.maximum(stored(shape, DType.INT8, seed), -127).astype(np.int8)
    return network.constant(values, Quantization(scales, (0,) * count, axis))


def bias(network: Network, count: int, seed: int) -> Value:
    return network.constant(np.random.default_rng(seed).integers(-9000, 9000, count).astype(np.int32))


@st.composite
def options(draw: st.DrawFn) -> dict[str, object]:
    return {
        "padding": draw(st.sampled_from(Padding)), "stride_h": draw(st.integers(1, 3)),
        "stride_w": draw(st.integers(1, 3)), "dilation_h_factor": draw(st.sampled_from([1, 1, 2])),
        "dilation_w_factor": draw(st.sampled_from([1, 1, 3])),
        "fused_activation_function": draw(st.sampled_from(CLAMPS)),
    }


activations = st.builds(q, st.floats(0.002, 0.1), st.integers(-128, 127))
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(options(), st.sampled_from([(1, 1), (1, 1), (3, 3), (2, 5)]), st.sampled_from([1, 3, 4, 16, 19]),
       st.sampled_from([1, 8, 24, 33, 64, 100]), st.sampled_from([1, 1, 2]), st.booleans(), st.booleans(),
       activations, activations, st.sampled_from([1e-3, 2e-2, 1.0]), seeds)
def test_conv_2d(options: dict[str, object], size: tuple[int, int], channels: int, filters: int, groups: int,
                 per_axis: bool, has_bias: bool, given: Quantization, made: Quantization, scale: float,
                 seed: int) -> None:
    network = Network()
    x = network.input(stored((2, 9, 14, channels * groups), DType.INT8, seed), given)
    w = weights(network, (filters * groups, *size, channels), 0, per_axis, seed, scale)
    network.op(Conv2D(**options), x, w, bias(network, filters * groups, seed) if has_bias else None,  # type: ignore[arg-type]
               quantization=made)
    network.agree()


@settings(max_examples=60, deadline=None)
@given(options(), st.sampled_from([(1, 1), (3, 3), (3, 3), (2, 5), (9, 1), (5, 4)]),
       st.sampled_from([(1, 1), (3, 1), (16, 1), (24, 2), (64, 1), (112, 1), (144, 1), (5, 3)]), st.booleans(),
       st.booleans(), activations, activations, st.sampled_from([1e-3, 2e-2, 1.0]), seeds)
def test_depthwise_conv_2d(options: dict[str, object], size: tuple[int, int], channels: tuple[int, int],
                           per_axis: bool, has_bias: bool, given: Quantization, made: Quantization, scale: float,
                           seed: int) -> None:
    network = Network()
    filters = channels[0] * channels[1]
    x = network.input(stored((2, 18, 21, channels[0]), DType.INT8, seed), given)
    w = weights(network, (1, *size, filters), 3, per_axis, seed, scale)
    network.op(DepthwiseConv2D(**options), x, w, bias(network, filters, seed) if has_bias else None,  # type: ignore[arg-type]
               quantization=made)
    network.agree()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 7, 30]), st.sampled_from([1, 3, 16, 64, 101, 320]), st.sampled_from([1, 10, 64, 200]),
       st.booleans(), st.booleans(), activations, activations, st.sampled_from(CLAMPS), seeds)
def test_fully_connected(rows: int, depth: int, units: int, per_axis: bool, has_bias: bool, given: Quantization,
                         made: Quantization, activation: Activation, seed: int) -> None:
    if activation is Activation.RELU_N1_TO_1:
        activation = Activation.NONE
    network = Network()
    x = network.input(stored((rows, depth), DType.INT8, seed), given)
    w = weights(network, (units, depth), 0, per_axis, seed, 0.02)
    network.op(FullyConnected(activation), x, w, bias(network, units, seed) if has_bias else None, quantization=made)
    network.agree()


@pytest.mark.parametrize("channels", [16, 40])
def test_residual_block(channels: int) -> None:
    """Additions fuse with the convolutions that come before and after."""
    network = Network()
    x = network.input(stored((1, 8, 9, channels), DType.INT8, 1), q(0.05, 3))
    wide = network.op(Conv2D(stride_h=1, stride_w=1, fused_activation_function=Activation.RELU6), x,
                      weights(network, (3 * channels, 1, 1, channels), 0, True, 2, 0.01),
                      bias(network, 3 * channels, 3), quantization=q(0.0235, -128))
    deep = network.op(DepthwiseConv2D(stride_h=1, stride_w=1), wide,
                      weights(network, (1, 3, 3, 3 * channels), 3, True, 4, 0.01), bias(network, 3 * channels, 5),
                      quantization=q(0.03, -7))
    moved = network.op(elementwise.Add(), deep, network.constant(stored((3 * channels,), DType.INT8, 6), q(0.01, 1)),
                       quantization=q(0.05, 4))
    narrow = network.op(Conv2D(stride_h=1, stride_w=1), moved,
                        weights(network, (channels, 1, 1, 3 * channels), 0, True, 7, 0.004), None,
                        quantization=q(0.06, -11))
    network.op(elementwise.Add(Activation.RELU), narrow, x, quantization=q(0.08, -3))
    network.agree()


def test_sums_that_need_more_than_30_bits() -> None:
    network = Network()
    x = network.input(stored((1, 4), DType.INT8, 1), q(0.05, 3))
    large = network.constant(np.array([2**31 - 1, -(2**31), 2**30], np.int32))
    network.op(FullyConnected(), x, weights(network, (3, 4), 0, False, 2, 0.02), large, quantization=q(3e4))
    network.agree()


def faint(network: Network, shape: tuple[int, ...], axis: int, seed: int, halvings: range) -> Value:
    """int8 weights of which each channel's scale, halved so often or less, leaves hardly anything."""
    random = np.random.default_rng(seed)
    scales = 2.0 ** -random.choice(halvings, shape[axis]) * random.uniform(0.5, 1, shape[axis])
    return network.constant(stored(shape, DType.INT8, seed),
                            Quantization(tuple(map(float, scales.astype(np.float32))), (0,) * shape[axis], axis))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(Conv2D, (33, 1, 1, 19), 0), (Conv2D, (64, 3, 3, 8), 0), (Conv2D, (5, 1, 1, 3), 0),
                        (DepthwiseConv2D, (1, 3, 3, 64), 3), (DepthwiseConv2D, (1, 3, 3, 24), 3),
                        (DepthwiseConv2D, (1, 3, 3, 5), 3)]),
       st.sampled_from([Activation.NONE, Activation.RELU]),
       st.sampled_from([range(1, 32), range(22, 34), range(-1, 9)]), st.sampled_from([DType.INT8, DType.INT16]), seeds)
def test_large_biases_of_faint_channels(kind: tuple[type[Conv2D] | type[DepthwiseConv2D], tuple[int, ...], int],
                                        activation: Activation, halvings: range, dtype: DType, seed: int) -> None:
    """Sums of up to 31 bits that are shifted to the right by up to 31."""
    op, shape, axis = kind
    network, channels = Network(), shape[axis]
    x = network.input(stored((1, 6, 7, shape[3]), dtype, seed) // (1 if dtype is DType.INT8 else 64), q(1.0))
    least = 255 * 128 * int(np.prod(shape[1:])) if dtype is DType.INT8 else 1 << 29
    large = np.random.default_rng(seed).choice([least - 2**31 + 1, -(2**30), 0, 77, 2**30, 2**31 - 1 - least], channels)
    w = faint(network, shape, axis, seed, halvings)
    network.op(op(stride_h=1, stride_w=1, fused_activation_function=activation), x, w,
               network.constant(large.astype(np.int32)), quantization=q(1.0, 0 if dtype is DType.INT16 else -9))
    network.agree(is_native=dtype is DType.INT8)


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU6])
@pytest.mark.parametrize(("op", "shape", "axis"), [(Conv2D, (33, 1, 1, 19), 0), (Conv2D, (64, 3, 3, 8), 0),
                                                   (DepthwiseConv2D, (1, 3, 3, 24), 3)])
def test_largest_biases_of_lost_channels(op: type[Conv2D] | type[DepthwiseConv2D], shape: tuple[int, ...], axis: int,
                                         activation: Activation) -> None:
    """Sums that would overflow, if they were not multiplied by 0."""
    network, lost = Network(), np.arange(shape[axis]) % 5 == 1
    x = network.input(stored((1, 6, 7, shape[3]), DType.INT8, 1), q(0.02, -3))
    scales = np.where(lost, 2.0 ** -(36.0 + np.arange(shape[axis])), 0.01).astype(np.float32)
    w = network.constant(stored(shape, DType.INT8, 2),
                         Quantization(tuple(map(float, scales)), (0,) * shape[axis], axis))
    large = np.where(lost, np.resize([2**31 - 1, -(2**31)], shape[axis]), 77).astype(np.int32)
    network.op(op(stride_h=1, stride_w=1, fused_activation_function=activation), x, w, network.constant(large),
               quantization=q(0.0235, -128))
    network.agree(is_native=True)


@pytest.mark.parametrize("form", [BYTES, PAIRS], ids=lambda form: form.arithmetic.name)
@pytest.mark.parametrize(("size", "channels"), [((1, 1), 64), ((3, 3), 19)])
def test_forms_of_products(monkeypatch: pytest.MonkeyPatch, form: Form, size: tuple[int, int], channels: int) -> None:
    """Of which one is the fastest on this machine."""
    monkeypatch.setattr(quantized_conv, "form_of", lambda *_: form)
    network = Network()
    x = network.input(stored((1, 9, 14, channels), DType.INT8, 1), q(0.02, -7))
    w = weights(network, (33, *size, channels), 0, True, 2, 0.01)
    network.op(Conv2D(Padding.SAME, 1, 2), x, w, bias(network, 33, 3), quantization=q(0.05, 9))
    network.agree()


@pytest.mark.parametrize("least", [-128, -127])
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_single_rows_of_extremes(least: int, zero_point: int) -> None:
    """Sums of products that are as large as they can be, in forms of which one depends on the least weight."""
    random = np.random.default_rng(7)
    network = Network()
    x = network.input(random.choice(np.array([-128, -127, 127], np.int8), (1, 75)), q(0.02, zero_point))
    w = random.choice(np.array([least, 127], np.int8), (37, 75))
    w[:3] = [[least], [127], [0]]
    network.op(FullyConnected(), x, network.constant(w, q(0.01)), bias(network, 37, 3), quantization=q(9.0, 3))
    network.agree(is_native=True)


def test_filters_that_there_are_none_of() -> None:
    for op, shape in ((Conv2D(stride_h=1, stride_w=1), (0, 3, 2, 4)), (FullyConnected(), (0, 4))):
        for dtype in (DType.INT8, DType.UINT8):
            network = Network()
            x = network.input(stored((2, 5, 5, 4)[-len(shape):], dtype, 1), q(0.05, 3))
            network.op(op, x, network.constant(np.zeros(shape, dtype.numpy), q(0.1, 0)), bias(network, 0, 1),
                       quantization=q(0.2))
            network.agree()
