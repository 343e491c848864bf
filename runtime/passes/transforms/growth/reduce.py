"""Operators that combine the elements along axes: those beyond a length become ones that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import FLOATS, DType
from circlet.runtime.ops import reduce as ops
from circlet.runtime.ops.elementwise import Div, Mul
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.passes.transforms.growth.masks import expect_plain, greatest, least, masked
from circlet.runtime.passes.transforms.growth.state import COUNTER, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads
from circlet.runtime.passes.transforms.loops.layout import scalar

Neutral: TypeAlias = Callable[[DType], float]
_NEUTRAL: dict[type[ops.Reduction], Neutral] = {
    ops.Sum: lambda _: 0, ops.Mean: lambda _: 0, ops.ReduceProd: lambda _: 1, ops.ReduceAny: lambda _: 0,
    ops.ReduceAll: lambda _: 1, ops.ReduceMax: least, ops.ReduceMin: greatest,
}
"""The element that changes no result, of a type."""
_NEVER_EMPTY = (ops.ReduceMax, ops.ReduceMin, ops.Mean, ops.ArgMax, ops.ArgMin)
"""What these make of nothing is not what they make of neutral elements."""


@pads(*_NEUTRAL)
def reduction(step: Step) -> None:
    """Lengths along other axes stay."""
    op = step.op
    assert isinstance(op, ops.Reduction)
    axes = ops.reduced_axes(step.constant(1), len(step.signature(0)))
    state, kept = step.padded(), op.keep_dims
    left = {axis if kept else axis - sum(each < axis for each in axes): length
            for axis, length in state.axes.items() if axis not in axes}
    cut = [axis for axis in axes if axis in state.axes]
    result = Padded(left) if left else None
    if not cut:
        step.keep(result)
        return
    _expect_maskable(step, state, cut)
    if isinstance(op, ops.Mean):
        _mean(step, op, state, axes, result)
    else:
        _masked(step, cut, _NEUTRAL[type(op)](step.tensor(0).dtype), result)


def _expect_maskable(step: Step, state: Padded, axes: Sequence[int]) -> None:
    expect_plain(step.tensor(0))
    if isinstance(step.op, _NEVER_EMPTY) and any(
            step.padding.buffers.at_least(state.axes[axis]) < 1 for axis in axes):
        raise Refused(f"{step.operator.name} of what may have no elements")


def _masked(step: Step, axes: Sequence[int], fill: float, result: Padded | None) -> None:
    def build(c: Callee) -> Value:
        x = masked(c, 0, axes, fill)
        return c.s.op(step.op, x, *c.rest(1), outputs=[step.result("reduced")])[0]

    step.call(build, result)


def _mean(step: Step, op: ops.Mean, state: Padded, axes: Sequence[int], result: Padded | None) -> None:
    """The sum, divided by how many elements there are."""
    dtype, signature = step.tensor(0).dtype, step.signature(0)
    others = prod(signature[axis] for axis in axes if axis not in state.axes)
    cut = [axis for axis in axes if axis in state.axes]
    if dtype not in FLOATS or any(signature[axis] < 0 for axis in axes if axis not in cut):
        raise Refused("MEAN over axes of unknown size")

    def build(c: Callee) -> Value:
        s, x = c.s, masked(c, 0, cut, 0)
        total = s.op(ops.Sum(op.keep_dims), x, c.given(1), outputs=[step.result("sum")])[0]
        count = s.constant(np.array(others, dtype.numpy), dtype)
        for axis in cut:
            size = s.op(Cast(COUNTER, dtype), c.length(state.axes[axis]), outputs=[scalar("size", dtype)])[0]
            count = s.op(Mul(), count, size, outputs=[Tensor("count", dtype, ())])[0]
        return s.op(Div(), total, count, outputs=[step.result("mean")])[0]

    step.call(build, result)


@pads(ops.ArgMax, ops.ArgMin)
def arg(step: Step) -> None:
    """Ties go to the first element, which is within the length."""
    state, axis = step.padded(), step.axis(int(step.constant(1).item()))
    left = {each - (each > axis): length for each, length in state.axes.items() if each != axis}
    result = Padded(left) if left else None
    if axis not in state.axes:
        step.keep(result)
        return
    _expect_maskable(step, state, [axis])
    fill = least if isinstance(step.op, ops.ArgMax) else greatest
    _masked(step, [axis], fill(step.tensor(0).dtype), result)
