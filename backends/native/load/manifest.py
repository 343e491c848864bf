"""What a function needs beside its code, and how that is written on the disk; see `codec.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from circlet.backends.native.check.watched import Watched
from circlet.backends.native.parts import (
    Called,
    Cell,
    Evidence,
    Held,
    Holder,
    HostCall,
    Marks,
    OpenLengths,
    Quote,
    RegionTimes,
    Request,
    RunNumber,
    Site,
    Tally,
    TimedRegion,
    TurnTimes,
    Variable,
)
from circlet.runtime.ir.terms import Assumption, Terms, value_of
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Constant:
    """A constant of the model, as it is there."""

    subgraph: int
    tensor: int


@dataclass(frozen=True)
class Stored:
    """A part of the bytes that are kept with the function."""

    offset: int
    size: int


Origin: TypeAlias = ("OpenLengths | Held | Variable | Cell | Marks | Holder | RunNumber | Called | Evidence | Tally | "
                     "Constant | Stored | Request | RegionTimes | TurnTimes")
"""Where a frame finds an array that its function reads or writes."""


@dataclass(frozen=True)
class Manifest:
    """What a function needs beside its code."""

    sites: tuple[Site, ...] = ()
    host_calls: tuple[HostCall, ...] = ()
    origins: tuple[Origin, ...] = ()
    arena_tops: tuple[Terms, ...] = ()
    """The arena has as many bytes as the largest of them."""
    scratch_bytes: Terms = ()
    """Of the memory that each thread has for itself."""
    shares_loops: bool = False
    is_brief: bool = False
    """Whether it is over in microseconds, whatever it computes."""
    work: Terms = ()
    """What it takes at the most, in multiply-adds of floats or bytes read and written; see `UNKNOWN`."""
    grows: bool = False
    """Whether it may be left to be entered again with more room."""
    outline: tuple[str, ...] = ()
    watched: Watched | None = None
    assumptions: tuple[Assumption, ...] = ()
    """For which open lengths the code is."""
    quotes: tuple[Quote, ...] = ()
    """Lengths that messages of sites quote."""
    regions: tuple[TimedRegion, ...] = ()
    """What the code times."""
    pieces: tuple[int, ...] = ()
    """The bytes of each object file, where it is kept."""
    labels: tuple[str, ...] = ()
    """Symbols and what tools call their functions by turns; nothing where a shared object says it."""
    notices: tuple[Site, ...] = ()
    """What the host is asked to warn of."""

    def arena_bytes(self, lengths: Sequence[int]) -> int:
        """How large the arena is for some open lengths."""
        return max((value_of(each, lengths) for each in self.arena_tops), default=0)

    @property
    def functions(self) -> dict[str, str]:
        """What tools call functions, by their symbols."""
        return dict(zip(self.labels[::2], self.labels[1::2], strict=True))

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether the code is for some open lengths."""
        return all(each.fits(lengths) for each in self.assumptions)
