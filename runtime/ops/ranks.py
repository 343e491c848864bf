"""The ranks of results of which the operator's own rule cannot tell the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.probe import Outline
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, Shape
from circlet.runtime.ops import (
    conv,
    elements,
    index,
    layout,
    matmul,
    pad,
    random,
    resample,
    resize,
    sample,
    scatter,
    shape,
    sort,
    spectral,
)

Given: TypeAlias = "Outline | None"
"""An operand; None where it is absent."""
Rule: TypeAlias = "Callable[[Op, Sequence[Given]], Shape | None]"
"""The shape of the results, -1 for dimensions that are not known; None where not even the rank can be told."""


def _shape(given: Given) -> Shape | None:
    return None if given is None else given.shape


def _data(given: Given) -> Array | None:
    return None if given is None else given.data


def _axis(shape: Shape | None, axis: int) -> int:
    """The length of an axis; -1 where it is not known, or there is none."""
    return -1 if shape is None or axis >= len(shape) else shape[axis]


def _named(position: int) -> Rule:
    """The shape is the value of an input."""
    def find(op: Op, inputs: Sequence[Given]) -> Shape | None:
        shape, data = _shape(inputs[position]), _data(inputs[position])
        if data is not None and data.ndim == 1:
            return tuple(data.tolist())
        if shape is None or len(shape) != 1 or not 0 <= shape[0] <= MOST_DIMENSIONS:
            return None
        return (-1,) * shape[0]

    return find


def _same(position: int, more: int = 0) -> Rule:
    """The rank is that of an input, or some more."""
    def find(op: Op, inputs: Sequence[Given]) -> Shape | None:
        shape = _shape(inputs[position])
        return None if shape is None else (-1,) * (len(shape) + more)

    return find


def _input(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The shape is that of the first input."""
    return _shape(inputs[0])


