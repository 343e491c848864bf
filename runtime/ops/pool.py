"""Pooling: a reduction over a window that slides over an image (n, h, w, c); padding never counts."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Operands
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import expect_axes
from circlet.runtime.ops.registry import operator
from circlet.runtime.ops.window import Window, Windowed
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Pool(Windowed):
    """Base of the pooling operators: (n, h, w, c) gives (n, positions along h, positions along w, c)."""

    table: ClassVar[str | None] = "Pool2DOptions"
    filter_width: int = 0
    filter_height: int = 0
    explicit_paddings: tuple[int, ...] = ()
    """Rows of padding above and below the image, and columns before and behind it, where `padding` is VALID. No file
    holds them; see `transforms/absorb_padding.py`."""

    def windows(self, image: Shape) -> tuple[Window, ...]:
        """The windows along height and width; padding never counts, so they lack what meets nothing else."""
        windows = self.image_windows(image, (self.filter_height, self.filter_width),
                                     explicit_paddings=self.explicit_paddings)
        return tuple(each.trimmed() for each in windows)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        image = args[0]
        expect_axes(image, "the input", "n, h, w, c")
        counts = (window.count for window in self.windows(image.shape))
        return ((image.shape[0], *counts, image.shape[3]),)


@operator
@dataclass(frozen=True)
class AveragePool2D(Pool):
    """The mean; quantised, the quotient is rounded to nearest, halves away from zero."""

    name: ClassVar[str] = "AVERAGE_POOL_2D"


@operator
@dataclass(frozen=True)
class MaxPool2D(Pool):
    """The largest element; NaN where the window meets one."""

    name: ClassVar[str] = "MAX_POOL_2D"


@operator
@dataclass(frozen=True)
class L2Pool2D(Pool):
    """The square root of the mean of the squares."""

    name: ClassVar[str] = "L2_POOL_2D"
