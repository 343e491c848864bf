"""Windows that slide over spatial axes: how OpenVINO pads them, and the layout of circlet's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import elementwise, pad
from circlet.runtime.ops.window import slide
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node


class Overhang(Enum):
    """Windows that reach beyond an axis and its padding."""

    NONE = "none"
    ANY = "any"
    INSIDE = "inside"
    """Those that begin before the padding behind."""


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
    open_same: UnsupportedError | None = None
    """Where the padding is SAME of a length that is not known, what to say if it must be."""
    overhang: Overhang = Overhang.NONE
    """Which windows that reach beyond a length that is not known are there, too, for which there is more padding."""

    @property
    def span(self) -> int:
        return (self.size - 1) * self.dilation + 1

    def fits(self) -> bool:
        """Whether the schema's padding SAME is that of the axis."""
        if self.length < 1:
            return self.open_same is not None and self.overhang is Overhang.NONE
        same = slide(self.length, self.size, self.stride, Padding.SAME, self.dilation)
        needed = max((same.count - 1) * self.stride + self.span - self.length, 0)
        return (same.before, needed - same.before) == (self.before, self.after)


def axes_of(node: Node, sizes: Sequence[int]) -> list[Axis]:
    """The windows of a layer over the spatial axes of input 0, with explicit paddings.

    Raises:
        ModelError: attributes do not fit the axes.
        UnsupportedError: the padding depends on lengths that are not known.
    """
    count, lengths = len(sizes), node.shape(0)[2:]
    strides, dilations = (node.integers(name, [1] * count) for name in ("strides", "dilations"))
    mode = node.choice("auto_pad", {"explicit": "explicit", "notset": "explicit", "valid": "valid",
                                    "same_upper": "upper", "same_lower": "lower"}, "explicit")
    zeros = [0] * count
    before, after = (node.integers(f"pads_{side}", zeros) if mode == "explicit" else tuple(zeros)
                     for side in ("begin", "end"))
    if any(len(each) != count for each in (lengths, strides, dilations, before, after)):
        raise node.error(f"expected {len(lengths)} window sizes, strides, dilations and paddings, found {sizes}, "
                         f"{strides}, {dilations}, {before} and {after}")
    if min((*sizes, *strides, *dilations)) < 1 or min((*before, *after)) < 0:
        raise node.error(f"expected positive window sizes, strides and dilations and paddings that are not negative, "
                         f"found {sizes}, {strides}, {dilations}, {before} and {after}")
    axes = [Axis(*each) for each in zip(lengths, sizes, strides, dilations, before, after, strict=True)]
    return [_same(node, each, mode == "upper") for each in axes] if mode in ("upper", "lower") else axes


def _same(node: Node, axis: Axis, is_upper: bool) -> Axis:
    """The axis with padding that gives ceil(length / stride) positions."""
    if axis.length < 0:
        refusal = node.refusal("auto_pad of a length that is not known before the model runs")
        if is_upper:
            axis = replace(axis, open_same=refusal)
        elif axis.stride != 1:
            raise refusal
        total = axis.span - 1
    else:
        total = max((-(-axis.length // axis.stride) - 1) * axis.stride + axis.span - axis.length, 0)
    small = total // 2
    return replace(axis, before=small if is_upper else total - small, after=total - small if is_upper else small)


def padding_of(axes: Sequence[Axis]) -> Padding | None:
    """The schema's padding that does what the axes say; None where elements must be added."""
    if all(axis.before == axis.after == 0 and (axis.open_same is None or axis.stride == 1)
           and axis.overhang is Overhang.NONE for axis in axes):
        return Padding.VALID
    return Padding.SAME if all(axis.fits() for axis in axes) else None


def padded(g: Graph, x: Value, axes: Sequence[Axis], value: float = 0) -> Value:
    """The input (n, spatial..., c) with the axes' padding around it.

    Raises:
        UnsupportedError: it depends on lengths that are not known.
    """
    for axis in axes:
        if axis.open_same is not None and axis.stride != 1:
            raise axis.open_same
    if all(axis.before == axis.after == 0 and axis.overhang is Overhang.NONE for axis in axes):
        return x
    sides = [each for k, axis in enumerate(axes) for each in (c.integers([axis.before]), _behind(g, x, 1 + k, axis))]
    none = c.integers([0, 0])
    amounts = c.cast(g, c.reshape(g, c.concatenate(g, [none, *sides, none]), (len(axes) + 2, 2)), DType.INT32)
    if not value:
        return g.apply(pad.Pad(), x, amounts)
    return g.apply(pad.PadV2(), x, amounts, c.like(value, x))


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
