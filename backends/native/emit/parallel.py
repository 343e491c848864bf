"""Loops whose turns the threads of a team share out.

What is written inside such a loop becomes a function of its own, a *part*: `i32 part(context*, begin, end, scratch*,
participant)` takes some of the turns. The context holds the values of the function around it that the part reads.
Without a team, the part is called once for all turns, so that the code is the same for any number of threads, and so
are the results: a turn computes what it would alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, LONG_LOOP, POINTER, Emitter
from circlet.backends.native.emit.loops import by_length, independent, rolled, rolled_nest, spread, spread_every
from circlet.backends.native.emit.outlined import Outlined
from circlet.backends.native.emit.polling import LONG
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.sharing import Sharing
from circlet.runtime.ir.length import is_length, is_open, may_differ
from circlet.runtime.ir.types import Shape

Turns: TypeAlias = "AbstractContextManager[tuple[ir.Value, ...]]"
"""Writes loops; gives the index of a turn."""

LEAST_WORK = 1 << 18
"""Multiply-adds of floats, or bytes read and written, from which on a loop is shared out: some 6 microseconds, where
sharing out takes 0.2. Measured with two threads: MobileNetV2 took 5.18 ms with half of it, 5.04 with this; with twice
as much networks of some 50 microseconds gained little."""
_ENOUGH = 64
"""Turns that can be shared out among any usual number of threads: a choice. More would leave less to each inner
loop."""
_RUN = 1 << 10
"""Elements that one thread computes in a row: a multiple of what four vectors have, so that only the last run leaves
some over, and of what a cache line has, so that no two threads write one. The size is a choice."""
_AT_ONCE = 1 << 25
"""Work that a participant takes at a time at the most, so that nobody waits for another one for long: 128 times
`LEAST_WORK`, a millisecond or less. A choice; any from some microseconds to some milliseconds does."""


def _part(index: ir.IntType) -> ir.FunctionType:
    """`i32 part(context*, begin, end, scratch*, participant)`; the result is `DONE` or what the function returns
    instead."""
    return ir.FunctionType(I32, [POINTER, index, index, POINTER, index])


def _fork(index: ir.IntType) -> ir.FunctionType:
    """`void fork(team*, part*, context*, count, scratch*, bytes of scratch of each, most turns at a time)`."""
    return ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, index, POINTER, index, index])


class Part(Outlined):
    """A function that takes turns of a loop; where it may fail these are taken in order, so that the first error is
    found."""

    def __init__(self, e: Emitter, sharing: Sharing, work: int) -> None:
        super().__init__(e, _part(e.index), "part")
        self._work = work
        self._sharing = sharing
        self._around = e.function
        _, self.begin, self.end, self._scratch, self._participant = self.function.args

    @contextmanager
    def written(self) -> Iterator[None]:
        """Writes what is inside to the part."""
        self._sharing.part = self
        sharing = self._sharing
        with (super().written(), sharing.meter.part(self._participant, self._work, self._takes_long()),
              sharing.timed(self._participant)):
            yield
        self._sharing.part = None

    def _takes_long(self) -> ir.Value | None:
        """Whether all turns take so long that one looks whether to stop; None where that is known."""
        e = self._e
        return e.builder.icmp_signed(">=", e.number(self._work), e.number(LONG)) if is_length(self._work) else None

    def share(self, count: int) -> None:
        """Takes `count` turns: stores what the part reads in a context, then calls `fork` of the team, or the part for
        all turns where there is none, or where it may fail."""
        e, b, sharing = self._e, self._e.builder, self._sharing
        context = self.filled_context()
        alone = [context, e.number(0), e.number(count), sharing.scratch, e.number(0)]
        if self.may_fail:
            sharing.leave_unless_done(b.call(self.function, alone))
            return
        sharing.is_used = True
        is_alone = b.icmp_unsigned("==", sharing.team, ir.Constant(POINTER, None))
        if is_length(self._work):
            is_alone = b.or_(is_alone, b.icmp_signed("<", e.number(self._work), e.number(LEAST_WORK)))
        with b.if_else(is_alone) as (then, otherwise):
            with then:
                b.call(self.function, alone)
            with otherwise:
                fork = b.load(sharing.team, typ=ir.PointerType(_fork(e.index)))
                b.call(fork, [sharing.team, self.function, context, e.number(count), sharing.scratch,
                              e.number(sharing.top), self._most(count)])
        if is_length(self._work) or self._work >= LONG:
            sharing.meter.look_if(self._takes_long())

    def _most(self, count: int) -> ir.Value:
        """How many turns a participant takes at a time at the most; divided where that is asked alone, as a function
        for any lengths has many such loops."""
        e = self._e
        if not (is_length(count) or is_length(self._work)):
            return e.number(max(count * _AT_ONCE // max(self._work, 1), 1))
        all_at_once, one = e.builder.mul(e.number(count), e.number(_AT_ONCE)), e.number(1)
        return e.intrinsic("smax", e.builder.udiv(all_at_once, e.intrinsic("smax", e.number(self._work), one)), one)

    def _brought(self, value: ir.Value) -> ir.Value:
        """Scratch memory is the part's. Other addresses of the function around are computed again, so that LLVM sees
        which of them differ; where lengths are open, it would not, and parts are alike that differ in where their
        buffers are. What that function was given stays what it is: for an operator alike it is given others."""
        if value is self._sharing.scratch:
            return self._scratch
        assert not isinstance(value, ir.AllocaInstr), "a slot outside a shared loop would be that of all threads"
        if isinstance(value, ir.GEPInstr) and (self._is_scratch(value) or (
                self._e.lengths is None and value.parent.parent is self._around)):
            base, *indices = map(self._inner, value.operands)
            return self._entry.front.gep(base, indices, source_etype=value.source_etype)
        return super()._brought(value)

    def _is_scratch(self, value: ir.Value) -> bool:
        """Whether an address is in scratch memory."""
        while isinstance(value, ir.GEPInstr):
            value = value.operands[0]
        return value is self._sharing.scratch


def is_shared(e: Emitter, count: int, work: int) -> bool:
    """Whether `count` turns, of so much work together, are shared out; see `portion`."""
    if e.sharing is None or e.sharing.part is not None:
        return False
    if not (is_length(work) or work >= LEAST_WORK):
        return False
    return may_differ(count, 1) if is_length(count) else count > 1


@contextmanager
def portion(e: Emitter, count: int, work: int) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Some of `count` turns, the first and the end of them, for each participant; without a team, all.

    What is inside must write other memory in each turn, and no slot that is from outside. `work` is that of all turns,
    in multiply-adds of floats or bytes that are read and written.
    """
    sharing = e.sharing
    if sharing is None or not is_shared(e, count, work):
        yield e.number(0), e.number(count)
        return
    part = Part(e, sharing, work)
    with part.written():
        yield part.begin, part.end
    part.share(count)


