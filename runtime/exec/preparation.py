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
    from circlet.runtime.exec.frames.cache import Invocable
    from circlet.runtime.exec.frames.lent_frame import LentFrame
    from circlet.runtime.exec.frames.open_frame import OpenFrame
    from circlet.runtime.exec.frames.whole_frame import WholeFrame
    from circlet.runtime.exec.values.inputs import Lane


MakeFrame: TypeAlias = "Callable[[tuple[Shape, ...], Run], Invocable]"


class EntryFrame(Direct, Protocol):
    """A subgraph bound to memory of a run."""

    run: Run
    lane: Lane | None
    """Of the entry point that used it last."""
    is_direct: bool
    """Whether callers' arrays are copied to `inputs`, so that it can be run by these alone."""

    @property
    def opened(self) -> OpenFrame | None:
        """This, if it is for inputs of changing shapes."""
        ...

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller."""
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

    def frame(self, subgraph: int, shapes: tuple[Shape, ...], run: Run, alone: MakeFrame) -> EntryFrame | None:
        """A frame for a subgraph and the shapes of its inputs; None where the model must be read for it. `alone` reads
        it and makes a frame for values that no code was made for."""
        ...

    def lent(self, subgraph: int, arrays: Sequence[Array], run: Run, alone: MakeFrame) -> LentFrame | WholeFrame | None:
        """The same on inputs that the caller keeps, and which runs leave as they are."""
        ...

    def close(self) -> None:
        """Lets go of what is kept for further runs, such as threads."""
        ...
