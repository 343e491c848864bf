"""The errors circlet raises. Each message says what was expected, what was found, and where."""

from __future__ import annotations

from dataclasses import dataclass


class CircletError(Exception):
    """Base of every error that circlet raises on purpose."""


class ModelError(CircletError):
    """The file or the model in memory is malformed."""


class UnsupportedError(CircletError):
    """The model is well formed, but this build of circlet cannot run or write it."""


class InputError(CircletError, ValueError):
    """What the caller passed in does not fit the model."""


@dataclass(frozen=True)
class Place:
    """Where in a model something happened."""

    subgraph: int
    subgraph_name: str
    operator: int
    operator_name: str
    tensor: str | None = None

    def __str__(self) -> str:
        text = f"subgraph {self.subgraph} ({self.subgraph_name!r}), operator {self.operator} ({self.operator_name})"
        return text if self.tensor is None else f"{text}, tensor {self.tensor}"


class ExecutionError(CircletError):
    """An operator met values that it cannot compute with.

    Kernels raise it with a message alone; the frame that ran the kernel adds the place.
    """

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message if place is None else f"{place}: {message}")
        self.message = message
        self.place = place


class LimitError(CircletError):
    """A run went over its iteration limit or its deadline."""


class CancelledError(CircletError):
    """A run was stopped by `Session.cancel()`."""
