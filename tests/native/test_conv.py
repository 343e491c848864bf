"""Native convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, Padding, Shape
from circlet.runtime.ops.conv import BiasedTransposeConv, Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.elementwise import Add
from circlet.schema.files import dump_model
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import native_test
from tests.native.test_budget import session_of
from tests.ops.test_conv import BIASED_TRANSPOSE_CONV, CONV_2D, CONV_3D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV

test_cases = native_test([*CONV_2D, *DEPTHWISE_CONV_2D, *TRANSPOSE_CONV, *BIASED_TRANSPOSE_CONV, *CONV_3D])

Geometry: TypeAlias = "tuple[int, int, int, int, int, int, int, int]"
"""Height and width of the image, of the filter, strides, dilations."""

SIZES = st.integers(1, 3)
LENGTHS = st.sampled_from([5, 7, 8, 13, 20])
GEOMETRIES = st.tuples(LENGTHS, LENGTHS, SIZES, SIZES, SIZES, SIZES, st.integers(1, 2), st.integers(1, 2))
CHANNELS = st.sampled_from([1, 2, 3, 8, 15, 16, 17, 24, 32, 40, 65])
IMAGES = st.integers(0, 2)
ACTIVATIONS = st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6])
PADDINGS = st.sampled_from(Padding)


@settings(max_examples=80, deadline=None)
@given(IMAGES, GEOMETRIES, CHANNELS, CHANNELS, PADDINGS, ACTIVATIONS, st.booleans(), seeds)
def test_conv_2d(images: int, geometry: Geometry, channels: int, filters: int, padding: Padding,
                 activation: Activation, is_constant: bool, seed: int) -> None:
    height, width, tall, wide, stride_h, stride_w, dilation_h, dilation_w = geometry
    op = Conv2D(padding, stride_w, stride_h, activation, dilation_w, dilation_h)
    filter = values((filters, tall, wide, channels), np.float32, seed)
    image, bias = values((images, height, width, channels), np.float32, seed + 1), values((filters,), np.float32, seed)
    if is_constant:
        agree(applied(op, filter, bias), image)
    else:
        agree(applied(op), image, filter, bias)


@settings(max_examples=40, deadline=None)
@given(IMAGES, GEOMETRIES, st.sampled_from([4, 5, 12, 24]), st.sampled_from([1, 3, 6]), st.sampled_from([64, 65]),
       st.sampled_from([1, 8, 17, 40]), ACTIVATIONS, st.booleans(), seeds)
def test_dilated(images: int, geometry: Geometry, far: int, dilation: int, channels: int, filters: int,
                 activation: Activation, is_read: bool, seed: int) -> None:
    """Of windows whose elements are so far apart that some meet padding alone; `is_read` has another operator take the
    results."""
    height, width, tall, wide, stride_h, stride_w, *_ = geometry
    op = Conv2D(Padding.SAME, stride_w, stride_h, activation, far, dilation)
    filter = values((filters, tall, wide, channels), np.float32, seed)
    image, bias = values((images, height, width, channels), np.float32, seed + 1), values((filters,), np.float32, seed)

    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        found = g.apply(op, x, g.constant(filter), g.constant(bias))
        return [g.apply(Add(), found, g.constant(bias)) if is_read else found]

    agree(formula, image)


@settings(max_examples=60, deadline=None)
@given(IMAGES, GEOMETRIES, st.sampled_from([2, 3, 4, 16]), st.sampled_from([1, 2, 5, 16]), CHANNELS, PADDINGS,
       ACTIVATIONS, st.booleans(), seeds)
def test_groups(images: int, geometry: Geometry, groups: int, taken: int, made: int, padding: Padding,
                activation: Activation, is_read: bool, seed: int) -> None:
    """Of `taken` channels each, which become `made`; `is_read` has another operator take the results."""
    height, width, tall, wide, stride_h, stride_w, dilation_h, dilation_w = geometry
    op = Conv2D(padding, stride_w, stride_h, activation, dilation_w, dilation_h)
    filter = values((groups * made, tall, wide, taken), np.float32, seed)
    image = values((images, height, width, groups * taken), np.float32, seed + 1)
    bias = values((groups * made,), np.float32, seed)

    def formula(g: SubgraphBuilder, x: Value) -> Sequence[Value]:
        found = g.apply(op, x, g.constant(filter), g.constant(bias))
        return [g.apply(Add(), found, g.constant(bias)) if is_read else found]

    agree(formula, image)


@settings(max_examples=80, deadline=None)
@given(IMAGES, GEOMETRIES, CHANNELS, st.sampled_from([1, 1, 1, 2, 3]), PADDINGS, ACTIVATIONS, st.booleans(), seeds)
def test_depthwise_conv_2d(images: int, geometry: Geometry, channels: int, times: int, padding: Padding,
                           activation: Activation, is_constant: bool, seed: int) -> None:
    height, width, tall, wide, stride_h, stride_w, dilation_h, dilation_w = geometry
    op = DepthwiseConv2D(padding, stride_w, stride_h, activation, times, dilation_w, dilation_h)
    filter = values((1, tall, wide, channels * times), np.float32, seed)
    image = values((images, height, width, channels), np.float32, seed + 1)
    bias = values((channels * times,), np.float32, seed)
    if is_constant:
        agree(applied(op, filter, bias), image)
    else:
        agree(applied(op), image, filter, bias)


@settings(max_examples=60, deadline=None)
@given(IMAGES, GEOMETRIES, CHANNELS, CHANNELS, PADDINGS, ACTIVATIONS, st.booleans(), st.booleans(), seeds)
def test_transpose_conv(images: int, geometry: Geometry, channels: int, filters: int, padding: Padding,
                        activation: Activation, has_bias: bool, is_constant: bool, seed: int) -> None:
    height, width, tall, wide, stride_h, stride_w, *_ = geometry
    op = TransposeConv(padding, stride_w, stride_h, activation)
    shape = (images, height * stride_h, width * stride_w, filters)
    counts = [each.count for each in op.windows(shape, (filters, tall, wide, channels))]
    filter = values((filters, tall, wide, channels), np.float32, seed)
    data, bias = values((images, *counts, channels), np.float32, seed + 1), values((filters,), np.float32, seed)

    def formula(g: SubgraphBuilder, x: Value, *told: Value) -> Sequence[Value]:
        rest = [g.constant(bias)] if has_bias else []
        return g.op(op, g.constant(np.array(shape, np.int32)), *(told or (g.constant(filter),)), x, *rest)

    agree(formula, data, *([] if is_constant else [filter]))


@settings(max_examples=40, deadline=None)
@given(IMAGES, GEOMETRIES, CHANNELS, CHANNELS, PADDINGS, st.booleans(), seeds)
def test_biased_transpose_conv(images: int, geometry: Geometry, channels: int, filters: int, padding: Padding,
                               is_constant: bool, seed: int) -> None:
    height, width, tall, wide, stride_h, stride_w, *_ = geometry
    op = BiasedTransposeConv(padding, stride_w, stride_h)
    filter, bias = values((filters, tall, wide, channels), np.float32, seed), values((filters,), np.float32, seed)
    image = values((images, height, width, channels), np.float32, seed + 1)
    if is_constant:
        agree(applied(op, filter, bias), image)
    else:
        agree(applied(op), image, filter, bias)


@pytest.mark.parametrize("padding", Padding)
@pytest.mark.parametrize(("sizes", "strides"), [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 2)), ((4, 3), (3, 2))])
def test_biased_transpose_conv_is_that_of_litert(padding: Padding, sizes: tuple[int, int], strides: tuple[int, int]
                                                 ) -> None:
    interpreter: Any = pytest.importorskip("ai_edge_litert.interpreter")
    op, model = BiasedTransposeConv(padding, *strides), ModelBuilder()
    main = model.subgraph("main")
    x, filter = main.input("x", np.float32, (1, 5, 6, 3)), values((7, *sizes, 3), np.float32, 1)
    main.output(main.apply(op, x, main.constant(filter), main.constant(values((7,), np.float32, 2))))
    content = dump_model(model.build(), "tflite")
    assert circlet.load(content).subgraphs[0].operators[0].op == op
    session, other = circlet.Session(content, "native"), interpreter.Interpreter(model_content=content)
    assert session.backend_of(0) == ("native",)
    other.allocate_tensors()
    given = values((1, 5, 6, 3), np.float32, 3)
    other.set_tensor(other.get_input_details()[0]["index"], given)
    other.invoke()
    wanted = other.get_tensor(other.get_output_details()[0]["index"])
    np.testing.assert_allclose(session.invoke(0, [given])[0], wanted, rtol=1e-5, atol=1e-5)


def test_deep_window() -> None:
    """The sums of a window of many channels are made in parts."""
    filter, image = values((70, 3, 3, 700), np.float32, 1), values((1, 7, 6, 700), np.float32, 2)
    rest = values((1, 7, 6, 70), np.float32, 3)

    def formula(g: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        made = g.apply(Conv2D(stride_h=1, stride_w=1, fused_activation_function=Activation.RELU), x, g.constant(filter))
        return [made, g.apply(Add(), g.apply(Conv2D(stride_h=1, stride_w=1), x, g.constant(filter)), y)]

    agree(formula, image, rest)


@pytest.mark.parametrize(("op", "filter"), [
    (Conv2D(stride_h=1, stride_w=1), (40, 3, 3, 24)),
    (Conv2D(stride_h=1, stride_w=1), (40, 1, 1, 24)),
    (DepthwiseConv2D(stride_h=1, stride_w=1), (1, 3, 3, 24)),
], ids=["window", "pointwise", "depthwise"])
def test_epilogue(op: Op, filter: Shape) -> None:
    """A residual that is added where the results are made."""
    weights = values(filter, np.float32, 1)

    def formula(g: SubgraphBuilder, x: Value, rest: Value) -> Sequence[Value]:
        return [g.apply(Add(Activation.RELU6), g.apply(op, x, g.constant(weights)), rest)]

    channels = 24 if filter[0] == 1 else 40
    agree(formula, values((2, 9, 10, 24), np.float32, 2), values((2, 9, 10, channels), np.float32, 3))


def test_epilogue_of_nothing() -> None:
    """A residual that is added to no results, as the window is wider than the image."""
    weights, op = values((1, 3, 3, 24), np.float32, 1), DepthwiseConv2D(padding=Padding.VALID, stride_h=1, stride_w=1)

    def formula(g: SubgraphBuilder, x: Value, rest: Value) -> Sequence[Value]:
        return [g.apply(Add(Activation.RELU6), g.apply(op, x, g.constant(weights)), rest)]

    agree(formula, values((2, 9, 2, 24), np.float32, 2), np.zeros((2, 7, 0, 24), np.float32))


@pytest.mark.parametrize("width", [16, 32])
def test_one_channel_is_passed_on_a_vector_at_a_time(width: int) -> None:
    filter, bias = values((1, 2, 2, 3), np.float32, 1), values((1,), np.float32, 2)
    image, op = values((2, 4, width, 3), np.float32, 3), BiasedTransposeConv(Padding.SAME, 2, 2)
    for columns in (width, 5, 33):
        agree(applied(op, filter, bias), values((2, 4, columns, 3), np.float32, 4))
    model = ModelBuilder()
    main = model.subgraph("main")
    main.output(main.apply(op, main.input("x", np.float32, image.shape), main.constant(filter), main.constant(bias)))
    session, backend = session_of(model.build())
    session.invoke(0, [image])
    (listing,) = backend.listings
    assert "fadd float" not in listing.module
