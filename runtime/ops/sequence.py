"""Operators on sequences and optionals: tensors of type VARIANT and no dimensions that hold other tensors.

No flatbuffer format has them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlet.runtime.ir.held import Held
from circlet.runtime.ir.op import Count, Op, Operand, Operands, ShapeError, at_least, between, exactly
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.operands import normalize_axis, scalar
from circlet.runtime.records import dataclass

NO_VALUE = "expected an optional that has a value, found an empty one"
"""The error of reading one that has none."""


def _expect_holder(operand: Operand, name: str = "input 0") -> None:
    if operand.dtype is not DType.VARIANT or operand.shape != ():
        raise ShapeError(f"{name}: expected a sequence or an optional, found {operand.dtype.value} of shape "
                         f"{operand.shape}")


def held(value: Array) -> Held:
    """What a tensor holds.

    Raises:
        ShapeError: it is an optional that is not there.
    """
    found = value.item()
    if not isinstance(found, Held):
        raise ShapeError(NO_VALUE)
    return found


def arrays(value: Array) -> list[Array]:
    """The tensors of a sequence."""
    return [each for each in held(value).items if not isinstance(each, Held)]


def place(position: int, length: int, more: int = 0) -> int:
    """A position in a sequence, which may count from the end, counted from the front.

    Raises:
        ShapeError: there is no such position.
    """
    if not -length <= position < length + more:
        raise ShapeError(f"position: expected {-length} to {length + more - 1} for {length} elements, found {position}")
    return position + length if position < 0 else position


def cuts(length: int, lengths: Array) -> list[int]:
    """Where an axis is cut into pieces of one length, the last one shorter, or of several lengths.

    Raises:
        ShapeError: the lengths do not fit.
    """
    if lengths.ndim == 0:
        if lengths.item() < 1:
            raise ShapeError(f"split: expected a length of at least 1, found {lengths.item()}")
        return list(range(lengths.item(), length, lengths.item()))
    ends: list[int] = np.cumsum(lengths).tolist()
    if lengths.size == 0 or lengths.min() < 0 or ends[-1] != length:
        raise ShapeError(f"split: expected lengths that sum to {length}, found {lengths.tolist()}")
    return ends[:-1]


@dataclass(frozen=True)
class Holder(Op):
    """Base of the operators that give a sequence or an optional."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.VARIANT,)


@dataclass(frozen=True)
class SequenceConstruct(Holder):
    """The sequence of the inputs."""

    name: ClassVar[str] = "SEQUENCE_CONSTRUCT"
    inputs: ClassVar[Count] = at_least(0)


@dataclass(frozen=True)
class SequenceInsert(Holder):
    """A sequence with input 1 inserted before position `input 2`, at the end without one."""

    name: ClassVar[str] = "SEQUENCE_INSERT"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        return ((),)


@dataclass(frozen=True)
class SequenceErase(Holder):
    """A sequence without the element at position `input 1`, the last one without a position."""

    name: ClassVar[str] = "SEQUENCE_ERASE"
    inputs: ClassVar[Count] = between(1, 2)
    optional: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        return ((),)


@dataclass(frozen=True)
class SequenceAt(Op):
    """The element of a sequence at position `input 1`."""

    name: ClassVar[str] = "SEQUENCE_AT"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        found = arrays(args[0].value)
        return (found[place(scalar(args[1], "position"), len(found))].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class SequenceLength(Op):
    """The number of elements of a sequence, an int64 scalar."""

    name: ClassVar[str] = "SEQUENCE_LENGTH"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)


@dataclass(frozen=True)
class SequenceConcat(Op):
    """The elements of a sequence joined along an axis, or stacked along a new one."""

    name: ClassVar[str] = "SEQUENCE_CONCAT"
    axis: int = 0
    new_axis: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        shapes = [each.shape for each in arrays(args[0].value)]
        if not shapes:
            raise ShapeError("expected a sequence with elements, found none")
        axis = normalize_axis(self.axis, len(shapes[0]) + self.new_axis)
        rest = {(*each[:axis], *each[axis + (not self.new_axis):]) for each in shapes}
        if len(rest) != 1 or len({len(each) for each in shapes}) != 1:
            raise ShapeError(f"cannot join elements of shapes {', '.join(map(str, shapes))} along axis {axis}")
        (others,) = rest
        length = len(shapes) if self.new_axis else sum(each[axis] for each in shapes)
        return ((*others[:axis], length, *others[axis:]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class SequenceSplit(Holder):
    """Input 0 cut along an axis: into pieces of the length that input 1 gives, or of the lengths.

    If it gives one length, the last piece may be shorter.
    """

    name: ClassVar[str] = "SEQUENCE_SPLIT"
    inputs: ClassVar[Count] = exactly(2)
    axis: int = 0
    keep_axis: bool = True
    """Whether the pieces, if they have length 1, keep the axis."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        normalize_axis(self.axis, args[0].rank)
        return ((),)


@dataclass(frozen=True)
class OptionalOf(Holder):
    """An optional: empty without an input, otherwise of the tensor in it."""

    name: ClassVar[str] = "OPTIONAL"
    inputs: ClassVar[Count] = between(0, 1)


@dataclass(frozen=True)
class OptionalGetElement(Op):
    """The tensor in an optional that has one."""

    name: ClassVar[str] = "OPTIONAL_GET_ELEMENT"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        return (arrays(args[0].value)[0].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class OptionalHasElement(Op):
    """Whether an optional has a value, a boolean scalar."""

    name: ClassVar[str] = "OPTIONAL_HAS_ELEMENT"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        _expect_holder(args[0])
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.BOOL,)
