"""Steps for any lengths, one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from circlet.runtime.exec.step import OpenStep, Step, in_turn
from circlet.runtime.ir.terms import Assumption
from circlet.runtime.ir.types import Array


@final
class Chained:
    """Computes a subgraph in parts, none of which computes a length."""

    def __init__(self, parts: Sequence[OpenStep]) -> None:
        """
        Args:
            parts: in the order in which they run.
        """
        self._parts = parts
        self.assumptions: Sequence[Assumption] = tuple(dict.fromkeys(found for each in parts
                                                                     for found in each.assumptions))
        self.needs = tuple(found for each in parts for found in each.needs)
        self.lengths: Sequence[int] = ()
        """The open ones."""
        self._steps: list[Step] = []
        self._step: Step | None = None

    def expect(self, sizes: Sequence[int]) -> None:
        begin = 0
        for each in self._parts:
            end = begin + len(each.needs)
            each.expect(sizes[begin:end])
            begin = end

    def resize(self, lengths: tuple[int, ...], arrays: Mapping[int, Array]) -> Step:
        self.lengths = lengths
        steps = [each.resize(lengths, arrays) for each in self._parts]
        if self._step is None or steps != self._steps:
            self._steps, self._step = steps, in_turn(steps)
        return self._step
