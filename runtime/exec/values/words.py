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
    size = words.shape[words.axis]
    wrong = places[(places < 0) | (places >= size)]
    if wrong.size:
        raise ExecutionError(f"index {wrong[0]} is out of range for an axis of size {size}", words.place)
    found = np.take(table, places, words.axis)
    return found if words.target is None else found.reshape(words.target)
