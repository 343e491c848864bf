"""Sorting in native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.rules.real.reduce import Register
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

Precedes: TypeAlias = Callable[[Sequence[ir.Value], Sequence[ir.Value]], ir.Value]
"""Whether the fields of one record must come before those of another one: an i1."""


@dataclass(frozen=True, eq=False)
class Merge:
    """Sorts records by merging runs of 1, 2, 4... of them; those of which neither precedes the other stay in order."""

    e: Emitter
    fields: Sequence[tuple[ir.Value, DType]]
    """An array of each field in memory, with room for twice as many as there are records, which are in the first
    half."""
    precedes: Precedes

    def sort(self, count: ir.Value) -> ir.Value:
        """Sorts so many records, from one half of memory to the other; gives where the sorted ones begin: 0 or
        `count`."""
        e, b = self.e, self.e.builder
        side = Register(e, e.index)
        side.set(e.number(0))
        with e.loop(e.index.width - 2) as step:
            run = b.shl(e.number(1), step)
            with b.if_then(b.icmp_signed("<", run, count)):
                self._merge_runs(count, run, side.get())
                side.set(b.sub(count, side.get()))
        return side.get()

    def _merge_runs(self, count: ir.Value, run: ir.Value, source: ir.Value) -> None:
        """Merges each two runs of a length; `source` is where the half begins that holds them."""
        e, b = self.e, self.e.builder
        target, last = b.sub(count, source), b.sub(count, e.number(1))
        ours, theirs = Register(e, e.index), Register(e, e.index)
        for each in (ours, theirs):
            each.set(e.number(0))
        both = b.shl(run, e.number(1))
        with e.loop(count) as place:
            begin = b.and_(place, b.sub(e.number(0), both))
            middle, end = (e.intrinsic("smin", b.add(begin, each), count) for each in (run, both))
            is_new = b.icmp_signed("==", place, begin)
            one, other = b.select(is_new, begin, ours.get()), b.select(is_new, middle, theirs.get())
            found = [[e.load(each, dtype, b.add(source, e.intrinsic("smin", at, last)))
                      for each, dtype in self.fields] for at in (one, other)]
            leads = b.or_(b.icmp_signed(">=", one, middle), self.precedes(found[1], found[0]))
            takes = b.and_(b.icmp_signed("<", other, end), leads)
            for (each, dtype), ahead, behind in zip(self.fields, found[1], found[0], strict=True):
                e.store(e.select(takes, ahead, behind), each, dtype, b.add(target, place))
            ours.set(b.add(one, b.zext(b.not_(takes), e.index)))
            theirs.set(b.add(other, b.zext(takes, e.index)))
