"""A function that finds all it needs at the addresses that it is given: inputs, outputs, arena, state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED
from circlet.backends.native.aot.arena import Arena
from circlet.backends.native.aot.limits import EXHAUSTED, ITERATIONS, STOP
from circlet.backends.native.aot.storage import Constants, State
from circlet.backends.native.emit.emitter import I8, I32
from circlet.backends.native.emit.value import Value
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.timing import Untimed
from circlet.backends.native.parts import FIXED, Called, External, Fixed, Site, Source, Variable
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import Place
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.plan_memory import Interval
from circlet.runtime.passes.analyses.specialize import is_open_value
from circlet.runtime.records import dataclass, field

ARENA, STATE = "arena", "state"
"""The names of a function's last arguments."""


@dataclass
class Knowledge:
    """What is known of the variables of a model, which is found by writing its functions once.

    Attributes:
        kinds: the shapes and types of the values that each variable has anywhere, by handle.
        given: those that are assigned, with the handle.
        assigned: the variables that have a value before any run.
        called: the subgraphs that CALL_ONCE has run before any run, in order.
    """

    kinds: dict[int, list[tuple[Shape, DType]]] = field(default_factory=dict)
    given: set[tuple[int, Shape, DType]] = field(default_factory=set)
    assigned: frozenset[int] = frozenset()
    called: tuple[int, ...] = ()

    def number(self, handle: int, shape: Shape, dtype: DType) -> int:
        """The number of a kind of values of a variable, from 1 on."""
        kinds = self.kinds.setdefault(handle, [])
        if (shape, dtype) not in kinds:
            kinds.append((shape, dtype))
        return kinds.index((shape, dtype)) + 1

    def is_settled(self, handle: int) -> bool:
        """Whether a variable always has a value, of its one kind."""
        return handle in self.assigned and len(self.kinds[handle]) == 1


@dataclass(frozen=True)
class Shared:
    """What the functions of a model share.

    Attributes:
        target: the processor.
        module: that they are in.
        constants: theirs.
        state: what outlives their runs.
        variables: the numbers of their variables.
        knowledge: of these variables.
        is_limited: whether loops look whether they may go on.
    """

    target: Target
    module: ir.Module
    constants: Constants
    state: State
    variables: Variables
    knowledge: Knowledge
    is_limited: bool


@dataclass(frozen=True)
class Buffer:
    """A tensor in the arena: its subgraph, its name and its bytes."""

    subgraph: str
    tensor: str
    size: int


