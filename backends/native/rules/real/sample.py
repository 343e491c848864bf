"""Native rule of sampling at places that a tensor names."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.whole import Whole, both, either
from circlet.backends.native.rules.moving.move import expect
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.ops.sample import GridSample, Outside

_MOST_AXES = 3
"""Axes that can be sampled along: a choice, which bounds the code, as up to 64 products are written out."""
_CUBIC = -0.75
"""The parameter of Keys' cubic convolution, as ONNX has it."""

_Tap: TypeAlias = "tuple[ir.Value, Lanes]"
"""The index of an element along an axis, and its weight, a double."""


def _many_axes(call: Call) -> str | None:
    """Refuses more axes than `_MOST_AXES`, as declared."""
    axes = len(call.input(0).shape) - 2
    return None if axes <= _MOST_AXES else f"{axes} axes (supported: up to {_MOST_AXES})"


@nest(GridSample, all_of(plain, only((DType.FLOAT32,)), only((DType.FLOAT32,), 1), _many_axes), frozenset({0}))
def grid_sample(node: Node[GridSample], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n, *spatial, c) and places (n, *places, k), float32: (n, *places, c). Loops over images and places, shared
    out, find which elements are read and their weights, as doubles; one over channels adds up."""
    x, grid = node.input(0), node.input(1)
    sizes, channels = x.shape[1:-1], x.shape[-1]
    expect_elements(node, sizes)
    with parallel_nest(e, node.shape[:-1], 16 * prod(node.shape)) as (image, *at):
        taps = []
        for axis, size in enumerate(sizes):
            place = grid.element(e, [image, *at, e.number(len(sizes) - 1 - axis)])
            taps.append(_taps(node.op, Lanes(e, place).widen(DOUBLE), Lanes(e, e.number(size)).to_real(DOUBLE)))
        chosen = [([position for position, _ in each], reduce(Lanes.__mul__, [weight for _, weight in each]))
                  for each in product(*taps)]
        single = [(places, weight.narrow(SINGLE).value) for places, weight in chosen]
        with independent(e, channels) as channel:
            total = e.constant(0, DType.FLOAT32)
            for places, weight in single:
                total = e.intrinsic("fmuladd", x.element(e, [image, *places, channel]), weight, total)
            sinks[0](e, [image, *at, channel], total)


def expect_elements(node: Node[Any], sizes: Shape) -> None:
    """Leaves the function where there is something to compute of images without elements."""
    e = node.function.e
    is_blank = Whole(e, prod(node.shape)).compare("==", 0)
    is_filled = reduce(lambda one, other: both(e, one, other), [Whole(e, size).compare(">", 0) for size in sizes])
    expect(node, either(e, is_blank, is_filled), "input 0 has no elements to sample")


def _taps(op: GridSample, place: Lanes, length: Lanes) -> list[_Tap]:
    """What a place along an axis of a length reads, both doubles: as `backends/cpu/sample.py` has it."""
    last = length - 1.0
    if op.nan_is_first:
        place = place.equals(place).where(place, -1.0)
    if op.align_corners:
        low, high = length.constant(0.0), last
        x = (place + 1.0) / 2.0 * last
    else:
        low, high = length.constant(-0.5), length - 0.5
        x = ((place + 1.0) * length - 1.0) / 2.0
    x = place if op.is_index else x
    if op.interpolation is Interpolation.NEAREST:
        x = x.unary("rint")
    if op.is_cut_off:
        x = _is_outside(x, low, high).where(_clipped(x, last), x)
    elif op.outside is Outside.REFLECTION:
        x = _is_outside(x, low, high).where(_reflected(x, low, high), x)
    base = x.unary("floor")
    return [_tap(op, base + float(step), weight, (low, high), length) for step, weight in _weights(op, x - base)]


def _is_outside(x: Lanes, low: Lanes, high: Lanes) -> Lanes:
    """Whether a coordinate is not between two borders; false of NaN."""
    return (x < low) | (x > high)


def _clipped(x: Lanes, last: Lanes) -> Lanes:
    """The nearest number from 0 to `last`, 0 of NaN."""
    positive = (x > 0.0).where(x, 0.0)
    return (positive < last).where(positive, last)


def _reflected(x: Lanes, low: Lanes, high: Lanes) -> Lanes:
    """A coordinate mirrored at two borders until it lies between them."""
    span = high - low
    away = x - low
    within = away - (away / (span * 2.0)).unary("floor") * (span * 2.0)
    return low + (span > 0.0).where((within > span).where(span * 2.0 - within, within), 0.0)


def _tap(op: GridSample, index: Lanes, weight: Lanes, borders: tuple[Lanes, Lanes], length: Lanes) -> _Tap:
    """An element, at a whole number, and what it counts: nothing where there is none, if zeros are outside."""
    e = index.e
    is_inside = Lanes(e, e.builder.and_((index >= 0.0).value, (index < length).value))
    if op.outside is Outside.REFLECTION:
        index = _is_outside(index, *borders).where(_reflected(index, *borders).unary("trunc"), index)
    elif op.outside is Outside.ZEROS:
        weight = is_inside.where(weight, weight * 0.0)
    return e.builder.fptosi(_clipped(index, length - 1.0).value, e.index), weight


def _weights(op: GridSample, rest: Lanes) -> list[tuple[int, Lanes]]:
    """How far from the element at or before a place the elements lie that it reads, and what they count."""
    if op.interpolation is Interpolation.NEAREST:
        return [(0, rest.constant(1.0))]
    if op.interpolation is Interpolation.LINEAR:
        return [(0, -rest + 1.0), (1, rest)]
    return [(step, _cubic((rest - float(step)).unary("fabs"), step in (0, 1))) for step in range(-1, 3)]


def _cubic(x: Lanes, is_near: bool) -> Lanes:
    """What an element at a distance counts, which is at most 1 or, further, at most 2 (Keys 1981)."""
    if is_near:
        return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1.0
    return ((x * _CUBIC - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC
