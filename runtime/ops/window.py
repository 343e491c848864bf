"""Windows that slide over the spatial axes of a tensor: sizes and padding, shared by convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.length import is_late, is_length, is_open, larger, may_differ
from circlet.runtime.ir.op import Op, Operand, ShapeError
from circlet.runtime.ir.types import Activation, Padding, Shape
from circlet.runtime.ops.operands import reaches
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Window:
    """How a window slides along one axis: position p covers inputs `p * stride - before + k * dilation`, k < size."""

    size: int
    stride: int
    dilation: int
    length: int
    """Elements of the input."""
    count: int
    """Positions of the window."""
    before: int
    """Padding in front of the input."""
    around: int | None = None
    """How much padding there is in front of the input or behind it at the most, where an operator says so."""

    @property
    def span(self) -> int:
        """Elements from the first that the window covers to the last."""
        return (self.size - 1) * self.dilation + 1

    @property
    def after(self) -> int:
        """Padding behind the input."""
        return larger((self.count - 1) * self.stride + self.span - self.before - self.length, 0)

    @property
    def most_padded(self) -> int:
        """What `before` and `after` are at the most, whatever the length is: SAME pads both sides alike, and by less
        than the window spans together."""
        return self.span // 2 if self.around is None else self.around

    @property
    def is_padded(self) -> bool:
        """Whether positions may meet padding."""
        return may_differ(self.before, 0) or may_differ(self.after, 0)

    def trimmed(self) -> Window:
        """The window without the elements that meet padding at all positions; its dilation is 1. Which ones these are
        is not known of an open length, whose window stays as it is."""
        if is_open((self.length, self.count)):
            return self
        if not self.count:
            return replace(self, size=1, before=0)
        first = max(self.before - (self.count - 1) * self.stride, 0)
        return replace(self, size=min(self.size, self.before + self.length) - first, before=self.before - first)

    def tap(self, index: int) -> slice:
        """What element `index` of the window meets, position by position, in the padded input."""
        start = index * self.dilation
        return slice(start, start + max((self.count - 1) * self.stride + 1, 0), self.stride)

    def meets(self, index: int) -> tuple[slice, slice]:
        """The positions at which element `index` of the window lies inside the input, and what it meets there."""
        offset = index * self.dilation - self.before
        first = max(-(offset // self.stride), 0)
        count = max(min((self.length - 1 - offset) // self.stride + 1, self.count) - first, 0)
        begin = first * self.stride + offset if count else 0
        return slice(first, first + count), slice(begin, begin + count * self.stride, self.stride)


def slide(length: int, size: int, stride: int, padding: Padding, dilation: int = 1, around: tuple[int, int] = (0, 0)
          ) -> Window:
    """The window of an operator with the schema's padding: SAME gives `ceil(length / stride)` positions, VALID as many
    as fit into the input with some elements of padding before and after it.

    Raises:
        ShapeError: an argument is not positive, or the window does not fit.
    """
    if min(size, stride, dilation) < 1:
        raise ShapeError(f"a window needs positive sizes, found size {size}, stride {stride}, dilation {dilation}")
    if padding is Padding.SAME and dilation > 4 and not is_length(length):
        # All but the middle of a window this wide meets padding alone. Whether the middle is an element stays so.
        # A window that slides along an open length stays as wide as it is, so that code knows where its elements are.
        widest = 4 * length + 4
        dilation = min(dilation, widest + (dilation - widest) % 2)
    span = (size - 1) * dilation + 1
    if padding is Padding.SAME:
        count = (length + stride - 1) // stride
        return Window(size, stride, dilation, length, count, larger((count - 1) * stride + span - length, 0) // 2)
    before, whole = around[0], length + sum(around)
    reach = whole + stride - span
    if not reaches(whole, span - stride):
        raise ShapeError(f"a window that spans {span} elements does not fit into {whole}")
    count = (larger(reach, 0) if is_late(reach) else reach) // stride
    return Window(size, stride, dilation, length, count, before, max(around))


@dataclass(frozen=True)
class Windowed(Op):
    """Base of the operators that slide a window over an image (n, h, w, c)."""

    padding: Padding = Padding.SAME
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: Activation = Activation.NONE

    def image_windows(self, image: Shape, sizes: Sequence[int], dilations: Sequence[int] = (1, 1),
                      explicit_paddings: Sequence[int] = ()) -> tuple[Window, ...]:
        """The windows of the given sizes along height and width of an image. Where `padding` is VALID there may be rows
        of padding above and below it, and columns before and behind it."""
        strides, (above, below, before, behind) = (self.stride_h, self.stride_w), explicit_paddings or (0,) * 4
        around = (above, below), (before, behind)
        return tuple(slide(length, size, stride, self.padding, dilation, each) for length, size, stride, dilation, each
                     in zip(image[1:3], sizes, strides, dilations, around, strict=True))


def expect_bias(bias: Operand | None, channels: int) -> None:
    """Checks that a bias, if there is one, has an element for each output channel."""
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"the bias must have shape ({channels},), found {bias.shape}")
