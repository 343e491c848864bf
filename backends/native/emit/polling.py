"""Where compiled code looks whether it must stop: in loops that take long, and between operators.

While code is written, a `Meter` adds up how many instructions a run executes. A loop of which each turn takes some time
*spends* at the end of a turn what that takes. When what was granted is spent, after some milliseconds, the function
`poll` is called, as it is where operators one after another take that together: it looks at the stop flag and at the
clock, and now and then asks Python, so that signal handlers run. Tight loops, and those that are over soon, have
nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

from llvmlite import ir

from circlet.backends.native.abi import DEADLINE, DONE, NEXT, PATIENCE, POLL, REQUEST, STOP, STOPPED
from circlet.backends.native.targets.machine import CLOCK
from circlet.runtime.ir.length import Indefinite, bound, is_length
from circlet.runtime.records import dataclass

I32, I64, POINTER = ir.IntType(32), ir.IntType(64), ir.PointerType()
"""Types of registers; `emitter.py`, which has them too, imports this file."""

GRANTED = 1 << 23
"""Instructions between two calls of `poll`, as they are written: at 3 GHz 0.7 ms where the processor executes four of
them in a cycle, 11 ms where one in four cycles; so several polls for each `PATIENCE`. A choice, from the 0.1 s that a
user takes for at once."""
LONG = GRANTED >> 2
"""A loop that takes fewer does not look by itself, and operators one after another look when all that was granted is
spent; so a function may run on for a little more than twice what was granted."""
INSTRUCTION = 4
"""Multiply-adds of floats, or bytes read and written, that take as long as an instruction is taken to, about; see
`parallel.LEAST_WORK`."""
_LEAST, _LEAST_FLAT = 1 << 9, 1 << 13
"""Instructions of a turn beside which looking costs nothing: it takes four (load, subtract, store, branch), 1 % of the
first. The second is for loops with nothing but instructions inside, of which LLVM might make vectors: 16 lanes share
the four."""
_MOVED = 1 << 8
"""Bytes that are moved by a few instructions, as others are executed in a loop."""
_UNKNOWN = 64
"""Turns that are expected of a loop whose number of turns only the run can tell: a choice, which decides how often code
looks."""
_MANY = 1 << 12
"""Turns of such a loop from which on what they took is spent: a choice, beside which a look takes no time. A loop
around shorter ones looks after 64 times what was granted at the most, some 50 ms."""
HOST_CALL = ir.PointerType(ir.FunctionType(I32, [POINTER]))
"""What the host is called by: `i32 host(control*)`; any answer but 0 ends the run."""
_POLL = ir.FunctionType(I32, [POINTER, I64, HOST_CALL])
"""`i32 poll(control*, participant, host*)`."""


class Start(Protocol):
    """The beginning of a function."""

    def builder(self) -> ir.IRBuilder: ...


class Writer(Protocol):
    """What writes a function."""

    module: ir.Module
    function: ir.Function
    builder: ir.IRBuilder
    called: int
    """Instructions that the functions execute which were called, as far as that is known."""

    @property
    def entry(self) -> Start: ...

    def slot(self, kind: ir.Type) -> ir.Value: ...


@dataclass
class _Span:
    """A turn of a loop that is being written, or operators one after another."""

    blocks: int
    """How many the function had before."""
    called: int
    """`Writer.called` before."""
    once: int = 0
    """Instructions in loops inside, each counted once."""
    cost: int = 0
    """What these loops execute without having spent it."""
    has_loops: bool = False


class Meter:
    """What a function executes, and where it spends that."""

    def __init__(self, writer: Writer, control: ir.Value, host: ir.Value, leave: Callable[[ir.Value], None]) -> None:
        """
        Args:
            writer: writes the function.
            control: the words that the run shares with it.
            host: what `poll` asks; see `host.py`.
            leave: writes what leaves the function with a status.
        """
        self._writer = writer
        self._control = control
        self._host = host
        self._leave = leave
        self._participant: ir.Value = ir.Constant(I64, 0)
        """The number of the thread that executes a part."""
        self._granted: dict[str, ir.Value] = {}
        """Where each function has what it may still spend."""
        self._spans = [_Span(0, 0)]
        self.work = 0
        """Of loops, as `part` measures it, for any lengths."""
        self.is_known = True
        """Whether that is all there is, but for instructions outside of loops."""
        self._shared = 0
        """Of `Writer.called`, what loops execute that are shared out."""
        self._is_asleep = False
        """Whether what is written is over soon, however many loops it has."""
        self._is_part = False

    @contextmanager
    def turn(self, count: int | None, least: int = 0, size: int | None = None) -> Iterator[_Span | None]:
        """What is written inside is a turn of a loop; gives what `spend_loop` takes, if it is to be called.

        Args:
            count: of turns; None if only the run can tell.
            least: instructions from which on a turn spends.
            size: the number of turns too, where it is an open length.
        """
        if self._is_asleep:
            yield None
            return
        writer = self._writer
        span = _Span(len(writer.function.blocks), writer.called)
        self._spans.append(span)
        yield span if count is None else None
        self._spans.pop()
        called = writer.called - span.called
        once = called + sum(len(each.instructions) for each in writer.function.blocks[span.blocks:])
        cost = once - span.once + span.cost
        self._add(cost * INSTRUCTION, count if size is None else size)
        total = cost * (_UNKNOWN if count is None else count)
        has_loops = span.has_loops or called > 0
        if cost >= max(least, _LEAST if has_loops else _LEAST_FLAT) and (count is None or total >= LONG):
            self._spend(ir.Constant(I64, cost))
            cost = total = 0
        span.cost = cost
        outer = self._spans[-1]
        outer.once, outer.cost, outer.has_loops = outer.once + once, outer.cost + total, True

    def _add(self, work: int, count: int | None) -> None:
        """Adds the work of a loop, given that of a turn; one within others is part of their turns."""
        if self._is_part or (isinstance(count, int) and len(self._spans) > 1):
            return
        most = None
        if count is not None and len(self._spans) == 1:
            with suppress(Indefinite):
                most = bound(count)
        if most is None:
            self.is_known = False
        else:
            self.work += most * work

    def move(self, size: int | None) -> None:
        """One instruction moves or fills so many bytes; None if only the run can tell."""
        if len(self._spans) == 1:
            self._add(1, size)
        elif not self._is_part and (size is None or is_length(size) or size > _MOVED):
            self.is_known = False

    def spend_loop(self, span: _Span, turns: ir.Value) -> None:
        """Called behind a loop of which only the run can tell the number of turns: spends what they took, unless each
        did, where they are far more than were expected."""
        b = self._writer.builder
        if span.cost:
            with b.if_then(b.icmp_signed(">", turns, ir.Constant(turns.type, _MANY)), likely=False):
                self._spend(b.mul(b.sext(turns, I64), ir.Constant(I64, span.cost)))

    @contextmanager
    def part(self, participant: ir.Value, work: int, takes_long: ir.Value | None = None) -> Iterator[None]:
        """What is written inside is a function of its own, that takes turns of a loop.

        Args:
            participant: the number of the thread.
            work: of all turns.
            takes_long: an i1, whether that is `LONG`, where only a run can tell.
        """
        outer, called = (self._participant, self._spans, self._is_asleep), self._writer.called
        self._participant, self._spans = participant, [_Span(0, 0)]
        self._is_asleep = self._is_asleep or (not is_length(work) and work < LONG)
        self._is_part = True
        if not self._is_asleep:
            self.look_if(takes_long)
        yield
        self._is_part = False
        self._shared += self._writer.called - called
        self._participant, self._spans, self._is_asleep = outer
        self._spans[-1].cost += LONG if is_length(work) else min(work, LONG)
        if len(self._spans) == 1:
            self._add(1, work)
        elif is_length(work):
            self.is_known = False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is written inside is a function of its own, which is called once where it stands."""
        writer, outer = self._writer, self._spans
        self.is_known = self.is_known and len(outer) == 1
        self._spans = [_Span(0, 0)]
        yield
        (span,), self._spans = self._spans, outer
        writer.called += sum(len(each.instructions) for each in writer.function.blocks) - span.once
        outer[-1].cost += GRANTED if writer.function.name in self._granted else min(span.cost, GRANTED)

    def again(self, called: int, cost: int, work: int) -> None:
        """A function of its own is called once more, which counts as it did; see `apart`."""
        self.work += work
        self._writer.called += called
        self._spans[-1].cost += cost

    @property
    def pending(self) -> int:
        """What loops execute, so far, without having spent it."""
        return self._spans[-1].cost

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the function looks whether it must stop."""
        return "circlet_poll" not in self._writer.module.globals

    @property
    def total(self) -> int:
        """Instructions that the function executes, without those that were spent."""
        return self._writer.called + self._spans[0].cost - self._spans[0].once + sum(
            len(each.instructions) for each in self._writer.function.blocks)

    @property
    def straight(self) -> int:
        """Instructions outside of loops."""
        return self.total - self._spans[0].cost - self._shared

    def between(self) -> None:
        """Called between operators: looks once they take together what is granted at a time."""
        span = self._spans[-1]
        if span.cost >= GRANTED:
            self.look()
            span.cost = 0

    def look_if(self, condition: ir.Value | None) -> None:
        """Looks where a condition holds, or always if there is none."""
        with nullcontext() if condition is None else self._writer.builder.if_then(condition, likely=False):
            self.look()

    def look(self) -> None:
        """Leaves the function, or the part that is being written, if the run must stop."""
        b, called = self._writer.builder, self._writer.called
        participant = b.sext(self._participant, I64)
        status = b.call(_poll(self._writer.module), [self._control, participant, self._host])
        self._writer.called = called
        self.leave_unless_done(status)

    def leave_unless_done(self, status: ir.Value) -> None:
        """Leaves the function, or the part that is being written, with a status unless it is `DONE`."""
        b, function = self._writer.builder, self._writer.function
        stop, go_on = (function.append_basic_block(name) for name in ("stop", "go_on"))
        b.cbranch(b.icmp_signed("==", status, ir.Constant(I32, DONE)), go_on, stop)
        b.position_at_end(stop)
        if self._is_part:
            b.ret(status)
        else:
            self._leave(status)
        b.position_at_end(go_on)

    def _spend(self, cost: ir.Value) -> None:
        """Takes what was executed from what was granted; looks when nothing is left."""
        b = self._writer.builder
        granted = self._slot()
        left = b.sub(b.load(granted, typ=I64), cost)
        b.store(left, granted)
        with b.if_then(b.icmp_signed("<", left, ir.Constant(I64, 0)), likely=False):
            self.look()
            b.store(ir.Constant(I64, GRANTED), granted)

    def _slot(self) -> ir.Value:
        """Where the function that is being written has what it may still spend: an i64 on its stack, made at first
        use."""
        writer = self._writer
        name = writer.function.name
        if name not in self._granted:
            self._granted[name] = writer.slot(I64)
            writer.entry.builder().store(ir.Constant(I64, GRANTED), self._granted[name])
        return self._granted[name]


def _poll(module: ir.Module) -> ir.Function:
    """`i32 poll(control*, participant, host*)`: `STOPPED`, if the run must stop, or `DONE`. Only participant 0, whose
    thread is the caller's, asks Python."""
    found = module.globals.get("circlet_poll")
    if isinstance(found, ir.Function):
        return found
    function = ir.Function(module, _POLL, "circlet_poll")
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind", "cold"):
        function.attributes.add(attribute)
    _PollBody(function).write()
    return function


