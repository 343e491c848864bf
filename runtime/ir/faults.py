"""What callers see of the errors that operators raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from circlet.runtime.errors import CircletError, ExecutionError, LimitError, Place, RunError
from circlet.runtime.late import LOADING
from circlet.runtime.records import replace

FAULTS = (CircletError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError)
"""What may come from an operator: circlet's errors, and numpy's own on operands that no rule foresaw."""


def raise_located(error: Exception, place: Place) -> NoReturn:
    """Raises an error of an operator as a `RunError` that names the operator's place."""
    with LOADING:
        from circlet.runtime.ir.op import ShapeError

    if isinstance(error, RunError) and error.place is None:
        raise type(error)(error.message, place) from None
    if isinstance(error, ShapeError):
        if error.member is not None:
            number, name = error.member
            place = replace(place, operator=number, operator_name=name)
        raise ExecutionError(str(error), place) from None
    if isinstance(error, CircletError):
        raise error
    if isinstance(error, MemoryError):
        raise LimitError(f"out of memory: {error}", place) from None
    raise ExecutionError(f"{type(error).__name__}: {error}", place) from error


class located:  # noqa: N801  # reads as a phrase: `with located(executor.place, number):`
    """Gives errors that an operator raises the operator's place."""

    def __init__(self, place: Callable[[int], Place], number: int) -> None:
        self._place = place
        self._number = number

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FAULTS):
            raise_located(error, self._place(self._number))
