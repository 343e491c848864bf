"""Tensors as long as an operand says, where that is a length: they are made as long as buffers are."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less, SelectV2
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Pack, Slice, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import BroadcastTo, Fill, Range
from circlet.runtime.passes.transforms.growth.arithmetic import numbers
from circlet.runtime.passes.transforms.growth.masks import places
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, makes
from circlet.runtime.passes.transforms.loops.layout import scalar


@makes(Range)
def range_(step: Step) -> None:
    """0, 1, 2, ... up to a length."""
    start, limit, delta = (step.value(k) for k in range(3))
    length = None if limit is None else limit.item()
    if start is None or delta is None or (start.item(), delta.item()) != (0, 1) or not isinstance(length, Length):
        raise Refused("RANGE that does not count up to a length")

    def build(c: Callee) -> Value:
        found = places(c.s, c.room(length.group))
        return c.s.op(Cast(COUNTER, step.output.dtype), found, outputs=[step.result("places")])[0]

    step.call(build, Padded({0: length}))


@makes(Fill)
def fill(step: Step) -> None:
    """One number everywhere."""
    _shaped(step, 0)


@makes(BroadcastTo)
def broadcast_to(step: Step) -> None:
    """A tensor repeated along lengths."""
    dims = _dims(step, 1)
    signature = step.signature(0)
    for axis, size in enumerate(dims[len(dims) - len(signature):]):
        if isinstance(size, Length) and signature[axis] != 1:
            raise Refused("BROADCAST_TO of a tensor of its own length")
    _shaped(step, 1)


def _dims(step: Step, position: int) -> list[int | Length]:
    value = step.value(position)
    found = [] if value is None else value.reshape(-1).tolist()
    if value is None or any(each is None or each == -1 for each in found):
        raise Refused(f"{step.operator.name} to a shape that is not known")
    return found


def _shaped(step: Step, position: int) -> None:
    """The operator with buffers' lengths in its shape, input `position`."""
    dims, dtype = _dims(step, position), step.tensor(position).dtype

    def build(c: Callee) -> Value:
        sizes = [c.s.op(Cast(COUNTER, dtype), c.room(each.group), outputs=[scalar("size", dtype)])[0]
                 if isinstance(each, Length) else c.s.constant(np.array(each, dtype.numpy)) for each in dims]
        shape = c.s.op(Pack(len(sizes)), *sizes, outputs=[Tensor("shape", dtype, (len(sizes),))])[0]
        operands = [shape if k == position else c.given(k) for k in range(2)]
        return c.s.op(step.op, *operands, outputs=[step.result("made")])[0]

    step.call(build, Padded({axis: each for axis, each in enumerate(dims) if isinstance(each, Length)}))


@makes(Slice)
def slice_(step: Step) -> None:
    """The first elements of a tensor, or numbers of a shape."""
    if _is_shape(step):
        step.follow()
        return
    begin, size = (_dims_or_rest(step, k) for k in (1, 2))
    lengths = {axis: each for axis, each in enumerate(size) if isinstance(each, Length)}
    rest = [(first, count) for axis, (first, count) in enumerate(zip(begin, size, strict=True)) if axis not in lengths]
    if any(begin[axis] != 0 for axis in lengths) or any(each != (0, -1) for each in rest):
        raise Refused("SLICE of more than the first elements")
    _first(step, lengths)


def _is_shape(step: Step) -> bool:
    """Whether operand 0 holds numbers of which some are lengths."""
    return step.value(0) is not None and not step.tensor(0).is_constant


def _dims_or_rest(step: Step, position: int) -> list[int | Length | None]:
    value = step.value(position)
    if value is None:
        raise Refused(f"{step.operator.name} of parts that are not known")
    return list(value.reshape(-1).tolist())


@makes(StridedSlice)
def strided_slice(step: Step) -> None:
    """The first elements of a tensor, or numbers of a shape."""
    if _is_shape(step):
        step.follow()
        return
    op = step.op
    assert isinstance(op, StridedSlice)
    begin, end = (_dims_or_rest(step, k) for k in (1, 2))
    strides = numbers(step.constant(3).astype(object))
    lengths: dict[int, Length] = {}
    for axis, entry in op.plan(len(step.signature(0)), len(begin)):
        if axis is None or entry is None:
            if axis is None:
                raise Refused("STRIDED_SLICE adds axes")
            continue
        masks = [each >> entry & 1 for each in (op.begin_mask, op.end_mask, op.shrink_axis_mask)]
        found = end[entry]
        if strides[entry] != 1 or masks[2] or op.offset or not (masks[0] or begin[entry] == 0):
            raise Refused("STRIDED_SLICE of more than the first elements")
        if not masks[1]:
            if not isinstance(found, Length):
                raise Refused("STRIDED_SLICE of more than the first elements")
            lengths[axis] = found
    _first(step, lengths)


def _first(step: Step, lengths: dict[int, Length]) -> None:
    """The elements before a length along an axis, and any others behind; too great a length is an index out of
    range."""
    if len(lengths) != 1 or min(step.signature(0)[axis] for axis in lengths) < 1:
        raise Refused(f"{step.operator.name} along several lengths, or of what may be empty")
    ((axis, length),) = lengths.items()

    def build(c: Callee) -> Value:
        s, wide = c.s, Tensor("places", COUNTER, (1,), (-1,))
        found, zero = places(s, c.room(length.group)), s.constant(np.array(0, COUNTER.numpy))
        inside = s.op(Less(), found, c.length(length), outputs=[Tensor("inside", DType.BOOL, (1,), (-1,))])[0]
        chosen = s.op(SelectV2(), inside, found, zero, outputs=[wide])[0]
        return s.op(Gather(axis), c.given(), chosen, outputs=[step.result("first")])[0]

    step.call(build, Padded({axis: length}))
