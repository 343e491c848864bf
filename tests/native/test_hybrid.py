"""Native products of floats with int8 weights: equal to the bit to the numpy backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops import elementwise
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.matmul import BatchMatMul, BlockFullyConnected, FullyConnected
from tests.native.native_cases import native_test
from tests.native.quantized_models import Array, Network, stored
from tests.native.test_quantized_conv import weights
from tests.ops.cases import Case, as_t, q
from tests.ops.test_conv import CONV_2D
from tests.ops.test_matmul import BLOCK_ROWS, BLOCKS, HYBRID


def is_hybrid(case: Case) -> bool:
    types = [as_t(each).tensor.dtype for each in case.inputs[:2] if each is not None]
    return types == [DType.FLOAT32, DType.INT8] and case.error is None


test_matmul_cases = native_test(HYBRID, floats=0.0)
test_block_cases = native_test([*BLOCKS, *BLOCK_ROWS], floats=0.0)
test_conv_cases = native_test([each for each in CONV_2D if is_hybrid(each)], floats=0.0)

seeds = st.integers(0, 2**32 - 1)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-30]


def floats(shape: tuple[int, ...], seed: int, kind: str) -> Array:
    """Normally distributed numbers; `kind` says whether all are zero, positive or some are special."""
    random = np.random.default_rng(seed)
    values: Array = random.standard_normal(shape).astype(np.float32)
    if kind == "special":
        return np.asarray(np.where(random.random(shape) < 0.01, random.choice(SPECIAL, shape), values), np.float32)
    return {"zero": values * 0, "positive": np.abs(values)}.get(kind, values)


kinds = st.sampled_from(["plain", "plain", "zero", "positive", "special"])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 1, 2, 9]), st.sampled_from([1, 3, 15, 64, 100, 128, 333]), st.sampled_from([1, 20, 64, 512]),
       st.booleans(), st.booleans(), st.booleans(), st.sampled_from([Activation.NONE, Activation.RELU6]), kinds, seeds)
def test_fully_connected(rows: int, depth: int, units: int, per_axis: bool, asymmetric: bool, has_bias: bool,
                         activation: Activation, kind: str, seed: int) -> None:
    network = Network()
    x = network.input(floats((rows, depth), seed, kind))
    w = weights(network, (units, depth), 0, per_axis, seed, 0.01)
    bias = network.constant(floats((units,), seed, "plain")) if has_bias else None
    network.op(FullyConnected(activation, asymmetric_quantize_inputs=asymmetric), x, w, bias)
    network.agree()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(1,), (9,), (2, 3), (0,)]), st.sampled_from([2, 3, 16, 32, 64]), st.sampled_from([1, 2, 3, 8]),
       st.sampled_from([1, 20, 64, 200]), st.booleans(), st.sampled_from([Activation.NONE, Activation.RELU6]), kinds,
       seeds)
def test_blocks(rows: tuple[int, ...], size: int, blocks: int, units: int, has_bias: bool, activation: Activation,
                kind: str, seed: int) -> None:
    network, random = Network(), np.random.default_rng(seed)
    x = network.input(floats((*rows, size * blocks), seed, kind))
    w = network.constant(random.integers(-8, 8, (units, size * blocks), np.int8))
    scales = network.constant(random.uniform(0.01, 0.03, (units, blocks)).astype(np.float32))
    bias = [network.constant(floats((units,), seed, "plain"))] if has_bias else []
    network.op(BlockFullyConnected(activation, keep_num_dims=True), x, w, scales, *bias)
    network.agree(is_native=bool(rows[0]))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([(1,), (9,), (2, 3), (3, 2, 4)]), st.sampled_from([1, 15, 64, 333]),
       st.sampled_from([1, 20, 64]), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2), kinds, seeds)
def test_batch_matmul(rows: tuple[int, ...], depth: int, units: int, is_transposed: bool, per_axis: bool,
                      asymmetric: bool, among: int, kind: str, seed: int) -> None:
    """One matrix for all, or one for each of the left, along all axes but so many."""
    network = Network()
    x = network.input(floats((*rows, depth), seed, kind))
    before = rows[:-1][among:]
    shape = (*before, units, depth) if is_transposed else (*before, depth, units)
    y = weights(network, shape, len(shape) - (2 if is_transposed else 1), per_axis, seed, 0.01)
    network.op(BatchMatMul(adj_y=is_transposed, asymmetric_quantize_inputs=asymmetric), x, y)
    network.agree(is_native=True)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(1, 1), (3, 3), (2, 5)]), st.sampled_from([1, 3, 32]), st.sampled_from([1, 8, 33]),
       st.sampled_from([1, 1, 2, 5]), st.sampled_from(Padding), st.integers(1, 2), st.integers(1, 2), st.booleans(),
       kinds, seeds)
def test_conv_2d(size: tuple[int, int], channels: int, filters: int, groups: int, padding: Padding, stride: int,
                 dilation: int, per_axis: bool, kind: str, seed: int) -> None:
    """Channels and filters are those of a group."""
    network = Network()
    x = network.input(floats((2, 7, 11, groups * channels), seed, kind))
    w = weights(network, (groups * filters, *size, channels), 0, per_axis, seed, 0.01)
    op = Conv2D(padding, stride, stride, Activation.RELU, dilation, dilation)
    network.op(op, x, w, network.constant(floats((groups * filters,), seed, "plain")))
    network.agree(is_native=True)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([(1, 1), (3, 3), (2, 5)]), st.sampled_from([(2, 1), (3, 2), (40, 1)]), st.sampled_from(Padding),
       st.integers(1, 2), st.booleans(), kinds, seeds)
def test_depthwise_conv_2d(size: tuple[int, int], channels: tuple[int, int], padding: Padding, stride: int,
                           has_bias: bool, kind: str, seed: int) -> None:
    network, (count, times) = Network(), channels
    x = network.input(floats((2, 7, 11, count), seed, kind))
    w = weights(network, (1, *size, count * times), 3, True, seed, 0.01)
    bias = network.constant(floats((count * times,), seed, "plain")) if has_bias else None
    network.op(DepthwiseConv2D(padding, stride, stride, Activation.RELU6, times), x, w, bias)
    network.agree(is_native=True)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(1, 1), (3, 3), (2, 4)]), st.sampled_from([1, 3, 16]), st.sampled_from([1, 9, 40]),
       st.sampled_from([(1, 1), (2, 2), (3, 1)]), st.booleans(), st.booleans(), kinds, seeds)
def test_transpose_conv(size: tuple[int, int], depth: int, channels: int, strides: tuple[int, int], per_axis: bool,
                        has_bias: bool, kind: str, seed: int) -> None:
    network = Network()
    shape = network.constant(np.array([2, 5 * strides[0], 6 * strides[1], channels], np.int32))
    x = network.input(floats((2, 5, 6, depth), seed, kind))
    w = weights(network, (channels, *size, depth), 0, per_axis, seed, 0.01)
    bias = network.constant(floats((channels,), seed, "plain")) if has_bias else None
    op = TransposeConv(Padding.SAME, *strides[::-1], fused_activation_function=Activation.RELU6)
    network.op(op, shape, w, x, bias)
    network.agree(is_native=True)


@pytest.mark.parametrize("rows", [1, 3])
def test_sum_of_products(rows: int) -> None:
    """One of the products takes the sum as its epilogue."""
    network = Network()
    x, y = network.input(floats((rows, 40), 1, "plain")), network.input(floats((rows, 24), 2, "plain"))
    one, other = (network.op(FullyConnected(asymmetric_quantize_inputs=True), each,
                             weights(network, (64, each_depth), 0, False, 3, 0.01))
                  for each, each_depth in ((x, 40), (y, 24)))
    network.op(elementwise.Add(), one, other)
    network.agree()


def test_unsigned_weights() -> None:
    """They are read as signed."""
    network = Network()
    x, w = network.input(floats((3, 40), 1, "plain")), network.constant(stored((21, 40), DType.UINT8, 2), q(0.01))
    network.op(FullyConnected(), x, w)
    network.agree(is_native=True)


@pytest.mark.parametrize("among", [(), (1,), (-1,)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_matrices_for_any_number_of_rows(is_transposed: bool, among: tuple[int, ...], folder: object,
                                         compiled: list[str]) -> None:
    """One matrix for each of the left along two axes, or for each along the second, the first being of known or any
    length."""
    random, builder = np.random.default_rng(0), ModelBuilder()
    main = builder.subgraph("main")
    own = (3,) if among else (2, 3)
    y = random.integers(-127, 127, (*own, 9, 33) if is_transposed else (*own, 33, 9)).astype(np.int8)
    stored_y = main.constant(y, quantization=Quantization((0.01,), (0,)))
    given = main.input("x", DType.FLOAT32, (*among, *own, -1, 33))
    main.output(*main.op(BatchMatMul(adj_y=is_transposed), given, stored_y,
                         outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)]))
    peer, session = (circlet.Session(builder.build(), backend) for backend in ("cpu", "native"))
    for count, length in ((5, 5), (2, 2), (3, 64), (7, 33)):
        batch = [count if each < 0 else each for each in among]
        x = random.standard_normal((*batch, *own, length, 33)).astype(np.float32)
        np.testing.assert_array_equal(session.invoke(0, [x])[0], peer.invoke(0, [x])[0], strict=True)
    assert session.backend_of(0) == ("native",)
    assert len(compiled) == 1


def _depthwise(channels: int, times: int) -> circlet.Session:
    """Images of any size, of which each channel is multiplied by so many filters."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    filters = stored((1, 3, 3, channels * times), DType.INT8, 1)
    scales = Quantization((0.01,) * (channels * times), (0,) * (channels * times), 3)
    x = main.input("x", DType.FLOAT32, (-1, -1, -1, channels))
    main.output(*main.op(DepthwiseConv2D(Padding.SAME, 1, 1, depth_multiplier=times), x,
                         main.constant(filters, quantization=scales),
                         outputs=[Tensor("", DType.FLOAT32, (), has_rank=False)]))
    return circlet.Session(builder.build(), "native")


@pytest.mark.parametrize("times", [2, 3, 8])
def test_channels_with_several_filters_of_any_size(times: int, folder: object, compiled: list[str]) -> None:
    session = _depthwise(5, times)
    peer = circlet.Session(session.model, "cpu")
    for size in ((2, 7, 9, 5), (1, 1, 1, 5), (3, 20, 33, 5), (1, 3, 40, 5)):
        images = [floats(size, 3, "plain")]
        np.testing.assert_array_equal(session.invoke(0, images)[0], peer.invoke(0, images)[0], strict=True)
    assert session.backend_of(0) == ("native",)
    assert len(compiled) == 1
