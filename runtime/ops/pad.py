"""Operators that enlarge a tensor: by padding, between its elements, or by repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from itertools import starmap
from typing import ClassVar, TypeAlias

from circlet.runtime.ir.length import is_known, is_late, larger, may_differ
from circlet.runtime.ir.op import Count, Op, Operand, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import expect_one, late, vector
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

Paddings: TypeAlias = Sequence[tuple[int, int]]
"""How many elements to add before and after each axis."""


def paddings(operand: Operand, shape: Shape) -> Paddings:
    """The value of a (rank, 2) parameter for a tensor of `shape`. Of counts that a run computes it says when one is
    negative.

    Raises:
        Unknown: only a run can tell.
        ShapeError: it has another shape, or a padding is negative.
    """
    if operand.shape != (len(shape), 2):
        raise ShapeError(f"paddings: expected shape {(len(shape), 2)}, found {operand.shape}")
    found = [(before, after) for before, after in operand.value.tolist()]
    if any(not is_late(each) and each < 0 for both in found for each in both):
        raise ShapeError(f"paddings: expected counts that are not negative, found {found}")
    return found


def padded(shape: Shape, amounts: Paddings) -> Shape:
    """`shape` enlarged by paddings."""
    return tuple(before + size + after for size, (before, after) in zip(shape, amounts, strict=True))


@operator
@dataclass(frozen=True)
class Pad(Op):
    """Surrounds a tensor by zeros (quantised: by the output's zero point), as many as input 1 (rank, 2) says."""

    name: ClassVar[str] = "PAD"
    table: ClassVar[str | None] = "PadOptions"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (padded(args[0].shape, paddings(args[1], args[0].shape)),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (late(args[0].rank, computed),)


@operator
@dataclass(frozen=True)
class PadV2(Pad):
    """Surrounds a tensor by the value in input 2."""

    name: ClassVar[str] = "PADV2"
    table: ClassVar[str | None] = "PadV2Options"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_one(args[2], "padding value")
        return super().infer(args)


class MirrorPadMode(IntEnum):
    """Where the mirror lies; numbers are the schema's."""

    REFLECT = 0
    """On the outermost element, which is not repeated."""
    SYMMETRIC = 1
    """Behind the outermost element, which is repeated."""


@operator
@dataclass(frozen=True)
class MirrorPad(Op):
    """Surrounds a tensor by its mirror images, as many elements as input 1 (rank, 2) says."""

    name: ClassVar[str] = "MIRROR_PAD"
    table: ClassVar[str | None] = "MirrorPadOptions"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    mode: MirrorPadMode = MirrorPadMode.REFLECT

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        amounts = paddings(args[1], shape)
        for axis, (size, both) in enumerate(zip(shape, amounts, strict=True)):
            most = size - (self.mode == MirrorPadMode.REFLECT)
            if any(each > larger(most, 0) for each in both):
                raise ShapeError(f"paddings: expected at most {most} for axis {axis} of {shape}, found {both}")
        return (padded(shape, amounts),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        """Where only the run tells whether the input is long enough, which it says if it is not."""
        return (padded(args[0].shape, paddings(args[1], args[0].shape)),)


class Continuation(Enum):
    """What lies beyond the ends of an axis."""

    EDGE = "edge"
    """The outermost element, again and again."""
    REFLECT = "reflect"
    """Mirror images, the outermost elements being the mirrors, which are not repeated."""
    WRAP = "wrap"
    """The axis again."""


@dataclass(frozen=True)
class ContinuedPad(Op):
    """Goes on with a tensor beyond its ends, by as many elements as input 1 (rank, 2) says for each axis, however many
    there are; a negative one cuts. ONNX's Pad-18 but for constants; no flatbuffer format has the operator."""

    name: ClassVar[str] = "CONTINUED_PAD"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    continuation: Continuation

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        if args[1].shape != (len(shape), 2):
            raise ShapeError(f"paddings: expected shape {(len(shape), 2)}, found {args[1].shape}")
        amounts = [(before, after) for before, after in args[1].value.tolist()]
        result = padded(shape, amounts)
        if any(not is_late(each) and each < 0 for each in result):
            raise ShapeError(f"expected paddings that leave sizes that are not negative, found {amounts} for {shape}")
        if any(is_known(size, 0) and may_differ(each, 0) for size, each in zip(
                shape, result, strict=True)):
            raise ShapeError(f"expected elements to go on with, found {amounts} for {shape}")
        return (result,)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (late(args[0].rank, computed),)


@operator
@dataclass(frozen=True)
class StablehloPad(Op):
    """Puts the value in input 1 `interior_padding` times between elements, then pads the edges; a negative one cuts."""

    name: ClassVar[str] = "STABLEHLO_PAD"
    table: ClassVar[str | None] = "StablehloPadOptions"
    inputs: ClassVar[Count] = exactly(2)
    edge_padding_low: tuple[int, ...] = ()
    edge_padding_high: tuple[int, ...] = ()
    interior_padding: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, amounts = args[0].shape, (self.edge_padding_low, self.edge_padding_high, self.interior_padding)
        expect_one(args[1], "padding value")
        if any(len(each) != len(shape) for each in amounts) or min(self.interior_padding, default=0) < 0:
            raise ShapeError(f"expected low, high and interior padding for each axis of {shape}, found {amounts}")
        result = tuple(low + spread(size, gap + 1) + high for size, low, high, gap in zip(shape, *amounts, strict=True))
        if any(each < 0 for each in result):
            raise ShapeError(f"expected paddings that leave sizes that are not negative, found {amounts} for {shape}")
        return (result,)


@operator
@dataclass(frozen=True)
class Dilate(Op):
    """Puts `input 1 [k]` - 1 times the value in input 2 between the elements of each axis k."""

    name: ClassVar[str] = "DILATE"
    table: ClassVar[str | None] = "DilateOptions"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        expect_one(args[2], "padding value")
        steps = vector(args[1], "dilations", len(shape))
        if min(steps, default=1) < 1:
            raise ShapeError(f"dilations: expected steps of at least 1, found {steps}")
        return (tuple(starmap(spread, zip(shape, steps, strict=True))),)


def spread(size: int, step: int) -> int:
    """The size of an axis whose elements lie `step` apart."""
    return (size - 1) * step + 1 if size else 0


@operator
@dataclass(frozen=True)
class Tile(Op):
    """Input 0 repeated `input 1 [k]` times along each axis k."""

    name: ClassVar[str] = "TILE"
    table: ClassVar[str | None] = "TileOptions"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        counts = vector(args[1], "multiples", len(shape))
        if any(each < 0 for each in counts):
            raise ShapeError(f"multiples: expected counts that are not negative, found {counts}")
        return (tuple(size * count for size, count in zip(shape, counts, strict=True)),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (late(args[0].rank, computed),)
