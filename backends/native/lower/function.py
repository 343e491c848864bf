"""The interface of a native function in LLVM: its arguments, memory, control words, what it returns and when."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import reduce
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.abi import (
    CONTROL_BYTES,
    DONE,
    FIRST_ARRAY,
    FIRST_SITE,
    HOST,
    ITERATIONS,
    OUTGROWN,
    SCRATCH,
    TEAM,
)
from circlet.backends.native.check.bounds import Watch
from circlet.backends.native.emit.blocks import Blocks
from circlet.backends.native.emit.emitter import (
    I8,
    I32,
    I64,
    NATIVE_TYPES,
    POINTER,
    Emitter,
    memory_type,
    register_type,
)
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.emit.outlined import Outlined
from circlet.backends.native.emit.polling import HOST_CALL, Meter
from circlet.backends.native.emit.sharing import Sharing
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.lower.labels import label
from circlet.backends.native.lower.timing import Timing, Untimed
from circlet.backends.native.parts import (
    COUNTED_COPIES,
    EXHAUSTED,
    FIXED,
    MOST_EVIDENCE,
    Evidence,
    External,
    Held,
    OpenLengths,
    Site,
    Source,
    Tally,
)
from circlet.backends.native.program import EMBEDDED_BYTES, Program
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import Place
from circlet.runtime.exec.memory import expect_room
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.length import Scope, bound, is_length, larger, open_number
from circlet.runtime.ir.types import ALIGNMENT, Array, DType, Shape
from circlet.runtime.passes.analyses.specialize import is_open_value

_TURNS = 1 << 12
"""Turns of loops of the model after which to look whether the run must stop, or has no iterations left. Of 1, 16, 64,
512, 4096, 65536 and 2 ** 20 the last four take the same time for 350 turns of `examples/collatz.tflite`, of a
nanosecond each; 64 takes 8 % more, 16 a third more. 4096 such turns are 4 microseconds; longer turns look by
themselves, see `_MUCH`."""
_MUCH = 1 << 11
"""Instructions of a turn from which on it counts as `polling` counts loops: `_TURNS` turns of fewer are less than
`GRANTED`. Not critical: 1 to 16384 take the same time for `examples/collatz.tflite`."""
_BRIEF, _BRIEF_BYTES = 1 << 12, 1 << 15
"""Instructions that are executed, and bytes of memory, up to which a function is brief: a microsecond or two, as long
as it takes to give up Python's lock and to have it back where other threads want it. A choice."""

