"""Resizing of images (n, h, w, c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.position import is_left_to_turns
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import expect_axes, expect_integers, integer, reaches
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Resize(Op):
    """Base of the operators that resize an image to the height and width that input 1 holds."""

    inputs: ClassVar[Count] = exactly(2)
    least_size: ClassVar[int] = 1
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    align_corners: bool = False
    """The corner elements' centers stay where they are."""
    half_pixel_centers: bool = False
    """An element's center is half an element from its edge."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        image, size = args[0], args[1]
        expect_axes(image, "the input", "n, h, w, c")
        expect_integers(size, "input 1")
        if size.shape != (2,):
            raise ShapeError(f"input 1 holds height and width, found shape {size.shape}")
        height, width = (integer(length) for length in size.value)
        if not all(is_left_to_turns(length, 1) or reaches(length, 1)
                   for length in (height, width, image.shape[1], image.shape[2])):
            raise ShapeError(f"cannot resize {image.shape[1]} x {image.shape[2]} to {height} x {width}")
        return ((image.shape[0], height, width, image.shape[3]),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        images, _, _, channels = args[0].shape
        return ((images, computed(None), computed(None), channels),)


@operator
@dataclass(frozen=True)
class ResizeBilinear(Resize):
    """Interpolates between the four nearest elements."""

    name: ClassVar[str] = "RESIZE_BILINEAR"
    table: ClassVar[str | None] = "ResizeBilinearOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if self.align_corners and self.half_pixel_centers:
            raise ShapeError("align_corners and half_pixel_centers exclude each other")
        return super().infer(args)


@operator
@dataclass(frozen=True)
class ResizeNearestNeighbor(Resize):
    """Takes the nearest element."""

    name: ClassVar[str] = "RESIZE_NEAREST_NEIGHBOR"
    table: ClassVar[str | None] = "ResizeNearestNeighborOptions"
