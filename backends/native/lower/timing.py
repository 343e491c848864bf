"""Times the regions of a function that is being written: subgraphs, operators, copies between subgraphs.

A loop is written twice. One version reads the counter at the borders of all regions inside; a turn that is not to be
timed goes through the other, which reads nothing, so that a loop with short turns is as fast as ever but for a sample
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.timing import add, keep_activation, note, note_empty, note_part, turned
from circlet.backends.native.parts import RegionTimes, Source, TimedRegion, TurnTimes
from circlet.backends.native.timed import (
    BYTES,
    CALLS,
    COUNT,
    ENTERED,
    FEWEST,
    HEAD,
    LOOP,
    MOST_TURNS,
    REGION,
    WARM_UP,
)
from circlet.runtime.exec.observe.regions import Kind
from circlet.runtime.ir.types import Array

_EMPTY = TimedRegion(-1, "", -1, -1)
_NOT_A_TURN = -1


class Untimed:
    """Writes nothing."""

    regions: Sequence[TimedRegion] = ()
    current = -1
    """The number of the region that is being written."""

    @contextmanager
    def operator(self, subgraph: int, operator: int) -> Iterator[None]:
        """What is written inside is an operator."""
        yield

    @contextmanager
    def subgraph(self, index: int) -> Iterator[None]:
        """What is written inside is a subgraph."""
        yield

    @contextmanager
    def copy(self, size: ir.Value) -> Iterator[None]:
        """What is written inside copies an i64 of bytes for the operator around."""
        yield

    @contextmanager
    def loop(self, body: int) -> Iterator[None]:
        """What is written inside is a loop of the model, of which each turn invokes a subgraph."""
        yield

    def versions(self, write: Callable[[bool], None]) -> None:
        """Writes what follows a loop's head, in all versions that there are, each of which ends its block; `write` is
        told whether it was written before."""
        write(False)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is written inside is the rest of a turn of the loop, behind its condition."""
        yield

    @contextmanager
    def part(self, participant: ir.Value) -> Iterator[None]:
        """What is written inside is a function of its own, in which a thread of the team, by its number, takes turns of
        a loop of the operator around."""
        yield

    def host(self) -> int:
        """The number of the region that is being written, which the host computes."""
        return -1

    def finish(self) -> None:
        """Called where the function ends."""


