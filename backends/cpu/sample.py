"""Numpy rule of sampling at places that a tensor names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.backends.refusal import all_of, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import FLOATS, Array
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.ops.sample import GridSample, Outside

Taps = list[tuple[Array, Array, Array]]
"""Indices along one axis, their weights, and whether they lie inside of it."""


def _reflected(x: Array, low: float, high: float) -> Array:
    """Coordinates mirrored at two borders until they lie between them."""
    span = high - low
    if span <= 0:
        return np.full_like(x, low)
    within = np.mod(x - low, 2 * span)
    return low + np.where(within > span, 2 * span - within, within)


def _taps(op: GridSample, places: Array, length: int) -> Taps:
    """What the places along one axis read."""
    low, high = (0.0, length - 1.0) if op.align_corners else (-0.5, length - 0.5)
    x = (places + 1) / 2 * (length - 1) if op.align_corners else ((places + 1) * length - 1) / 2
    if op.interpolation is Interpolation.NEAREST:
        x = np.rint(x)
    out = (x < low) | (x > high)
    if op.outside is Outside.BORDER:
        x = np.where(out, np.clip(x, 0, length - 1), x)
    elif op.outside is Outside.REFLECTION:
        x = np.where(out, _reflected(x, low, high), x)
    base = np.floor(x)
    found = []
    for step, weight in _weights(op, x - base):
        index, counts = _element(op, base + step, length, low, high)
        found.append((index, weight, counts))
    return found


def _element(op: GridSample, index: Array, length: int, low: float, high: float) -> tuple[Array, Array]:
    """Indices of elements, and whether they count."""
    inside = (index >= 0) & (index < length)
    if op.outside is Outside.REFLECTION:
        out = (index < low) | (index > high)
        index = np.where(out, np.trunc(_reflected(index, low, high)), index)
    counts = inside if op.outside is Outside.ZEROS else np.ones_like(inside)
    return np.clip(np.nan_to_num(index), 0, length - 1).astype(np.int64), counts


def _weights(op: GridSample, rest: Array) -> Iterator[tuple[int, Array]]:
    """How far from the element at or before a place the elements lie that it reads, and what they count."""
    if op.interpolation is Interpolation.NEAREST:
        yield 0, np.ones_like(rest)
    elif op.interpolation is Interpolation.LINEAR:
        yield from ((0, 1 - rest), (1, rest))
    else:
        a = -0.75
        for step in range(-1, 3):
            x = np.abs(rest - step)
            near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
            yield step, near if step in (0, 1) else far


@rule(GridSample, accepts=all_of(only(FLOATS), only(FLOATS, 1)))
def grid_sample(node: Node[GridSample]) -> Step:
    op, x, grid, out = node.op, node.input(0), node.input(1), node.out
    spatial, count = x.shape[2:], prod(grid.shape[1:-1])
    batch = np.arange(len(x))[:, None]

    def step() -> None:
        if out.size and 0 in x.shape[2:]:
            raise ExecutionError("input 0 has no elements to sample")
        places = grid.reshape(len(x), count, len(spatial)).astype(np.float64)
        taps = [_taps(op, places[..., len(spatial) - 1 - axis], length) for axis, length in enumerate(spatial)]
        total: Array = np.zeros((len(x), count, x.shape[1]))
        for chosen in product(*taps):
            weight = prod((each[1] * each[2] for each in chosen), start=np.ones((len(x), count)))
            index: Any = (batch, slice(None), *(each[0] for each in chosen))
            total += x[index] * weight[..., None]
        np.copyto(out, np.moveaxis(total, -1, 1).reshape(out.shape), casting="unsafe")

    return step
