"""What kernels, copies and frames come down to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Step: TypeAlias = Callable[[], object]
"""Computes something once, from the buffers it was bound to into the buffers it was bound to."""


def idle() -> None:
    """The step of what is done before the run."""
