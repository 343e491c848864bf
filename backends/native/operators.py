"""Lowers one operator, or a group of operators, into the function that is being written."""


from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from llvmlite import ir

from circlet.backends.native.emitter import NATIVE_TYPES, Emitter, memory_type
from circlet.backends.native.fuse import Fused, place_of
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rule import Node, Rule, Sink, rule_of, shaped
from circlet.backends.native.value import Value, computed, in_memory, in_register, shared
from circlet.runtime.errors import Place
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.passes.elide_copies import Action
from circlet.runtime.passes.specialize import Specialization

if TYPE_CHECKING:
    from circlet.backends.native.function import FunctionLowering


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
        function = self.function
        if type(op) in CONTROL_FLOW and is_lowerable(function.executors, op, self.operand_shapes, function.lowerable):
            return CONTROL_FLOW[type(op)](self)
        if isinstance(op, Fused):
            self.function.note(self.describe())
            return (GroupLowering(self, op).lower(),)
        rule = self._rule()
        if rule is None:
            self.function.note(f"{self.describe()}  (host call)")
            return lower_host_call(self)
        self.function.note(self.describe())
        return self._by_rule(rule)

    def crosses(self, edge: str, value: Value, action: Action, reason: str) -> None:
        """Records that a value crosses the border of a subgraph that the operator invokes."""
        function = self.function
        function.program.crossings[CopyEdge(self.spec.index, self.number, edge, value.nbytes, function.loops > 0,
                                            action, reason)] = None

    def call(self) -> Call:
        """The operator and its tensors."""
        return Call.of(self.spec.subgraph, self.operator, self.place)

    def _rule(self) -> Rule[Op] | None:
        """The operator's native rule; None where the host computes it."""
        call = self.call()
        rule = rule_of(call)
        if rule is None or not rule.holds(call, shaped(call, _shapes(self.inputs), self.shapes)):
            return None
        if not rule.parameters:
            return rule
        if any(each is not None and each.known is None for each in _chosen(self.inputs, rule.parameters)):
            return None
        try:
            fits = self.operator.op.infer(_operands(self.inputs, len(self.operator.outputs))) == self.shapes
        except Unknown:
            return rule
        except ShapeError:
            return None
        return rule if fits else None

    def describe(self) -> str:
        """`[5] float32[4] memory = MUL+ADD`: each result, where it is, and what gives it."""
        op, tensors = self.operator.op, self.spec.subgraph.tensors
        results = ", ".join(f"{tensors[each].dtype.value}{list(shape)} {self._kept(tensors[each].dtype, shape, home)}"
                            for each, shape, home in zip(self.operator.outputs, self.shapes, self.homes, strict=True))
        label = op.label if isinstance(op, Fused) else self.operator.name
        return f"[{self.number}] {results} = {label}"

    def _kept(self, dtype: DType, shape: Shape, home: ir.Value | None) -> str:
        """Where a result is, in words."""
        if home is not None and any(each is not None and each.memory is home for each in self.inputs):
            return "in place"
        return "register" if prod(shape) == 1 and dtype in NATIVE_TYPES else "memory"

    def _by_rule(self, rule: Rule[Op]) -> Sequence[Value]:
        node = Node(self.operator.op, self.call(), self.inputs, self.shapes, self.place, self.function)
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
            return in_register(scalar, value.shape, value.dtype, value.known)
        assert home is not None, f"{self.place}: a result has no memory"
        if value.memory is not home:
            value.write(e, home)
        return in_memory(home, value.shape, value.dtype)

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
        return self._looked_up() or self._anchored(anchor)

    def _looked_up(self) -> Value | None:
        """The result where all members together replace bytes by others."""
        from circlet.backends.native.quantized_table import look_up, table_of_group

        outer = self._outer
        found = table_of_group(self._op, outer.call(), outer.inputs)
        if found is None or found[0].shape != outer.shapes[0]:
            return None
        finish, sink = outer.target()
        look_up(outer.function, *found, sink)
        return finish()

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
        shape = self._outer.shapes[0]
        if prod(node.shape) != prod(shape):
            raise Unlowerable(f"{self._outer.place}: the epilogue has another size than what it ends")

        def epilogue(e: Emitter, index: Sequence[ir.Value], value: ir.Value) -> None:
            dtype = self._op.tensors[result].dtype
            self._values[result] = computed(node.shape, dtype, lambda *_: value, lambda *_: value)
            for k in sorted(after):
                self._substitute(k)
            into = e.reindex(index, node.shape, shape)
            sink(e, into, self._values[last].element(e, into))

        only_views = all(0 in self._op.members[k].operator.op.views() for k in after)
        rule.nest(node, function.e, (Sink(epilogue, sink.memory if only_views else None) if after else sink,))
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
        call, shapes = self._call(k), self._shapes(k, inputs)
        if not self._rule(k).holds(call, shaped(call, _shapes(inputs), shapes)):
            raise Unlowerable(f"{call.place}: the shapes are not those for which it was grouped")
        return Node(operator.op, call, inputs, shapes, call.place, self._outer.function)

    def _shapes(self, k: int, inputs: Sequence[Value | None]) -> tuple[Shape, ...]:
        operator, parameters = self._op.members[k].operator, self._rule(k).parameters
        declared = self._outer.shapes if k == len(self._op.members) - 1 else None
        if any(each is not None and each.known is None for each in _chosen(inputs, parameters)):
            raise Unlowerable(f"{self._outer.place}: {operator.name} has parameters that are known only when it runs")
        if declared is not None and not parameters:
            return declared
        try:
            found = operator.op.infer(_operands(inputs, len(operator.outputs)))
        except Unknown:
            found = declared or ()
        if found != (declared or found) or not found:
            raise Unlowerable(f"{self._outer.place}: {operator.name} has a shape that is known only when it runs")
        return found

    def _substitute(self, k: int) -> None:
        rule = self._rule(k)
        assert rule.fused is not None
        node = self._node(k)
        flat = all(each is None or each.flat or each.size == 1 for each in node.inputs)
        for tensor, value in zip(self._op.members[k].operator.outputs, rule.fused(node), strict=True):
            self._values[tensor] = shared(replace(value, flat=value.flat and (flat or value.memory is not None)))


def _shapes(values: Sequence[Value | None]) -> Sequence[Shape | None]:
    return [None if each is None else each.shape for each in values]


def _chosen(values: Sequence[Value | None], positions: frozenset[int]) -> Sequence[Value | None]:
    return [each for position, each in enumerate(values) if position in positions]


def _operands(values: Sequence[Value | None], outputs: int) -> Operands:
    return Operands(tuple(None if each is None else Operand(each.dtype, each.shape, each.known) for each in values),
                    outputs)
