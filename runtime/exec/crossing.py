"""One value that crosses the border of a subgraph, and the operator that makes it cross."""

from __future__ import annotations

from typing import TypeAlias

from circlet.runtime.passes.analyses.transfer import Action
from circlet.runtime.records import dataclass

Position: TypeAlias = "tuple[int, int]"
"""A subgraph and an operator in it."""


@dataclass(frozen=True)
class CopyEdge:
    """One value crossing the border between an operator and a subgraph that it invokes."""

    subgraph: int
    """Of the operator that invokes."""
    operator: int
    edge: str
    """E.g. `carry 2`, `then output 0`."""
    bytes: int | None
    """None where only a run can tell."""
    per_iteration: bool
    """Whether it is crossed in every turn of a loop."""
    action: Action
    reason: str

    @property
    def position(self) -> Position:
        return self.subgraph, self.operator