def length(e: Emitter, begin: ir.Value, end: ir.Value, most: int) -> ir.Value | int:
    """How many turns there are from one to another, at most so many; as a Python number if that is known."""
    if isinstance(begin, ir.Constant) and isinstance(end, ir.Constant):
        return int(end.constant - begin.constant)
    return e.bounded(e.builder.sub(end, begin), most)


@contextmanager
def parallel(e: Emitter, count: int, work: int) -> Iterator[ir.Value]:
    """`for index in range(count)`, as `rolled`, whose turns are shared out; see `portion`."""
    if not is_shared(e, count, work):
        with rolled(e, count) as index:
            yield index
        return
    with portion(e, count, work) as (begin, end), rolled(e, length(e, begin, end, count)) as k:
        yield e.builder.add(begin, k)


@contextmanager
def parallel_nest(e: Emitter, shape: Shape, work: int) -> Iterator[tuple[ir.Value, ...]]:
    """A loop for each axis, as `Emitter.nest`; the turns of the first ones are shared out."""
    with parallel_nests(e, shape, work) as loops, loops() as index:
        yield index


@contextmanager
def parallel_nests(e: Emitter, shape: Shape, work: int) -> Iterator[Callable[[], Turns]]:
    """What writes the loops of `parallel_nest`, for code that has them several times, each for other lengths."""
    cut = next((k for k in range(len(shape)) if is_open(shape[:k]) or prod(shape[:k]) >= _ENOUGH), len(shape))
    count = prod(shape[:cut])
    if not is_shared(e, count, work):
        yield lambda: rolled_nest(e, shape)
        return
    with portion(e, count, work) as (begin, end):
        yield lambda: _portion_of_nest(e, shape, cut, begin, end)


