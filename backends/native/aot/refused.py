"""What is said of models that have no code for devices."""

from __future__ import annotations

from collections.abc import Mapping

from circlet.runtime.errors import Place, UnsupportedError


class RefusedError(UnsupportedError):
    """Operators have no code for devices; the message lists them all."""


def listed(refused: Mapping[Place, str]) -> str:
    """Operators and reasons, a line each."""
    lines = [f"  {place}: {reason}" for place, reason in refused.items()]
    return "\n".join((f"{len(lines)} operators have no code for devices:" if len(lines) > 1 else
                      "1 operator has no code for devices:", *lines))
