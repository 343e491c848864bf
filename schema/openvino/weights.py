"""The `.bin` file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Weights:
    """The content of the `.bin` file, which is opened when the first constant needs it."""

    open: Callable[[], memoryview]
    """
    Raises:
        ModelError: there is no such file.
    """

    @cached_property
    def data(self) -> memoryview:
        return self.open()
