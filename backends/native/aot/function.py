"""A function that finds all it needs at the addresses that it is given: inputs, outputs, arena, state."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED
from circlet.backends.native.aot.arena import Arena
from circlet.backends.native.aot.changes import Changes
from circlet.backends.native.aot.limits import EXHAUSTED, ITERATIONS, STOP
from circlet.backends.native.aot.storage import Constants, Region, State
from circlet.backends.native.emit.emitter import I8, I32, POINTER
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.emit.value import Value
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.timing import Untimed
from circlet.backends.native.parts import FIXED, Called, External, Fixed, Request, Site, Source, Variable
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.targets.target import Target
from circlet.runtime.errors import Place
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.intervals import Box, interval
from circlet.runtime.ir.length import Scope, is_late, is_open, terms_of
from circlet.runtime.ir.terms import Assumption, hangs_on
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.plan_memory import Interval
from circlet.runtime.passes.analyses.specialize import Specialization, is_open_value
from circlet.runtime.records import dataclass, field

LENGTHS, ARENA, STATE = "lengths", "arena", "state"
"""The names of a function's last arguments."""
_QUOTED, _NUMBERED = re.compile("‹([^›]*)›"), re.compile(r"\bn(\d+)\b")
"""A length in a message, and the lengths that it follows from."""


