"""Operators about shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import SelectV2
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import ExpandDims, Reshape, ShapeOf, Squeeze
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, Step, pads
from circlet.runtime.passes.transforms.loops.layout import like

Dims: TypeAlias = "Sequence[int | Length]"


@pads(ShapeOf)
def shape_of(step: Step) -> None:
    """The lengths take the places of what buffers are long."""
    state, signature = step.padded(), step.signature(0)
    dims = np.array([state.axes.get(axis, size) for axis, size in enumerate(signature)], object)
    if -1 in dims.tolist():
        dims[dims == -1] = None
    step.padding.values[step.operator.outputs[0]] = dims

    def build(c: Callee) -> Value:
        found = c.s.op(step.op, c.given(), outputs=[like(step.output, "shape")])[0]
        for axis, wanted in state.axes.items():
            here = c.s.constant(np.arange(len(signature)) == axis, DType.BOOL)
            count = c.s.op(Cast(COUNTER, step.output.dtype), c.length(wanted),
                         outputs=[Tensor("length", step.output.dtype, ())])[0]
            found = c.s.op(SelectV2(), here, count, found, outputs=[like(step.output, "shape")])[0]
        return found

    step.call(build)


@pads(Reshape)
def reshape(step: Step) -> None:
    """Axes with a length must stay what they are, before and behind as many elements."""
    op = step.op
    assert isinstance(op, Reshape)
    state = step.state(0)
    if state is None:
        raise Refused("RESHAPE of a tensor to a length")
    source: Dims = [state.axes.get(axis, size) for axis, size in enumerate(step.signature(0))]
    wanted = _target(step)
    places = {_matching(source, axis, wanted): length for axis, length in state.axes.items()}
    if len(places) != 1:
        raise Refused("RESHAPE of several lengths")
    (place,) = places
    sizes = [-1 if axis == place else size for axis, size in enumerate(wanted)]
    shape = np.array(sizes, np.int32)
    shape.setflags(write=False)
    target = step.padding.add(Tensor("shape", DType.INT32, shape.shape, data=shape))
    step.put(replace(step.operator, op=Reshape(), inputs=(step.operator.inputs[0], target)), state.along(places))


def _target(step: Step) -> list[int | Length]:
    op = step.op
    assert isinstance(op, Reshape)
    if not step.has(1):
        return list(op.new_shape)
    found = step.value(1)
    if found is None or any(each is None for each in found.reshape(-1).tolist()):
        raise Refused("RESHAPE to a shape that is not known")
    return list(found.reshape(-1).tolist())


def _matching(source: Dims, axis: int, target: Dims) -> int:
    """The axis of a target shape that an axis with a length becomes."""
    before, behind = (_product(each) for each in (source[:axis], source[axis + 1:]))
    for place, size in enumerate(target):
        if size in (source[axis], -1) and (_product(target[:place]), _product(target[place + 1:])) == (before, behind):
            return place
    raise Refused(f"RESHAPE of {list(source)} to {list(target)}")


def _product(dims: Dims) -> int:
    numbers = [each for each in dims if isinstance(each, int)]
    if len(numbers) != len(dims) or min(numbers, default=0) < 0:
        raise Refused("RESHAPE of several lengths")
    return prod(numbers)


@pads(ExpandDims)
def expand_dims(step: Step) -> None:
    """Another axis, of size 1."""
    state = step.padded()
    axis = int(step.constant(1).item()) % (len(step.signature(0)) + 1)
    step.keep(state.along({each + (each >= axis): length for each, length in state.axes.items()}))


@pads(Squeeze)
def squeeze(step: Step) -> None:
    """Axes that are named, none of which has a length."""
    op = step.op
    assert isinstance(op, Squeeze)
    state = step.padded()
    removed = {step.axis(each) for each in op.squeeze_dims}
    if not removed or removed & set(state.axes):
        raise Refused("SQUEEZE may remove what has no known length")
    step.keep(state.along({axis - sum(each < axis for each in removed): length
                           for axis, length in state.axes.items()}))
