"""What models are run with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.executor_map import ExecutorMap
    from circlet.runtime.exec.kernel import Backend
    from circlet.runtime.passes.manager import Pipeline


def interpreted() -> Pipeline:
    """What is run on models for numpy."""
    with LOADING:
        from circlet.runtime.passes.pipelines import INTERPRETED

    return INTERPRETED


@dataclass(frozen=True)
class Engine:
    """What models are run with."""

    backends: Callable[[ExecutorMap], Sequence[Backend]]
    """In order of preference."""
    pipeline: Callable[[], Pipeline] = interpreted
    """Gives what is run on models first."""
    copy_elision: bool = True
    """Lend buffers to subgraphs instead of copying values in and out of them."""
