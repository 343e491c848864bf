"""Brings models of any dialect to what `.tflite` and `.circle` files can say."""

from __future__ import annotations

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.runtime.passes.pipeline import run_passes
from circlet.runtime.passes.transforms.lower_loops import lower_loops
from circlet.runtime.passes.transforms.portable.carried import separate_results
from circlet.runtime.passes.transforms.portable.compact import compact
from circlet.runtime.passes.transforms.portable.declare import declare_shapes
from circlet.runtime.passes.transforms.portable.inline import inline_calls
from circlet.runtime.passes.transforms.portable.narrow import narrow_parameters
from circlet.runtime.passes.transforms.portable.steps import expand_steps
from circlet.runtime.passes.transforms.portable.versions import set_versions
from circlet.session import engine


def convert(model: Model) -> Model:
    """A model that computes the same with operators that the formats have, in a way that other programs run too.

    Loops become WHILE, calls are put in the place of what they call, and values that a loop's body permutes are copied,
    since LiteRT overwrites them otherwise. What then still has no name in a format is refused by `save`.

    Raises:
        ModelError: the model is malformed.
        UnsupportedError: the file could not tell what a run can; all such operators are listed.
    """
    verify(model)
    return run_passes(model, PORTABLE)


def _declare(model: Model) -> Model:
    """Declares shapes where this build can compute the model."""
    try:
        executors = ExecutorMap(model, engine("cpu").backends, elide=True)
    except UnsupportedError:
        return model
    return declare_shapes(model, executors.specializer)


PORTABLE = (lower_loops, inline_calls, _declare, compact, expand_steps, narrow_parameters, compact, separate_results,
            compact, set_versions)