class Timing(Untimed):
    """Writes readings of the counter, and what becomes of them."""

    def __init__(self, e: Emitter, external: Callable[[Array, Source], ir.Value]) -> None:
        self._e = e
        self._memory = external(np.zeros(HEAD, np.int64), RegionTimes())
        self._turns = external(np.zeros(LOOP, np.int64), TurnTimes())
        self.regions: list[TimedRegion] = [_EMPTY, _EMPTY]
        self.current = -1
        self._numbers: dict[tuple[int, str, int, int], int] = {}
        self._counts: dict[int, ir.Value] = {}
        """Where the function counts how often regions are entered that operators do not tell of."""
        self._sizes: dict[int, ir.Value] = {}
        self._loops: list[_Loop] = []
        self._all_loops: dict[int, _Loop] = {}
        self._is_on = True
        """Whether the version that is being written reads the counter."""
        self._readings = 0
        """How often it does, as it is written."""
        self._mark: ir.Value | None = None
        """The last reading, where no time has passed since."""
        self._begin()

    def _begin(self) -> None:
        """Says when the function is entered; then times nothing, once to warm up and once to tell what that takes."""
        b = self._e.builder
        entered = self._now()
        b.store(entered, self._word(self._memory, ENTERED))
        add(b, self._memory, ir.Constant(I64, CALLS), ir.Constant(I64, 1))
        self._note(WARM_UP, entered, _NOT_A_TURN)
        begin = self._mark_or_now()
        note_empty(b, self._memory, b.sub(self._now(), begin))

    @contextmanager
    def operator(self, subgraph: int, operator: int) -> Iterator[None]:
        with self._region(Kind.OPERATOR, subgraph, operator, self._mark_or_now() if self._is_on else None):
            yield

    @contextmanager
    def subgraph(self, index: int) -> Iterator[None]:
        begin = self._now() if self._is_on else None
        with self._region(Kind.SUBGRAPH, index, -1, begin) as number:
            self._add(self._counts, number, ir.Constant(I64, 1))
            yield
        self._mark = None

    @contextmanager
    def copy(self, size: ir.Value) -> Iterator[None]:
        place = self.regions[self.current]
        begin = self._now() if self._is_on else None
        with self._region(Kind.COPIES, place.subgraph, place.operator, begin) as number:
            self._add(self._counts, number, ir.Constant(I64, 1))
            self._add(self._sizes, number, size)
            yield
        self._mark = None

    @contextmanager
    def _region(self, kind: Kind, subgraph: int, operator: int, begin: ir.Value | None) -> Iterator[int]:
        key = self.current, kind.value, subgraph, operator
        number = self._numbers.setdefault(key, len(self.regions))
        if number == len(self.regions):
            self.regions.append(TimedRegion(*key))
        outer, self.current = self.current, number
        yield number
        self.current = outer
        if begin is not None:
            self._note(number, begin, self._turn(number))

    def _turn(self, number: int) -> int | ir.Value:
        """The number of the turn that a region is the body of."""
        loop = self._loops[-1] if self._loops else None
        if loop is None or (loop.region, loop.body) != (self.regions[number].parent, self.regions[number].subgraph):
            return _NOT_A_TURN
        b = self._e.builder
        done = b.sub(b.load(self._counts[number], typ=I64), loop.before)
        return b.sub(done, ir.Constant(I64, 1))

    @contextmanager
    def loop(self, body: int) -> Iterator[None]:
        e, b, number = self._e, self._e.builder, self.current
        if number not in self._all_loops:
            self.regions[number] = replace(self.regions[number], loop=len(self._all_loops))
            slots = [e.slot(I64) for _ in range(4)]
            loop = self._all_loops[number] = _Loop(number, len(self._all_loops), body, self._body(number, body), *slots)
            for slot, value in zip(slots, (0, 1, (1 << 63) - 1, 0), strict=True):
                e.entry.builder().store(ir.Constant(I64, value), slot)
        loop = self._all_loops[number]
        count = self._counts[loop.count]
        outer = loop.before
        loop.before = b.load(count, typ=I64)
        b.store(ir.Constant(I64, 1), loop.is_first)
        self._loops.append(loop)
        self._mark = None
        yield
        self._mark = None
        self._loops.pop()
        turns = b.sub(b.load(count, typ=I64), loop.before)
        b.store(e.intrinsic("umin", b.load(loop.fewest, typ=I64), turns), loop.fewest)
        b.store(e.intrinsic("umax", b.load(loop.most, typ=I64), turns), loop.most)
        if self._is_on:
            keep_activation(b, self._turns, loop.number, turns)
        loop.before = outer

    def _body(self, operator: int, body: int) -> int:
        """The number of the region of a loop's body, with a count."""
        key = operator, Kind.SUBGRAPH.value, body, -1
        number = self._numbers.setdefault(key, len(self.regions))
        if number == len(self.regions):
            self.regions.append(TimedRegion(*key))
        self._add(self._counts, number, ir.Constant(I64, 0))
        return number

    def versions(self, write: Callable[[bool], None]) -> None:
        if not self._is_on:
            write(False)
            return
        e, b, loop = self._e, self._e.builder, self._loops[-1]
        wait = b.load(loop.wait, typ=I64)
        is_timed = b.or_(b.icmp_signed("<=", wait, ir.Constant(I64, 0)),
                         b.icmp_unsigned("!=", b.load(loop.is_first, typ=I64), ir.Constant(I64, 0)))
        timed, plain = (e.function.append_basic_block(name) for name in ("timed", "plain"))
        b.cbranch(is_timed, timed, plain)
        b.position_at_end(timed)
        loop.began, loop.readings = self._now(), self._readings
        with e.forgetting():
            write(False)
        b.position_at_end(plain)
        b.store(b.sub(wait, ir.Constant(I64, 1)), loop.wait)
        self._is_on = False
        write(True)
        self._is_on = True

    @contextmanager
    def turn(self) -> Iterator[None]:
        loop = self._loops[-1]
        yield
        if not self._is_on:
            return
        b = self._e.builder
        ticks = b.sub(self._now(), loop.began)
        number, readings = (ir.Constant(I64, each) for each in (loop.number, self._readings - loop.readings))
        is_first = b.load(loop.is_first, typ=I64)
        wait = self._call(turned(self._e.module), [self._turns, number, ticks, is_first, readings])
        b.store(wait, loop.wait)
        b.store(ir.Constant(I64, 0), loop.is_first)
        self._mark = None

    @contextmanager
    def part(self, participant: ir.Value) -> Iterator[None]:
        if not self._is_on:
            yield
            return
        mark, begin = self._mark, self._now()
        yield
        self._call(note_part(self._e.module), [
            self._memory, ir.Constant(I64, self.current), begin, self._now(), participant])
        self._mark = mark

    def host(self) -> int:
        self.regions[self.current] = replace(self.regions[self.current], is_host=True)
        return self.current

    def finish(self) -> None:
        b = self._e.builder
        for offset, slots in ((COUNT, self._counts), (BYTES, self._sizes)):
            for number, slot in slots.items():
                word = HEAD + number * REGION + offset
                add(b, self._memory, ir.Constant(I64, word), b.load(slot, typ=I64))
        for loop in self._all_loops.values():
            for name, word, slot in (("umin", FEWEST, loop.fewest), ("umax", MOST_TURNS, loop.most)):
                place = self._word(self._turns, loop.number * LOOP + word)
                value = self._e.intrinsic(name, b.load(place, typ=I64), b.load(slot, typ=I64))
                b.store(value, place)

    def _add(self, slots: dict[int, ir.Value], number: int, value: ir.Value) -> None:
        """Adds to what the function counts of a region."""
        e, b = self._e, self._e.builder
        if number not in slots:
            slots[number] = e.slot(I64)
            e.entry.builder().store(ir.Constant(I64, 0), slots[number])
        b.store(b.add(b.load(slots[number], typ=I64), b.sext(value, I64)), slots[number])

    def _now(self) -> ir.Value:
        """A reading."""
        self._mark = self._e.target.read_counter(self._e)
        return self._mark

    def _mark_or_now(self) -> ir.Value:
        return self._now() if self._mark is None else self._mark

    def _note(self, number: int, begin: ir.Value, turn: int | ir.Value) -> None:
        """A region ends here."""
        self._readings += 1
        end = self._now()
        turn = ir.Constant(I64, turn) if isinstance(turn, int) else turn
        self._call(note(self._e.module), [self._memory, ir.Constant(I64, number), begin, end, turn])

    def _call(self, function: ir.Function, arguments: Sequence[ir.Value]) -> ir.Value:
        """Writes a call that counts for nothing of what the function executes: code that is timed is entered, and looks
        whether it must stop, as code that is not."""
        called = self._e.called
        found = self._e.builder.call(function, arguments)
        self._e.called = called
        return found

    def _word(self, memory: ir.Value, word: int) -> ir.Value:
        return self._e.builder.gep(memory, [ir.Constant(I64, word)], source_etype=I64)


class _Loop:
    """A loop of the model while it is written."""

    def __init__(self, region: int, number: int, body: int, count: int, wait: ir.Value, is_first: ir.Value,
                 fewest: ir.Value, most: ir.Value) -> None:
        self.region = region
        self.number = number
        self.body = body
        """The subgraph."""
        self.count = count
        """The number of its region."""
        self.wait = wait
        """Where the function has how many turns are to pass until one is timed."""
        self.is_first = is_first
        self.fewest = fewest
        self.most = most
        self.before: ir.Value = ir.Constant(I64, 0)
        """How many turns there were before the activation that is being written."""
        self.began: ir.Value = ir.Constant(I64, 0)
        """When the turn that is being written began."""
        self.readings = 0