@contextmanager
def _portion_of_nest(e: Emitter, shape: Shape, cut: int, begin: ir.Value,
                     end: ir.Value) -> Iterator[tuple[ir.Value, ...]]:
    """Loops over a part of the turns that the first axes of a nest have together, and over all of the others. Where
    only a run knows how long the first ones are, a position is divided once and their index counted on from turn to
    turn: a division takes as long as copying some vectors."""
    first, count = shape[:cut], length(e, begin, end, prod(shape[:cut]))
    if cut < 2 or not is_open(first):
        with rolled(e, count) as k, rolled_nest(e, shape[cut:]) as rest:
            yield (*e.delinear(e.builder.add(begin, k), first), *rest)
        return
    slots = [e.slot(e.index) for _ in first]
    for slot, each in zip(slots, e.delinear(begin, first), strict=True):
        e.builder.store(each, slot)
    with rolled(e, count) as k:
        index = tuple(e.builder.load(each, typ=e.index) for each in slots)
        e.know(e.builder.add(begin, k), index, first)
        with rolled_nest(e, shape[cut:]) as rest:
            yield (*index, *rest)
        _count_on(e, index, first, slots)


def _count_on(e: Emitter, index: tuple[ir.Value, ...], shape: Shape, slots: Sequence[ir.Value]) -> None:
    """Stores the index that follows on another, in row-major order."""
    b, more = e.builder, e.number(1)
    for each, size, slot in reversed(list(zip(index, shape, slots, strict=True))):
        after = b.add(each, more)
        is_over = b.icmp_signed("==", after, e.number(size))
        b.store(b.select(is_over, e.number(0), after), slot)
        more = b.zext(is_over, e.index)


@contextmanager
def parallel_span(e: Emitter, count: int, work: int) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Some of `count` turns, the first and how many, in runs of `_RUN`; see `portion`."""
    runs = -(-count // _RUN)
    if not is_shared(e, runs, work):
        with _in_runs(e, count, e.number(0), count) as found:
            yield found
        return
    with portion(e, runs, work) as (begin, end):
        first, last = (e.builder.mul(each, e.number(_RUN)) for each in (begin, end))
        some = e.builder.sub(e.intrinsic("smin", last, e.number(count)), first)
        with _in_runs(e, count, first, some) as found:
            yield found


@contextmanager
def _in_runs(e: Emitter, most: int, first: ir.Value, count: ir.Value | int) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Turns from the first on, all at once or, if there may be very many, in runs of `emitter.RUN`, between which code
    can look whether it must stop."""
    if not is_length(most) and most < LONG_LOOP:
        yield first, e.register(count)
        return
    with e.runs(count) as (begin, some):
        yield e.builder.add(first, begin), some


@contextmanager
def parallel_run(e: Emitter, count: int, work: int) -> Iterator[ir.Value]:
    """`for index in range(count)`, as `independent`, whose turns are shared out in runs; see `portion`."""
    if not is_shared(e, -(-count // _RUN), work):
        with independent(e, count) as index:
            yield index
        return
    with parallel_span(e, count, work) as (first, some), independent(e, some) as k:
        yield e.builder.add(first, k)


def parallel_every(e: Emitter, shape: Shape, work: int, turn: Callable[[Index], None]) -> None:
    """Loops over the elements of a shape, given the index of each, as `spread_every`; the turns of the first ones are
    shared out."""
    last = max((axis for axis, size in enumerate(shape) if may_differ(size, 1)), default=0)
    if not is_shared(e, prod(shape[:last]), work):
        spread_every(e, shape, turn)
        return
    with parallel_nests(e, shape[:last], work) as loops:
        def rows(most: int | None) -> None:
            with loops() as outer:
                spread(e, shape[last], lambda k: turn([*outer, k, *(e.number(0) for _ in shape[last + 1:])]), most)

        by_length(e, shape[last], rows)
