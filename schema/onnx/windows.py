"""Windows that slide over images."""

from __future__ import annotations

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

    @property
    def is_padded(self) -> bool:
        return any(map(any, self.pads))


def windows(node: Node, sizes: Shape) -> Windows:
    """The windows of a convolution or of pooling over the first input.

    Raises:
        ModelError: the attributes do not fit each other.
        UnsupportedError: dimensions that decide the padding are not known.
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
        return Windows(found.size, found.stride, found.dilation, zero, zero, False, _more(node, found, zero, zero))
    if mode == "NOTSET":
        same = -1 not in lengths and _same(found, lengths) == (found.before, found.after)
        return Windows(found.size, found.stride, found.dilation, found.before, found.after, same,
                       _more(node, found, found.before, found.after))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, found {mode!r}")
    if -1 in lengths:
        node.unsupported(f"auto_pad {mode} of an input of shape {node.shape()}")
    before, after = _same(found, lengths)
    if mode == "SAME_LOWER":
        before, after = after, before
    return Windows(found.size, found.stride, found.dilation, before, after, mode == "SAME_UPPER" or before == after,
                   (0,) * found.rank)


def _same(found: Windows, lengths: Shape) -> tuple[Shape, Shape]:
    """The padding with which there are ceil(length / stride) windows, the odd element behind."""
    total = [max((ceil(length / step) - 1) * step + span - length, 0)
             for length, step, span in zip(lengths, found.stride, found.span, strict=True)]
    return tuple(each // 2 for each in total), tuple(each - each // 2 for each in total)


def _more(node: Node, found: Windows, before: Shape, after: Shape) -> Shape:
    """What windows need behind the padding if their count is rounded up; the last one begins before that."""
    if not node.integer("ceil_mode", 0):
        return (0,) * found.rank
    lengths = node.shape()[2:]
    if -1 in lengths:
        node.unsupported(f"ceil_mode of an input of shape {node.shape()}")
    result = []
    for length, step, span, front, back in zip(lengths, found.stride, found.span, before, after, strict=True):
        count = ceil((length + front + back - span) / step) + 1
        if (count - 1) * step >= length + front:
            count -= 1
        result.append(max((count - 1) * step + span - length - front - back, 0))
    return tuple(result)

