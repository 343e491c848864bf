"""Operators that order elements or place them among ordered ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import ClassVar

import numpy as np

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import expect_one, normalize_axis, scalar
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@operator
@dataclass(frozen=True)
class TopKV2(Op):
    """The k greatest elements of each row of the last axis, in descending order, and their indices.

    Input 1 is k. The first of equal elements leads; NaN comes after all numbers. Indices are int32, or int16 as the
    output declares where k is int16.
    """

    name: ClassVar[str] = "TOPK_V2"
    table: ClassVar[str | None] = "TopKV2Options"
    inputs: ClassVar[Count] = exactly(2)
    results: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[0].rank == 0:
            raise ShapeError("input 0 is a scalar: expected at least one axis")
        *rows, length = args[0].shape
        k = scalar(args[1], "input 1 is k")
        if not 0 <= k <= length:
            raise ShapeError(f"input 1 is k: expected 0 to {length}, the length of the last axis, found {k}")
        return ((*rows, k),) * 2

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        expect_one(args[1], "input 1 is k")
        *rows, length = args[0].shape
        return ((*rows, computed(length)),) * 2

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, None if args[1].dtype is DType.INT16 else DType.INT32)


@operator
@dataclass(frozen=True)
class Unique(Op):
    """The distinct elements of a vector by first occurrence, and for each element its index among them.

    No NaN equals another.
    """

    name: ClassVar[str] = "UNIQUE"
    table: ClassVar[str | None] = "UniqueOptions"
    results: ClassVar[Count] = exactly(2)
    idx_out_type: DType = DType.INT32

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[0].rank != 1:
            raise ShapeError(f"input 0: expected a vector, found shape {args[0].shape}")
        return ((np.unique(args[0].value, equal_nan=False).size,), args[0].shape)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (computed(args[0].shape[0]),), args[0].shape

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, self.idx_out_type)


@operator
@dataclass(frozen=True)
class Bucketize(Op):
    """How many of the ascending boundaries are not above each element; all of them for NaN."""

    name: ClassVar[str] = "BUCKETIZE"
    table: ClassVar[str | None] = "BucketizeOptions"
    boundaries: tuple[float, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if any(one > other for one, other in pairwise(self.boundaries)):
            raise ShapeError(f"expected ascending boundaries, found {self.boundaries}")
        return (args[0].shape,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT32,)


@dataclass(frozen=True)
class UniqueSlices(Op):
    """ONNX's distinct elements, or slices along an axis; no flatbuffer format has it.

    Results: these, in ascending order or that of first occurrence; for each of them the index of its first occurrence;
    for each given one its index among them; for each of them how often it occurs. Indices are int64.
    """

    name: ClassVar[str] = "UNIQUE_SLICES"
    results: ClassVar[Count] = exactly(4)
    axis: int | None = None
    """None: the elements of the whole tensor."""
    ascending: bool = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if self.axis is not None:
            normalize_axis(self.axis, args[0].rank)
        raise Unknown

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        shape = args[0].shape
        axis = None if self.axis is None else normalize_axis(self.axis, len(shape))
        given = prod(shape) if axis is None else shape[axis]
        found = computed(given)
        slices = (found,) if axis is None else (*shape[:axis], found, *shape[axis + 1:])
        return slices, (found,), (given,), (found,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype, DType.INT64, DType.INT64, DType.INT64)
