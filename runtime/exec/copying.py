"""Copies between the buffers of callers and callees, visible to observers."""

from __future__ import annotations

from functools import partial

import numpy as np

from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array


def same_memory(one: Array, other: Array) -> bool:
    """Whether two contiguous arrays are the same bytes."""
    return one.nbytes == other.nbytes and bool(
        one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    )


def copy_step(target: Array, source: Array, run: Run, edge: tuple[int, int], label: str) -> Step:
    """A step that copies `source` to `target`; an observer hears of it as `label` of the operator `edge`."""
    shaped = source if source.shape == target.shape else source.reshape(target.shape)
    return run.observer.copy(partial(np.copyto, target, shaped), *edge, label, target.nbytes)
