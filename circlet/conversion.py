"""Brings models of any dialect to what `.tflite` and `.circle` files can say."""

from __future__ import annotations

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.runtime.passes.manager import Pass
from circlet.runtime.passes.pipelines import portable
from circlet.runtime.passes.transforms.portable.declare import declare_shapes
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
    return PORTABLE.run(model)


def _declare(model: Model) -> Model:
    """Declares shapes where this build can compute the model."""
    try:
        executors = ExecutorMap(model, engine("cpu").backends, elide=True)
    except UnsupportedError:
        return model
    return declare_shapes(model, executors.specializer)


PORTABLE = portable(Pass("declare_shapes", _declare))
