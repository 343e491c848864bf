"""What a function with bounds assertions expects and says. Nothing here writes code."""

from __future__ import annotations

import os
from collections.abc import Sequence

from circlet.runtime.errors import Place
from circlet.runtime.records import dataclass

VARIABLE = "CIRCLET_CHECK_BOUNDS"
"""The environment variable that, set to 1, has all native code check bounds."""
OUTSIDE = 3
"""What a checked function returns if an access was wrong: next to `abi.DONE` and `STOPPED`, below `FIRST_SITE`."""
NUMBERS = 5
"""Of the first wrong access: which it is, from 1; the operator; offset, bytes, bytes of the buffer."""


class BoundsError(AssertionError):
    """Native code was about to reach beyond a buffer: a mistake of the code, whatever the model and the inputs."""


def are_checked() -> bool:
    """Whether the environment asks for bounds assertions."""
    return os.environ.get(VARIABLE) == "1"


@dataclass(frozen=True)
class Watched:
    """What a checked function expects, and what is needed to say which access was wrong."""

    places: tuple[Place, ...]
    """The operators, in the order in which they were emitted."""
    accesses: tuple[str, ...]
    sizes: tuple[int | None, ...]
    """The bytes of the arrays in the table; None where they differ from run to run."""

    def expect(self, sizes: Sequence[int]) -> None:
        """Raises BoundsError unless the arrays of the table are as large as the function takes them for."""
        if len(sizes) != len(self.sizes) or any(
                wanted not in (None, size) for size, wanted in zip(sizes, self.sizes, strict=True)):
            raise BoundsError(f"the function is made for arrays of {self.sizes} bytes, given are {tuple(sizes)}")

    def error(self, evidence: Sequence[int]) -> BoundsError:
        """What the function left as evidence, in words."""
        access, place, offset, size, length = evidence[:NUMBERS]
        return BoundsError(f"{self.places[place]}: {self.accesses[access - 1]}: "
                           f"{size} bytes at {offset} of a buffer of {length} bytes")
