"""Sampling at places that a tensor names, as ONNX defines it; no flatbuffer format has the operators."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.resample import Interpolation
from circlet.runtime.records import dataclass


class Outside(Enum):
    """What lies outside of the input."""

    ZEROS = "zeros"
    BORDER = "border"
    """The outermost elements."""
    REFLECTION = "reflection"


@dataclass(frozen=True)
class GridSample(Op):
    """Input 0 (n, *spatial, c) at the places in input 1 (n, *places, k), k the number of spatial axes.

    A place has a coordinate for each spatial axis, the last axis first, from -1 to 1: the centers of the outermost
    elements with `align_corners`, else their outer edges; or, if it `is_index`, the index of an element, which need not
    be whole. The result is (n, *places, c). With `nan_is_first` a coordinate that is NaN is -1.
    """

    name: ClassVar[str] = "GRID_SAMPLE"
    inputs: ClassVar[Count] = exactly(2)
    interpolation: Interpolation = Interpolation.LINEAR
    outside: Outside = Outside.ZEROS
    align_corners: bool = False
    is_index: bool = False
    nan_is_first: bool = False

    @property
    def is_cut_off(self) -> bool:
        """Whether places beyond a border count as on it. CUBIC reads the four elements around a place wherever that is,
        those outside being the outermost ones, as in PyTorch, ONNX Runtime and OpenVINO."""
        return self.outside is Outside.BORDER and self.interpolation is not Interpolation.CUBIC

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        x, grid = args[0].shape, args[1].shape
        if len(x) < 3 or len(grid) != len(x) or grid[0] != x[0] or grid[-1] != len(x) - 2:
            raise ShapeError(f"expected an input (n, *spatial, c) and places (n, *places, {len(x) - 2}), found {x} "
                             f"and {grid}")
        return ((*grid[:-1], x[-1]),)


@dataclass(frozen=True)
class RoiAlign(Op):
    """Input 0 (b, h, w, c) in boxes (n, 4), input 1, each x, y, x, y of the image that input 2 (n,) numbers:
    (n, rows, columns, c), means of samples between elements, evenly spaced in the cells that a box is cut into.

    What is more than one element outside of the image counts nothing (He et al. 2017, "Mask R-CNN"; ONNX RoiAlign-16).

    Attributes:
        rows: of cells.
        columns: of cells.
        samples: along each axis of a cell; 0 for as many as a cell has elements, a part of one counting as one.
        scale: what boxes are multiplied with.
        is_half_pixel: elements lie at halves; otherwise boxes have sides of at least 1.
        is_max: of a cell, not the mean of its samples, but the greatest of what the four elements around each are times
            their weights, as ONNX's reference and its runtimes have it; samples outside of the image are 0.
    """

    name: ClassVar[str] = "ROI_ALIGN"
    inputs: ClassVar[Count] = exactly(3)
    rows: int
    columns: int
    samples: int = 0
    scale: float = 1.0
    is_half_pixel: bool = True
    is_max: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        x, boxes, numbers = (args[k].shape for k in range(3))
        if len(x) != 4 or len(boxes) != 2 or boxes[1] != 4 or numbers != boxes[:1]:
            raise ShapeError(f"expected images (b, h, w, c), boxes (n, 4) and numbers (n,), found {x}, {boxes} and "
                             f"{numbers}")
        return ((boxes[0], self.rows, self.columns, x[3]),)


@dataclass(frozen=True)
class RegionMax(Op):
    """The greatest elements of input 0 (b, h, w, c) in cells of the images that input 1 (n,) numbers: (n, r, k, c).

    Input 2 (n, r, 2) and input 3 (n, k, 2) hold where cells begin and end along each axis; what is outside of
    the image counts nothing, and a cell without elements is zero.
    """

    name: ClassVar[str] = "REGION_MAX"
    inputs: ClassVar[Count] = exactly(4)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        x, numbers, rows, columns = (args[k].shape for k in range(4))
        if len(x) != 4 or len(numbers) != 1 or any(len(each) != 3 or each[::2] != (*numbers, 2)
                                                   for each in (rows, columns)):
            raise ShapeError(f"expected images (b, h, w, c), numbers (n,), rows (n, r, 2) and columns (n, k, 2), found "
                             f"{x}, {numbers}, {rows} and {columns}")
        return ((numbers[0], rows[1], columns[1], x[3]),)
