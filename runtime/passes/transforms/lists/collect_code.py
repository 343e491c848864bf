"""Chooses which sequences become scan outputs, where native code is made of what does not stay one.

The room that scan outputs take is made before the loop, so that their shapes must follow from what is there by then. A
list of elements whose sizes only a turn tells, as of rows that are padded to a length which the run computes, is code
as a tensor that grows.
"""

from __future__ import annotations

from collections.abc import Callable

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.transforms.lists import collect_lists as collecting
from circlet.runtime.passes.transforms.lists.spread_lists import Stays, spread_lists
from circlet.runtime.passes.transforms.lower_loops import lower_loops


def collect_lists(model: Model, is_code: Stays, fuse_operators: Callable[[Model], Model]) -> Model:
    """As the pass of this name, but for sequences of elements of open sizes that are no code that way, and are as
    tensors that grow. Operators are fused before that is asked, which hides sizes that are told by the run."""
    loops: list[tuple[int, int]] = []

    def note(index: int, number: int, element: Tensor) -> bool:
        if _is_open(element):
            loops.append((index, number))
        return False

    collected = collecting.collect_lists(model, note)
    if not loops:
        return collected
    fused = fuse_operators(lower_loops(collected))
    if all(is_code(fused, *each, False) for each in loops):
        return collected
    kept = collecting.collect_lists(model, lambda index, number, element: _is_open(element))
    lowered = lower_loops(kept)
    return collected if spread_lists(lowered, is_code) is lowered else kept


def _is_open(element: Tensor) -> bool:
    """Whether nobody says all sizes of elements that are declared so."""
    return element.declared is None or not element.is_static
