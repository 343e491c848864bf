"""Bounds on a run."""

from __future__ import annotations

from circlet.runtime.errors import CircletError, LimitError, UnsupportedError
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on one run. A run that goes over one of them ends with LimitError.

    Attributes:
        max_iterations: loop iterations, summed over all loops of the run; None for no bound.
        deadline: seconds from the call, compiling included; None for no bound. What was compiled in time is kept, and
            the rest is made meanwhile, for the next call.
        memory: bytes that the buffers of the run may take at a time; by default as many as half of the memory that is
            free when the run comes to need more than a little. Inputs, results and what numpy takes within an operator
            are not counted.
    """

    max_iterations: int | None = None
    deadline: float | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        bounds = {"max_iterations": self.max_iterations, "deadline": self.deadline, "memory": self.memory}
        for name, value in bounds.items():
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")


UNLIMITED = Limits()
"""What sets no bounds."""


def overrun(error: RecursionError | MemoryError) -> CircletError:
    """What running out of stack or memory means."""
    if isinstance(error, RecursionError):
        return UnsupportedError("subgraphs call each other too deeply to be run")
    return LimitError(f"out of memory: {error}")
