"""A native function in LLVM: its memory, constants, outline; how it is called is said by those that derive from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from llvmlite import ir

from circlet.backends.native.abi import DONE, FIRST_SITE
from circlet.backends.native.emit.blocks import Blocks
from circlet.backends.native.emit.emitter import (
    I8,
    I32,
    NATIVE_TYPES,
    POINTER,
    Emitter,
    memory_type,
    stored,
)
from circlet.backends.native.emit.outlined import Outlined, call, fill
from circlet.backends.native.emit.sharing import Sharing
from circlet.backends.native.emit.value import Value, computed, in_memory, in_register
from circlet.backends.native.lower.alike.trace import Trace
from circlet.backends.native.lower.labels import label
from circlet.backends.native.lower.timing import Timing, Untimed
from circlet.backends.native.parts import FIXED, External, Site, Source
from circlet.backends.native.program import EMBEDDED_BYTES, Program
from circlet.backends.native.rules.function import VariableCell
from circlet.backends.native.rules.narrow import Narrow, are_halves
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.errors import Place
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.exec.memory import expect_room
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.asked import Asked
from circlet.runtime.ir.length import Scope, bound, is_length, is_open, larger
from circlet.runtime.ir.types import ALIGNMENT, Array, DType, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.compressed import Compressed
from circlet.runtime.passes.analyses.plan_memory import place_classes, place_open
from circlet.runtime.passes.analyses.specialize import is_open_value


class FunctionLowering(ABC):
    """One native function."""

    times: Timing | Untimed
    """Writes what is read of the clock."""
    _sharing: Sharing

    def __init__(self, target: Target, symbol: str, variables: Variables, arguments: Sequence[str],
                 arena: str, cuts: bool, module: ir.Module | None = None) -> None:
        """
        Args:
            target: the processor.
            symbol: the function's name.
            variables: those of the session.
            arguments: the names of its arguments, each an address.
            arena: which of them is the memory that it computes in.
            cuts: whether operators may become functions of their own.
            module: that it is added to; by default one of its own.
        """
        self.variables = variables
        self.program = Program()
        if module is None:
            module = ir.Module(name=symbol)
            module.triple, module.data_layout = target.triple, target.data_layout
        kind = ir.FunctionType(I32, [POINTER] * len(arguments))
        function = ir.Function(module, kind, symbol)
        for argument, name in zip(function.args, arguments, strict=True):
            argument.name = name
            argument.add_attribute("noalias")
        function.attributes.add("nounwind")
        self.e = Emitter(module, function, target)
        self._entry, self._arguments = self.e.entry, function.args
        self._arena = function.args[arguments.index(arena)]
        self._cuts = cuts
        self.top = 0
        """How much of the arena is in use."""
        self._depth = 0
        self.blocks = Blocks()
        """Memory for what is made of constants."""
        self._derived: dict[Hashable, tuple[Array, Array]] = {}
        self._narrow: dict[tuple[int, int], tuple[Array, Narrow]] = {}
        self._halves: dict[tuple[int, int], tuple[Array, bool]] = {}
        self._origins: dict[Hashable, tuple[Array, Callable[[], Compressed | None]]] = {}
        self._compressed: dict[Hashable, Compressed | None] = {}
        self._apart: Outlined | None = None
        """The function of the operator that is being written, if it has one."""
        self._sites_before = 0
        """How many sites there were before that operator; 0 where it has no function."""
        self._trace: Trace | None = None
        """What is noted of the operator that is being written."""
        self._room: int | None = None
        """A length that says for how much a loop has room."""
        self._is_muted = False
        """Whether what is written stands in the outline already."""

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

    @abstractmethod
    def external(self, array: Array, source: Source = FIXED, size: int | None = None) -> ir.Value:
        """The address of an array outside the arena; its content never changes unless `source` says otherwise. Of an
        array whose lengths are open, `size` says how many bytes it has."""

    @abstractmethod
    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        """The array that lies at an address, if the host knows it."""

    @abstractmethod
    def cell(self, handle: int, shape: Shape, dtype: DType) -> VariableCell:
        """Where a variable keeps values of a type and shape."""

    @abstractmethod
    def is_called(self, callee: int) -> bool:
        """Whether CALL_ONCE has run a subgraph before the function is entered, each time."""

    @abstractmethod
    def call_host(self, number: int, place: Place) -> None:
        """Has the host compute one of the `host_calls`."""

    @abstractmethod
    def turn(self, place: Place) -> None:
        """What happens before each iteration of the loop at a place: leaves if out of iterations, or if the run must
        stop."""

    @abstractmethod
    def leave(self, status: ir.Value) -> None:
        """Returns from the function, or from the one that is being written for it."""

    @abstractmethod
    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Leaves the function with an error of an operator unless a condition holds; the message has a `{}` for each
        of the given indices."""

    @abstractmethod
    def warn_where(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """Has the host warn where a condition holds, and goes on; the message has a `{}` for each of the numbers."""

    @abstractmethod
    def expect_capacity(self, length: ir.Value, most: int, least: int | None = None) -> None:
        """Leaves the function unless there is room for a length that a loop comes to; says what it is to have room for
        when it is entered again: for twice as much at least, so that this happens seldom; -1 where the length is
        less than it may be."""

    def takes(self, scope: Scope) -> None:
        """Has the lengths of a scope, of which something may be taken for granted."""
        self._room = scope.symbol(scope.capacities[0]) if scope.capacities else None

    def leave_where(self, differs: ir.Value) -> bool:
        """Leaves a run to a frame for any values where what was taken for granted of lengths is not so, by asking for
        less room than none; whether there is a length that room can be asked for."""
        if self._room is not None:
            found = self.e.builder.select(differs, self.e.number(-1), self.e.number(0))
            self.expect_capacity(found, self._room, 0)
        return self._room is not None

    @abstractmethod
    def finish(self) -> None:
        """Ends the function."""

    def looping(self) -> AbstractContextManager[None]:
        """What is written inside is a turn of a loop of the model, which counts and looks whether it must stop."""
        return nullcontext()

    @abstractmethod
    def count(self, position: int, number: int) -> None:
        """Adds to what the function counts, if it does."""

    def derived(self, source: Array, use: Hashable, make: Callable[[Array], Array]) -> Array:
        """What is made of a constant for a use, made once however often the operator is emitted."""
        key = (source.ctypes.data, source.nbytes, use)
        if key not in self._derived:
            self._derived[key] = source, make(source)
        if self._trace is not None:
            self._trace.derived(self._derived[key][1], source, use, make)
        return self._derived[key][1]

    @property
    def is_repeatable(self) -> bool:
        """Whether what is being written may be called for another operator."""
        return self._trace is not None

    def made(self, call: Call, make: Callable[[Call], Array]) -> ir.Value:
        """The address of an array outside the arena that is made of constants of an operator, and of how its tensors
        are quantised; code like this may be called for another operator, of which it is made then."""
        found = self.external(make(call))
        if self._trace is not None and call.place != NOWHERE:
            self._trace.made[found] = call, make
        return found

    def narrow(self, array: Array) -> Narrow | None:
        """What the model has for a constant in fewer bits, if that is what is to be kept."""
        found = self._narrow.get((array.ctypes.data, array.nbytes))
        return None if found is None else found[1]

    def are_halves(self, array: Array) -> bool:
        """Whether float16 has all numbers of a constant of float32."""
        key = array.ctypes.data, array.nbytes
        if key not in self._halves:
            self._halves[key] = array, are_halves(array)
        return self._halves[key][1]

    def compressed(self, array: Array) -> Compressed | None:
        """What a constant of float32 is made of, if that is integers and scales."""
        key = _identity(array)
        if key not in self._origins:
            return None
        if key not in self._compressed:
            self._compressed[key] = self._origins[key][1]()
        return self._compressed[key]

    def keep_origin(self, array: Array, origin: Callable[[], Compressed | None]) -> None:
        """Says what finds out what a constant is made of."""
        self._origins[_identity(array)] = array, origin

    def keep_narrow(self, array: Array, narrow: Narrow) -> None:
        """Says what the model has for a constant."""
        self._narrow[array.ctypes.data, array.nbytes] = array, narrow

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

    def arrange(self, aliases: Aliases, wanted: Collection[int]) -> dict[int, ir.Value]:
        """The addresses of parts of the arena for storage classes of a subgraph, by their roots, until the scope
        ends."""
        sized = place_open if is_open(map(aliases.size, wanted)) else place_classes
        found, size = sized(aliases, wanted)
        base = self.reserve_offset(size)
        return {root: self.at(base + place.offset, place.size) for root, place in found.items()}

    def reserve_offset(self, size: int) -> int:
        """Where in the arena `size` bytes are, on a cache line, until the scope ends."""
        offset, end = self.top, self.top + size
        size = bound(size)
        if not is_length(end):
            expect_room((end,), np.dtype(np.uint8))
        self.top += -(-size // ALIGNMENT) * ALIGNMENT
        if self._trace is None:
            self.program.reserve(self.top)
        else:
            self._trace.tops.append(self.top)
        return offset

    def at(self, offset: int, size: int) -> ir.Value:
        """The address of `size` bytes of the arena."""
        address = self.e.builder.gep(self._arena, [self.e.number(offset)], source_etype=I8)
        self._begin(address, size)
        return address

    @abstractmethod
    def _begin(self, address: ir.Value, size: int) -> None:
        """A buffer begins at an address."""

    def constant(self, array: Array, dtype: DType) -> Value:
        """A constant of the model."""
        if is_open_value(array):
            return self._opened(array, dtype)
        if array.size == 1 and dtype in NATIVE_TYPES:
            return in_register(self.e.constant(array.reshape(-1)[0], dtype), array.shape, dtype, array)
        if self.e.target.goal is not Goal.HERE and dtype in NATIVE_TYPES and array.size and _is_uniform(array):
            only = self.e.constant(array.reshape(-1)[0], dtype)
            return replace(computed(array.shape, dtype, lambda *_: only, lambda *_: only), known=array)
        if array.nbytes <= EMBEDDED_BYTES and dtype in NATIVE_TYPES:
            return in_memory(self._embedded(array, dtype), array.shape, dtype, array)
        return in_memory(self.external(array), array.shape, dtype, array)

    def _opened(self, array: Array, dtype: DType) -> Value:
        """Integers that follow from open lengths; written to memory where the code computes which is read, as most are
        shapes, which rules know."""
        numbers = array.reshape(-1)
        if len(numbers) == 1:
            def only(e: Emitter, _: object) -> ir.Value:
                return e.constant(numbers[0], dtype)  # not before it is read: what reads a length is noted

            return replace(computed(array.shape, dtype, only, only), known=array)

        def write(e: Emitter, home: ir.Value) -> None:
            for position, each in enumerate(numbers):
                e.store(e.constant(each, dtype), home, dtype, position)

        def linear(e: Emitter, position: ir.Value) -> ir.Value:
            if isinstance(position, ir.Constant):
                return e.constant(numbers[position.constant], dtype)
            home = self.reserve(len(numbers) * dtype.numpy.itemsize)
            write(e, home)
            return e.load(home, dtype, position)

        return replace(computed(array.shape, dtype, lambda e, index: linear(e, e.linear(index, array.shape)), linear),
                       known=array, fill=write)

    def _embedded(self, array: Array, dtype: DType) -> ir.Value:
        """A constant (elements,) of the module itself, so that LLVM sees its values."""
        kind = ir.ArrayType(memory_type(dtype), array.size)
        numbers = stored(np.ascontiguousarray(array).reshape(-1), dtype)
        name = f"constant_{kind.element}_{numbers.tobytes().hex()}"
        if name not in self.e.module.globals:
            elements = [ir.Constant(memory_type(dtype), each) for each in numbers.tolist()]
            data = ir.GlobalVariable(self.e.module, kind, name)
            data.linkage, data.global_constant, data.initializer = "internal", True, ir.Constant(kind, elements)
        return self.e.module.globals[name]

    def _leave_unless_done(self, status: ir.Value, before: int = 0) -> None:
        """Leaves the function with a status unless it is `DONE`; that of a function which numbers its sites from 0 on
        though so many are before them."""
        bad, good = (self.e.function.append_basic_block(name) for name in ("fail", "good"))
        self.e.builder.cbranch(self.e.builder.icmp_signed("==", status, ir.Constant(I32, DONE)), good, bad)
        self.e.builder.position_at_end(bad)
        if before:
            is_site = self.e.builder.icmp_signed(">=", status, ir.Constant(I32, FIRST_SITE))
            status = self.e.builder.select(is_site, self.e.builder.add(status, ir.Constant(I32, before)), status)
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

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Memory that is reserved inside is free afterwards."""
        top = self.top
        yield
        self.top = top

    @contextmanager
    def operator(self, place: Place, name: str) -> Iterator[None]:
        """What is written inside is an operator, called by a name."""
        self._sharing.top = 0
        around, self.e.label = self.e.label, label(place.subgraph_name, name, place.operator)
        self._enter(place)
        with self.scope():
            yield
            if self.e.meter is not None:
                self.e.meter.between()
        self.e.label = around

    @abstractmethod
    def _enter(self, place: Place) -> None:
        """What follows is the code of an operator."""

    @contextmanager
    def apart(self, is_repeated: bool = False) -> Iterator[None]:
        """What is written inside becomes a function of its own, as LLVM's time grows faster than a function does.
        Nothing of it may be used outside but what it writes to memory. It is repeated in loops of the model."""
        if not self._cuts:
            yield
            return
        self._apart, self._sites_before = Outlined(self.e), len(self.program.sites)
        with self._apart.written(), nullcontext() if self.e.meter is None else self.e.meter.apart():
            yield
        before = self._sites_before if len(self.program.sites) > self._sites_before else 0
        outlined, self._apart, self._sites_before = self._apart, None, 0
        outlined.call(partial(self._leave_unless_done, before=before), is_repeated)
        if self._trace is not None:
            self._trace.outlined = outlined

    @property
    def is_apart(self) -> bool:
        """Whether what is being written is a function of its own."""
        return self._apart is not None

    def call_again(self, function: ir.Function, context: ir.Value, read: Sequence[tuple[int, ir.Value]],
                   may_fail: bool, sites: Sequence[Site]) -> None:
        """Calls the function of an operator, given its context and what is another than before, by the word where it
        finds that; it can fail at some places of its own."""
        fill(self.e, self.e.builder, context, read)
        status, before = call(self.e, function, context), len(self.program.sites)
        self.program.sites += sites
        if may_fail:
            self._leave_unless_done(status, before if sites else 0)

    @property
    def repeats(self) -> bool:
        """Whether the function of an operator may be called for one like it; not where it says whose time it takes, nor
        where constants are to be small, as code then hangs on their values."""
        return self._cuts and not isinstance(self.times, Timing) and self.e.target.goal is Goal.HERE

    @contextmanager
    def traced(self, asked: Asked | None = None, scope: Scope | None = None) -> Iterator[Trace]:
        """Notes what the operator asks for that is written inside, and of the lengths of a scope, if there is one."""
        before, sites, lengths = self._marks(), len(self.program.sites), self.e.lengths
        self._trace = trace = Trace(asked=asked)
        try:
            with (nullcontext() if scope is None else scope.asking(asked), self._measured(trace),
                  nullcontext() if lengths is None else lengths.noting(trace.lengths)):
                yield trace
        finally:
            self._trace = None
        self.take(trace.tops, trace.work, trace.scratch)
        trace.is_alone = trace.is_alone and before == self._marks()
        trace.sites = self.program.sites[sites:]

    @contextmanager
    def _measured(self, trace: Trace) -> Iterator[None]:
        """Measures what is written inside, as if it were all there is."""
        meter, sharing = self.e.meter, self._sharing
        work, most = 0 if meter is None else meter.work, sharing.most
        if meter is not None:
            meter.work = 0
        sharing.most = 0
        yield
        trace.work, trace.scratch = 0 if meter is None else meter.work, sharing.most
        if meter is not None:
            meter.work = work
        sharing.most = most

    def take(self, tops: Sequence[int], work: int, scratch: int) -> None:
        """Adds what an operator takes: up to where it uses the arena, the work of its loops, and how much memory it
        needs for each participant of a team."""
        for each in tops:
            self.program.reserve(each)
        if self.e.meter is not None:
            self.e.meter.work += work
        self._sharing.most = larger(self._sharing.most, scratch)

    def _marks(self) -> tuple[int, ...]:
        """What is more where an operator did more than to write code that may fail."""
        program = self.program
        return len(program.host_calls), len(program.notices), len(program.crossings), int(program.grows)


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


def _identity(array: Array) -> Hashable:
    """Tells arrays apart that are not the same elements in the same places."""
    return array.ctypes.data, array.dtype.str, array.shape, array.strides


def _is_uniform(array: Array) -> bool:
    """Whether all elements have the same bits."""
    stored = np.ascontiguousarray(array).reshape(-1)
    return stored.tobytes() == stored[:1].tobytes() * stored.size
