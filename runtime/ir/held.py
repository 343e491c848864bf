"""What tensors of type VARIANT hold: values of any shape, one behind the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.runtime.ir.types import Array


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
