"""The ranks of results whose dimensions only values tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops import conv, index, layout, pad, resize, shape, sort

Shapes = Sequence["Shape | None"]
"""Those of the inputs; None where an input is absent or its rank is not known."""


def _length(position: int) -> Callable[[Op, Shapes], int | None]:
    """The rank is the length of an input."""
    def rank(op: Op, shapes: Shapes) -> int | None:
        found = shapes[position]
        return found[0] if found is not None and len(found) == 1 and found[0] >= 0 else None

    return rank


def _same(position: int, more: int = 0) -> Callable[[Op, Shapes], int | None]:
    """The rank is that of an input."""
    def rank(op: Op, shapes: Shapes) -> int | None:
        found = shapes[position]
        return None if found is None else len(found) + more

    return rank


def _sliced(op: Op, shapes: Shapes) -> int | None:
    assert isinstance(op, layout.StridedSlice)
    if shapes[0] is None:
        return None
    return len(shapes[0]) - bin(op.shrink_axis_mask).count("1") + bin(op.new_axis_mask).count("1")


RANKS: dict[type[Op], Callable[[Op, Shapes], int | None]] = {
    shape.Reshape: _length(1),
    shape.Fill: _length(0),
    shape.BroadcastTo: _length(1),
    shape.Range: lambda op, shapes: 1,
    shape.OneHot: _same(0, 1),
    index.Where: lambda op, shapes: 2,
    index.ScatterNd: _length(2),
    layout.Slice: _same(0),
    layout.StridedSlice: _sliced,
    layout.Split: _same(1),
    layout.SplitV: _same(0),
    pad.Pad: _same(0),
    pad.PadV2: _same(0),
    pad.MirrorPad: _same(0),
    pad.Tile: _same(0),
    conv.TransposeConv: _same(2),
    conv.Conv3DTranspose: _same(2),
    resize.ResizeBilinear: _same(0),
    resize.ResizeNearestNeighbor: _same(0),
    sort.TopKV2: _same(0),
}
"""How to tell the rank of an operator's results from the shapes of its inputs."""


def open_shape(op: Op, shapes: Shapes) -> Shape | None:
    """A shape of the right rank whose dimensions are all open; None where not even the rank can be told."""
    find = RANKS.get(type(op))
    rank = None if find is None else find(op, shapes)
    return None if rank is None else (-1,) * rank
