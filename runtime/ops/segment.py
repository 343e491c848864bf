"""Operators that combine the rows that carry the same number."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import agreed_shape, count, expect_integers
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@operator
@dataclass(frozen=True)
class SegmentSum(Op):
    """Row i of the result is the sum of the rows of input 0 whose number in input 1 is i.

    The numbers are a vector that neither falls nor starts below zero; it counts the rows of the result. Rows that no
    number names are zero.
    """

    name: ClassVar[str] = "SEGMENT_SUM"
    table: ClassVar[str | None] = "SegmentSumOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, ids = args[0].shape, args[1].shape
        if len(ids) != 1 or agreed_shape(ids, data[:1]) is None:
            raise ShapeError(f"input 1: expected one number for each row of shape {data}, found shape {ids}")
        expect_integers(args[1], "input 1")
        numbers = args[1].value
        if (numbers.size and numbers[0] < 0) or (numbers[1:] < numbers[:-1]).any():
            raise ShapeError(f"input 1: expected ascending numbers from 0 on, found {numbers.tolist()}")
        return ((int(numbers[-1]) + 1 if numbers.size else 0, *data[1:]),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return ((computed(None), *args[0].shape[1:]),)


@dataclass(frozen=True)
class UnsortedSegment(Op):
    """Base: element i of the result combines the elements of input 0 whose number in input 1 is i.

    The shape of the numbers leads that of input 0: a number stands for a whole slice. Slices with negative numbers
    are dropped. Input 2 is the count of results; those that no number names have the value for nothing.
    """

    inputs: ClassVar[Count] = exactly(3)
    sizes: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, ids = args[0].shape, args[1].shape
        if agreed_shape(data[:len(ids)], ids) is None:
            raise ShapeError(f"input 1: expected the leading dimensions of {data}, found shape {ids}")
        expect_integers(args[1], "input 1")
        return ((count(args[2], "input 2 is the count"), *data[len(ids):]),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return ((computed(None), *args[0].shape[args[1].rank:]),)


@operator
@dataclass(frozen=True)
class UnsortedSegmentSum(UnsortedSegment):
    """Sums, 0 of nothing; integers wrap."""

    name: ClassVar[str] = "UNSORTED_SEGMENT_SUM"
    table: ClassVar[str | None] = "UnsortedSegmentSumOptions"


@operator
@dataclass(frozen=True)
class UnsortedSegmentProd(UnsortedSegment):
    """Products, 1 of nothing; integers wrap."""

    name: ClassVar[str] = "UNSORTED_SEGMENT_PROD"
    table: ClassVar[str | None] = "UnsortedSegmentProdOptions"


@operator
@dataclass(frozen=True)
class UnsortedSegmentMax(UnsortedSegment):
    """The greatest elements; of nothing, the least finite value of the type."""

    name: ClassVar[str] = "UNSORTED_SEGMENT_MAX"
    table: ClassVar[str | None] = "UnsortedSegmentMaxOptions"


@operator
@dataclass(frozen=True)
class UnsortedSegmentMin(UnsortedSegment):
    """The least elements; of nothing, the greatest finite value of the type."""

    name: ClassVar[str] = "UNSORTED_SEGMENT_MIN"
    table: ClassVar[str | None] = "UnsortedSegmentMinOptions"