class _PollBody:
    def __init__(self, function: ir.Function) -> None:
        self._control, self._participant, self._host = function.args
        self._b = ir.IRBuilder(function.append_basic_block("entry"))

    def write(self) -> None:
        """Writes the function: looks at the stop flag, at the clock if there is one, asks the host, and looks at the
        flag again."""
        b = self._b
        self._stop_if(b.icmp_unsigned("!=", self._flag(), ir.Constant(I64, 0)))
        if CLOCK is None:
            self._done_if(b.icmp_unsigned("!=", self._participant, ir.Constant(I64, 0)))
        else:
            self._look_at_clock(CLOCK)
        b.store(ir.Constant(I64, POLL), self._word(REQUEST))
        answer = b.call(self._host, [self._control])
        self._raise_flag_if(b.icmp_signed("!=", answer, ir.Constant(I32, 0)))
        self._stop_if(b.icmp_unsigned("!=", self._flag(), ir.Constant(I64, 0)))
        b.ret(ir.Constant(I32, DONE))

    def _look_at_clock(self, clock: int) -> None:
        """Stops after the deadline; goes on before it is time to ask Python, which the first look fixes."""
        b, now = self._b, self._now(clock)
        self._raise_flag_if(b.icmp_signed(">=", now, b.load(self._word(DEADLINE), typ=I64)))
        self._stop_if(b.icmp_unsigned("!=", self._flag(), ir.Constant(I64, 0)))
        self._done_if(b.icmp_unsigned("!=", self._participant, ir.Constant(I64, 0)))
        planned = b.load(self._word(NEXT), typ=I64)
        with b.if_then(b.icmp_signed("==", planned, ir.Constant(I64, 0))):
            b.store(b.add(now, ir.Constant(I64, PATIENCE)), self._word(NEXT))
        self._done_if(b.icmp_signed("<", now, b.load(self._word(NEXT), typ=I64)))

    def _now(self, clock: int) -> ir.Value:
        """Nanoseconds, as `time.monotonic_ns` has them."""
        b = self._b
        time = b.alloca(I64, 2)
        kind = ir.FunctionType(I32, [I32, POINTER])
        b.call(ir.Function(b.module, kind, "clock_gettime"), [ir.Constant(I32, clock), time])
        seconds = b.load(time, typ=I64)
        rest = b.load(b.gep(time, [ir.Constant(I64, 1)], source_etype=I64), typ=I64)
        return b.add(b.mul(seconds, ir.Constant(I64, 10**9)), rest)

    def _word(self, number: int) -> ir.Value:
        """The address of a word of the control, by its number."""
        return self._b.gep(self._control, [ir.Constant(I64, number)], source_etype=I64)

    def _flag(self) -> ir.Value:
        """The stop flag, which other threads may set: an atomic load."""
        return self._b.load_atomic(self._word(STOP), "monotonic", 8, typ=I64)

    def _raise_flag_if(self, condition: ir.Value) -> None:
        """Sets the stop flag, for the other participants too."""
        with self._b.if_then(condition):
            self._b.store(ir.Constant(I64, 1), self._word(STOP))

    def _stop_if(self, condition: ir.Value) -> None:
        """Returns `STOPPED` where a condition holds."""
        with self._b.if_then(condition):
            self._b.ret(ir.Constant(I32, STOPPED))

    def _done_if(self, condition: ir.Value) -> None:
        """Returns `DONE` where a condition holds."""
        with self._b.if_then(condition):
            self._b.ret(ir.Constant(I32, DONE))
