"""What is known of tensors that are longer than the values in them."""

from __future__ import annotations

from collections.abc import Mapping

from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

COUNTER = DType.INT32
"""The element type of lengths."""


class Refused(Exception):
    """A loop cannot be padded; the message says why."""


class NotKnown(Exception):
    """A number is known only when the loop runs."""


@dataclass(frozen=True)
class Length:
    """A length that changes from turn to turn: that of a group of carried tensors when the turn begins, and more."""

    group: int
    extra: int = 0

    def plus(self, count: int) -> Length:
        return Length(self.group, self.extra + count)


@dataclass(frozen=True)
class Padded:
    """A tensor whose elements from a length on, along some axes, have no meaning."""

    axes: Mapping[int, Length]
    """The lengths, by axis; along each the tensor is as long as the buffers of that group."""
    is_zero: bool = False
    """Whether the elements beyond are zero."""

    def along(self, axes: Mapping[int, Length]) -> Padded:
        """The same elements with their lengths along other axes."""
        return Padded(axes, self.is_zero)