class FunctionLowering:
    """One native function: `i32 entry(control*, arena*, table*)`.

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
            check_bounds: whether every access to memory is checked.
            counted: for how many subgraphs invocations are counted, and copies between them; None for not at all.
            is_timed: whether its regions are timed.
        """
        self.variables = variables
        self.program = Program()
        module = ir.Module(name=symbol)
        module.triple, module.data_layout = target.triple, target.data_layout
        kind = ir.FunctionType(I32, [POINTER, POINTER, POINTER])
        function = ir.Function(module, kind, symbol)
        for argument, name in zip(function.args, ("control", "arena", "table"), strict=True):
            argument.name = name
            argument.add_attribute("noalias")
        function.attributes.add("nounwind")
        self.e = Emitter(module, function, target)
        self._entry, self._arguments = self.e.entry, function.args
        self._watch = Watch(module) if check_bounds else None
        self._counted = counted
        self._counts = None if counted is None else np.zeros(COUNTED_COPIES + counted, np.int64)
        self._top = 0
        self._depth = 0
        self._table: dict[Hashable, ir.Value] = {}
        self._behind: dict[int, int] = {}
        self._resized: set[int] = set()
        """The arrays, by number, whose size differs from run to run."""
        self.blocks = Blocks()
        """Memory for what is made of constants."""
        self._derived: dict[Hashable, tuple[Array, Array]] = {}
        self._apart: Outlined | None = None
        """The function of the operator that is being written, if it has one."""
        self._left = self.e.slot(I64)
        self.e.builder.store(ir.Constant(I64, 0), self._left)
        self.host = self._entered(HOST, HOST_CALL)
        """What the host is called by."""
        self._meter = self.e.meter = Meter(self.e, self._arguments[0], self.host, self.leave)
        self._sharing = Sharing(self.e.builder.load(self.control(TEAM), typ=POINTER), self._entered(SCRATCH),
                                self._meter, self._leave_unless_done)
        self.e.sharing = self._sharing if target.has_threads and not check_bounds else None

        self._is_muted = False
        """Whether what is written stands in the outline already."""
        self.times = Timing(self.e, self.external) if is_timed else Untimed()

    def note(self, text: str) -> None:
        """Adds a line to the outline."""
        if not self._is_muted:
            self.program.outline.append("  " * self._depth + text)

    @contextmanager
    def muted(self, is_muted: bool) -> Iterator[None]:
        """What is written inside is not added to the outline, as it stands there."""
        outer, self._is_muted = self._is_muted, self._is_muted or is_muted
        yield
        self._is_muted = outer

    @contextmanager
    def indented(self, text: str) -> Iterator[None]:
        """Adds a line to the outline, and lines below it."""
        self.note(text)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def open(self, scope: Scope) -> None:
        """Makes it a function for any lengths."""
        scope.complete()
        memory = self.external(np.zeros(scope.count, np.int64), OpenLengths(scope.count))
        self.e.lengths = Lengths(self._entry, memory)

    def external(self, array: Array, source: Source = FIXED, size: int | None = None) -> ir.Value:
        """The address of an array outside the arena; its content never changes unless `source` says otherwise. Of an
        array whose lengths are open, `size` says how many bytes it has.

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
        return self._table[key]

    def _entered(self, number: int, kind: ir.Type = POINTER) -> ir.Value:
        """An address in the table."""
        entry = self._entry.builder()
        return entry.load(entry.gep(self._arguments[2], [ir.Constant(I64, number)], source_etype=POINTER), typ=kind)

    def derived(self, source: Array, use: Hashable, make: Callable[[], Array]) -> Array:
        """What is made of a constant for a use, made once however often the operator is emitted."""
        key = (source.ctypes.data, source.nbytes, use)
        if key not in self._derived:
            self._derived[key] = source, make()
        return self._derived[key][1]

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        """The array that lies at an address, if the host knows it."""
        number = self._behind.get(id(memory))
        size = prod(shape) * dtype.numpy.itemsize
        if number is None or (not is_length(size) and size != self.program.externals[number].nbytes):
            return None
        return External(number, shape, dtype)

    def reserve(self, size: int) -> ir.Value:
        """The address of `size` bytes of the arena, until the invocation that asks for them ends; inside a loop that
        is shared out, of `scratch`."""
        return self.at(self.reserve_offset(size), size) if self._sharing.part is None else self.scratch(size)

    def scratch(self, size: int) -> ir.Value:
        """The address of `size` bytes until the operator ends, others for each thread that shares out a loop: for what
        a turn of it writes and reads again."""
        if self.e.sharing is None:
            return self.reserve(size)
        return self.e.address(self._sharing.scratch, I8, self._sharing.reserve(size))

    def reserve_offset(self, size: int) -> int:
        offset, end = self._top, self._top + size
        """Where in the arena `size` bytes are, on a cache line, until the scope ends."""
        size = bound(size)
        if not is_length(end):
            expect_room((end,), np.dtype(np.uint8))
        self._top += -(-size // ALIGNMENT) * ALIGNMENT
        self.program.reserve(self._top)
        return offset

    def at(self, offset: int, size: int) -> ir.Value:
        """The address of `size` bytes of the arena."""
        address = self.e.builder.gep(self._arguments[1], [self.e.number(offset)], source_etype=I8)
        self._begin(address, size)
        return address

    def _begin(self, address: ir.Value, size: int) -> None:
        """A buffer begins at an address."""
        if self._watch is not None:
            self._watch.buffer(address, self.e.number(bound(size)))

    def constant(self, array: Array, dtype: DType) -> Value:
        """A constant of the model."""
        if is_open_value(array):
            return self._opened(array, dtype)
        if array.size == 1 and dtype in NATIVE_TYPES:
            return in_register(self.e.constant(array.reshape(-1)[0], dtype), array.shape, dtype, array)
        if array.nbytes <= EMBEDDED_BYTES and dtype in NATIVE_TYPES:
            return in_memory(self._embedded(array, dtype), array.shape, dtype, array)
        return in_memory(self.external(array), array.shape, dtype, array)

    def _opened(self, array: Array, dtype: DType) -> Value:
        """Integers that follow from open lengths."""
        numbers = [self.e.builder.trunc(self.e.number(each), register_type(dtype)) if dtype is not DType.INT64
                   else self.e.number(each) for each in array.reshape(-1)]
        if len(numbers) == 1:
            return in_register(numbers[0], array.shape, dtype, array)
        memory = self.reserve(len(numbers) * dtype.numpy.itemsize)
        for position, each in enumerate(numbers):
            self.e.store(each, memory, dtype, position)
        return in_memory(memory, array.shape, dtype, array)

    def _embedded(self, array: Array, dtype: DType) -> ir.Value:
        """A constant (elements,) of the module itself, so that LLVM sees its values."""
        kind = ir.ArrayType(memory_type(dtype), array.size)
        stored = array.astype(np.uint8) if dtype is DType.BOOL else array
        name = f"constant_{kind.element}_{stored.reshape(-1).tobytes().hex()}"
        if name not in self.e.module.globals:
            elements = [ir.Constant(memory_type(dtype), each) for each in stored.reshape(-1).tolist()]
            data = ir.GlobalVariable(self.e.module, kind, name)
            data.linkage, data.global_constant, data.initializer = "internal", True, ir.Constant(kind, elements)
        return self.e.module.globals[name]

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

    @contextmanager
    def looping(self) -> Iterator[None]:
        """What is written inside is a turn of a loop of the model, which counts and looks whether it must stop."""
        with self._meter.turn(None, _MUCH):
            yield

    def leave(self, status: ir.Value) -> None:
        """Returns from the function, or from the one that is being written for it."""
        inner = self._sharing.part or self._apart
        if inner is None:
            self.return_turns()
        else:
            inner.may_fail = True
        self.e.builder.ret(status)

    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Leaves the function with an error of an operator unless a condition holds; the message has a `{}` for each
        of the given i64."""
        quoted = numbers[:MOST_EVIDENCE]
        self.program.sites.append(Site(place, message, len(quoted)))
        evidence = self.external(self.program.evidence, Evidence()) if quoted else None
        with self._unless(condition, FIRST_SITE + len(self.program.sites) - 1):
            for position, number in enumerate(quoted):
                self.e.store(number, evidence, DType.INT64, position)

    def expect_capacity(self, length: ir.Value, most: int) -> None:
        """Leaves the function unless there is room for a length that a loop comes to; says what it is to have room for
        when it is entered again: for twice as much at least, so that this happens seldom."""
        number = open_number(most)
        assert self.e.lengths is not None, "lengths that change are open"
        assert number is not None, f"{most} is no capacity"
        self.program.grows = True
        b, capacity = self.e.builder, self.e.number(most)
        with self._unless(b.icmp_signed("<=", length, capacity), OUTGROWN):
            twice = b.shl(capacity, self.e.number(1))
            self.e.lengths.ask(b, number, self.e.intrinsic("smax", length, twice))

    def finish(self) -> None:
        """Ends the function."""
        self.times.finish()
        self.program.regions = tuple(self.times.regions)
        self.program.scratch_bytes, self.program.shares_loops = self._sharing.most, self._sharing.is_used
        self.leave(ir.Constant(I32, DONE))
        self.program.is_brief = self._is_brief()
        if self._watch is not None:
            evidence = self.external(self.program.evidence, Evidence())
            entries = FIRST_ARRAY + len(self.program.externals)
            sizes = (CONTROL_BYTES, reduce(larger, self.program.arena_tops, 0), self.e.target.pointer_bytes * entries)
            for argument, size in zip(self.e.function.args, sizes, strict=True):
                self._watch.buffer(argument, self.e.number(size))
            self._watch.guard(self.e.function, evidence)
            self.program.watched = self._watch.watched(
                None if number in self._resized else each.nbytes for number, each in enumerate(self.program.externals))

    def _is_brief(self) -> bool:
        """Whether the function executes few instructions, on little memory, so that those among them that move memory
        are over soon too, and asks the host for nothing."""
        program = self.program
        if self.e.lengths is not None or program.host_calls or program.shares_loops or not self._meter.is_idle:
            return False
        size = sum(each.nbytes for each in program.externals) + max(program.arena_tops, default=0)
        return size <= _BRIEF_BYTES and self._meter.total <= _BRIEF

    def _leave_unless_done(self, status: ir.Value) -> None:
        """Leaves the function with a status unless it is `DONE`."""
        bad, good = (self.e.function.append_basic_block(name) for name in ("fail", "good"))
        self.e.builder.cbranch(self.e.builder.icmp_signed("==", status, ir.Constant(I32, DONE)), good, bad)
        self.e.builder.position_at_end(bad)
        self.leave(status)
        self.e.builder.position_at_end(good)

    @contextmanager
    def _unless(self, condition: ir.Value, status: int) -> Iterator[None]:
        """Leaves the function unless a condition holds, after what is emitted inside."""
        bad, good = (self.e.function.append_basic_block(name) for name in ("fail", "good"))
        self.e.builder.cbranch(condition, good, bad)
        self.e.builder.position_at_end(bad)
        yield
        self.leave(ir.Constant(I32, status))
        self.e.builder.position_at_end(good)

    def turn(self, place: Place) -> None:
        """What happens before each iteration of the loop at a place: leaves if out of iterations, or if the run must
        stop, which is looked at now and then."""
        b = self.e.builder
        with b.if_then(b.icmp_unsigned("==", b.load(self._left, typ=I64), ir.Constant(I64, 0)), likely=False):
            self._take_turns(place)
        b.store(b.sub(b.load(self._left, typ=I64), ir.Constant(I64, 1)), self._left)

    def count(self, position: int, number: int) -> None:
        """Adds to what the function counts, if it does."""
        if self._counts is not None and self._counted is not None:
            counts = self.external(self._counts, Tally(self._counted))
            before = self.e.load(counts, DType.INT64, position)
            self.e.store(self.e.builder.add(before, self.e.number(number)), counts, DType.INT64, position)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Memory that is reserved inside is free afterwards."""
        top = self._top
        yield
        self._top = top

    @contextmanager
    def operator(self, place: Place, name: str) -> Iterator[None]:
        """What is written inside is an operator, called by a name."""
        self._sharing.top = 0
        around, self.e.label = self.e.label, label(place.subgraph_name, name, place.operator)
        if self._watch is not None:
            self._watch.enter(self.e.builder, place)
        with self.scope():
            yield
            self._meter.between()
        self.e.label = around

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is written inside becomes a function of its own, as LLVM's time grows faster than a function does.
        Nothing of it may be used outside but what it writes to memory. Where bounds are checked it stays where it is,
        as buffers are followed within one function."""
        if self._watch is not None:
            yield
            return
        self._apart = Outlined(self.e)
        with self._apart.written(), self._meter.apart():
            yield
        outlined, self._apart = self._apart, None
        outlined.call(self._leave_unless_done)

    def write(self, value: Value, home: ir.Value) -> None:
        """Copies a tensor to memory."""
        value.write(self.e, home)

    def pointer(self, value: Value) -> ir.Value:
        """Where a tensor lies; it is written to the arena if it lies nowhere."""
        if value.memory is not None:
            return value.memory
        home = self.reserve(value.nbytes)
        self.write(value, home)
        return home
