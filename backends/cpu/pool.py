"""Numpy rules of pooling: the window is reduced along the width, then along the height."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.fixed_point import float_range, quantized_range, refuse_activation
from circlet.backends.cpu.rule import Node, Refusal, names, rule
from circlet.backends.cpu.window import clamp, margins, padded, sequence
from circlet.runtime.exec.kernel import Call, Step
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D, Pool
from circlet.runtime.ops.window import Window


def _takes(dtypes: frozenset[DType]) -> Refusal:
    def refuses(call: Call) -> str | None:
        found, options = call.input(0).dtype, call.op
        if found not in dtypes:
            return f"element type {found.value} of input 0 (supported: {names(dtypes)})"
        assert isinstance(options, Pool)
        return refuse_activation(options.fused_activation_function)

    return refuses


POOLED = frozenset({DType.FLOAT32}) | QUANTIZABLE


@rule(AveragePool2D, accepts=_takes(POOLED))
def average_pool_2d(node: Node[AveragePool2D]) -> Step:
    source, out = node.input(0), node.out
    if node.dtype() is DType.FLOAT32:
        return sequence([*_pooled(node, np.add, source, out, 0), partial(np.divide, out, _counts(node), out),
                         *_activation(node)])
    sums: Array = np.empty(out.shape, np.int32)
    means: Array = np.empty(out.shape, np.float64)
    return sequence([*_pooled(node, np.add, source, sums, 0), partial(np.divide, sums, _counts(node), means),
                     partial(_store_rounded, means, out), *_activation(node)])


@rule(MaxPool2D, accepts=_takes(POOLED))
def max_pool_2d(node: Node[MaxPool2D]) -> Step:
    source, out = node.input(0), node.out
    least = -np.inf if node.dtype() is DType.FLOAT32 else np.iinfo(out.dtype).min
    return sequence([*_pooled(node, np.maximum, source, out, least), *_activation(node)])


@rule(L2Pool2D, accepts=_takes(frozenset({DType.FLOAT32})))
def l2_pool_2d(node: Node[L2Pool2D]) -> Step:
    source, out = node.input(0), node.out
    squares: Array = np.empty_like(source)
    return sequence([partial(np.square, source, squares), *_pooled(node, np.add, squares, out, 0),
                     partial(np.divide, out, _counts(node), out), partial(np.sqrt, out, out), *_activation(node)])


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


def _store_rounded(values: Array, out: Array) -> None:
    """Rounds to nearest, halves away from zero, spoiling the values."""
    np.copyto(out, np.add(values, np.copysign(0.5, values), values), casting="unsafe")


def _activation(node: Node[Any]) -> list[Step]:
    function = node.op.fused_activation_function
    if node.dtype() is DType.FLOAT32:
        return clamp(node.out, *float_range(function))
    return clamp(node.out, *quantized_range(function, node.output_quantization(), node.dtype()))
