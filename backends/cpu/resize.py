"""Numpy rules that resize images."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic.fixed_point import shift_right
from circlet.backends.arithmetic.interpolation import (
    FRACTION_BITS,
    Neighbours,
    fixed_point_neighbours,
    nearest,
    neighbours,
)
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import guarded
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import FLOATS, INTEGERS, QUANTIZABLE, Array, DType
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor


@rule(ResizeNearestNeighbor, accepts=INTEGERS | FLOATS | {DType.BOOL})
def resize_nearest_neighbor(node: Node[ResizeNearestNeighbor]) -> Step:
    source, out = node.input(0), node.out
    rows, columns = (nearest(node.op, source.shape[axis], out.shape[axis]) for axis in (1, 2))
    tall: Array = np.empty((*out.shape[:2], *source.shape[2:]), source.dtype)
    return guarded(node, (1,), _take(source, rows, 1, tall), _take(tall, columns, 2, out))


@rule(ResizeBilinear, accepts={DType.FLOAT32} | QUANTIZABLE)
def resize_bilinear(node: Node[ResizeBilinear]) -> Step:
    """Weights are float32 numbers where the elements are float32 or uint8, integers where they are signed."""
    source, out = node.input(0), node.out
    signed = out.dtype.kind == "i"
    find = fixed_point_neighbours if signed else neighbours
    tall, wide = (find(node.op, source.shape[axis], out.shape[axis]) for axis in (1, 2))
    steps: list[Step] = []
    if out.dtype != tall.lower_weights.dtype:
        given: Array = np.empty(source.shape, tall.lower_weights.dtype)
        steps.append(partial(np.copyto, given, source))
        source = given
    total: Array = out if out.dtype == source.dtype else np.empty(out.shape, source.dtype)
    steps += _interpolate(source, tall, wide, total)
    if total is not out:
        steps.append(partial(_store_fixed_point if signed else _store_half_up, total, out))
    return guarded(node, (1,), *steps)


def _interpolate(source: Array, tall: Neighbours, wide: Neighbours, total: Array) -> list[Step]:
    """The sum of four products, added up in the order that the format's reference kernels round in."""
    rows = (*source.shape[:1], *total.shape[1:2], *source.shape[2:])
    upper, lower, term = np.empty(rows, source.dtype), np.empty(rows, source.dtype), np.empty_like(total)
    steps: list[Step] = []
    for indices, weights, row in ((tall.lower, tall.lower_weights, upper), (tall.upper, tall.upper_weights, lower)):
        steps += [_take(source, indices, 1, row), partial(np.multiply, row, weights[:, None, None], row)]
    steps.append(partial(total.fill, 0))
    for indices, weights in ((wide.lower, wide.lower_weights), (wide.upper, wide.upper_weights)):
        for row in (upper, lower):
            steps += [_take(row, indices, 2, term), partial(np.multiply, term, weights[:, None], term),
                      partial(np.add, total, term, total)]
    return steps


def _take(source: Array, indices: npt.NDArray[np.intp], axis: int, out: Array) -> Step:
    return partial(np.take, source, indices, axis, out, "clip")


def _store_half_up(values: Array, out: Array) -> None:
    """Rounds values that are not negative, halves up."""
    np.copyto(out, values + np.float32(0.5), casting="unsafe")


def _store_fixed_point(values: Array, out: Array) -> None:
    """Drops the fraction bits of a product of two weights."""
    np.copyto(out, shift_right(values, 2 * FRACTION_BITS), casting="unsafe")