def _highest(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The rank is the highest of all inputs."""
    ranks = [-1 if shape is None else len(shape) for shape in map(_shape, inputs)]
    return None if -1 in ranks else (-1,) * max(ranks)


def _multiplied(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """Rows of the one and columns of the other operand, behind as many axes as the higher rank has."""
    assert isinstance(op, matmul.BatchMatMul)
    x, y = map(_shape, inputs)
    if x is None or y is None or min(len(x), len(y)) < 2:
        return None
    return (*(-1,) * (max(len(x), len(y)) - 2), x[-1 if op.adj_x else -2], y[-2 if op.adj_y else -1])


def _first_of_rows(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The rows of the first input, of a length that only the run tells."""
    shape = _shape(inputs[0])
    return None if not shape else (*shape[:-1], -1)


def _convolved(channels: int) -> Rule:
    """As many images as there are, with the channels that an axis of the filter says."""
    def find(op: Op, inputs: Sequence[Given]) -> Shape | None:
        images, filter = map(_shape, inputs[:2])
        return (_axis(images, 0), -1, -1, _axis(filter, channels))

    return find


def _transposed(channels: int) -> Rule:
    """As many images as are given, with the channels that an axis of the filter says."""
    def find(op: Op, inputs: Sequence[Given]) -> Shape | None:
        filter, images = map(_shape, inputs[1:3])
        if images is None:
            return None
        return (_axis(images, 0), *(-1,) * (len(images) - 2), _axis(filter, channels))

    return find


def _concatenated(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """What any input has, but along the axis the sum."""
    assert isinstance(op, layout.Joining)
    shapes = [shape for shape in map(_shape, inputs) if shape is not None]
    if len(shapes) < len(inputs) or len({*map(len, shapes)}) != 1:
        return None
    axis = op.along % max(len(shapes[0]), 1)
    return tuple((-1 if -1 in sizes else sum(sizes)) if k == axis else max(sizes)
                 for k, sizes in enumerate(zip(*shapes, strict=True)))


def _sliced(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The axes that no entry selects from are as they are."""
    assert isinstance(op, layout.StridedSlice)
    shape, begin = map(_shape, inputs[:2])
    if shape is None:
        return None
    if begin is None or len(begin) != 1 or begin[0] < 0:
        return (-1,) * (len(shape) - bin(op.shrink_axis_mask).count("1") + bin(op.new_axis_mask).count("1"))
    try:
        plan = op.plan(len(shape), begin[0])
    except ShapeError:
        return None
    return tuple(1 if axis is None else shape[axis] if entry is None else -1
                 for axis, entry in plan if axis is None or entry is None or not op.shrink_axis_mask >> entry & 1)


def _squeezed(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The axes that are not taken away are as they are."""
    assert isinstance(op, shape.Squeeze)
    given = _shape(inputs[0])
    if given is None or not op.squeeze_dims or not all(-len(given) <= axis < len(given) for axis in op.squeeze_dims):
        return None
    removed = {axis % len(given) for axis in op.squeeze_dims}
    return tuple(size for axis, size in enumerate(given) if axis not in removed)


def _found(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """As many rows as there are of an index into the input."""
    shape = _shape(inputs[0])
    return (-1, -1 if shape is None else len(shape))


def _resized(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """The input with axes of other lengths."""
    shape, axes = _shape(inputs[0]), op.axes if isinstance(op, resample.Resample) else (1, 2)
    return None if shape is None else tuple(-1 if axis in axes else size for axis, size in enumerate(shape))


def _sampled(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """As many images and channels as there are, of the sizes of the grid."""
    images, grid = map(_shape, inputs)
    if images is None:
        return None if grid is None else (*grid[:-1], -1)
    return (images[0], *((-1,) * (len(images) - 2) if grid is None else grid[1:-1]), images[-1])


def _transformed(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """As many axes, the last of which has the parts of a number."""
    assert isinstance(op, spectral.Dft)
    numbers = _shape(inputs[0])
    return None if numbers is None else ((-1,) * (len(numbers) - 1) + (1 if op.inverse and op.onesided else 2,))


RANKS: dict[type[Op], Rule] = {
    shape.Reshape: _named(1),
    shape.Fill: _named(0),
    random.RandomUniform: _named(0),
    random.RandomStandardNormal: _named(0),
    shape.BroadcastTo: _named(1),
    shape.Range: lambda op, inputs: (-1,),
    shape.ShapeOf: lambda op, inputs: (-1,),
    shape.OneHot: _same(0, 1),
    shape.Squeeze: _squeezed,
    index.Where: _found,
    index.ScatterNd: _named(2),
    elements.ScatterElements: _input,
    elements.ScatterSlices: _input,
    scatter.StablehloScatter: _input,
    matmul.BatchMatMul: _multiplied,
    layout.Concatenation: _concatenated,
    layout.StablehloConcatenate: _concatenated,
    layout.Slice: _same(0),
    layout.StridedSlice: _sliced,
    layout.Split: _same(1),
    layout.SplitV: _same(0),
    pad.Pad: _same(0),
    pad.PadV2: _same(0),
    pad.MirrorPad: _same(0),
    pad.ContinuedPad: _same(0),
    pad.Tile: _same(0),
    conv.Conv2D: _convolved(0),
    conv.DepthwiseConv2D: _convolved(3),
    conv.TransposeConv: _transposed(0),
    conv.Conv3DTranspose: _transposed(3),
    resample.Resample: _resized,
    resize.ResizeBilinear: _resized,
    resize.ResizeNearestNeighbor: _resized,
    sample.GridSample: _sampled,
    sample.RegionMax: lambda op, inputs: (-1, -1, -1, -1),
    sample.RoiAlign: lambda op, inputs: (-1, -1, -1, -1),
    sort.TopKV2: _first_of_rows,
    spectral.Dft: _transformed,
}
"""How to tell the shape of an operator's results, or its rank, where its own rule cannot."""


def open_shape(op: Op, inputs: Sequence[Given]) -> Shape | None:
    """What can be told of the shape of an operator's results without its own rule."""
    find = RANKS.get(type(op)) or (_highest if op.elementwise else None)
    return None if find is None else find(op, inputs)
