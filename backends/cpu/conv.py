"""Numpy rules of the convolutions: patches of the input, laid out as the rows of a matrix, times the filter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from circlet.backends.cpu.conv_arithmetic import FLOATING, HYBRID, QUANTIZED, SUMS, Arithmetic, Roles
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, guarded
from circlet.backends.cpu.window import margins, padded, parts, patches
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.conv import (
    BiasedTransposeConv,
    Conv2D,
    Conv3D,
    Conv3DTranspose,
    DepthwiseConv2D,
    TransposeConv,
)
from circlet.runtime.ops.window import Window

CONV_2D = Roles(FLOATING + SUMS + QUANTIZED + HYBRID)
DEPTHWISE_CONV_2D = Roles(FLOATING + QUANTIZED + HYBRID, channels=3)
CONV_3D = Roles(FLOATING, channels=4)
TRANSPOSE_CONV = Roles(FLOATING + QUANTIZED + HYBRID, data=2, bias=3)
BIASED_TRANSPOSE_CONV = Roles(FLOATING)
CONV_3D_TRANSPOSE = Roles(FLOATING, data=2, bias=3, channels=3)


@rule(Conv2D, accepts=CONV_2D.refuses)
def conv_2d(node: Node[Conv2D]) -> Step:
    image, filter = node.input(0).shape, node.input(1).shape
    groups = image[3] // filter[3]
    arithmetic, windows = CONV_2D.bind(node), node.op.windows(image, filter)
    grouped = arithmetic.weights.reshape(groups, filter[0] // groups, *filter[1:])
    matrices = grouped.reshape(*grouped.shape[:2], prod(filter[1:])).transpose(0, 2, 1)
    step = _convolve(node, arithmetic, matrices, windows)
    return _padded_apart(node, arithmetic, grouped.transpose(0, 2, 3, 4, 1), windows, step)


@rule(Conv3D, accepts=CONV_3D.refuses)
def conv_3d(node: Node[Conv3D]) -> Step:
    arithmetic, windows = CONV_3D.bind(node), node.op.windows(node.input(0).shape, node.input(1).shape)
    *taps, made = arithmetic.weights.shape
    step = _convolve(node, arithmetic, arithmetic.weights.reshape(1, prod(taps), made), windows)
    return _padded_apart(node, arithmetic, arithmetic.weights[None], windows, step)


@rule(DepthwiseConv2D, accepts=DEPTHWISE_CONV_2D.refuses)
def depthwise_conv_2d(node: Node[DepthwiseConv2D]) -> Step:
    image, filter, out = node.input(0), node.input(1), node.out
    windows = node.op.windows(image.shape, filter.shape)
    arithmetic = DEPTHWISE_CONV_2D.bind(node)
    source, steps = _load(arithmetic, image, margins(windows), filter.shape[3] // max(image.shape[3], 1))
    seen = patches(source, windows)
    scratch = _Scratch(arithmetic)
    for images, rows in parts(len(out), out.shape[1], prod(out.shape[2:])):
        target = out[images, rows]
        sums = scratch.sums(target)
        steps.append(partial(np.einsum, "nhwklc,klc->nhwc", seen[images, rows], arithmetic.weights[0], out=sums))
        steps += arithmetic.finish(sums, target, images)
    channels = arithmetic.weights[0].transpose(2, 0, 1)[..., None, None]
    times = filter.shape[3] // max(image.shape[3], 1)
    return _padded_apart(node, arithmetic, channels, windows, chain(*steps), times)


@rule(TransposeConv, accepts=TRANSPOSE_CONV.refuses)
def transpose_conv(node: Node[TransposeConv]) -> Step:
    arithmetic = TRANSPOSE_CONV.bind(node)
    windows = node.op.windows(node.out.shape, node.input(1).shape)
    return guarded(node, (0,), *_scatter(node, 2, arithmetic, arithmetic.weights.transpose(1, 2, 3, 0), windows))


@rule(BiasedTransposeConv, accepts=BIASED_TRANSPOSE_CONV.refuses)
def biased_transpose_conv(node: Node[BiasedTransposeConv]) -> Step:
    arithmetic = BIASED_TRANSPOSE_CONV.bind(node)
    windows = node.op.windows(node.out.shape, node.input(1).shape)
    return chain(*_scatter(node, 0, arithmetic, arithmetic.weights.transpose(1, 2, 3, 0), windows))


@rule(Conv3DTranspose, accepts=CONV_3D_TRANSPOSE.refuses)
def conv_3d_transpose(node: Node[Conv3DTranspose]) -> Step:
    arithmetic = CONV_3D_TRANSPOSE.bind(node)
    windows = node.op.windows(node.out.shape, node.input(1).shape)
    return guarded(node, (0,), *_scatter(node, 2, arithmetic, arithmetic.weights.swapaxes(-1, -2), windows))


class _Scratch:
    """Memory that the parts of one operator use in turn."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._dtype = np.dtype(arithmetic.dtype)
        self._memory: dict[str, Array] = {}

    def array(self, use: str, shape: Sequence[int]) -> Array:
        """An array on memory that serves the same use elsewhere; the first part is the largest."""
        size = prod(shape)
        memory = self._memory.setdefault(use, np.empty(size, self._dtype))
        return memory[:size].reshape(shape)

    def sums(self, target: Array) -> Array:
        """Where to sum up what becomes `target`: there itself where it can hold the sums."""
        return target if target.dtype == self._dtype else self.array("sums", target.shape)


