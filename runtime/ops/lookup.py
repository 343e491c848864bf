"""Operators that look features up: rows of a table for sparse ids, and hashes of items."""

from __future__ import annotations

from enum import IntEnum
from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, between, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import sizes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


class Combiner(IntEnum):
    """What rows that are added up are divided by; numbers are the schema's."""

    SUM = 0
    """By nothing."""
    MEAN = 1
    """By the sum of their weights."""
    SQRTN = 2
    """By the root of the sum of the squares of their weights."""


@operator
@dataclass(frozen=True)
class EmbeddingLookupSparse(Op):
    """The rows of a table (rows, ...) that a sparse tensor of ids names, added up along its last axis.

    Inputs: the ids (n,), int32; where they are (n, rank); the shape (rank,) that they are in; their weights (n,); the
    table. Ids of one place of the result that do not follow each other are combined with what those before left there,
    as in LiteRT: the sum so far is divided whenever another place follows.
    """

    name: ClassVar[str] = "EMBEDDING_LOOKUP_SPARSE"
    table: ClassVar[str | None] = "EmbeddingLookupSparseOptions"
    inputs: ClassVar[Count] = exactly(5)
    sizes: ClassVar[frozenset[int]] = frozenset({2})
    combiner: Combiner = Combiner.SUM

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        ids, places, weights, table = (args[k].shape for k in (0, 1, 3, 4))
        shape = sizes(args[2], "shape of the ids")
        if len(ids) != 1 or places != (*ids, len(shape)) or not shape or weights != ids or len(table) < 2:
            raise ShapeError(f"expected ids (n,), places (n, {len(shape)}) in a shape of at least one axis, weights "
                             f"(n,) and a table (rows, ..., columns), found shapes {ids}, {places}, {weights} and "
                             f"{table}")
        return ((*shape[:-1], *table[1:]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[4].dtype,)


MOST_BITS = 31
"""Of a range of integers."""


class Projection(IntEnum):
    """What hashes become; numbers are the schema's."""

    UNKNOWN = 0
    """Nothing, which is an error."""
    SPARSE = 1
    """The bits of each one integer, with a range of integers for each hash."""
    DENSE = 2
    """An integer for each bit."""


@operator
@dataclass(frozen=True)
class LshProjection(Op):
    """Bits that are alike for items that are alike, by functions of seeds (hashes, bits).

    Inputs: the seeds, float32; items (n, ...) of any type of which the bytes count; perhaps their weights (n,). A bit
    is whether the weighted sum of the items' fingerprints with a seed is above 0.
    """

    name: ClassVar[str] = "LSH_PROJECTION"
    table: ClassVar[str | None] = "LSHProjectionOptions"
    inputs: ClassVar[Count] = between(2, 3)
    type: Projection = Projection.UNKNOWN

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if self.type is Projection.UNKNOWN:
            raise ShapeError("type: expected SPARSE or DENSE, found UNKNOWN")
        seeds, items = args[0].shape, args[1].shape
        if len(seeds) != 2 or seeds[1] > MOST_BITS:
            raise ShapeError(f"seeds: expected (hashes, bits) with at most {MOST_BITS} bits, found shape {seeds}")
        if not items or not items[0]:
            raise ShapeError(f"items: expected at least one, found shape {items}")
        weights = args.get(2)
        if weights is not None and weights.shape != items[:1]:
            raise ShapeError(f"weights: expected one for each of {items[0]} items, found shape {weights.shape}")
        return (seeds[:1] if self.type is Projection.SPARSE else (prod(seeds),),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT32,)