class EmbeddedFunction(FunctionLowering):
    """A function that finds all it needs at the addresses it is given."""

    def __init__(self, symbol: str, shared: Shared, arguments: Sequence[str]) -> None:
        """
        Args:
            symbol: its name.
            shared: what it shares with others.
            arguments: the names of its arguments, `STATE` last, before it perhaps `ARENA`.
        """
        arena = ARENA if ARENA in arguments else STATE
        super().__init__(shared.target, symbol, shared.variables, arguments, arena, False, shared.module)
        self.e.function.linkage = "internal"
        self._shared = shared
        self._memory = Arena(shared.target.alignment)
        self.times = Untimed()
        self.is_interruptible = False
        """Whether it looks whether it may go on."""
        self.refused: dict[Place, str] = {}
        """Why operators have no native code."""
        self.buffers: list[Buffer] = []
        """The tensors that have a part of the arena."""
        self.assigned: set[int] = set()
        """The variables that it assigns."""
        self._kept: set[ir.Value | None] = set()
        """The addresses of variable tensors."""
        self._left: ir.Value | None = None
        """Where the iterations are that may still be made."""

    @property
    def arena_bytes(self) -> int:
        """Of the arena that it computes in."""
        return self._memory.nbytes

    @property
    def arguments(self) -> Sequence[ir.Value]:
        """The addresses that it is given."""
        return self._arguments  # type: ignore[no-any-return]  # llvmlite is untyped

    def external(self, array: Array, source: Source = FIXED, size: int | None = None) -> ir.Value:
        if isinstance(source, Fixed):
            return self._shared.constants.place(array)
        if isinstance(source, (Called, Variable)):
            region = self._shared.state.place(source, array.nbytes, self.e.target.alignment)
            home = self.in_state(region.offset)
            if isinstance(source, Variable):
                self._shared.state.initialise(region, array)
                self._kept.add(home)
            return home
        raise Unlowerable(f"{type(source).__name__} is not known ahead of time")

    def _offset(self, base: ir.Value, offset: int) -> ir.Value:
        return self._entry.builder().gep(base, [I32(offset)], source_etype=I8)

    def in_state(self, offset: int) -> ir.Value:
        """An address in the state."""
        return self._offset(self._arguments[-1], offset)

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        return External(0, shape, dtype) if memory in self._kept else None

    def cell(self, handle: int, shape: Shape, dtype: DType) -> EmbeddedCell:
        return EmbeddedCell(self, self._shared, handle, shape, dtype)

    def is_called(self, callee: int) -> bool:
        return callee in self._shared.knowledge.called

    def call_host(self, number: int, place: Place) -> None:
        self.refused[place] = self.program.reasons[number]

    def turn(self, place: Place) -> None:
        """Leaves if the caller has asked for that, or if all iterations are made."""
        if not self._shared.is_limited:
            return
        self.is_interruptible = True
        b, left = self.e.builder, self._iterations()
        flag = b.load_atomic(self._word(STOP), "monotonic", 4, typ=I32)
        with self._unless(b.icmp_unsigned("==", flag, I32(0)), STOPPED):
            pass
        number = b.load(left, typ=I32)
        with self._unless(b.icmp_unsigned("!=", number, I32(0)), EXHAUSTED):
            pass
        b.store(b.sub(number, I32(1)), left)

    def _word(self, number: int) -> ir.Value:
        """The address of a word at the beginning of the state."""
        return self.in_state(4 * number)

    def _iterations(self) -> ir.Value:
        """A slot with how many iterations may be made."""
        if self._left is None:
            self._left = self.e.slot(I32)
            entry = self._entry.builder()
            entry.store(entry.load(self._word(ITERATIONS), typ=I32), self._left)
        return self._left

    def leave(self, status: ir.Value) -> None:
        self.e.builder.ret(status)

    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        self.program.sites.append(Site(place, message.replace("{}", "..."), 0))
        with self._unless(condition, FIRST_SITE + len(self.program.sites) - 1):
            pass

    def expect_capacity(self, length: ir.Value, most: int, least: int | None = None) -> None:
        raise Unlowerable("lengths that change from turn to turn")

    def count(self, position: int, number: int) -> None:
        """Counts nothing."""

    def finish(self) -> None:
        self.leave(ir.Constant(I32, DONE))

    def reserve(self, size: int) -> ir.Value:
        return self.at(self.reserve_offset(size), size)

    def scratch(self, size: int) -> ir.Value:
        return self.reserve(size)

    def reserve_offset(self, size: int) -> int:
        return self._memory.reserve(size)

    def arrange(self, aliases: Aliases, wanted: Collection[int]) -> dict[int, ir.Value]:
        sizes = [aliases.size(root) for root in wanted]
        if is_open(sizes):
            raise Unlowerable("lengths that are known only when it runs")
        intervals = [Interval(size, aliases.first_write(root), max(aliases.last_read(root), aliases.first_write(root)))
                     for root, size in zip(wanted, sizes, strict=True)]
        offsets = self._memory.arrange(intervals)
        graph = aliases.spec.subgraph
        self.buffers += [Buffer(graph.name, graph.tensors[root].name, size)
                         for root, size in zip(wanted, sizes, strict=True)]
        return {root: self.at(offset, size) for root, offset, size in zip(wanted, offsets, sizes, strict=True)}

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self._memory.scope():
            yield

    @contextmanager
    def operator(self, place: Place, name: str) -> Iterator[None]:
        with self._memory.operator(place.operator):
            yield

    def _begin(self, address: ir.Value, size: int) -> None:
        """Nothing is checked."""

    def _enter(self, place: Place) -> None:
        """Nothing is checked."""

    @property
    def is_fallible(self) -> bool:
        """Whether a run may end with anything but `DONE`."""
        return bool(self.program.sites) or self.is_interruptible

    def initialise(self, state: State) -> None:
        """Makes the state what it is before any run, but for the words of the caller: zeros, then what tensors are."""
        if state.nbytes > state.header_bytes:
            self.e.fill(self.in_state(state.header_bytes), 0, state.nbytes - state.header_bytes)
        for offset, array in state.initial.items():
            home = self.in_state(offset)
            if not self._filled(array, home):
                self.e.copy(home, self.external(array), array.nbytes)

    def write(self, value: Value, home: ir.Value) -> None:
        if value.known is None or is_open_value(value.known) or not self._filled(value.known, home):
            super().write(value, home)

    def _filled(self, array: Array, home: ir.Value) -> bool:
        """Writes a constant to memory if all of its bytes are one, which takes no constant."""
        stored = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        is_uniform = array.nbytes > 0 and bool((stored == stored[0]).all())
        if is_uniform:
            self.e.fill(home, int(stored[0]), array.nbytes)
        return is_uniform


@dataclass(frozen=True)
class EmbeddedCell:
    """A part of the state with the value of a variable; if the variable may have none, or one of another kind, a word
    says which it has."""

    function: EmbeddedFunction
    shared: Shared
    handle: int
    shape: Shape
    dtype: DType

    def value(self, place: Place) -> ir.Value:
        number, word = self._number(), self._word()
        if word is not None:
            e = self.function.e
            is_there = e.builder.icmp_unsigned("==", e.load(word, DType.INT32), number)
            self.function.fail_unless(is_there, place, f"variable {self.shared.variables.name_of(self.handle)!r} is "
                                      f"read before it is assigned a {self.dtype.value} of shape {self.shape}")
        return self._home()

    def assign(self, value: Value) -> None:
        number, word = self._number(), self._word()
        self.function.assigned.add(self.handle)
        self.shared.knowledge.given.add((self.handle, self.shape, self.dtype))
        self.function.write(value, self._home())
        if word is not None:
            self.function.e.store(number, word, DType.INT32)

    def _number(self) -> ir.Value:
        return I32(self.shared.knowledge.number(self.handle, self.shape, self.dtype))

    def _word(self) -> ir.Value | None:
        """Where the number is of the kind of value that the variable has, 0 for none; None if there is no question."""
        if self.shared.knowledge.is_settled(self.handle):
            return None
        region = self.shared.state.place(self.handle, 4, 4)
        return self.function.in_state(region.offset)

    def _home(self) -> ir.Value:
        size = prod(self.shape) * self.dtype.numpy.itemsize
        region = self.shared.state.place((self.handle, self.shape, self.dtype), size, self.function.e.target.alignment)
        return self.function.in_state(region.offset)
