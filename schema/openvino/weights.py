"""The `.bin` file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property


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
