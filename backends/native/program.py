"""What the lowering of a function collects beside the code: places that can fail, host calls, buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np

from circlet.backends.native.check.watched import Watched
from circlet.runtime.errors import Place
from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.ir.length import Assumption, Scope, may_be_less, value
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.records import dataclass

MOST_EVIDENCE = 32
"""Numbers that a message about a failure quotes: one for each axis that an array may have."""
COUNTED_COPIES = 2
"""Numbers in a tally before those of subgraphs: how many copies, and how many bytes."""
EMBEDDED_BYTES = 64
"""Constants up to this size are part of the code, so that LLVM can compute with them: a cache line. A choice."""

HOST_FAILED = "the host failed"
"""The message of a site where the host left an error, which is raised instead."""
EXHAUSTED = "the run has no iterations left"
"""The message of a site where iterations ran out, for which the run's own error is raised."""


class Unlowerable(Exception):
    """The operators cannot be made native code; the message says why."""


class RuleError(Unlowerable):
    """A rule, or LLVM, failed on something that it should have refused; the message says where."""

    @classmethod
    def at(cls, place: object, error: Exception) -> RuleError:
        """The error for a place in the model and what was raised there."""
        reason = " ".join(str(error).split())
        return cls(f"{place}: left to numpy, as its code could not be made ({type(error).__name__}: {reason})")


@dataclass(frozen=True)
class Site:
    """A place that can fail, and the message if it does."""

    place: Place
    message: str
    """With a `{}` for each number that the code gives as evidence."""
    numbers: int = 0


@dataclass(frozen=True)
class Quote:
    """An open length in the messages of sites."""

    text: str
    terms: Terms


@dataclass(frozen=True)
class Held:
    """The buffer that a frame has for a tensor."""

    tensor: int


@dataclass(frozen=True)
class Variable:
    """The memory of a variable tensor."""

    subgraph: int
    tensor: int


@dataclass(frozen=True)
class Cell:
    """One half of the memory for the values of a variable that have a type and shape."""

    handle: int
    shape: Shape
    dtype: DType
    half: int


@dataclass(frozen=True)
class Marks:
    """What says of each block of such memory when it was last kept; see `runtime/exec/state/cell.py`."""

    handle: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True)
class Holder:
    """The words of a variable; see `runtime/exec/state/variables.py`."""

    handle: int


@dataclass(frozen=True)
class RunNumber:
    """The word that says how many runs have begun."""


@dataclass(frozen=True)
class Called:
    """The word that says whether CALL_ONCE has run a subgraph."""

    subgraph: int


@dataclass(frozen=True)
class Fixed:
    """Something that is the same in every run, such as packed weights."""


FIXED = Fixed()
"""The only one that is needed."""


@dataclass(frozen=True)
class Evidence:
    """Where the code leaves the numbers that a message about a failure quotes."""


@dataclass(frozen=True)
class Tally:
    """Where the code counts, in i64: copies between subgraphs, their bytes, then invocations of each subgraph."""

    subgraphs: int


@dataclass(frozen=True)
class OpenLengths:
    """The open lengths, an i64 each, and those that the function computes."""

    count: int


Source: TypeAlias = (
    "OpenLengths | Held | Variable | Cell | Marks | Holder | RunNumber | Called | Fixed | Evidence | Tally")
"""What an array outside the arena is to the function."""


@dataclass(frozen=True)
class Staging:
    """A part of the arena through which a tensor passes between native code and the host."""

    offset: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True)
class External:
    """An array outside the arena, by its number among them, seen with a shape and an element type."""

    number: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True)
class HostCall:
    """An operator computed by a numpy kernel in the midst of native code.

    Arrays outside the arena are passed as they are, everything else through staging buffers.
    """

    subgraph: int
    operator: int
    inputs: tuple[External | Staging | None, ...]
    outputs: tuple[External | Staging, ...]

    @property
    def position(self) -> Position:
        """The operator, by subgraph and index."""
        return self.subgraph, self.operator


@dataclass
class Program:
    """What the lowering of a function collects beside the code."""

    sites: list[Site] = field(default_factory=list)
    host_calls: list[HostCall] = field(default_factory=list)
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
