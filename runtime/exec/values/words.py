"""Text that results hold integers for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.types import Array, objects
from circlet.runtime.ops.controlflow import Words


def speller(words: Sequence[Words]) -> Callable[[list[Array]], list[Array]]:
    """What puts text in the place of integers, in a list of results.

    It raises ExecutionError where one of them is not in its table.
    """
    tables = [(each, objects(each.table, each.shape)) for each in words]

    def spell(results: list[Array]) -> list[Array]:
        for each, table in tables:
            results[each.result] = _spelt(each, table, results[each.result])
        return results

    return spell


def _spelt(words: Words, table: Array, places: Array) -> Array:
    size, unsigned = words.shape[words.axis], places.view(f"u{places.itemsize}")
    if np.maximum.reduce(unsigned, axis=None, initial=0) >= size and places.size:
        wrong = places[unsigned >= size][0]
        raise ExecutionError(f"index {wrong} is out of range for an axis of size {size}", words.place)
    found: Array = table.take(places, words.axis)
    return found if words.target is None else found.reshape(words.target)
