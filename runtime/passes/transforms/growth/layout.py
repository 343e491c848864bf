"""Operators that move elements to places known from shapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather
from circlet.runtime.ops.layout import (
    Concatenation,
    Pack,
    Slice,
    Split,
    SplitV,
    StablehloConcatenate,
    StablehloTranspose,
    StridedSlice,
    Transpose,
    Unpack,
)
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads
from circlet.runtime.passes.transforms.loops.layout import like


@pads(Concatenation, StablehloConcatenate)
def concatenation(step: Step) -> None:
    """Where the axis is padded the rows are written behind those that there are."""
    op = step.op
    axis = step.axis(op.along) if isinstance(op, (Concatenation, StablehloConcatenate)) else 0
    first = step.state(0)
    if first is not None and axis in first.axes:
        _append(step, axis)
        return
    lengths, is_zero = _common(step)
    if axis in lengths:
        raise Refused(f"{step.operator.name} joins tensors that end at lengths")
    step.keep(Padded(lengths, is_zero))


def _common(step: Step) -> tuple[Mapping[int, Length], bool]:
    """The lengths that all operands have, and whether the elements beyond stay zero."""
    states = [each for each in step.states if each is not None]
    if len(states) != len(step.operator.inputs) or any(each.axes != states[0].axes for each in states):
        raise Refused(f"{step.operator.name} meets different lengths")
    return states[0].axes, all(each.is_zero for each in states) and _is_plain(step)


def _is_plain(step: Step) -> bool:
    """Whether elements move as they are."""
    quantizations = {tensor.quantization for tensor in
                     (step.output, *(step.tensor(k) for k in range(len(step.operator.inputs))))}
    activation = getattr(step.op, "fused_activation_function", Activation.NONE)
    return activation is Activation.NONE and len(quantizations) == 1


def _append(step: Step, axis: int) -> None:
    state, rows = step.padded(), range(1, len(step.operator.inputs))
    sizes = [step.signature(k)[axis] for k in rows]
    if -1 in sizes or len(state.axes) != 1 or not _is_plain(step):
        raise Refused(f"{step.operator.name} appends what has no known length")
    begin, rank = state.axes[axis], len(step.signature(0))

    def build(c: Callee) -> Value:
        made, place = c.given(), begin
        for k, size in zip(rows, sizes, strict=True):
            start = _starts(c.s, rank, axis, c.length(place))
            made = c.s.op(DynamicUpdateSlice(), made, c.given(k), start, outputs=[step.result("appended")])[0]
            place = place.plus(size)
        return made

    end = begin.plus(sum(sizes))
    step.padding.buffers.reserve(end)
    step.call(build, Padded({axis: end}, state.is_zero))


def _starts(s: SubgraphBuilder, rank: int, axis: int, place: Value) -> Value:
    """The place along an axis and 0 along the others, as a vector."""
    zero = s.constant(np.array(0, COUNTER.numpy))
    parts = [place if each == axis else zero for each in range(rank)]
    return s.op(Pack(rank), *parts, outputs=[Tensor("starts", COUNTER, (rank,))])[0]


@pads(Transpose, StablehloTranspose)
def transpose(step: Step) -> None:
    """The lengths move with their axes."""
    op, state = step.op, step.padded()
    order = op.permutation if isinstance(op, StablehloTranspose) else step.constant(1).reshape(-1).tolist()
    axes = [step.axis(each) for each in order]
    step.keep(state.along({axes.index(axis): length for axis, length in state.axes.items()}))


@pads(Slice)
def slice_(step: Step) -> None:
    """Axes with a length must stay whole."""
    state = step.padded()
    begin, size = (step.constant(k).reshape(-1).tolist() for k in (1, 2))
    if any((begin[axis], size[axis]) != (0, -1) for axis in state.axes):
        raise Refused("SLICE cuts what has no known length")
    step.keep(state)


@pads(StridedSlice)
def strided_slice(step: Step) -> None:
    """Axes with a length must stay whole, or give their last element."""
    op = step.op
    assert isinstance(op, StridedSlice)
    begin, _, strides = (step.constant(k).reshape(-1).tolist() for k in (1, 2, 3))
    plan = op.plan(len(step.signature(0)), len(begin))
    state = step.padded()
    lengths: dict[int, Length] = {}
    last: list[int] = []
    place = 0
    for axis, entry in plan:
        is_dropped = bool(entry is not None and axis is not None and op.shrink_axis_mask >> entry & 1)
        if axis is not None and axis in state.axes:
            if entry is None or ((op.begin_mask & op.end_mask) >> entry & 1 and strides[entry] == 1 and not is_dropped):
                lengths[place] = state.axes[axis]
            elif begin[entry] == -1 and strides[entry] == 1 and not op.begin_mask >> entry & 1 and (
                    is_dropped or op.end_mask >> entry & 1) and not op.offset:
                last.append(axis)
            else:
                raise Refused("STRIDED_SLICE cuts what has no known length")
        place += not is_dropped
    result = Padded(lengths, state.is_zero) if lengths else None
    if last:
        _last(step, state, last, result)
    else:
        step.keep(result)


def _last(step: Step, state: Padded, axes: list[int], result: Padded | None) -> None:
    """The same slice of the last elements along some axes."""
    if any(step.padding.buffers.at_least(state.axes[axis]) < 1 for axis in axes):
        raise Refused("STRIDED_SLICE takes the last element of what may have none")

    def build(c: Callee) -> Value:
        x = c.given()
        for axis in axes:
            place = c.length(state.axes[axis].plus(-1))
            one = c.s.constant(np.array([1], np.int32))
            vector = c.s.op(Reshape(), place, one, outputs=[Tensor("last", COUNTER, (1,))])[0]
            x = c.s.op(Gather(axis), x, vector, outputs=[like(step.tensor(0), "last")])[0]
        return c.s.op(step.op, x, *c.rest(1), outputs=[step.result("element")])[0]

    step.call(build, result)


@pads(Split)
def split(step: Step) -> None:
    """Along an axis without a length."""
    _split(step, step.padded(1), step.axis(int(step.constant(0).item()), 1))


@pads(SplitV)
def split_v(step: Step) -> None:
    """Along an axis without a length."""
    _split(step, step.padded(), step.axis(int(step.constant(2).item())))


def _split(step: Step, state: Padded, axis: int) -> None:
    if axis in state.axes:
        raise Refused(f"{step.operator.name} cuts what has no known length")
    step.keep(*[state] * len(step.operator.outputs))


@pads(Unpack)
def unpack(step: Step) -> None:
    """Along an axis without a length."""
    op = step.op
    assert isinstance(op, Unpack)
    state, axis = step.padded(), step.axis(op.axis)
    if axis in state.axes:
        raise Refused("UNPACK cuts what has no known length")
    moved = {each - (each > axis): length for each, length in state.axes.items()}
    step.keep(*[state.along(moved)] * len(step.operator.outputs))


@pads(Pack)
def pack(step: Step) -> None:
    """Tensors of the same lengths."""
    op = step.op
    assert isinstance(op, Pack)
    lengths, is_zero = _common(step)
    axis = op.axis % (len(step.signature(0)) + 1)
    step.keep(Padded({each + (each >= axis): length for each, length in lengths.items()}, is_zero))
