"""What the lowering of a function collects beside the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlet.backends.native.check.watched import Watched
from circlet.backends.native.parts import MOST_EVIDENCE, UNKNOWN, HostCall, Quote, Site, Source, TimedRegion
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.ir.length import Scope, may_be_less, value
from circlet.runtime.ir.terms import Assumption
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass, field

EMBEDDED_BYTES = 64
"""Constants up to this size are part of the code, so that LLVM can compute with them: a cache line. A choice."""



class Unlowerable(Exception):
    """The operators cannot be made native code; the message says why."""


class RuleError(Unlowerable):
    """A rule, or LLVM, failed on something that it should have refused."""

    def __init__(self, place: object, error: Exception) -> None:
        """
        Args:
            place: in the model.
            error: what was raised there.
        """
        why = f"its code could not be made ({type(error).__name__}: {' '.join(str(error).split())})"
        super().__init__(f"{place}: left to numpy, as {why}")
        self.problem = f"{place}: {why}"
        """The same where it is not left to numpy."""


@dataclass
class Program:
    """What the lowering of a function collects beside the code."""

    sites: list[Site] = field(default_factory=list)
    host_calls: list[HostCall] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why the host computes the operator of each of them."""
    notices: list[Site] = field(default_factory=list)
    """What the host is asked to warn of."""
    externals: list[Array] = field(default_factory=list)
    """The arrays outside the arena."""
    sources: list[Source] = field(default_factory=list)
    """What each of them is."""
    arena_tops: list[int] = field(default_factory=list)
    """How far the arena is used, at its fullest moments; with open lengths these have no order."""
    scratch_bytes: int = 0
    """Of the memory that each thread has for itself."""
    shares_loops: bool = False
    """Whether threads share out loops."""
    is_brief: bool = False
    """Whether the function is over in microseconds, whatever it computes."""
    work: int = UNKNOWN
    """What it takes at the most, in multiply-adds of floats or bytes read and written."""
    grows: bool = False
    """Whether the function may be left to be entered again with more room."""
    evidence: Array = field(default_factory=lambda: np.zeros(MOST_EVIDENCE, np.int64))
    outline: list[str] = field(default_factory=list)
    """What was emitted, a line an operator, for people to read."""
    crossings: dict[CopyEdge, None] = field(default_factory=dict)
    """What crosses the borders of subgraphs, in order."""
    watched: Watched | None = None
    """What bounds assertions say, where there are any."""
    assumptions: tuple[Assumption, ...] = ()
    """For which open lengths the code is."""
    quotes: tuple[Quote, ...] = ()
    """Lengths that messages of sites quote."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What functions are called by tools, by their symbols."""

    regions: tuple[TimedRegion, ...] = ()
    """What the code times."""

    def assume(self, scope: Scope) -> None:
        """Takes what was assumed of open lengths, and what messages call them."""
        self.assumptions = scope.assumptions
        self.quotes = tuple(Quote(text, terms) for text, terms in scope.quoted.items()
                            if any(text in each.message for each in self.sites))

    def arena_bytes(self, lengths: Sequence[int]) -> int:
        """How large the arena is for some open lengths."""
        return max((value(each, lengths) for each in self.arena_tops), default=0)

    def reserve(self, top: int) -> None:
        """The arena is used up to a place."""
        if all(may_be_less(each, top) for each in self.arena_tops):
            self.arena_tops = [each for each in self.arena_tops if may_be_less(top, each)] + [top]
