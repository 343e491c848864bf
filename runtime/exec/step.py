"""What kernels, copies and frames come down to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from circlet.runtime.ir.terms import Assumption, Terms
from circlet.runtime.ir.types import Array

Step: TypeAlias = Callable[[], object]
"""Computes something once, from the buffers it was bound to into the buffers it was bound to."""


def idle() -> None:
    """The step of what is done before the run."""


def in_turn(steps: Sequence[Step]) -> Step:
    """Steps as one."""
    if len(steps) == 1:
        return steps[0]

    def run() -> None:
        for each in steps:
            each()

    return run


class OutgrownError(Exception):
    """A loop comes to a length for which it has no room; all that was done can be done again."""

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        self.lengths = tuple(lengths)
        """All lengths, with what there must be room for among them."""


class OpenStep(Protocol):
    """Computes a subgraph, at lengths and on buffers that may change between runs."""

    @property
    def assumptions(self) -> Sequence[Assumption]:
        """For which lengths it computes the subgraph."""
        ...

    @property
    def lengths(self) -> Sequence[int]:
        """The open lengths, and behind them those that the last call computed."""
        ...

    @property
    def needs(self) -> Sequence[Terms]:
        """The bytes that it needs beside the buffers."""
        ...

    def expect(self, sizes: Sequence[int]) -> None:
        """Makes memory for lengths which fit, and for which `needs` are some sizes.

        Raises:
            LimitError: there is not memory enough.
        """
        ...

    def resize(self, lengths: tuple[int, ...], arrays: Mapping[int, Array]) -> Step:
        """Takes other lengths, for which it has memory, and buffers by tensor; gives what runs at them once, until the
        next call. It raises `OutgrownError` where it is to be given more room and run again."""
        ...
