"""What computes a subgraph at lengths that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array


class OutgrownError(Exception):
    """A loop comes to a length for which it has no room; all that was done can be done again."""

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        self.lengths = tuple(lengths)
        """All lengths, with what there must be room for among them."""


class OpenStep(Protocol):
    """Computes a subgraph, at lengths and on buffers that may change between runs."""

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether it computes the subgraph at some lengths."""
        ...

    @property
    def lengths(self) -> Sequence[int]:
        """The open lengths, and behind them those that the last call computed."""
        ...

    def resize(self, lengths: tuple[int, ...], arrays: Mapping[int, Array]) -> Step:
        """Takes other lengths, which fit, and buffers by tensor; gives what runs at them once, until the next call.
        It raises `OutgrownError` where it is to be given more room and run again.

        Raises:
            LimitError: there is not memory enough.
        """
        ...
