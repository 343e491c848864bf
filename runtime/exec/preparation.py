"""What is known of a model before it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.values.inputs import Direct
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.frames.cache import Invocable, Key
    from circlet.runtime.exec.frames.lent_frame import LentFrame
    from circlet.runtime.exec.frames.whole_frame import WholeFrame
    from circlet.runtime.exec.values.inputs import Lane


class Frames(Protocol):
    """Makes frames of a model that was read."""

    def frame(self, index: int, shapes: tuple[Shape, ...], run: Run) -> Invocable:
        """A subgraph bound to memory for inputs of some shapes."""
        ...

    def resizable_frame(self, index: int, shapes: tuple[Shape, ...], run: Run) -> EntryFrame:
        """The same, for others too where that can be."""
        ...


Read: TypeAlias = "Callable[[], Frames]"
"""Reads a model to make frames of it."""


class EntryFrame(Direct, Protocol):
    """A subgraph bound to memory of a run."""

    run: Run
    lane: Lane | None
    """Of the entry point that used it last."""
    is_direct: bool
    """Whether callers' arrays are copied to `inputs`, so that it can be run by these alone."""

    @property
    def opened(self) -> OpenEntryFrame | None:
        """This, if it is for inputs of changing shapes."""
        ...

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller."""
        ...


class OpenEntryFrame(EntryFrame, Protocol):
    """The same for inputs of changing shapes."""

    served: Key
    """What it was last given back for."""
    is_settled: bool
    """Whether it was asked for the same lengths twice."""
    asked: tuple[Shape, ...]
    """The shapes of the inputs that `call` is to get next; whoever holds the frame says so."""

    def takes(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether it is for inputs of these shapes."""
        ...

    def serves(self, key: Key) -> bool:
        """Whether it is likely to be asked for the same lengths again, for what a key is for."""
        ...


class Preparation(Protocol):
    """What earlier runs of a model left, so that others need not read it."""

    has_state: bool

    @property
    def outline(self) -> Model:
        """Its inputs, outputs and signatures."""
        ...

    def declare(self, variables: Variables) -> None:
        """Gives variables the handles that they have in all sessions of the model; compiled code relies on it."""
        ...

    def frame(self, subgraph: int, shapes: tuple[Shape, ...], run: Run, executors: Read) -> EntryFrame | None:
        """A frame for a subgraph and the shapes of its inputs; None where the model must be read for it. `executors`
        reads it, for shapes and values that no code was made for."""
        ...

    def lent(self, subgraph: int, arrays: Sequence[Array], run: Run, executors: Read
             ) -> LentFrame | WholeFrame | None:
        """The same on inputs that the caller keeps, and which runs leave as they are."""
        ...

    def close(self) -> None:
        """Lets go of what is kept for further runs, such as threads."""
        ...
