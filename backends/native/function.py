"""Lowers operators to one LLVM function: decides where each tensor is, and emits the operators in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.emitter import I32, I64, NATIVE_TYPES, POINTER, Emitter, memory_type
from circlet.backends.native.fuse import Fused, place_of
from circlet.backends.native.rule import Node, Rule, Sink, rule_of
from circlet.backends.native.target import Target
from circlet.backends.native.value import Value, computed, in_memory, in_register
from circlet.runtime.errors import Place
from circlet.runtime.exec.activation import Variables
from circlet.runtime.exec.executor import ExecutorMap
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.memory import retype
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op, Operand, Operands, Skip
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.alias import Aliases
from circlet.runtime.passes.plan_memory import ALIGNMENT, Interval, plan_memory
from circlet.runtime.passes.specialize import Specialization

DONE, STOPPED, EXHAUSTED, FIRST_SITE = 0, 1, 2, 16
"""What the function returns: it is done, was told to stop, used up its iterations, or failed at site `k - 16`."""
EMBEDDED_BYTES = 64
"""Constants up to this size are part of the code."""


class Unlowerable(Exception):
    """The operators cannot be made native code; the message says why."""


@dataclass(frozen=True)
class Site:
    """A place that can fail, and the message if it does."""

    place: Place
    message: str


@dataclass(frozen=True)
class Staging:
    """A part of the arena through which a tensor passes between native code and the host."""

    offset: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True, eq=False)
class HostCall:
    """An operator computed by a numpy kernel in the midst of native code.

    Arrays outside the arena are passed as they are, everything else through staging buffers.
    """

    subgraph: int
    operator: int
    inputs: tuple[Array | Staging | None, ...]
    outputs: tuple[Array | Staging, ...]


@dataclass
class Program:
    """What the lowering of a function collects beside the code."""

    sites: list[Site] = field(default_factory=list)
    host_calls: list[HostCall] = field(default_factory=list)
    externals: list[Array] = field(default_factory=list)
    arena_bytes: int = 0
    outline: list[str] = field(default_factory=list)
    """What was emitted, a line an operator, for people to read."""


class FunctionLowering:
    """One native function: `i32 entry(control*, arena*, table*)`.

    `control` is {i64 iterations left, i32 stop flag, host callback}; `table` holds the addresses of the tensors that
    lie outside the arena.
    """

    def __init__(self, executors: ExecutorMap, target: Target, symbol: str, variables: Variables) -> None:
        self.executors = executors
        self._variables = variables
        self.program = Program()
        module = ir.Module(name=symbol)
        module.triple = target.triple
        kind = ir.FunctionType(I32, [POINTER, POINTER, POINTER])
        function = ir.Function(module, kind, symbol)
        for argument, name in zip(function.args, ("control", "arena", "table"), strict=True):
            argument.name = name
            argument.add_attribute("noalias")
        function.attributes.add("nounwind")
        self.e = Emitter(module, function, target)
        self._top = 0
        self._depth = 0
        self._table: dict[int, ir.Value] = {}
        self._behind: dict[int, Array] = {}
        self._left = self.e.slot(I64)
        self.take_count()

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

    def external(self, array: Array) -> ir.Value:
        """The address of an array outside the arena."""
        key = id(array)
        if key not in self._table:
            number = len(self.program.externals)
            self.program.externals.append(array)
            entry = self.e.entry_builder()
            slot = entry.gep(self.e.function.args[2], [ir.Constant(I64, number)], source_etype=POINTER)
            self._table[key] = entry.load(slot, typ=POINTER)
            self._behind[id(self._table[key])] = array
        return self._table[key]

    def behind(self, memory: ir.Value | None, shape: Shape, dtype: DType) -> Array | None:
        """The array that lies at an address, if the host knows it."""
        array = self._behind.get(id(memory))
        return None if array is None else retype(array, shape, dtype.numpy)

    def reserve(self, size: int) -> ir.Value:
        """The address of `size` bytes of the arena, until the invocation that asks for them ends."""
        return self.at(self.reserve_offset(size))

    def reserve_offset(self, size: int) -> int:
        offset = self._top
        self._top += -(-size // ALIGNMENT) * ALIGNMENT
        self.program.arena_bytes = max(self.program.arena_bytes, self._top)
        return offset

    def at(self, offset: int) -> ir.Value:
        return self.e.builder.gep(self.e.function.args[1], [ir.Constant(I64, offset)], source_etype=ir.IntType(8))

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

    def _control(self, offset: int, kind: ir.Type) -> ir.Value:
        return self.e.builder.gep(self.e.function.args[0], [ir.Constant(I64, offset)], source_etype=ir.IntType(8))

    def take_count(self) -> None:
        """Reads how many iterations are left, into a register."""
        self.e.builder.store(self.e.builder.load(self._control(0, I64), typ=I64), self._left)

    def keep_count(self) -> None:
        """Writes how many iterations are left where others see it."""
        self.e.builder.store(self.e.builder.load(self._left, typ=I64), self._control(0, I64))

    def leave(self, status: ir.Value) -> None:
        """Returns from the function."""
        self.keep_count()
        self.e.builder.ret(status)

    def fail_unless(self, condition: ir.Value, place: Place, message: str) -> None:
        """Leaves the function with an error of an operator unless a condition holds."""
        self.program.sites.append(Site(place, message))
        self._leave_unless(condition, FIRST_SITE + len(self.program.sites) - 1)

    def finish(self) -> None:
        """Ends the function."""
        self.leave(ir.Constant(I32, DONE))

    def _leave_unless(self, condition: ir.Value, status: int) -> None:
        bad, good = (self.e.function.append_basic_block(name) for name in ("fail", "good"))
        self.e.builder.cbranch(condition, good, bad)
        self.e.builder.position_at_end(bad)
        self.leave(ir.Constant(I32, status))
        self.e.builder.position_at_end(good)

    def turn(self) -> None:
        """What happens before each iteration of a loop: leaves if told to stop or out of iterations."""
        b = self.e.builder
        flag = b.load(self._control(8, I32), typ=I32)
        flag.volatile = True
        self._leave_unless(b.icmp_unsigned("==", flag, ir.Constant(I32, 0)), STOPPED)
        left = b.load(self._left, typ=I64)
        self._leave_unless(b.icmp_unsigned("!=", left, ir.Constant(I64, 0)), EXHAUSTED)
        b.store(b.sub(left, ir.Constant(I64, 1)), self._left)

    def invoke(self, index: int, inputs: Sequence[Value], homes: Sequence[ir.Value | None],
               destroyable: frozenset[int]) -> list[Value]:
        """Emits a subgraph in place.

        Args:
            index: which.
            inputs: its inputs.
            homes: where each output must lie; None leaves that to the subgraph.
            destroyable: the inputs whose memory it may overwrite.
        """
        spec = self.executors.specializer.at(index, tuple(each.shape for each in inputs))
        if not spec.is_static:
            raise Unlowerable(f"subgraph {index} has shapes that are known only when it runs")
        span = range(len(spec.subgraph.operators))
        aliases = self.executors.planner.aliases(spec, span, destroyable)
        values = dict(zip(spec.subgraph.inputs, inputs, strict=True))
        top = self._top
        places: dict[int, ir.Value] = {
            aliases.root(tensor): each.memory for tensor, each in values.items()
            if each.memory is not None and each.size > 1
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
        self.write(value, home)
        return in_memory(home, value.shape, value.dtype)

    def write(self, value: Value, home: ir.Value) -> None:
        """Copies a tensor to memory."""
        if value.memory is not None:
            self.e.copy(home, value.memory, value.nbytes)
            return
        with self.e.loop(value.size) as position:
            self.e.store(value.linear(self.e, position), home, value.dtype, position)

    def pointer(self, value: Value) -> ir.Value:
        """Where a tensor lies; it is written to the arena if it lies nowhere."""
        if value.memory is not None:
            return value.memory
        home = self.reserve(value.nbytes)
        self.write(value, home)
        return home

    def _arrange(self, spec: Specialization, span: range, aliases: Aliases, places: dict[int, ir.Value]) -> None:
        """Gives every class of tensors that needs memory and has none a part of the arena."""
        wanted: dict[int, Interval] = {}
        for number in span:
            for tensor in spec.subgraph.operators[number].outputs:
                root = aliases.root(tensor)
                if tensor in spec.known or root in places or prod(spec.shape(tensor)) == 1:
                    continue
                last = max(aliases.last_read(root), aliases.first_write(root))
                wanted[root] = Interval(aliases.size(root), aliases.first_write(root), last)
        arena = plan_memory(list(wanted.values()))
        base = self.reserve_offset(arena.size)
        for root, offset in zip(wanted, arena.offsets, strict=True):
            places[root] = self.at(base + offset)

    def tensor(self, spec: Specialization, values: dict[int, Value], tensor: int) -> Value:
        """A tensor of a subgraph."""
        if tensor in values:
            return values[tensor]
        if tensor in spec.known:
            return self.constant(spec.known[tensor], spec.subgraph.tensors[tensor].dtype)
        declared = spec.subgraph.tensors[tensor]
        if not declared.is_variable:
            raise Unlowerable(f"tensor {spec.subgraph.tensor_label(tensor)} of subgraph {spec.index} is no number")
        array = self._variables.tensor(spec.index, tensor, declared)
        values[tensor] = in_memory(self.external(array), array.shape, declared.dtype)
        return values[tensor]

    def emit(self, spec: Specialization, span: range, aliases: Aliases, values: dict[int, Value],
             places: Mapping[int, ir.Value]) -> None:
        """Emits operators in order; adds their results to `values`."""
        for number in span:
            operator = spec.subgraph.operators[number]
            if isinstance(operator.op, Skip) or (
                operator.outputs and all(each in spec.known for each in operator.outputs)
            ):
                continue
            top = self._top
            inputs = tuple(None if each == ABSENT else self.tensor(spec, values, each) for each in operator.inputs)
            homes = tuple(places.get(aliases.root(each)) for each in operator.outputs)
            place = Place(spec.index, spec.subgraph.name, number, operator.name)
            lowering = OperatorLowering(self, spec, number, operator, inputs, homes, place)
            for tensor, value in zip(operator.outputs, lowering.lower(), strict=True):
                values[tensor] = value
            self._top = top


@dataclass(frozen=True, eq=False)
class OperatorLowering:
    """One operator on its way to code."""

    function: FunctionLowering
    spec: Specialization
    number: int
    operator: Operator
    inputs: tuple[Value | None, ...]
    homes: tuple[ir.Value | None, ...]
    """Where each result must lie; None for a register."""
    place: Place

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.spec.shape(each) for each in self.operator.outputs)

    @property
    def operand_shapes(self) -> tuple[Shape, ...]:
        return tuple(each.shape for each in self.inputs if each is not None)

    def lower(self) -> Sequence[Value]:
        """Emits the operator; gives its results."""
        from circlet.backends.native.controlflow import CONTROL_FLOW, is_lowerable
        from circlet.backends.native.host import lower_host_call

        op = self.operator.op
        if type(op) in CONTROL_FLOW and is_lowerable(self.function.executors, op, self.operand_shapes):
            return CONTROL_FLOW[type(op)](self)
        self.function.note(self.describe())
        if isinstance(op, Fused):
            return (GroupLowering(self, op).lower(),)
        call = Call.of(self.spec.subgraph, self.operator, self.place)
        rule = rule_of(call)
        if rule is None:
            return lower_host_call(self)
        return self._by_rule(rule, call)

    def describe(self) -> str:
        """`[5] float32[4] = MUL+ADD`, and whether it is a host call or stays in a register."""
        op, tensors = self.operator.op, self.spec.subgraph.tensors
        results = ", ".join(f"{tensors[each].dtype.value}{list(shape)}"
                            for each, shape in zip(self.operator.outputs, self.shapes, strict=True))
        label = op.label if isinstance(op, Fused) else self.operator.name
        hosted = not isinstance(op, Fused) and rule_of(Call.of(self.spec.subgraph, self.operator, self.place)) is None
        return f"[{self.number}] {results} = {label}{'  (host call)' if hosted else ''}"

    def _by_rule(self, rule: Rule[Op], call: Call) -> Sequence[Value]:
        node = Node(self.operator.op, call, self.inputs, self.shapes, self.place, self.function)
        if rule.fused is not None:
            return [self._settled(value, home) for value, home in zip(rule.fused(node), self.homes, strict=True)]
        assert rule.nest is not None
        results = [self._target(k) for k in range(len(self.homes))]
        rule.nest(node, self.function.e, tuple(sink for _, sink in results))
        return [finish() for finish, _ in results]

    def _settled(self, value: Value, home: ir.Value | None) -> Value:
        """A computed value in memory or, if it has one element, in a register."""
        e = self.function.e
        if value.size == 1 and value.dtype in NATIVE_TYPES:
            scalar = value.scalar(e)
            if home is not None:
                e.store(scalar, home, value.dtype)
            return in_register(scalar, value.shape, value.dtype)
        assert home is not None, f"{self.place}: a result has no memory"
        if value.memory is not home:
            self._fill(value, home)
        return in_memory(home, value.shape, value.dtype)

    def _fill(self, value: Value, home: ir.Value) -> None:
        e = self.function.e
        if value.memory is not None:
            e.copy(home, value.memory, value.nbytes)
            return
        with e.nest(value.shape) as index:
            e.store(value.element(e, index), home, value.dtype, e.linear(index, value.shape))

    def _target(self, position: int) -> tuple[Callable[[], Value], Sink]:
        """Where a nest puts a result, and what the result then is."""
        function, shape = self.function, self.shapes[position]
        dtype = self.spec.subgraph.tensors[self.operator.outputs[position]].dtype
        home = self.homes[position] or function.e.slot(memory_type(dtype), max(prod(shape), 1))

        def put(e: Emitter, index: Sequence[ir.Value], value: ir.Value) -> None:
            e.store(value, home, dtype, e.linear(index, shape))

        def finish() -> Value:
            if prod(shape) == 1 and dtype in NATIVE_TYPES:
                return in_register(function.e.load(home, dtype), shape, dtype)
            return in_memory(home, shape, dtype)

        return finish, Sink(put, home)

    def settle(self, value: Value) -> Value:
        """The value as the operator's first result."""
        return self._settled(value, self.homes[0])

    def target(self) -> tuple[Callable[[], Value], Sink]:
        """Where a nest puts the first result."""
        return self._target(0)


