"""Numpy rules of pooling: the window is reduced along the width, then along the height."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic.fixed_point import round_half_away
from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import activate, chain, refuse_fused
from circlet.backends.cpu.window import margins, padded
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlet.runtime.ops.window import Window

_REAL = (DType.FLOAT32, DType.FLOAT64)


def _takes(*dtypes: DType) -> Refusal:
    return all_of(only(dtypes), refuse_fused)


@rule(AveragePool2D, accepts=_takes(*_REAL, *QUANTIZABLE))
def average_pool_2d(node: Node[AveragePool2D]) -> Step:
    source, out = node.input(0), node.out
    if node.dtype() in _REAL:
        return chain(*_pooled(node, np.add, source, out, 0), partial(np.divide, out, _counts(node), out),
                     *_activation(node))
    sums: Array = np.empty(out.shape, np.int32)
    means: Array = np.empty(out.shape, np.float64)
    return chain(*_pooled(node, np.add, source, sums, 0), partial(np.divide, sums, _counts(node), means),
                 lambda: np.copyto(out, round_half_away(means), casting="unsafe"), *_activation(node))


@rule(MaxPool2D, accepts=_takes(*_REAL, *QUANTIZABLE))
def max_pool_2d(node: Node[MaxPool2D]) -> Step:
    source, out = node.input(0), node.out
    least = -np.inf if node.dtype() in _REAL else np.iinfo(out.dtype).min
    return chain(*_pooled(node, np.maximum, source, out, least), *_activation(node))


@rule(L2Pool2D, accepts=_takes(DType.FLOAT32))
def l2_pool_2d(node: Node[L2Pool2D]) -> Step:
    source, out = node.input(0), node.out
    squares: Array = np.empty_like(source)
    return chain(partial(np.square, source, squares), *_pooled(node, np.add, squares, out, 0),
                 partial(np.divide, out, _counts(node), out), partial(np.sqrt, out, out), *_activation(node))


def _pooled(node: Node[Any], combine: np.ufunc, source: Array, out: Array, neutral: float) -> list[Step]:
    """Combines what each window covers; padding is `neutral`."""
    tall, wide = node.op.windows(source.shape)
    steps: list[Step] = []
    edges = margins((tall, wide))
    if any(map(any, edges)):
        whole, inner = padded(source.shape, edges, source.dtype, neutral)
        steps.append(partial(np.copyto, inner, source))
        source = whole
    narrowed: Array = np.empty((*source.shape[:2], *out.shape[2:]), out.dtype)
    return [*steps, *_combine(combine, source, wide, 2, narrowed), *_combine(combine, narrowed, tall, 1, out)]


def _combine(combine: np.ufunc, source: Array, window: Window, axis: int, out: Array) -> list[Step]:
    """Reduces a window that slides along one axis."""
    source, moved = source.swapaxes(0, axis), out.swapaxes(0, axis)
    if window.count == 1:
        return [partial(combine.reduce, source[:window.size], axis=0, dtype=out.dtype, out=moved[0])]
    first, *others = (source[window.tap(index)] for index in range(window.size))
    return [partial(np.copyto, moved, first), *(partial(combine, moved, each, out=moved) for each in others)]


def _counts(node: Node[Any]) -> npt.NDArray[np.float32]:
    """How many elements of the image each window covers: (positions along h, positions along w, 1)."""
    along = []
    for window in node.op.windows(node.input(0).shape):
        start = np.arange(window.count) * window.stride - window.before
        along.append(np.minimum(start + window.size, window.length) - np.maximum(start, 0))
    tall, wide = along
    counts: npt.NDArray[np.float32] = np.multiply(tall[:, None, None], wide[:, None], dtype=np.float32)
    return counts


def _activation(node: Node[Any]) -> list[Step]:
    return activate(node.op.fused_activation_function, node.out, quantization_of(node.call.outputs[0]))
