"""One function serves images of all heights, widths and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.elementwise import Add, FloorMod, Mul, Sub
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.normalize import LocalResponseNormalization
from circlet.runtime.ops.pad import MirrorPad, Pad
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlet.runtime.ops.reduce import Mean
from circlet.runtime.ops.resample import Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.shape import Alias
from circlet.runtime.ops.spatial import SpaceToDepth
from circlet.runtime.ops.unary import Tanh
from tests.native.test_lengths import Graph, floats, model, weights
from tests.ops.cases import check

SAME, VALID, RELU6 = Padding.SAME, Padding.VALID, Activation.RELU6


def image(g: Graph, channels: int = 5, lengths: Sequence[int] = (-1, -1, -1)) -> Value:
    return g.builder.input("image", DType.FLOAT32, (*lengths, channels))


def constant(g: Graph, *shape: int) -> Value:
    return g.builder.constant(weights(*shape))


def filtered(op: Op, *filter: int, groups: int = 1) -> Callable[[Graph], Sequence[Value]]:
    """A convolution with a bias, and one of which another operator takes the results."""
    def write(g: Graph) -> Sequence[Value]:
        x = image(g) if isinstance(op, DepthwiseConv2D) else image(g, filter[-1] * groups)
        channels = filter[-1] if isinstance(op, DepthwiseConv2D) else filter[0]
        made = g(op, x, constant(g, *filter), constant(g, channels))
        return [made, g(Mul(), g(op, x, constant(g, *filter)), constant(g, channels))]

    return write


def normalized(g: Graph) -> Sequence[Value]:
    """A convolution in two groups, of weights that are a product of constants, and of a bias under another name."""
    (filter,) = g.builder.op(Mul(), constant(g, 8, 3, 3, 4), constant(g, 8, 1, 1, 1),
                             outputs=[Tensor("", DType.FLOAT32, (8, 3, 3, 4))])
    return [g(Conv2D(SAME, 1, 1), image(g, 8), filter, g(Alias(), constant(g, 8)))]


def undeclared(*filter: int) -> Callable[[Graph], Sequence[Value]]:
    """A convolution of an image of which the model does not say how many channels it has, which others follow."""
    def write(g: Graph) -> Sequence[Value]:
        (made,) = g.builder.op(Mul(), constant(g, *filter), constant(g, filter[0], 1, 1, 1),
                               outputs=[Tensor("", DType.FLOAT32, filter)])
        found = g(Conv2D(SAME, 2, 1), g(Tanh(), image(g, 8)), made, constant(g, filter[0]))
        return [g(Mul(), g(Tanh(), found), constant(g, filter[0]))]

    return write


def pooled(op: Op) -> Callable[[Graph], Sequence[Value]]:
    return lambda g: [g(op, image(g))]


def resized(op: Op, scale: int) -> Callable[[Graph], Sequence[Value]]:
    """To so many times the size, and to a fixed one."""
    def write(g: Graph) -> Sequence[Value]:
        x = image(g)
        size = g(Pack(2), *(g(Mul(), g.length(x, axis), g.number(scale), dtype=DType.INT32) for axis in (1, 2)),
                 dtype=DType.INT32)
        return [g(op, x, size), g(op, x, g.ints(7, 5))]

    return write


def resampled(op: Resample, sized: bool = False, factors: Sequence[float] = (2.0, 0.75)
              ) -> Callable[[Graph], Sequence[Value]]:
    """By factors, and to sizes that follow from the image's."""
    def write(g: Graph) -> Sequence[Value]:
        x = image(g)
        if not sized:
            return [g(op, x, g.builder.constant(np.array(factors, np.float32)))]
        larger = [g(Add(), g.length(x, axis), g.number(3), dtype=DType.INT32) for axis in (1, 2)]
        return [g(op, x, g(Pack(2), *larger, dtype=DType.INT32))]

    return write


def cut_out(g: Graph) -> Sequence[Value]:
    """A part that hangs on the image, some of which is beyond it, at sizes that follow from its size."""
    x = image(g)
    larger = [g(Add(), g.length(x, axis), g.number(3), dtype=DType.INT32) for axis in (1, 2)]
    size, part = g(Pack(2), *larger, dtype=DType.INT32), g.builder.constant(np.array([0.1, -0.2, 0.8, 1.3], np.float32))
    some = g(Mul(), part, g(Sub(), g.number(1.0), g(Mul(), g(Mean(), x, g.ints(0, 1, 2, 3)), g.number(0.0))))
    return [g(Tanh(), g(Resample((1, 2), each, Coordinates.TF_CROP_AND_RESIZE, extrapolation=2.0), x, size, some))
            for each in (Interpolation.LINEAR, Interpolation.NEAREST)]


