"""What an object file holds."""

from __future__ import annotations

from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Contents:
    """What an object file holds.

    Attributes:
        code_bytes: of instructions.
        data_bytes: of what else is loaded: constants.
        exported: the names that others may use.
        needed: the names that others must have.
    """

    code_bytes: int
    data_bytes: int
    exported: tuple[str, ...]
    needed: tuple[str, ...]
