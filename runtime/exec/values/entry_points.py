"""What runs of a model begin with, and whether they change anything."""

from __future__ import annotations

from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType


def has_state(model: Model) -> bool:
    """Whether runs change anything that outlives them."""
    return any(
        any(each.is_variable or each.dtype in (DType.RESOURCE, DType.VARIANT) for each in subgraph.tensors)
        or any(each.op.has_state for each in subgraph.operators)
        for subgraph in model.subgraphs
    )


def primary(model: Model) -> Entry:
    """The entry point of subgraph 0: with the names of its signature if it has exactly one."""
    named = [each for each in model.signatures if each.subgraph == 0]
    return entry_of(model, 0, named[0] if len(named) == 1 else None)
