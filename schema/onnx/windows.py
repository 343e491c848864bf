"""Windows that slide over images."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass
from circlet.schema.onnx.node import Node


@dataclass(frozen=True)
class Windows:
    """How windows slide over the spatial axes, an entry for each."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    """Padding in front, not counting what only a window at the end of a rounded-up count covers."""
    after: tuple[int, ...]
    """Padding behind."""
    same: bool
    """The padding is what circlet calls SAME."""
    more: tuple[int, ...]
    """Elements behind the padding that the last window reaches into where their count is rounded up."""
    automatic: str = ""
    """SAME_UPPER or SAME_LOWER, where what is before and behind hangs on lengths that are open."""
    rounds_up: bool = False
    """Whether it hangs on these how far the last window reaches."""

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def span(self) -> tuple[int, ...]:
        return tuple((size - 1) * step + 1 for size, step in zip(self.size, self.dilation, strict=True))

    @property
    def pads(self) -> list[tuple[int, int]]:
        """All padding, before and after each spatial axis."""
        return [(before, after + more) for before, after, more
                in zip(self.before, self.after, self.more, strict=True)]

    def along(self, axis: int) -> Windows:
        """Those that slide over one axis, a single element wide along the others."""
        def alone(numbers: tuple[int, ...], other: int) -> tuple[int, ...]:
            return tuple(each if k == axis else other for k, each in enumerate(numbers))

        return replace(self, size=alone(self.size, 1), stride=alone(self.stride, 1), dilation=alone(self.dilation, 1),
                       before=alone(self.before, 0), after=alone(self.after, 0), more=alone(self.more, 0))

    @property
    def is_open(self) -> bool:
        """Whether open lengths tell the padding."""
        return self.rounds_up or bool(self.automatic)

    @property
    def is_padded(self) -> bool:
        """Whether there may be padding."""
        return self.is_open or any(map(any, self.pads))


def windows(node: Node, sizes: Shape) -> Windows:
    """The windows of a convolution or of pooling over the first input.

    Raises:
        ModelError: the attributes do not fit each other.
    """
    rank = len(sizes)
    if rank != node.rank() - 2:
        raise ModelError(f"expected a window over the spatial axes of an input of shape {node.shape()}, found {sizes}")
    stride, dilation = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers("pads", (0,) * 2 * rank)
    if not len(stride) == len(dilation) == rank or len(pads) != 2 * rank:
        raise ModelError(f"expected {rank} strides and dilations and {2 * rank} pads, found {stride}, {dilation} and "
                         f"{pads}")
    if min(*sizes, *stride, *dilation) < 1 or min(pads) < 0:
        raise ModelError(f"expected positive sizes, strides and dilations and pads that are not negative, found "
                         f"{sizes}, {stride}, {dilation} and {pads}")
    found = Windows(sizes, stride, dilation, pads[:rank], pads[rank:], False, (0,) * rank)
    return _automatic(node, found, node.string("auto_pad", "NOTSET"))


def _automatic(node: Node, found: Windows, mode: str) -> Windows:
    lengths = node.shape()[2:]
    if mode == "VALID":
        zero = (0,) * found.rank
        return _rounded(node, replace(found, before=zero, after=zero))
    if mode == "NOTSET":
        is_told = all(length >= 0 or step == 1 for length, step in zip(lengths, found.stride, strict=True))
        same = is_told and _same(found, lengths) == (found.before, found.after)
        return _rounded(node, replace(found, same=same))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, found {mode!r}")
    if any(length < 0 and step > 1 for length, step in zip(lengths, found.stride, strict=True)):
        return replace(found, same=mode == "SAME_UPPER", automatic=mode)
    before, after = _same(found, lengths)
    if mode == "SAME_LOWER":
        before, after = after, before
    return replace(found, before=before, after=after, same=mode == "SAME_UPPER" or before == after)


def _same(found: Windows, lengths: Shape) -> tuple[Shape, Shape]:
    """The padding with which there are ceil(length / stride) windows, the odd element behind. With steps of 1 it hangs
    on no length."""
    total = [span - 1 if step == 1 else max((ceil(length / step) - 1) * step + span - length, 0)
             for length, step, span in zip(lengths, found.stride, found.span, strict=True)]
    return tuple(each // 2 for each in total), tuple(each - each // 2 for each in total)


def _rounded(node: Node, found: Windows) -> Windows:
    """The windows with what they need behind the padding if their count is rounded up; the last one begins before
    that."""
    if not node.integer("ceil_mode", 0):
        return found
    lengths = node.shape()[2:]
    if -1 in lengths:
        return replace(found, same=False, rounds_up=True)
    result = []
    for length, step, span, front, back in zip(lengths, found.stride, found.span, found.before, found.after,
                                               strict=True):
        count = ceil((length + front + back - span) / step) + 1
        if (count - 1) * step >= length + front:
            count -= 1
        result.append(max((count - 1) * step + span - length - front - back, 0))
    return replace(found, more=tuple(result))
