"""Why a backend cannot compute an operator, in words: what it expects and what it found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType

Refusal: TypeAlias = Callable[[Call], "str | None"]
"""Why a call is refused; None where it is not."""


def only(dtypes: Collection[DType], operand: int = 0) -> Refusal:
    """Refuses all calls but those whose input `operand` has one of the types."""
    def refuses(call: Call) -> str | None:
        found = call.input(operand).dtype
        return None if found in dtypes else \
            f"element type {found.value} of input {operand} (supported: {names(dtypes)})"

    return refuses


def all_of(*refusals: Refusal) -> Refusal:
    """Refuses what any of several refuses, for the reason of the first one that does."""
    return lambda call: next((reason for each in refusals if (reason := each(call)) is not None), None)


def refusal(objections: Callable[[Call], Iterator[str]]) -> Refusal:
    """Refuses a call for the first of the objections to it; later ones may rely on what earlier ones exclude."""
    return lambda call: next(objections(call), None)


def names(dtypes: Collection[DType]) -> str:
    """The names of element types, for messages."""
    return ", ".join(sorted(dtype.value for dtype in dtypes))