def transposed(padding: Padding, stride: int, more: int = 0, computed: bool = False
               ) -> Callable[[Graph], Sequence[Value]]:
    def write(g: Graph) -> Sequence[Value]:
        x = image(g)
        height, width = (g(Add(), g(Mul(), g.length(x, axis), g.number(stride), dtype=DType.INT32), g.number(more),
                           dtype=DType.INT32) for axis in (1, 2))
        shape = g(Pack(4), g.length(x, 0), height, width, g.number(6), dtype=DType.INT32)
        filter, bias = constant(g, 6, 3, 3, 5), constant(g, 6)
        if computed:
            (filter,) = g.builder.op(Mul(), filter, constant(g, 6, 1, 1, 1),
                                     outputs=[Tensor("", DType.FLOAT32, (6, 3, 3, 5))])
            bias = g(Alias(), bias)
        return [g(TransposeConv(padding, stride, stride), shape, filter, x, bias)]

    return write


def classifier(g: Graph, lengths: Sequence[int] = (-1, -1, -1)) -> Sequence[Value]:
    """Blocks as those of MobileNet: images (n, h, w, 3) to (n, 4)."""
    x = g(Pad(), image(g, 3, lengths), g.builder.constant(np.array([[0, 0], [0, 1], [1, 0], [0, 0]], np.int32)))
    x = g(Conv2D(SAME, 2, 2, RELU6), x, constant(g, 8, 3, 3, 3), constant(g, 8))
    for stride in (1, 2, 1):
        y = g(DepthwiseConv2D(SAME, stride, stride, RELU6), x, constant(g, 1, 3, 3, 8), constant(g, 8))
        y = g(Conv2D(SAME, 1, 1), y, constant(g, 8, 1, 1, 8), constant(g, 8))
        x = y if stride > 1 else g(Add(RELU6), x, y)
    x = g(Concatenation(3), x, g(MaxPool2D(SAME, 1, 1, Activation.NONE, 3, 3), x))
    return [g(FullyConnected(), g(Mean(), x, g.ints(1, 2)), constant(g, 4, 16))]


def made_even(g: Graph) -> Sequence[Value]:
    """Images whose height and width are even, the last row and column mirrored where they were not."""
    x = image(g)
    more = [g(FloorMod(), g.length(x, axis), g.number(2), dtype=DType.INT32) for axis in (1, 2)]
    rows = [g(Pack(2), g.number(0), each, dtype=DType.INT32) for each in (g.number(0), *more, g.number(0))]
    return [g(SpaceToDepth(2), g(MirrorPad(), x, g(Pack(4), *rows, dtype=DType.INT32)))]


def dilated(kind: type[Conv2D] | type[DepthwiseConv2D], padding: Padding) -> Op:
    return kind(padding, 1, 1, dilation_w_factor=3, dilation_h_factor=2)


