"""What the code of a function refers to: places that can fail, buffers, calls of the host. Pure data."""

from __future__ import annotations

from typing import TypeAlias

from circlet.runtime.errors import Place
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.records import dataclass

UNKNOWN = 1 << 62
"""The work of functions of which nobody knows it."""
MOST_EVIDENCE = 32
"""Numbers that a message about a failure quotes: one for each axis that an array may have."""
COUNTED_COPIES = 2
"""Numbers in a tally before those of subgraphs: how many copies, and how many bytes."""

HOST_FAILED = "the host failed"
"""The message of a site where the host left an error, which is raised instead."""
EXHAUSTED = "the run has no iterations left"
"""The message of a site where iterations ran out, for which the run's own error is raised."""


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
class Request:
    """Where the code tells the host of tensors, in so many i64."""

    words: int


@dataclass(frozen=True)
class RegionTimes:
    """Where the code says how long its regions took."""


@dataclass(frozen=True)
class TurnTimes:
    """Where the code says how long turns of its loops took."""


@dataclass(frozen=True)
class TimedRegion:
    """What the code times: an operator, a subgraph that one invokes, or copies at its border."""

    parent: int
    """The number of the region around it; -1 where there is none."""
    kind: str
    subgraph: int
    operator: int
    loop: int = -1
    """The number of the loop that the operator is; -1 for others."""
    is_host: bool = False
    """Whether numpy computes the operator, which times it too."""


@dataclass(frozen=True)
class OpenLengths:
    """The open lengths, an i64 each, and those that the function computes."""

    count: int


Source: TypeAlias = (
    "OpenLengths | Held | Variable | Cell | Marks | Holder | RunNumber | Called | Fixed | Evidence | Tally | "
    "Request | RegionTimes | TurnTimes")
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
class Told:
    """A tensor of which the code says, at each call, where it lies and what shape it has."""

    rank: int
    dtype: DType
    is_late: bool = False
    """Whether the host computes the shape; the code says then how long each axis is at the most."""
    growing: Shape = ()
    """The axes of these which may turn out longer, as the code then leaves to be given more room."""


@dataclass(frozen=True)
class HostCall:
    """An operator computed by a numpy kernel in the midst of native code.

    At fixed shapes, arrays outside the arena are passed as they are, everything else through staging buffers; at open
    lengths the code tells of every tensor.
    """

    subgraph: int
    operator: int
    inputs: tuple[External | Staging | Told | None, ...]
    outputs: tuple[External | Staging | Told, ...]
    region: int = -1
    """The number of the operator's region, where it is timed."""
    request: int = -1
    """The number of the array in which the code tells: for each tensor that is there, inputs first, its address and the
    length of each axis."""

    @property
    def position(self) -> tuple[int, int]:
        """The operator, by subgraph and index."""
        return self.subgraph, self.operator
