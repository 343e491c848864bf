"""Windows that slide over spatial axes: how OpenVINO pads them, and the layout of circlet's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import product
from math import prod

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import elementwise, layout, pad
from circlet.runtime.ops.window import slide
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.columns import MOST_TAPS
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node


class Overhang(Enum):
    """Windows that reach beyond an axis and its padding."""

    NONE = "none"
    ANY = "any"
    INSIDE = "inside"
    """Those that begin before the padding behind."""


class Same(Enum):
    """Padding with which there are ceil(length / stride) windows."""

    UPPER = "upper"
    """The odd element is behind."""
    LOWER = "lower"


@dataclass(frozen=True)
class Axis:
    """How a window slides along one axis."""

    length: int
    """Elements of the input; -1 where that is not known."""
    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    open_same: Same | None = None
    """Where the padding is that of a length that is not known, and hangs on it unless the stride is 1."""
    overhang: Overhang = Overhang.NONE
    """Which windows that reach beyond a length that is not known are there, too, for which there is more padding."""

    @property
    def span(self) -> int:
        return (self.size - 1) * self.dilation + 1

    @property
    def is_told(self) -> bool:
        """Whether how much padding there is hangs on a length that the run tells."""
        return self.overhang is not Overhang.NONE or (self.open_same is not None and self.stride != 1)

    def fits(self) -> bool:
        """Whether the schema's padding SAME is that of the axis."""
        if self.length < 1:
            return self.open_same is Same.UPPER and self.overhang is Overhang.NONE
        same = slide(self.length, self.size, self.stride, Padding.SAME, self.dilation)
        needed = max((same.count - 1) * self.stride + self.span - self.length, 0)
        return (same.before, needed - same.before) == (self.before, self.after)


def axes_of(node: Node, sizes: Sequence[int]) -> list[Axis]:
    """The windows of a layer over the spatial axes of input 0, with explicit paddings.

    Raises:
        ModelError: attributes do not fit the axes.
    """
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    steps = (node.integers(name, ones) for name in ("strides", "dilations"))
    paddings = (node.integers(f"pads_{side}", zeros) for side in ("begin", "end"))
    return windows_of(node, sizes, *steps, *paddings)


def windows_of(node: Node, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
               begin: Sequence[int], end: Sequence[int]) -> list[Axis]:
    """The same, of attributes that are called otherwise; `auto_pad` may say other paddings."""
    count, lengths = len(sizes), node.shape(0)[2:]
    mode = node.choice("auto_pad", {"explicit": "explicit", "notset": "explicit", "valid": "valid",
                                    "same_upper": "upper", "same_lower": "lower"}, "explicit")
    before, after = (begin, end) if mode == "explicit" else ([0] * count, [0] * count)
    if any(len(each) != count for each in (lengths, strides, dilations, before, after)):
        raise node.error(f"expected {len(lengths)} window sizes, strides, dilations and paddings, found {sizes}, "
                         f"{strides}, {dilations}, {before} and {after}")
    if min((*sizes, *strides, *dilations)) < 1 or min((*before, *after)) < 0:
        raise node.error(f"expected positive window sizes, strides and dilations and paddings that are not negative, "
                         f"found {sizes}, {strides}, {dilations}, {before} and {after}")
    axes = [Axis(*each) for each in zip(lengths, sizes, strides, dilations, before, after, strict=True)]
    return [_same(each, Same(mode)) for each in axes] if mode in ("upper", "lower") else axes


def _same(axis: Axis, same: Same) -> Axis:
    """The axis with padding that gives ceil(length / stride) positions."""
    if axis.length < 0:
        axis = replace(axis, open_same=same)
        total = axis.span - 1
    else:
        total = max((-(-axis.length // axis.stride) - 1) * axis.stride + axis.span - axis.length, 0)
    small = total // 2
    before = small if same is Same.UPPER else total - small
    return replace(axis, before=before, after=total - before)


def padding_of(axes: Sequence[Axis]) -> Padding | None:
    """The schema's padding that does what the axes say; None where elements must be added."""
    if not any(axis.before or axis.after or axis.is_told for axis in axes):
        return Padding.VALID
    return Padding.SAME if all(axis.fits() for axis in axes) else None


def padded(g: Graph, x: Value, axes: Sequence[Axis], value: float = 0) -> Value:
    """The input (n, spatial..., c) with the axes' padding around it."""
    if not any(axis.before or axis.after or axis.is_told for axis in axes):
        return x
    sides = [each for k, axis in enumerate(axes) for each in _sides(g, x, 1 + k, axis)]
    none = c.integers([0, 0])
    amounts = c.cast(g, c.reshape(g, c.concatenate(g, [none, *sides, none]), (len(axes) + 2, 2)), DType.INT32)
    if not value:
        return g.apply(pad.Pad(), x, amounts)
    return g.apply(pad.PadV2(), x, amounts, c.like(value, x))


def _sides(g: Graph, x: Value, number: int, axis: Axis) -> tuple[Value, Value]:
    """How much padding is before and behind an axis of x, (1,) each."""
    if axis.open_same is None or axis.stride == 1:
        return c.integers([axis.before]), _behind(g, x, number, axis)
    length, stride, two = c.dimension(g, x, number), c.integers([axis.stride]), c.integers([2])
    last = g.apply(elementwise.FloorDiv(), c.shift(g, length, -1), stride)
    needed = c.shift(g, c.subtract(g, c.multiply(g, last, stride), length), axis.span)
    total = c.maximum(g, needed, c.integers([0]))
    before = g.apply(elementwise.FloorDiv(), c.shift(g, total, int(axis.open_same is Same.LOWER)), two)
    return before, c.subtract(g, total, before)


def taps(g: Graph, x: Value, axes: Sequence[Axis]) -> list[Value]:
    """The elements that windows cover of a padded value (n, spatial..., c): as many values as a window has elements,
    row by row.

    Raises:
        UnsupportedError: these are too many.
    """
    count, taken = prod(axis.size for axis in axes), []
    if count > MOST_TAPS:
        raise UnsupportedError(f"the elements of windows of {count} (at most {MOST_TAPS})")
    for place in product(*(range(axis.size) for axis in axes)):
        first = [k * axis.dilation for k, axis in zip(place, axes, strict=True)]
        last = [start + 1 - axis.span for start, axis in zip(first, axes, strict=True)]
        whole = [number for number, end in enumerate([0, *last, 0]) if not end]
        op = layout.StridedSlice(end_mask=sum(1 << number for number in whole))
        bounds = ([0, *first, 0], [0, *last, 0], [1, *(axis.stride for axis in axes), 1])
        taken.append(g.apply(op, x, *map(c.integers, bounds)))
    return taken


def _behind(g: Graph, x: Value, number: int, axis: Axis) -> Value:
    """How much padding is behind an axis of x, (1,)."""
    if axis.overhang is Overhang.NONE:
        return c.integers([axis.after])

    def windows(more: int) -> Value:
        return g.apply(elementwise.FloorDiv(), c.shift(g, length, more), c.integers([axis.stride]))

    length = c.dimension(g, x, number)
    last = windows(axis.before + axis.after - axis.span + axis.stride - 1)
    if axis.overhang is Overhang.INSIDE:
        last = c.minimum(g, last, windows(axis.before - 1))
    needed = c.shift(g, c.subtract(g, c.scale(g, last, axis.stride), length), axis.span - axis.before)
    return c.maximum(g, needed, c.integers([0]))


def flat(axes: Sequence[Axis]) -> list[Axis]:
    """The axes of an image: a sequence is an image of height 1."""
    return [Axis(1, 1), *axes] if len(axes) == 1 else list(axes)
