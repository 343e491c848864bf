"""A native function of this process: its control words, its table of addresses, what it returns and when."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.abi import (
    ARENA,
    CONTROL_BYTES,
    DONE,
    FIRST_ARRAY,
    FIRST_NOTICE,
    FIRST_SITE,
    HOST,
    ITERATIONS,
    OUTGROWN,
    REQUEST,
    SCRATCH,
    TEAM,
)
from circlet.backends.native.check.bounds import Watch
from circlet.backends.native.emit.emitter import I32, I64, POINTER
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.emit.polling import HOST_CALL, INSTRUCTION, Meter
from circlet.backends.native.emit.sharing import Sharing
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.timing import Timing, Untimed
from circlet.backends.native.parts import (
    COUNTED_COPIES,
    EXHAUSTED,
    FIXED,
    HOST_FAILED,
    MOST_EVIDENCE,
    UNKNOWN,
    Evidence,
    External,
    Held,
    OpenLengths,
    Site,
    Source,
    Tally,
)
from circlet.backends.native.rules.moving.cells import CellCode
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import Place
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.length import Scope, bound, is_length, larger, open_number
from circlet.runtime.ir.types import Array, DType, Shape

_TURNS = 1 << 12
"""Turns of loops of the model after which to look whether the run must stop, or has no iterations left. Of 1, 16, 64,
512, 4096, 65536 and 2 ** 20 the last four take the same time for 350 turns of `examples/collatz.tflite`, of a
nanosecond each; 64 takes 8 % more, 16 a third more. 4096 such turns are 4 microseconds; longer turns look by
themselves, see `_MUCH`."""
_MUCH = 1 << 11
"""Instructions of a turn from which on it counts as `polling` counts loops: `_TURNS` turns of fewer are less than
`GRANTED`. Not critical: 1 to 16384 take the same time for `examples/collatz.tflite`."""
_BRIEF, _BRIEF_BYTES = 1 << 12, 1 << 15
"""Instructions that are executed, as far as that is guessed, and bytes of memory, up to which a function is brief: a
microsecond or two. A choice."""


class ProcessFunction(FunctionLowering):
    """A function of this process: `i32 entry(control*, arena*, table*)`.

    `control` are the words of a `Control`; `table` holds the address of scratch memory for each participant of
    the team, that of the host, and those of the tensors that lie outside the arena.
    """

    def __init__(self, target: Target, symbol: str, variables: Variables, check_bounds: bool = False,
                 counted: int | None = None, is_timed: bool = False) -> None:
        """
        Args:
            target: the processor.
            symbol: the function's name.
            variables: those of the session.
            check_bounds: whether every access to memory is checked; operators then stay where they are, as buffers
                are followed within one function.
            counted: for how many subgraphs invocations are counted, and copies between them; None for not at all.
            is_timed: whether its regions are timed.
        """
        super().__init__(target, symbol, variables, ("control", "arena", "table"), "arena", not check_bounds)
        self._watch = Watch(self.e.module) if check_bounds else None
        self._counted = counted
        self._counts = None if counted is None else np.zeros(COUNTED_COPIES + counted, np.int64)
        self._table: dict[Hashable, ir.Value] = {}
        self._behind: dict[int, int] = {}
        self._resized: set[int] = set()
        """The arrays, by number, whose size differs from run to run."""
        self._told: set[int] = set()
        """Those of which the host knows."""
        self._exit: tuple[ir.Block, ir.Value] | None = None
        """What leaves the function, and where it finds the status."""
        self._left = self.e.slot(I64)
        self.e.builder.store(ir.Constant(I64, 0), self._left)
        self._host = self._entered(HOST, HOST_CALL)
        """What the host is called by."""
        self._meter = self.e.meter = Meter(self.e, self._arguments[0], self._host, self.leave)
        entry = self._entry.builder()
        team = entry.load(entry.gep(self._arguments[0], [ir.Constant(I64, TEAM)], source_etype=I64), typ=POINTER)
        self._sharing = Sharing(team, self._entered(SCRATCH), self._meter, self._leave_unless_done)
        self.e.sharing = self._sharing if target.has_threads and not check_bounds else None
        self.times = Timing(self.e, self.external) if is_timed else Untimed()
        self._sharing.timed = self.times.part

    def open(self, scope: Scope) -> None:
        """Makes it a function for any lengths."""
        scope.complete()
        self.takes(scope)
        memory = self.external(np.zeros(scope.count, np.int64), OpenLengths(scope.count))
        self.e.lengths = Lengths(self._entry, memory, self.e.index)

    def external(self, array: Array, source: Source = FIXED, size: int | None = None) -> ir.Value:
        """The address of an array outside the arena; see `FunctionLowering`.

        Buffers that a frame holds for tensors are told apart by the tensor where lengths are open: whether two are one
        hangs on these.
        """
        key: Hashable = (array.ctypes.data, array.nbytes)
        if isinstance(source, Held) and self.e.lengths is not None:
            key = source
        if key not in self._table:
            number = len(self.program.externals)
            self.program.externals.append(array)
            self.program.sources.append(source)
            self._table[key] = self._entered(FIRST_ARRAY + number)
            self._behind[id(self._table[key])] = number
            self._begin(self._table[key], array.nbytes if size is None else size)
            if size is not None:
                self._resized.add(number)
        if self._trace is not None:
            self._trace.external(array, self._table[key], source is FIXED or isinstance(source, Evidence))
        return self._table[key]

    def _entered(self, number: int, kind: ir.Type = POINTER) -> ir.Value:
        """An address in the table."""
        entry = self._entry.builder()
        return entry.load(entry.gep(self._arguments[2], [ir.Constant(I64, number)], source_etype=POINTER), typ=kind)

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        """The array that lies at an address, if the host knows it."""
        number = self._behind.get(id(memory))
        size = prod(shape) * dtype.numpy.itemsize
        if number is None or (not is_length(size) and size != self.program.externals[number].nbytes):
            return None
        self._told.add(number)
        return External(number, shape, dtype)

    def cell(self, handle: int, shape: Shape, dtype: DType) -> CellCode:
        return CellCode.of(self, handle, shape, dtype)

    def is_called(self, callee: int) -> bool:
        return False

    def call_host(self, number: int, place: Place) -> None:
        """Calls `i32 host(control*)`, which finds there the number of what it is asked for; any answer but 0 is a
        failure that the host has kept.

        The host knows the arena; it is told all the same, for LLVM must not take its content for unchanged.
        """
        b = self.e.builder
        b.store(ir.Constant(I64, number), self.control(REQUEST))
        b.store(self._arena, self.control(ARENA))
        self.return_turns()
        status = b.call(self._host, [self._arguments[0]])
        self.fail_unless(b.icmp_unsigned("==", status, ir.Constant(I32, 0)), place, HOST_FAILED)

    def _begin(self, address: ir.Value, size: int) -> None:
        if self._watch is not None:
            self._watch.buffer(address, self.e.number(bound(size)))

    def _enter(self, place: Place) -> None:
        if self._watch is not None:
            self._watch.enter(self.e.builder, place)

    def control(self, word: int) -> ir.Value:
        """The address of a word of the control."""
        return self.e.builder.gep(self._arguments[0], [ir.Constant(I64, word)], source_etype=I64)

    def return_turns(self) -> None:
        """Gives the turns that the function may still make back to the run, so that others see them."""
        b, left = self.e.builder, self.control(ITERATIONS)
        b.store(b.add(b.load(left, typ=I64), b.load(self._left, typ=I64)), left)
        b.store(ir.Constant(I64, 0), self._left)

    def _take_turns(self, place: Place) -> None:
        """Takes some of the turns that the run may still make for a loop; leaves if there are none, or the run must
        stop."""
        self._meter.look()
        b = self.e.builder
        left = b.load(self.control(ITERATIONS), typ=I64)
        self.fail_unless(b.icmp_unsigned("!=", left, ir.Constant(I64, 0)), place, EXHAUSTED)
        some = self.e.intrinsic("umin", left, ir.Constant(I64, _TURNS))
        b.store(b.sub(left, some), self.control(ITERATIONS))
        b.store(some, self._left)

    def turn(self, place: Place) -> None:
        """What happens before each iteration of the loop at a place: leaves if out of iterations, or if the run must
        stop, which is looked at now and then."""
        b = self.e.builder
        with b.if_then(b.icmp_unsigned("==", b.load(self._left, typ=I64), ir.Constant(I64, 0)), likely=False):
            self._take_turns(place)
        b.store(b.sub(b.load(self._left, typ=I64), ir.Constant(I64, 1)), self._left)

    @contextmanager
    def looping(self) -> Iterator[None]:
        """What is written inside is a turn of a loop of the model, which counts and looks whether it must stop."""
        with self._meter.turn(None, _MUCH):
            yield

    def leave(self, status: ir.Value) -> None:
        """Returns from the function, or from the one that is being written for it."""
        inner = self._sharing.part or self._apart
        if inner is not None:
            inner.may_fail = True
            self.e.builder.ret(status)
            return
        block, result = self._exit or self._written_exit()
        self.e.builder.store(status, result)
        self.e.builder.branch(block)

    def _written_exit(self) -> tuple[ir.Block, ir.Value]:
        """What all that leaves the function goes through."""
        b = self.e.builder
        here, result, block = b.block, self.e.slot(I32), self.e.function.append_basic_block("exit")
        b.position_at_end(block)
        self.return_turns()
        b.ret(b.load(result, typ=I32))
        b.position_at_end(here)
        self._exit, self._sharing.exit = (block, result), block
        return self._exit

    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Leaves the function with an error of an operator unless a condition holds; the message has a `{}` for each
        of the given i64."""
        quoted = numbers[:MOST_EVIDENCE]
        self.program.sites.append(Site(place, message, len(quoted)))
        evidence = self._evidence(quoted)
        with self._unless(condition, FIRST_SITE + len(self.program.sites) - 1 - self._sites_before):
            self._give(quoted, evidence)

    def warn_where(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        self.program.notices.append(Site(place, message, len(numbers)))
        evidence = self._evidence(numbers)
        with self.e.builder.if_then(condition, likely=False):
            self._give(numbers, evidence)
            self.call_host(FIRST_NOTICE + 1 - len(self.program.notices), place)

    def _evidence(self, numbers: Sequence[ir.Value]) -> ir.Value | None:
        """Where numbers lie that a message has; None if it has none."""
        return self.external(self.program.evidence, Evidence()) if numbers else None

    def _give(self, numbers: Sequence[ir.Value], evidence: ir.Value | None) -> None:
        """Writes numbers as evidence."""
        for position, number in enumerate(numbers):
            self.e.store(self.e.builder.sext(number, I64), evidence, DType.INT64, position)

    def expect_capacity(self, length: ir.Value, most: int, least: int | None = None) -> None:
        """Leaves the function unless there is room for a length that a loop comes to; says what it is to have room for
        when it is entered again: for twice as much at least, so that this happens seldom; -1 where the length is
        less than it may be."""
        number = open_number(most)
        assert self.e.lengths is not None, "lengths that change are open"
        assert number is not None, f"{most} is no capacity"
        self.program.grows = True
        b, capacity = self.e.builder, self.e.number(most)
        fits = b.icmp_signed("<=", length, capacity)
        if least is not None:
            fits = b.and_(fits, b.icmp_signed(">=", length, self.e.number(least)))
        with self._unless(fits, OUTGROWN):
            wanted = self.e.intrinsic("smax", length, b.shl(capacity, self.e.number(1)))
            if least is not None:
                wanted = b.select(b.icmp_signed("<", length, self.e.number(least)), self.e.number(-1), wanted)
            self.e.lengths.ask(b, number, wanted)

    def count(self, position: int, number: int) -> None:
        """Adds to what the function counts, if it does."""
        if self._counts is not None and self._counted is not None:
            counts = self.external(self._counts, Tally(self._counted))
            before = self.e.load(counts, DType.INT64, position)
            self.e.store(self.e.builder.add(before, self.e.number(number)), counts, DType.INT64, position)

    def finish(self) -> None:
        """Ends the function."""
        self._derived.clear()
        self.times.finish()
        self.program.regions = tuple(self.times.regions)
        self.program.scratch_bytes, self.program.shares_loops = self._sharing.most, self._sharing.is_used
        self.leave(ir.Constant(I32, DONE))
        self._drop_unread()
        self.program.is_brief = self._is_brief()
        self.program.work = self._work()
        if self._watch is not None:
            evidence = self.external(self.program.evidence, Evidence())
            entries = FIRST_ARRAY + len(self.program.externals)
            sizes = (CONTROL_BYTES, reduce(larger, self.program.arena_tops, 0), self.e.target.pointer_bytes * entries)
            for argument, size in zip(self.e.function.args, sizes, strict=True):
                self._watch.buffer(argument, self.e.number(size))
            self._watch.guard(self.e.function, evidence)
            self.program.watched = self._watch.watched(
                None if number in self._resized else each.nbytes for number, each in enumerate(self.program.externals))

    def _drop_unread(self) -> None:
        """Leaves out the content of arrays that no code reads, such as that of weights which were packed. Whatever
        reads one, here or in a function that was cut off, has its address from an instruction of this function."""
        read = {id(each) for block in self.e.function.blocks for instruction in block.instructions
                for each in _operands(instruction)}
        for address in self._table.values():
            number = self._behind[id(address)]
            if id(address) not in read and number not in self._told and self.program.sources[number] is FIXED:
                self.program.externals[number] = np.empty(0, np.uint8)

    def release(self) -> None:
        """Drops all but the program, once the code is in pieces: it refers to itself in circles, which to find takes
        Python long."""
        program = self.program
        for each in (self.e.module, self.e, self):
            vars(each).clear()
        self.program = program

    def _is_brief(self) -> bool:
        """Whether the function executes few instructions, on little memory, so that those among them that move memory
        are over soon too, and asks the host for nothing."""
        program = self.program
        is_alone = not (program.host_calls or program.notices or program.shares_loops)
        if self.e.lengths is not None or not is_alone or not self._meter.is_idle:
            return False
        size = sum(each.nbytes for each in program.externals) + max(program.arena_tops, default=0)
        return size <= _BRIEF_BYTES and self._meter.total <= _BRIEF

    def _work(self) -> int:
        """What all that the function computes takes, if that is known, and it asks the host for nothing."""
        is_known = self._meter.is_known and not (self.program.host_calls or self.program.notices)
        return self._meter.work + INSTRUCTION * self._meter.straight if is_known else UNKNOWN


def _operands(instruction: ir.Instruction) -> Iterator[ir.Value]:
    yield from instruction.operands
    if isinstance(instruction, ir.PhiInstr):
        yield from (value for value, _ in instruction.incomings)