class GroupLowering:
    """A group of operators on its way to one nest."""

    def __init__(self, outer: OperatorLowering, op: Fused) -> None:
        self._outer = outer
        self._op = op
        self._values: dict[int, Value] = {
            tensor: value for tensor, value in zip(op.sources, outer.inputs, strict=True) if value is not None
        }

    def lower(self) -> Value:
        anchor = next((k for k, each in enumerate(self._op.members) if self._rule(k).nest is not None), None)
        if anchor is None:
            for k in range(len(self._op.members)):
                self._substitute(k)
            return self._outer.settle(self._values[self._op.members[-1].operator.outputs[0]])
        return self._anchored(anchor)

    def _anchored(self, anchor: int) -> Value:
        """The nest of the anchor, with what depends on its result as the epilogue."""
        function = self._outer.function
        result = self._op.members[anchor].operator.outputs[0]
        after = self._dependents(anchor)
        for k in range(len(self._op.members)):
            if k != anchor and k not in after:
                self._substitute(k)
        node, rule = self._node(anchor), self._rule(anchor)
        assert rule.nest is not None
        finish, sink = self._outer.target()
        last = self._op.members[-1].operator.outputs[0]
        if node.shape != self._outer.shapes[0]:
            raise Unlowerable(f"{self._outer.place}: the epilogue has another shape than what it ends")

        def epilogue(e: Emitter, index: Sequence[ir.Value], value: ir.Value) -> None:
            dtype = self._op.tensors[result].dtype
            self._values[result] = computed(node.shape, dtype, lambda *_: value, lambda *_: value)
            for k in sorted(after):
                self._substitute(k)
            sink(e, index, self._values[last].element(e, index))

        rule.nest(node, function.e, (Sink(epilogue) if after else sink,))
        return finish()

    def _dependents(self, anchor: int) -> set[int]:
        reached = set(self._op.members[anchor].operator.outputs)
        found: set[int] = set()
        for k, member in enumerate(self._op.members):
            if k != anchor and reached.intersection(member.operator.inputs):
                reached.update(member.operator.outputs)
                found.add(k)
        return found

    def _rule(self, k: int) -> Rule[Op]:
        rule = rule_of(self._call(k))
        assert rule is not None, "only operators with a rule are grouped"
        return rule

    def _call(self, k: int) -> Call:
        member = self._op.members[k]
        tensors = self._op.tensors
        inputs = tuple(None if each == ABSENT else tensors[each] for each in member.operator.inputs)
        outputs = tuple(tensors[each] for each in member.operator.outputs)
        return Call(member.operator.op, inputs, outputs, member.operator.version,
                    place=place_of(self._outer.place, member))

    def _node(self, k: int) -> Node[Op]:
        operator = self._op.members[k].operator
        inputs = tuple(None if each == ABSENT else self._values[each] for each in operator.inputs)
        call = self._call(k)
        shapes = operator.op.infer(_operands(inputs, len(operator.outputs)))
        return Node(operator.op, call, inputs, shapes, call.place, self._outer.function)

    def _substitute(self, k: int) -> None:
        rule = self._rule(k)
        assert rule.fused is not None
        for tensor, value in zip(self._op.members[k].operator.outputs, rule.fused(self._node(k)), strict=True):
            self._values[tensor] = value


def _operands(values: Sequence[Value | None], outputs: int) -> Operands:
    return Operands(tuple(None if each is None else Operand(each.dtype, each.shape, each.known) for each in values),
                    outputs)