@dataclass
class Knowledge:
    """What is known of the variables of a model, which is found out while its functions are written.

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

    @property
    def settled(self) -> frozenset[int]:
        """The variables that always have a value, of their one kind."""
        return frozenset(each for each in self.kinds if self.is_settled(each))

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
class Opening:
    """The lengths that a function finds out when it runs.

    Attributes:
        scope: of these.
        box: what each is at least and at most, by its number.
        names: what each is called in messages; those that the run computes have none.
        place: where values of inputs are taken for lengths.
    """

    scope: Scope
    box: Box
    names: Sequence[str]
    place: Place


@dataclass(frozen=True)
class Buffer:
    """A tensor in the arena: its subgraph, its name and its bytes."""

    subgraph: str
    tensor: str
    size: int


class EmbeddedFunction(FunctionLowering):
    """A function that finds all it needs at the addresses it is given."""

    def __init__(self, symbol: str, shared: Shared, arguments: Sequence[str], sites: list[Site] | None = None,
                 opening: Opening | None = None) -> None:
        """
        Args:
            symbol: its name.
            shared: what it shares with others.
            arguments: the names of its arguments, `STATE` last, before it perhaps `ARENA`, before that perhaps
                `LENGTHS`: the address of an i64 for each of the `opening`, of which it writes those that it computes.
            sites: the places that can fail of all functions whose statuses are told apart, so far.
            opening: what it is a function for, if that is for more than one length.
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
        self.changes = Changes()
        """What it writes to the state."""
        self._places: list[Place] = []
        """The operators that are being written, outer ones first."""
        self.conditions: dict[Assumption, None] = {}
        """What must hold of the lengths beside what their scope assumes: no tensor is shorter than nothing."""
        self._opening = opening
        if sites is not None:
            self.program.sites = sites
        if opening is not None:
            opening.scope.complete()
            self.takes(opening.scope)
            memory = self._arguments[arguments.index(LENGTHS)]
            self.e.lengths = Lengths(self._entry, memory, self.e.index)

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
            self.changes.write(region)
            if isinstance(source, Variable):
                self._shared.state.initialise(region, array)
                self._kept.add(home)
            return home
        if isinstance(source, Request):
            return ir.Constant(POINTER, None)
        raise Unlowerable(f"{type(source).__name__} is not known ahead of time")

    def _offset(self, base: ir.Value, offset: int) -> ir.Value:
        return self._entry.builder().gep(base, [I32(offset)], source_etype=I8)

    def in_state(self, offset: int) -> ir.Value:
        """An address in the state."""
        return self._offset(self._arguments[-1], offset)

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> External | None:
        return External(0, shape, dtype) if memory in self._kept else None

    def cell(self, handle: int, shape: Shape, dtype: DType) -> EmbeddedCell:
        if is_open(shape):
            name = self._shared.variables.name_of(handle)
            raise Unlowerable(f"variable {name!r} has lengths that differ from run to run")
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
        self.changes.fail()
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

    def looping(self) -> AbstractContextManager[None]:
        self.changes.loop()
        return nullcontext()

    def leave(self, status: ir.Value) -> None:
        self.e.builder.ret(status)

    def fail_unless(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        self.changes.fail()
        with self._unless(condition, status_of(Site(place, self._said(message.replace("{}", "..."))),
                                               self.program.sites)):
            pass

    def warn_where(self, condition: ir.Value, place: Place, message: str, *numbers: ir.Value) -> None:
        """There is nobody to warn."""

    def _said(self, message: str) -> str:
        """A message with lengths as people know them."""
        def named(found: re.Match[str]) -> str:
            number = int(found[1])
            names = () if self._opening is None else self._opening.names
            return names[number] if number < len(names) else "..."

        return _QUOTED.sub(lambda found: _NUMBERED.sub(named, found[1]), message)

    def expect_capacity(self, length: ir.Value, most: int, least: int | None = None) -> None:
        assert self._opening is not None, "lengths that change are open"
        b, place = self.e.builder, self._places[-1] if self._places else self._opening.place
        is_fitting = b.icmp_signed("<=", length, self.e.number(most))
        self.fail_unless(is_fitting, place, f"a length is more than the {self._most(most)} that there is room for")
        if least is not None:
            self.fail_unless(b.icmp_signed(">=", length, self.e.number(least)), place,
                             f"a length is less than {least}, which there is no code for")

    def _most(self, size: int) -> int:
        """What an integer is at the most."""
        return size if self._opening is None else interval(size, self._opening.box)[1]

    def count(self, position: int, number: int) -> None:
        """Counts nothing."""

    def finish(self) -> None:
        self.leave(ir.Constant(I32, DONE))

    def reserve(self, size: int) -> ir.Value:
        return self.at(self.reserve_offset(size), size)

    def scratch(self, size: int) -> ir.Value:
        return self.reserve(size)

    def reserve_offset(self, size: int) -> int:
        return self._memory.reserve(self._most(size))

    def arrange(self, aliases: Aliases, wanted: Collection[int]) -> dict[int, ir.Value]:
        self._expect_sizes(aliases.spec)
        sizes = [self._most(aliases.size(root)) for root in wanted]
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

    def _expect_sizes(self, spec: Specialization) -> None:
        """Adds to the `conditions` that no tensor of a subgraph is shorter than nothing."""
        if self._opening is not None:
            found = negative_sizes(spec, self._opening.box, len(self._opening.names))
            self.conditions.update(dict.fromkeys(found))

    @contextmanager
    def operator(self, place: Place, name: str) -> Iterator[None]:
        self._places.append(place)
        with self._memory.operator(place.operator), self.changes.operator():
            yield
        self._places.pop()

    def _begin(self, address: ir.Value, size: int) -> None:
        """Nothing is checked."""

    def _enter(self, place: Place) -> None:
        """Nothing is checked."""

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


def negative_sizes(spec: Specialization, box: Box, given: int) -> list[Assumption]:
    """What must hold so that no tensor of a subgraph is shorter than nothing, where it may be for lengths in a box, of
    which the first ones are given.

    Raises:
        Unlowerable: there is too little room for a tensor.
    """
    found = []
    for size in (size for shape in spec.shapes for size in shape or ()):
        if not is_late(size) and interval(size, box)[0] < 0:
            if any(hangs_on(terms_of(size), each) for each in range(given, len(box))):
                raise Unlowerable(f"a length of {size} may be less than nothing")
            found.append(Assumption(terms_of(size), "<", False))
    return found


def status_of(site: Site, sites: list[Site]) -> int:
    """The status that says that a run failed at a place, which is added to those that there are."""
    if site not in sites:
        sites.append(site)
    return FIRST_SITE + sites.index(site)


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
        self.function.changes.write(self._region())
        self.function.write(value, self._home())
        if word is not None:
            self.function.changes.write(self._mark())
            self.function.e.store(number, word, DType.INT32)

    def _number(self) -> ir.Value:
        return I32(self.shared.knowledge.number(self.handle, self.shape, self.dtype))

    def _word(self) -> ir.Value | None:
        """Where the number is of the kind of value that the variable has, 0 for none; None if there is no question."""
        if self.shared.knowledge.is_settled(self.handle):
            return None
        return self.function.in_state(self._mark().offset)

    def _mark(self) -> Region:
        return self.shared.state.place(self.handle, 4, 4)

    def _home(self) -> ir.Value:
        return self.function.in_state(self._region().offset)

    def _region(self) -> Region:
        size = prod(self.shape) * self.dtype.numpy.itemsize
        return self.shared.state.place((self.handle, self.shape, self.dtype), size, self.function.e.target.alignment)
