"""Operators of which each element depends on the elements at its place."""

from __future__ import annotations

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import FLOATS
from circlet.runtime.ops import elementwise as ops
from circlet.runtime.ops.comparison import Select
from circlet.runtime.ops.quantize import Cast, Dequantize, Quantize, StablehloConvert
from circlet.runtime.ops.registry import OPERATORS
from circlet.runtime.ops.shape import Alias
from circlet.runtime.ops.unary import Unary
from circlet.runtime.passes.transforms.growth.state import Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.step import Step, pads

_MAY_FAIL = (ops.Div, ops.FloorDiv, ops.FloorMod, ops.Pow, ops.StablehloDivide, ops.StablehloRemainder,
             ops.StablehloPower)
"""On integers, which what lies beyond a length must not make them do."""


def aligned(step: Step, positions: range) -> dict[int, Length]:
    """The lengths of operands that broadcast, by axes counted from the end."""
    found: dict[int, Length] = {}
    for k in positions:
        state, rank = step.state(k), len(step.signature(k))
        for axis, length in state.axes.items() if state else ():
            if found.setdefault(rank - axis, length) != length:
                raise Refused(f"{step.operator.name} meets different lengths")
    for k in positions:
        state, signature = step.state(k), step.signature(k)
        for back in found:
            axis = len(signature) - back
            if axis >= 0 and signature[axis] != 1 and (state is None or axis not in state.axes):
                raise Refused(f"{step.operator.name} meets a padded tensor and one of its own length")
    return found


def is_elementwise(op: Op) -> bool:
    """Whether an operator without a rule of its own has that of those that work element by element."""
    return op.elementwise and (op.name in OPERATORS or isinstance(op, Unary))


@pads(Alias, Cast, StablehloConvert, Quantize, Dequantize)
def elementwise(step: Step) -> None:
    """The elements keep their places."""
    rank = len(step.output.signature)
    lengths = aligned(step, range(len(step.operator.inputs)))
    step.keep(Padded({rank - back: length for back, length in lengths.items()}) if lengths else None)


@pads(*_MAY_FAIL)
def division(step: Step) -> None:
    """Of floats, which never fails."""
    if step.output.dtype not in FLOATS:
        raise Refused(f"{step.operator.name} of integers may fail")
    elementwise(step)


@pads(Select)
def select(step: Step) -> None:
    """A condition of rank 1 may choose rows."""
    if len({len(step.signature(k)) for k in range(3)}) != 1:
        raise Refused("SELECT chooses rows")
    elementwise(step)
