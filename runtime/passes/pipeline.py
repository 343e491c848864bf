"""The passes that a session runs on its model, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.fuse_row_updates import fuse_row_updates
from circlet.runtime.passes.transforms.lower_loops import lower_loops
from circlet.runtime.passes.transforms.simplify_identities import simplify_identities

Pass: TypeAlias = Callable[[Model], Model]
"""Gives a model that computes the same. Subgraphs, tensors and operators keep their indices; an operator that is no
longer needed becomes a `Skip`."""

DEFAULT: Sequence[Pass] = (lower_loops, simplify_identities, fuse_row_updates, eliminate_dead)


def run_passes(model: Model, passes: Sequence[Pass] = DEFAULT) -> Model:
    """Runs passes on a verified model, and verifies what each of them gives.

    Raises:
        ModelError: a pass gave a malformed model, which is an error in the pass.
    """
    for each in passes:
        changed = each(model)
        if changed is not model:
            verify(changed)
        model = changed
    return model
