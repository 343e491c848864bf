"""Sampling at places that a tensor names, as ONNX defines it; no flatbuffer format has the operator."""

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
    """Input 0 (n, c, *spatial) at the places in input 1 (n, *places, k), k the number of spatial axes.

    A place has a coordinate for each spatial axis, the last axis first, from -1 to 1: the centers of the outermost
    elements with `align_corners`, else their outer edges. The result is (n, c, *places).
    """

    name: ClassVar[str] = "GRID_SAMPLE"
    inputs: ClassVar[Count] = exactly(2)
    interpolation: Interpolation = Interpolation.LINEAR
    outside: Outside = Outside.ZEROS
    align_corners: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        x, grid = args[0].shape, args[1].shape
        if len(x) < 3 or len(grid) != len(x) or grid[0] != x[0] or grid[-1] != len(x) - 2:
            raise ShapeError(f"expected an input (n, c, *spatial) and places (n, *places, {len(x) - 2}), found {x} "
                             f"and {grid}")
        return ((*x[:2], *grid[1:-1]),)
