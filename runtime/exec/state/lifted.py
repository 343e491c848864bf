"""Variables that a subgraph takes as inputs, and gives as results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.controlflow import CallOnVariables

_TRUE = np.ones((), np.bool_)


@final
class LiftedVariables:
    """The variables of an operator, in a session."""

    def __init__(self, op: CallOnVariables, variables: Variables) -> None:
        self._variables = variables
        self._read, self._assigned, self._flags = ([variables.handle(*each) for each in side]
                                                   for side in (op.read, op.assigned, op.flags))
        self._once = op.once
        self._are_new = True
        """Whether any had no value when they were asked for last."""

    def values(self, first: Callable[[], Sequence[Array]]) -> Sequence[Array]:
        """Their values, which stay as they are; `first` gives what stands for those that have none."""
        found = [self._variables.value(each) for each in self._read]
        held = [each for each in found if each is not None]
        self._are_new = len(held) < len(found)
        if not self._are_new:
            return held
        return [other if each is None else each for each, other in zip(found, first(), strict=True)]

    def assign(self, values: Sequence[Array], is_given: bool) -> None:
        """Makes results values, of which those that were asked for are no longer needed.

        Args:
            values: one for each variable that is assigned.
            is_given: whether nobody else has these arrays.
        """
        variables = self._variables
        give = variables.give if is_given else variables.assign
        for handle, value in zip(self._assigned, values, strict=True):
            give(handle, value)
        if self._are_new:
            for handle in self._flags:
                variables.give(handle, _TRUE)
            for subgraph in self._once:
                variables.called(subgraph).fill(1)
