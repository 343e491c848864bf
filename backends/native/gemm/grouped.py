"""Products of integers in groups of columns, one after the other by the same code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import rolled
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Group:
    """One of several groups of as many columns each.

    Attributes:
        count: how many groups there are.
        number: that of this one; None where it is the only one.
    """

    count: int = 1
    number: ir.Value | None = None

    def begin(self, e: Emitter, size: int) -> ir.Value:
        """How much is before it, of `size` for each group."""
        return e.number(0) if self.number is None else e.builder.mul(self.number, e.number(size))

    def address(self, e: Emitter, memory: ir.Value, element: ir.Type, size: int) -> ir.Value:
        """What is its own in memory of all groups, of `size` elements for each."""
        return memory if self.number is None else e.address(memory, element, self.begin(e, size))

    def packed(self, array: Array, pack: Callable[[Array], Array]) -> Array:
        """What is made of the columns of each group, one behind the other."""
        if self.count == 1:
            return pack(array)
        parts = [pack(each) for each in np.split(array, self.count)]
        return np.stack(parts, out=allocate((self.count, *parts[0].shape), parts[0].dtype))


ALONE = Group()
"""All columns."""


@contextmanager
def each_group(e: Emitter, count: int) -> Iterator[Group]:
    """A loop over groups; what is written inside is that of each."""
    if count == 1:
        yield ALONE
        return
    with rolled(e, count) as number:
        yield Group(count, number)
