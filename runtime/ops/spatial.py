"""Operators that move elements between the spatial axes of a tensor and its batch or its channels."""

from __future__ import annotations

from math import prod
from typing import ClassVar, TypeAlias

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.operands import expect_axes, expect_integers, integer
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

Margins: TypeAlias = tuple[tuple[int, int], ...]
"""How many elements lie before and after those of interest, for each spatial axis."""


@dataclass(frozen=True)
class Blocks(Op):
    """Base of the operators between channels and blocks of `block_size` x `block_size` positions."""

    block_size: int = 0

    def check(self, args: Operands) -> None:
        expect_axes(args[0], "the input", "n, h, w, c")
        if self.block_size < 1:
            raise ShapeError(f"the block size must be positive, found {self.block_size}")


@operator
@dataclass(frozen=True)
class DepthToSpace(Blocks):
    """(n, h, w, b * b * c) to (n, h * b, w * b, c), b the block size."""

    name: ClassVar[str] = "DEPTH_TO_SPACE"
    table: ClassVar[str | None] = "DepthToSpaceOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self.check(args)
        (n, h, w, c), block = args[0].shape, self.block_size
        if c % (block * block):
            raise ShapeError(f"{c} channels cannot be divided into blocks of {block} x {block}")
        return ((n, h * block, w * block, c // (block * block)),)


@operator
@dataclass(frozen=True)
class SpaceToDepth(Blocks):
    """(n, h * b, w * b, c) to (n, h, w, b * b * c), b the block size."""

    name: ClassVar[str] = "SPACE_TO_DEPTH"
    table: ClassVar[str | None] = "SpaceToDepthOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        self.check(args)
        (n, h, w, c), block = args[0].shape, self.block_size
        if h % block or w % block:
            raise ShapeError(f"an image of {h} x {w} cannot be divided into blocks of {block} x {block}")
        return ((n, h // block, w // block, c * block * block),)


def block_of(value: Array) -> Shape:
    """The block shape that an operand holds."""
    return tuple(int(size) for size in value.reshape(-1))


def margins_of(value: Array) -> Margins:
    """The paddings or crops that an operand holds."""
    return tuple((integer(before), integer(after)) for before, after in value.reshape(-1, 2))


@dataclass(frozen=True)
class BatchBlocks(Op):
    """Base of the operators between the batch and blocks of positions: input 1 is the block's size along each spatial
    axis, input 2 two margins for each."""

    inputs: ClassVar[Count] = exactly(3)

    def layout(self, args: Operands) -> tuple[Shape, Margins]:
        """The block and the margins, checked."""
        block, margins = args[1], args[2]
        expect_integers(block, "the block")
        expect_integers(margins, "the margins")
        axes = prod(block.shape)
        if block.rank != 1 or margins.shape != (axes, 2) or args[0].rank <= axes:
            raise ShapeError(f"an input of shape {args[0].shape} has no {axes} spatial axes for a block of shape "
                             f"{block.shape} and margins of shape {margins.shape}")
        sizes, edges = block_of(block.value), margins_of(margins.value)
        if any(size < 1 for size in sizes) or any(margin < 0 for edge in edges for margin in edge):
            raise ShapeError(f"block sizes must be positive and margins not negative, found {sizes} and {edges}")
        return sizes, edges


@operator
@dataclass(frozen=True)
class SpaceToBatchND(BatchBlocks):
    """(n, s, ...) to (prod(block) * n, (before + s + after) / block, ...); the padding is zero, its zero point where
    quantised."""

    name: ClassVar[str] = "SPACE_TO_BATCH_ND"
    table: ClassVar[str | None] = "SpaceToBatchNDOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        block, paddings = self.layout(args)
        shape = args[0].shape
        padded = tuple(before + length + after for length, (before, after) in zip(shape[1:], paddings, strict=False))
        if any(length % size for length, size in zip(padded, block, strict=True)):
            raise ShapeError(f"padded spatial axes {padded} cannot be divided into blocks of {block}")
        spatial = (length // size for length, size in zip(padded, block, strict=True))
        return ((prod(block) * shape[0], *spatial, *shape[1 + len(block):]),)


@operator
@dataclass(frozen=True)
class BatchToSpaceND(BatchBlocks):
    """(prod(block) * n, s, ...) to (n, s * block - before - after, ...)."""

    name: ClassVar[str] = "BATCH_TO_SPACE_ND"
    table: ClassVar[str | None] = "BatchToSpaceNDOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        block, crops = self.layout(args)
        shape = args[0].shape
        spatial = tuple(length * size - before - after for length, size, (before, after)
                        in zip(shape[1:], block, crops, strict=False))
        if shape[0] % prod(block) or any(length < 0 for length in spatial):
            raise ShapeError(f"a batch of {shape[0]} in blocks of {block} with crops {crops} gives no tensor")
        return ((shape[0] // prod(block), *spatial, *shape[1 + len(block):]),)
