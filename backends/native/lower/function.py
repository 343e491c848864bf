"""Lowers operators to one LLVM function: decides where each tensor is, and emits the operators in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    POINTER_BYTES,
    SCRATCH,
    TEAM,
)
from circlet.backends.native.check.bounds import Watch
from circlet.backends.native.emit.emitter import (
    I32,
    I64,
    NATIVE_TYPES,
    POINTER,
    Emitter,
    in_register_alone,
    memory_type,
)
from circlet.backends.native.emit.parallel import Sharing
from circlet.backends.native.emit.polling import HOST_CALL, Meter
from circlet.backends.native.emit.value import Value, in_memory, in_register, is_copied
from circlet.backends.native.load.compilation import Abandoned, Wish
from circlet.backends.native.lower.blocks import Blocks
from circlet.backends.native.lower.budget import Growth
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.lower.program import (
    COUNTED_COPIES,
    EMBEDDED_BYTES,
    EXHAUSTED,
    MOST_EVIDENCE,
    Evidence,
    External,
    Fixed,
    Program,
    RuleError,
    Site,
    Source,
    Tally,
    Unlowerable,
    Variable,
)
from circlet.backends.native.machine import Target
from circlet.runtime.errors import CircletError, LimitError, Place
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.memory import expect_room
from circlet.runtime.exec.variables import Variables
from circlet.runtime.ir.faults import raise_located
from circlet.runtime.ir.model import ABSENT
from circlet.runtime.ir.op import Skip
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.plan_memory import ALIGNMENT, place_classes
from circlet.runtime.passes.analyses.specialize import Specialization

FIXED = Fixed()
_TURNS = 1 << 12
"""Turns of loops of the model after which to look whether the run must stop."""
_MUCH = 1 << 11
"""Instructions of a turn that count by themselves."""

class FunctionLowering:
    """One native function: `i32 entry(control*, arena*, table*)`.

    `control` are the words of a `Control`; `table` holds the address of scratch memory for each participant of
    the team, that of the host, and those of the tensors that lie outside the arena.
    """

    def __init__(self, executors: ExecutorMap, target: Target, symbol: str, variables: Variables,
                 check_bounds: bool = False, counts: bool = False, wish: Wish | None = None) -> None:
        self._wish = wish or Wish()
        self.executors = executors
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
        self._counts = np.zeros(COUNTED_COPIES + len(executors.model.subgraphs), np.int64) if counts else None
        self._growth = Growth(function)
        self._top = 0
        self._depth = 0
        self.loops = 0
        """How many loops of the model are around what is being written."""
        self.lowerable: dict[Specialization, bool] = {}
        """Which subgraphs can be native code, as far as that was asked."""
        self._table: dict[tuple[int, int], ir.Value] = {}
        self._behind: dict[int, int] = {}
        self.blocks = Blocks()
        """Memory for what is made of constants."""
        self._derived: dict[Hashable, tuple[Array, Array]] = {}
        self._left = self.e.slot(I64)
        self.e.builder.store(ir.Constant(I64, 0), self._left)
        self.host = self._entered(HOST, HOST_CALL)
        """What the host is called by."""
        self._meter = self.e.meter = Meter(self.e, self._arguments[0], self.host, self.leave)
        self._sharing = Sharing(self.e.builder.load(self.control(TEAM), typ=POINTER), self._entered(SCRATCH),
                                self._meter, self._leave_unless_done)
        self.e.sharing = None if check_bounds else self._sharing

    def note(self, text: str) -> None:
        """Adds a line to the outline."""
        self.program.outline.append("  " * self._depth + text)

    @contextmanager
    def indented(self, text: str) -> Iterator[None]:
        """Adds a line to the outline, and lines below it."""
        self.note(text)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def in_loop(self) -> Iterator[None]:
        """What is written inside is done in every turn of a loop of the model."""
        self.loops += 1
        try:
            yield
        finally:
            self.loops -= 1

    def external(self, array: Array, source: Source = FIXED) -> ir.Value:
        """The address of an array outside the arena; its content never changes unless `source` says otherwise."""
        key = (array.ctypes.data, array.nbytes)
        if key not in self._table:
            number = len(self.program.externals)
            self.program.externals.append(array)
            self.program.sources.append(source)
            self._table[key] = self._entered(FIRST_ARRAY + number)
            self._behind[id(self._table[key])] = number
            self._begin(self._table[key], array.nbytes)
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
        return None if number is None else External(number, shape, dtype)

    def reserve(self, size: int) -> ir.Value:
        """The address of `size` bytes of the arena, until the invocation that asks for them ends; inside a loop that
        is shared out, of `scratch`."""
        return self.at(self.reserve_offset(size), size) if self._sharing.part is None else self.scratch(size)

    def scratch(self, size: int) -> ir.Value:
        """The address of `size` bytes until the operator ends, others for each thread that shares out a loop: for what
        a turn of it writes and reads again."""
        return self.reserve(size) if self.e.sharing is None else self._sharing.reserve(self.e, size)

    def reserve_offset(self, size: int) -> int:
        offset = self._top
        expect_room((offset + size,), np.dtype(np.uint8))
        self._top += -(-size // ALIGNMENT) * ALIGNMENT
        self.program.arena_bytes = max(self.program.arena_bytes, self._top)
        return offset

    def at(self, offset: int, size: int) -> ir.Value:
        """The address of `size` bytes of the arena."""
        address = self.e.builder.gep(self._arguments[1], [ir.Constant(I64, offset)], source_etype=ir.IntType(8))
        self._begin(address, size)
        return address

    def _begin(self, address: ir.Value, size: int) -> None:
        """A buffer begins at an address."""
        if self._watch is not None:
            self._watch.buffer(address, size)

    def constant(self, array: Array, dtype: DType) -> Value:
        """A constant of the model."""
        if array.size == 1 and dtype in NATIVE_TYPES:
            return in_register(self.e.constant(array.reshape(-1)[0], dtype), array.shape, dtype, array)
        if array.nbytes <= EMBEDDED_BYTES and dtype in NATIVE_TYPES:
            return in_memory(self._embedded(array, dtype), array.shape, dtype, array)
        return in_memory(self.external(array), array.shape, dtype, array)

    def _embedded(self, array: Array, dtype: DType) -> ir.Value:
        kind = ir.ArrayType(memory_type(dtype), array.size)
        stored = array.astype(np.uint8) if dtype is DType.BOOL else array
        elements = [ir.Constant(memory_type(dtype), each) for each in stored.reshape(-1).tolist()]
        data = ir.GlobalVariable(self.e.module, kind, f"constant_{len(self.e.module.globals)}")
        data.linkage, data.global_constant, data.initializer = "internal", True, ir.Constant(kind, elements)
        return data

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
        """Returns from the function, or from the part of it that is being written."""
        if self._sharing.part is None:
            self.return_turns()
        else:
            self._sharing.part.may_fail = True
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

    def finish(self) -> None:
        """Ends the function."""
        self.program.scratch_bytes, self.program.shares_loops = self._sharing.most, self._sharing.is_used
        self.leave(ir.Constant(I32, DONE))
        if self._watch is not None:
            evidence = self.external(self.program.evidence, Evidence())
            entries = FIRST_ARRAY + len(self.program.externals)
            sizes = (CONTROL_BYTES, self.program.arena_bytes, POINTER_BYTES * entries)
            for argument, size in zip(self.e.function.args, sizes, strict=True):
                self._watch.buffer(argument, size)
            self._watch.guard(self.e.function, evidence)
            self.program.watched = self._watch.watched(each.nbytes for each in self.program.externals)

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

    def invoke(self, index: int, inputs: Sequence[Value], homes: Sequence[ir.Value | None],
               destroyable: frozenset[int]) -> list[Value]:
        """Emits a subgraph in place.

        Args:
            index: which.
            inputs: its inputs.
            homes: where each output must lie; None leaves that to the subgraph.
            destroyable: the inputs whose memory it may overwrite.
        """
        self._count(COUNTED_COPIES + index, 1)
        spec = self.executors.specializer.at(index, tuple(each.shape for each in inputs))
        if not spec.is_static:
            raise Unlowerable(f"subgraph {index} has shapes that are known only when it runs")
        span = range(len(spec.subgraph.operators))
        aliases = self.executors.planner.aliases(spec, span, destroyable)
        values = dict(zip(spec.subgraph.inputs, inputs, strict=True))
        top = self._top
        places: dict[int, ir.Value] = {
            aliases.root(tensor): each.memory for tensor, each in values.items()
            if each.memory is not None and not in_register_alone(each.size, each.dtype)
        }
        for tensor, home in zip(spec.subgraph.outputs, homes, strict=True):
            if home is not None and aliases.root(tensor) not in places and tensor not in spec.known:
                places[aliases.root(tensor)] = home
        self._arrange(spec, span, aliases, places)
        self.emit(spec, span, aliases, values, places)
        results = [self._delivered(self.tensor(spec, values, tensor), home)
                   for tensor, home in zip(spec.subgraph.outputs, homes, strict=True)]
        self._top = top
        return results

    def _delivered(self, value: Value, home: ir.Value | None) -> Value:
        """The value at its home."""
        if home is None or value.memory is home:
            return value
        self.transfer(value, home)
        return in_memory(home, value.shape, value.dtype)

    def transfer(self, value: Value, home: ir.Value) -> None:
        """Brings a tensor across the border of a subgraph; that is a copy where it lies in memory already."""
        if is_copied(value, home):
            self._count(0, 1)
            self._count(1, value.nbytes)
        self.write(value, home)

    def _count(self, position: int, number: int) -> None:
        """Adds to what the function counts, if it does."""
        if self._counts is not None:
            counts = self.external(self._counts, Tally(len(self.executors.model.subgraphs)))
            before = self.e.load(counts, DType.INT64, position)
            self.e.store(self.e.builder.add(before, self.e.number(number)), counts, DType.INT64, position)

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

    def _arrange(self, spec: Specialization, span: range, aliases: Aliases, places: dict[int, ir.Value]) -> None:
        """Gives every class of tensors that needs memory and has none a part of the arena."""
        subgraph = spec.subgraph
        written = (each for number in span for each in subgraph.operators[number].outputs if each not in spec.known)
        wanted = dict.fromkeys(aliases.root(each) for each in written if aliases.root(each) not in places
                               and not in_register_alone(prod(spec.shape(each)), subgraph.tensors[each].dtype))
        found, size = place_classes(aliases, wanted)
        base = self.reserve_offset(size)
        for root, place in found.items():
            places[root] = self.at(base + place.offset, place.size)

    def tensor(self, spec: Specialization, values: dict[int, Value], tensor: int) -> Value:
        """A tensor of a subgraph."""
        if tensor in values:
            return values[tensor]
        if tensor in spec.known:
            return self.constant(spec.known[tensor], spec.subgraph.tensors[tensor].dtype)
        declared = spec.subgraph.tensors[tensor]
        if not declared.is_variable:
            raise Unlowerable(f"tensor {spec.subgraph.tensor_label(tensor)} of subgraph {spec.index} is no number")
        array = self.variables.tensor(spec.index, tensor, declared)
        values[tensor] = in_memory(self.external(array, Variable(spec.index, tensor)), array.shape, declared.dtype)
        return values[tensor]

    def emit(self, spec: Specialization, span: range, aliases: Aliases, values: dict[int, Value],
             places: Mapping[int, ir.Value]) -> None:
        """Emits operators in order; adds their results to `values`."""
        for number in span:
            self._wish.check()
            operator = spec.subgraph.operators[number]
            if isinstance(operator.op, Skip) or (
                operator.outputs and all(each in spec.known for each in operator.outputs)
            ):
                continue
            top, self._sharing.top = self._top, 0
            inputs = tuple(None if each == ABSENT else self.tensor(spec, values, each) for each in operator.inputs)
            homes = tuple(places.get(aliases.root(each)) for each in operator.outputs)
            place = Place(spec.index, spec.subgraph.name, number, operator.name)
            if self._watch is not None:
                self._watch.enter(self.e.builder, place)
            lowering = OperatorLowering(self, spec, number, operator, inputs, homes, place)
            for tensor, value in zip(operator.outputs, _lowered(lowering), strict=True):
                values[tensor] = value
            self._growth.expect_room()
            self._meter.between()
            self._top = top


def _lowered(lowering: OperatorLowering) -> Sequence[Value]:
    """The results of an operator.

    Raises:
        LimitError: there is not memory enough.
        Unlowerable: its rule says that it cannot be computed, which numpy does too when it is reached.
        RuleError: its rule failed.
    """
    try:
        return lowering.lower()
    except (Abandoned, Unlowerable, RecursionError):
        raise
    except (LimitError, MemoryError) as error:
        raise_located(error, lowering.place)
    except CircletError as error:
        raise Unlowerable(f"{lowering.place}: {error}") from error
    except Exception as error:
        raise RuleError.at(lowering.place, error) from error
