"""What a compiled function is bound to: the run, and where its buffers, constants and host calls are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from circlet.backends.native.load.manifest import Constant
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.faults import located
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step


@dataclass(frozen=True, eq=False)
class Setting:
    """What a function is bound to."""

    run: Run
    lengths: tuple[int, ...]
    """The open ones."""
    held: Callable[[int], Array | None]
    """The buffer that the frame has for a tensor."""
    constant: Callable[[Constant], Array | None]
    variable: Callable[[int, int], Tensor]
    """What is declared of a variable tensor, by subgraph and tensor."""
    host: Callable[[int, int, Sequence[Array | None], Sequence[Array]], Step]
    """An operator, by subgraph and index, as numpy computes it on inputs and outputs."""
    located: located
    """Gives errors that have no place that of the function."""