MODELS: dict[str, Model] = {name: model(write) for name, write in {
    "classifier": classifier,
    "conv-same": filtered(Conv2D(SAME, 1, 1), 7, 3, 3, 5),
    "conv-same-strided": filtered(Conv2D(SAME, 2, 2, RELU6), 7, 3, 4, 5),
    "conv-same-far": filtered(Conv2D(SAME, 5, 3), 7, 2, 3, 5),
    "conv-same-dilated": filtered(dilated(Conv2D, SAME), 7, 3, 3, 5),
    "conv-same-dilated-far": filtered(Conv2D(SAME, 1, 1, dilation_w_factor=24, dilation_h_factor=37), 7, 3, 3, 5),
    "conv-same-dilated-deep": filtered(Conv2D(SAME, 1, 1, dilation_w_factor=7, dilation_h_factor=12), 9, 3, 3, 64),
    "conv-same-dilated-deep-far": filtered(
        Conv2D(SAME, 2, 3, RELU6, dilation_w_factor=5, dilation_h_factor=4), 17, 3, 2, 64),
    "conv-same-large": filtered(Conv2D(SAME, 2, 2, RELU6), 1100, 7, 7, 5),
    "conv-valid": filtered(Conv2D(VALID, 2, 1), 17, 2, 3, 5),
    "conv-valid-dilated": filtered(dilated(Conv2D, VALID), 7, 2, 2, 5),
    "conv-groups": filtered(Conv2D(SAME, 1, 1, RELU6), 34, 3, 3, 5, groups=2),
    "conv-groups-strided": filtered(Conv2D(SAME, 2, 1), 12, 3, 2, 2, groups=4),
    "conv-groups-dilated": filtered(dilated(Conv2D, SAME), 6, 2, 3, 1, groups=3),
    "conv-groups-computed": normalized,
    "conv-groups-undeclared": undeclared(12, 3, 3, 4),
    "conv-undeclared": undeclared(12, 3, 3, 8),
    "conv-points": filtered(Conv2D(SAME, 1, 1), 33, 1, 1, 5),
    "conv-points-strided": filtered(Conv2D(SAME, 2, 2), 7, 1, 1, 5),
    "depthwise-same": filtered(DepthwiseConv2D(SAME, 1, 1), 1, 3, 3, 5),
    "depthwise-same-strided": filtered(DepthwiseConv2D(SAME, 2, 2, RELU6), 1, 5, 4, 5),
    "depthwise-same-dilated": filtered(dilated(DepthwiseConv2D, SAME), 1, 3, 3, 5),
    "depthwise-same-dilated-far": filtered(
        DepthwiseConv2D(SAME, 1, 1, dilation_w_factor=37, dilation_h_factor=24), 1, 3, 3, 5),
    "depthwise-multiplied": filtered(DepthwiseConv2D(SAME, 2, 1), 1, 3, 3, 10),
    "depthwise-valid": filtered(DepthwiseConv2D(VALID, 1, 2), 1, 3, 2, 5),
    "max-same": pooled(MaxPool2D(SAME, 2, 2, Activation.NONE, 3, 3)),
    "max-valid": pooled(MaxPool2D(VALID, 2, 2, RELU6, 2, 2)),
    "max-wide": pooled(MaxPool2D(SAME, 2, 2, Activation.NONE, 40, 31)),
    "average-same": pooled(AveragePool2D(SAME, 2, 1, Activation.NONE, 3, 4)),
    "average-valid": pooled(AveragePool2D(VALID, 1, 1, Activation.NONE, 3, 3)),
    "l2-same": pooled(L2Pool2D(SAME, 2, 2, Activation.NONE, 3, 3)),
    "local-response": pooled(LocalResponseNormalization(2, 1.0, 0.5, 0.75)),
    "bilinear": resized(ResizeBilinear(), 2),
    "bilinear-corners": resized(ResizeBilinear(align_corners=True), 3),
    "bilinear-centers": resized(ResizeBilinear(half_pixel_centers=True), 2),
    "nearest": resized(ResizeNearestNeighbor(), 2),
    "nearest-corners": resized(ResizeNearestNeighbor(align_corners=True), 3),
    "nearest-centers": resized(ResizeNearestNeighbor(half_pixel_centers=True), 2),
    "resampled-nearest": resampled(Resample((1, 2), coordinates=Coordinates.ASYMMETRIC, nearest=Nearest.FLOOR)),
    "resampled-tenths": resampled(Resample((1, 2)), factors=(0.7, 2.3)),
    "resampled-linear": resampled(Resample((1, 2), Interpolation.LINEAR)),
    "resampled-cubic": resampled(Resample((1, 2), Interpolation.CUBIC), sized=True),
    "resampled-corners": resampled(Resample((1, 2), Interpolation.LINEAR, Coordinates.ALIGN_CORNERS), sized=True),
    "resampled-inside": resampled(Resample((1, 2), Interpolation.CUBIC, cubic_coefficient=-0.5, exclude_outside=True),
                                  sized=True),
    "resampled-smooth": resampled(Resample((1, 2), Interpolation.LINEAR, antialias=True), factors=(0.3, 0.75)),
    "resampled-smooth-inside": resampled(Resample((2, 3), Interpolation.CUBIC, exclude_outside=True, antialias=True),
                                         factors=(0.4, 0.6)),
    "resampled-part": cut_out,
    "mirrored": made_even,
    "transposed-same": transposed(SAME, 2),
    "transposed-valid": transposed(VALID, 2, 1),
    "transposed-computed": transposed(VALID, 2, 1, computed=True),
}.items()}
SHAPES = ((2, 9, 11), (3, 8, 30), (2, 24, 5), (5, 7, 7), (2, 17, 33), (3, 40, 19), (2, 6, 6), (2, 5, 12))
"""Batch, height, width."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_one_function_serves_all_images(name: str, threads: int, folder: object, compiled: list[str]) -> None:
    graph = MODELS[name].subgraphs[0]
    channels = graph.tensors[graph.inputs[0]].signature[3]
    native = circlet.Session(MODELS[name], backend="native", num_threads=threads)
    cpu = circlet.Session(MODELS[name], backend="cpu")
    for shape in (*SHAPES, *SHAPES):
        given = [floats(*shape, channels)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1
    assert "cpu" not in native.backend_of(0)


@pytest.mark.parametrize("axis", range(3))
def test_one_axis_may_be_open_alone(axis: int, folder: object, compiled: list[str]) -> None:
    fixed = (2, 9, 11)
    made = model(partial(classifier, lengths=[-1 if k == axis else size for k, size in enumerate(fixed)]))
    native, cpu = circlet.Session(made, backend="native"), circlet.Session(made, backend="cpu")
    for length in (12, 9, 30, 16):
        given = [floats(*(length if k == axis else size for k, size in enumerate(fixed)), 3)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("name", [each for each in MODELS if each.startswith("depthwise")])
def test_rows_of_any_width_are_cut_in_tiles(name: str, folder: object, compiled: list[str]) -> None:
    graph = MODELS[name].subgraphs[0]
    channels = graph.tensors[graph.inputs[0]].signature[3]
    native, cpu = (circlet.Session(MODELS[name], backend=each) for each in ("native", "cpu"))
    for width in (*range(4, 37), 113):
        given = [floats(2, 5, width, channels)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1
