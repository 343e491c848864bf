"""Operators that a file holds and circlet does not know."""

from __future__ import annotations

from circlet.runtime.ir.op import Opaque
from circlet.runtime.records import dataclass
from circlet.schema.flatbuffer import Value


@dataclass(frozen=True)
class Foreign(Opaque):
    """An operator with its options as the file has them, so that it can be printed and written back."""

    reason: str = ""
    """Why circlet does not know an operator whose code it does know."""
    options_table: str | None = None
    options: tuple[tuple[str, Value], ...] = ()
    """The fields of the options table that the file holds."""
    is_complete: bool = True
    """Whether `options` is all that the file says; otherwise the operator cannot be written."""
