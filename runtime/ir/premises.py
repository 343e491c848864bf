"""What is taken for granted of lengths and of numbers that only a run tells, where that tells more of a model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from circlet.runtime.ir.terms import Terms
from circlet.runtime.records import dataclass

_NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Premises:
    """What code may rely on; a run for which it does not hold takes other code, or leaves it."""

    least: Mapping[int, int] = _NONE
    """The least lengths, by number, where that is not what a symbol stands for anyway; positive."""
    told: int = 0
    """What numbers that the run tells, and sizes follow from, are at the least."""
    promises: bool = False
    """Whether positions that the run tells are taken to lie on the axes that they are of, and sizes of which only a run
    tells whether they are equal to be so where they must be, but for those of 1."""

    @property
    def told_part(self) -> int:
        """As `told`, of numbers that say where parts begin and end."""
        return self.told if self.promises else 0


NO_PREMISES = Premises()


class Promised:
    """Which sizes of one derivation were taken to be equal."""

    def __init__(self) -> None:
        self.terms: list[Terms] = []
        """What is 0 then; code leaves a run where one of them turns out not to be."""
        self.is_closed = False
        """Whether no more are taken."""
