"""Where the inputs and results of a subgraph lie, at any lengths. Pure data."""

from __future__ import annotations

from circlet.runtime.errors import Place
from circlet.runtime.ir.terms import Assumption, Terms, fixed
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Border:
    """An input or a result, or what the step wants to find."""

    tensor: int
    dtype: DType
    shape: tuple[Terms, ...]
    buffer: int | None
    """Where it lies; None for what follows from the lengths alone."""
    offset: int = 0
    """The byte where it begins there; 0 where lengths are open."""
    numbers: tuple[Terms, ...] = ()
    """The elements of what lies nowhere, unless they are the same for all lengths."""


@dataclass(frozen=True)
class Buffer:
    """Memory that inputs and results have in common."""

    number: int
    size: Terms
    """Bytes."""


@dataclass(frozen=True)
class Layout:
    """Where the inputs and results of a subgraph lie."""

    place: Place
    """The subgraph, for errors."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    borders: tuple[Border, ...]
    """Each input and result once, and other tensors with memory."""
    buffers: tuple[Buffer, ...]
    assumptions: tuple[Assumption, ...] = ()
    """For which lengths."""
    room: tuple[int, ...] = ()
    """Where loops grow, lengths behind the open ones to begin with: 0, or for how much there is room."""

    def input_shapes(self) -> tuple[Shape, ...]:
        """Those of the inputs, which are fixed."""
        shapes = {each.tensor: each.shape for each in self.borders}
        return tuple([tuple(map(fixed, shapes[each])) for each in self.inputs])
