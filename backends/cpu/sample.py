"""Numpy rules of sampling at places that a tensor names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.backends.refusal import all_of, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import FLOATS, Array, DType
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.ops.sample import GridSample, Outside, RegionMax, RoiAlign

Taps = list[tuple[Array, Array, Array]]
"""Indices along one axis, their weights, and whether they lie inside of it, or the cells that they are for."""


def _reflected(x: Array, low: float, high: float) -> Array:
    """Coordinates mirrored at two borders until they lie between them."""
    span = high - low
    if span <= 0:
        return np.full_like(x, low)
    within = np.mod(x - low, 2 * span)
    return low + np.where(within > span, 2 * span - within, within)


def _taps(op: GridSample, places: Array, length: int) -> Taps:
    """What the places along one axis read."""
    if op.nan_is_first:
        places = np.where(np.isnan(places), -1, places)
    low, high = (0.0, length - 1.0) if op.align_corners else (-0.5, length - 0.5)
    x = places if op.is_index else (
        (places + 1) / 2 * (length - 1) if op.align_corners else ((places + 1) * length - 1) / 2)
    if op.interpolation is Interpolation.NEAREST:
        x = np.rint(x)
    out = (x < low) | (x > high)
    if op.is_cut_off:
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
    spatial, count = x.shape[1:-1], prod(grid.shape[1:-1])
    batch = np.arange(len(x))[:, None]

    def step() -> None:
        if out.size and 0 in spatial:
            raise ExecutionError("input 0 has no elements to sample")
        places = grid.reshape(len(x), count, len(spatial)).astype(np.float64)
        taps = [_taps(op, places[..., len(spatial) - 1 - axis], length) for axis, length in enumerate(spatial)]
        total: Array = np.zeros((len(x), count, x.shape[-1]))
        for chosen in product(*taps):
            weight = prod((each[1] * each[2] for each in chosen), start=np.ones((len(x), count)))
            total += x[tuple([batch, *(each[0] for each in chosen)])] * weight[..., None]
        np.copyto(out, total.reshape(out.shape), casting="unsafe")

    return step


@rule(RoiAlign, accepts=all_of(only(FLOATS), only(FLOATS, 1), only((DType.INT32, DType.INT64), 2)))
def roi_align(node: Node[RoiAlign]) -> Step:
    op, x, boxes, numbers, out = node.op, node.input(0), node.input(1), node.input(2), node.out

    def step() -> None:
        _expect_images(numbers, len(x), 2)
        if out.size and 0 in x.shape[1:3]:
            raise ExecutionError("input 0 has no elements to sample")
        placed = boxes.astype(np.float32) * np.float32(op.scale) - np.float32(0.5 if op.is_half_pixel else 0)
        for k, (left, top, right, bottom) in enumerate(placed):
            image, total = x[numbers[k]].astype(np.float64), np.zeros(out.shape[1:])
            (down, high), (across, wide) = (_along(op, *each) for each in (
                (op.rows, top, bottom, x.shape[1]), (op.columns, left, right, x.shape[2])))
            if op.is_max:
                total[high[:, None] & wide] = -np.inf
            for (row, one, cell), (column, other, beside) in product(down, across):
                weight = (one[:, None] * other)[..., None]
                combine.at(total, (cell[:, None], beside), image[row[:, None], column] * weight)
            np.copyto(out[k], total, casting="unsafe")

    combine = np.maximum if op.is_max else np.add
    return step


def _expect_images(numbers: Array, count: int, place: int) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise ExecutionError(f"input {place}: expected numbers of {count} images, found {wrong[0]}")


def _along(op: RoiAlign, cells: int, begin: np.float32, end: np.float32, length: int) -> tuple[Taps, Array]:
    """The elements before and behind each sample of a box along an axis, what they count, and the cell of each; and of
    each cell, whether it has samples, all of them inside."""
    span = end - begin if op.is_half_pixel else np.maximum(end - begin, np.float32(1))
    size = span / np.float32(cells)
    count, whole = np.float32(op.samples) if op.samples else np.ceil(size), np.zeros(cells, np.bool_)
    if not np.isfinite(begin) or not np.isfinite(size) or count < 1:
        return [], whole
    found, share_of = [], np.float32(1) if op.is_max else count
    for cell in range(cells):
        first = begin + np.float32(cell) * size
        numbers = np.arange(*_near(float(first), float(size / count), float(count), length), dtype=np.float32)
        places, ends = (first + (each + np.float32(0.5)) * size / count
                        for each in (numbers, np.array([0, count - 1], np.float32)))
        inside = np.clip(places[(places >= -1) & (places <= length)], 0, length - 1)
        found.append((np.floor(inside), inside - np.floor(inside), np.full(inside.shape, cell)))
        whole[cell] = ((ends >= -1) & (ends <= length)).all()
    low, share, cell_of = (np.concatenate(each) for each in zip(*found, strict=True))
    index = np.minimum(low.astype(np.int64), length - 1)  # a float32 may round a length up
    return [(index, (1 - share) / share_of, cell_of),
            (np.minimum(index + 1, length - 1), share / share_of, cell_of)], whole


def _near(first: float, step: float, count: float, length: int) -> tuple[float, float]:
    """The samples of a cell among which all are that may be inside, however large the box is."""
    if not step:
        return 0.0, count
    borders = sorted((edge - first) / step for edge in (-1.0, float(length)))
    return max(np.floor(borders[0]) - 1, 0.0), min(np.ceil(borders[1]) + 1, count)


_WHOLE = (DType.INT32, DType.INT64)


@rule(RegionMax, accepts=all_of(only(FLOATS), only(_WHOLE, 1), only(_WHOLE, 2), only(_WHOLE, 3)))
def region_max(node: Node[RegionMax]) -> Step:
    (x, numbers, rows, columns), out = (node.input(k) for k in range(4)), node.out

    def step() -> None:
        _expect_images(numbers, len(x), 1)
        down, across = (np.clip(each, 0, size) for each, size in zip((rows, columns), x.shape[1:3], strict=True))
        for box, row, column in np.ndindex(*out.shape[:3]):
            (top, bottom), (left, right) = down[box, row], across[box, column]
            cell = x[numbers[box], top:bottom, left:right]
            out[box, row, column] = cell.max((0, 1)) if cell.shape[0] and cell.shape[1] else 0

    return step
