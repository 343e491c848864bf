"""What tensors of type VARIANT hold: values of any shape, one behind the other."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class SequenceOf:
    """A list of values of one type."""

    element: ValueType

    def __str__(self) -> str:
        return f"sequence of {value_text(self.element)}"


@dataclass(frozen=True)
class OptionalOf:
    """A value, or none."""

    element: ValueType

    def __str__(self) -> str:
        return f"optional {value_text(self.element)}"


ValueType: TypeAlias = "DType | SequenceOf | OptionalOf"
"""What a value is: a tensor of some element type, or what holds such."""


def value_text(type: ValueType) -> str:
    """A type in words, e.g. `sequence of float32`."""
    return type.value if isinstance(type, DType) else str(type)


@dataclass(frozen=True, eq=False)
class Held:
    """The values of a sequence, or the one of an optional that is there; nobody writes to them."""

    items: tuple[Array | Held, ...] = ()
    is_single: bool = False
    """It is the value of an optional that is a tensor. The optional of a sequence is the sequence."""

    @property
    def array(self) -> Array:
        """A tensor that holds this."""
        return holding(self)


def holding(held: Held | None) -> Array:
    """A tensor of type VARIANT and no dimensions; it holds None for an optional that is not there."""
    result = np.empty((), object)
    result[()] = held
    return result
