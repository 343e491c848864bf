"""The errors circlet raises. Each message says what was expected, what was found, and where."""

from __future__ import annotations

from collections.abc import Iterable

from circlet.runtime.records import dataclass

CLOSE = 0.6
"""How alike two words are, of 1, for one to be a misspelt other."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """What a misspelt word may have been meant to be: `; did you mean 'x'?`, or nothing."""
    from difflib import get_close_matches  # takes a while to import, and is seldom needed

    found = get_close_matches(word, list(known), 1, CLOSE)
    return f"; did you mean {found[0]!r}?" if found else ""


def plural(number: int, noun: str) -> str:
    """A number of things, e.g. `2 inputs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class CircletError(Exception):
    """Base of every error that circlet raises on purpose."""


class ModelError(CircletError, ValueError):
    """The file or the model in memory is malformed."""


class UnsupportedError(CircletError, ValueError):
    """The model is well formed, but this build of circlet cannot run or write it."""


class InputError(CircletError, ValueError):
    """What the caller passed in does not fit the model."""


class ClosedError(CircletError, ValueError):
    """The session was closed."""


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


class RunError(CircletError, RuntimeError):
    """Base of the errors that end a run.

    Kernels raise them with a message alone; the frame that ran the kernel adds the place.
    """

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message if place is None else f"{place}: {message}")
        self.message = message
        self.place = place


class ExecutionError(RunError):
    """An operator met values that it cannot compute with."""


class LimitError(RunError):
    """A run went over its iteration limit or its deadline, or needs more memory than there is."""


class CancelledError(RunError):
    """A run was stopped by `Session.cancel()`."""