def _load(arithmetic: Arithmetic, data: Array, edges: Sequence[tuple[int, int]],
          repeat: int = 1) -> tuple[Array, list[Step]]:
    """The input with edges of zeros, each channel repeated, and what brings it there from the input's buffer."""
    steps = list(arithmetic.prepare)
    if arithmetic.direct and repeat == 1 and not any(map(any, edges)):
        return data, steps
    whole, inner = padded((*data.shape, repeat), edges, arithmetic.dtype)
    return whole.reshape(*whole.shape[:-2], data.shape[-1] * repeat), [*steps, arithmetic.load(inner)]


def _convolve(node: Node[Any], arithmetic: Arithmetic, matrix: Array, windows: Sequence[Window]) -> Step:
    """Convolution of input 0, channels last, with a filter of (groups, taps * c, o)."""
    out = node.out
    image, steps = _load(arithmetic, node.input(0), margins(windows))
    groups, taps, channels = matrix.shape
    seen = patches(image, windows)
    seen = np.moveaxis(seen.reshape(*seen.shape[:-1], groups, seen.shape[-1] // groups), -2, 0)
    scratch = _Scratch(arithmetic)
    for images, rows in parts(len(out), out.shape[1], prod(out.shape[2:-1]) * groups * (taps + channels)):
        view, target = seen[:, images, rows], out[images, rows]
        sums = scratch.sums(target)
        if not view.flags.c_contiguous:
            columns = scratch.array("columns", view.shape)
            steps.append(partial(np.copyto, columns, view))
            view = columns
        positions = prod(target.shape[:-1])
        product = sums.reshape(positions, groups, channels).transpose(1, 0, 2)
        steps.append(partial(np.matmul, view.reshape(groups, positions, taps), matrix, product))
        steps += arithmetic.finish(sums, target, images)
    return chain(*steps)


def _padded_apart(node: Node[Any], arithmetic: Arithmetic, weights: Array, windows: Sequence[Window], step: Step,
                  repeat: int = 1) -> Step:
    """The step of a convolution, but where padding meets a weight that is not finite, so that it counts for nothing
    and not for zero times infinity. The filter is (groups, *taps, c, o); each channel of the image is repeated."""
    if not arithmetic.direct or not any(map(any, margins(windows))):
        return step
    if node.constant(1) is not None:
        return step if np.isfinite(weights).all() else partial(_by_taps, node, arithmetic, weights, windows, repeat)

    def run() -> None:
        if np.isfinite(weights).all():
            step()
        else:
            _by_taps(node, arithmetic, weights, windows, repeat)

    return run


def _by_taps(node: Node[Any], arithmetic: Arithmetic, weights: Array, windows: Sequence[Window], repeat: int) -> None:
    """Adds, for each element of the window, what it makes of that part of the image that it meets."""
    image, out, (groups, *sizes, depth, made) = node.input(0), node.out, weights.shape
    image = image.repeat(repeat, axis=-1)
    sums = np.zeros((*out.shape[:-1], groups, made), out.dtype)
    for tap in np.ndindex(*sizes):
        met = [window.meets(index) for window, index in zip(windows, tap, strict=True)]
        positions, inside, element = ((slice(None), *each) for each in (*zip(*met, strict=True), tap))
        seen = image[inside]
        sums[positions] += np.matmul(seen.reshape(*seen.shape[:-1], groups, 1, depth), weights[element])[..., 0, :]
    for finish in arithmetic.finish(sums.reshape(out.shape), out, slice(None)):
        finish()


def _scatter(node: Node[Any], position: int, arithmetic: Arithmetic, weights: Array, windows: Sequence[Window]
             ) -> list[Step]:
    """Transposed convolution of an input, channels last, with a filter of (*taps, c, o)."""
    data, out = node.input(position), node.out
    image, steps = _load(arithmetic, data, ((0, 0),) * len(windows))
    columns = image.reshape(prod(data.shape[:-1]), data.shape[-1])
    product: Array = np.empty((*data.shape[:-1], out.shape[-1]), arithmetic.dtype)
    rows = product.reshape(len(columns), out.shape[-1])
    whole, inner = padded(out.shape, margins(windows), arithmetic.dtype)
    steps.append(partial(whole.fill, 0))
    for tap in np.ndindex(*weights.shape[:-2]):
        met = (slice(None), *(window.tap(index) for window, index in zip(windows, tap, strict=True)))
        target = whole[met]
        steps += [partial(np.matmul, columns, weights[tap], rows), partial(np.add, target, product, target)]
    for images, height in parts(len(out), out.shape[1], prod(out.shape[2:])):
        steps += arithmetic.finish(inner[images, height], out[images, height], images)
    return steps
