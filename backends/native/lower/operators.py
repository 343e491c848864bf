"""One operator on its way into the function that is being written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import prod
from typing import Protocol

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, in_register_alone, memory_type
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.rules.rule import Node, Rule, Sink, rule_of, rules_of, shaped
from circlet.runtime.errors import Place
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.model import Operator
from circlet.runtime.ir.op import Op, Operand, Operands, ShapeError, Unknown
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.controlflow import PreTestedLoop
from circlet.runtime.ops.reduce import Arg, Reduction
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.transfer import Action
from circlet.runtime.records import dataclass


class Subgraphs(Protocol):
    """What emits the subgraphs that operators invoke."""

    executors: ExecutorMap
    writes_loops_apart: bool
    """Whether loops of the model may become functions of their own."""
    loops: int
    """How many loops of the model are around what is being written."""
    undivided: int
    """How many of these have bodies whose operators are no functions of their own."""
    refused: dict[Specialization, str | None]
    """Why subgraphs cannot be native code, as far as that was asked; None where they can."""

    def in_loop(self, op: Op | None = None) -> AbstractContextManager[None]:
        """What is written inside is done in every turn of a loop of the model; see `SubgraphLowering`."""
        ...

    def divides(self, op: Op) -> bool:
        """Whether the operators that a loop invokes may be functions of their own."""
        ...

    def invoke(self, index: int, inputs: Sequence[Value], homes: Sequence[ir.Value | None],
               destroyable: frozenset[int], shapes: tuple[Shape, ...], is_turn: bool = False) -> list[Value]:
        """Emits a subgraph in place; see `SubgraphLowering`."""
        ...

    def transfer(self, value: Value, home: ir.Value) -> None:
        """Brings a tensor across the border of a subgraph; that is a copy where it lies in memory already."""
        ...


@dataclass(frozen=True, eq=False)
class KnownCall(Call):
    """An operator and its constants, for what is made of these."""

    known: tuple[Array | None, ...] = ()
    """By input; None where it is none."""


@dataclass(frozen=True, eq=False)
class OperatorLowering:
    """One operator on its way to code."""

    function: FunctionLowering
    subgraphs: Subgraphs
    spec: Specialization
    number: int
    operator: Operator
    inputs: tuple[Value | None, ...]
    homes: tuple[ir.Value | None, ...]
    """Where each result must lie; None for a register."""
    place: Place

    @property
    def name(self) -> str:
        """What people call the operator; a group by its members."""
        op = self.operator.op
        return op.label if isinstance(op, Fused) else self.operator.name

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results."""
        return tuple(self.spec.shape(each) for each in self.operator.outputs)

    def crosses(self, edge: str, value: Value, action: Action, reason: str) -> None:
        """Records that a value crosses the border of a subgraph that the operator invokes."""
        self.function.program.crossings[CopyEdge(self.spec.index, self.number, edge, value.nbytes,
                                                 self.subgraphs.loops > 0, action, reason)] = None

    @property
    def is_apart(self) -> bool:
        """Whether the code of the operator may be a function of its own: it runs once, or in a body of many operators,
        and gives nothing in a register but what it combines of several elements, in a loop, or has beside an array."""
        numbers = [self._is_number(k) for k in range(len(self.homes))]
        is_kept = all(home is not None or each for home, each in zip(self.homes, numbers, strict=True))
        return self.subgraphs.undivided == 0 and (
            self._combines or (is_kept and (not numbers or not all(numbers))))

    @property
    def is_loop_apart(self) -> bool:
        """Whether the operator is a loop of the model that becomes a function of its own: it runs once, and gives all
        that it does not have in registers where that is to lie. Its operators are none then."""
        op = self.operator.op
        return (isinstance(op, PreTestedLoop) and self.subgraphs.writes_loops_apart and self.subgraphs.loops == 0
                and not self.subgraphs.divides(op) and self.function.repeats and all(
                    home is not None or self._is_number(k) for k, home in enumerate(self.homes)))

    @property
    def _combines(self) -> bool:
        """Whether each result is one number that is combined of an array."""
        op = self.operator.op
        ops = [each.operator.op for each in op.members] if isinstance(op, Fused) else [op]
        return any(isinstance(each, (Arg, Reduction)) for each in ops) and any(
            each is not None and each.known is None and may_differ(each.size, 1) for each in self.inputs) and all(
            self._is_number(k) for k in range(len(self.homes)))

    def _is_number(self, position: int) -> bool:
        """Whether a result is in a register."""
        dtype = self.spec.subgraph.tensors[self.operator.outputs[position]].dtype
        return in_register_alone(prod(self.shapes[position]), dtype)

    def with_homes(self) -> OperatorLowering:
        """The same with memory for the results that are in registers."""
        homes = [self.function.reserve(self.spec.subgraph.tensors[each].dtype.numpy.itemsize)
                 if home is None and self._is_number(k) else home
                 for k, (each, home) in enumerate(zip(self.operator.outputs, self.homes, strict=True))]
        return replace(self, homes=tuple(homes))

    def read_again(self, results: Sequence[Value]) -> Sequence[Value]:
        """Results that another function wrote, those in registers from where they lie."""
        e = self.function.e
        return [in_register(e.load(home, each.dtype), each.shape, each.dtype, each.known)
                if home is not None and self._is_number(k) else each
                for k, (each, home) in enumerate(zip(results, self.homes, strict=True))]

    def call(self) -> Call:
        """The operator and its tensors."""
        return Call.of(self.spec.subgraph, self.operator, self.place)

    def known_call(self) -> KnownCall:
        """The same with the constants among its inputs."""
        call = self.call()
        return KnownCall(call.op, call.inputs, call.outputs, call.version, call.custom_options, call.place,
                         call.intermediates, tuple(None if each is None else each.known for each in self.inputs))

    def with_told(self) -> OperatorLowering:
        """The same with parameters of its rule that only the run tells as the lengths that it computes."""
        told = self.spec.told.values
        if not any(each in told for each in self.operator.inputs):
            return self
        parameters = self._parameters()
        return replace(self, inputs=tuple(
            self.function.constant(told[tensor], each.dtype) if each is not None and tensor in told and (
                position in parameters) else each
            for position, (tensor, each) in enumerate(zip(self.operator.inputs, self.inputs, strict=True))))

    def _parameters(self) -> Collection[int]:
        """The inputs that its rule or, of a group, the rules of members need to know."""
        op = self.operator.op
        if not isinstance(op, Fused):
            rule = rule_of(self.call())
            return () if isinstance(rule, str) else rule.parameters
        members = zip(op.members, map(rule_of, op.calls_at(self.place)), strict=True)
        read = {tensor for member, rule in members if isinstance(rule, Rule)
                for position, tensor in enumerate(member.operator.inputs) if position in rule.parameters}
        return [position for position, tensor in enumerate(self.operator.inputs) if tensor in read]

    def rule(self) -> Rule[Op] | str:
        """The operator's native rule or, where the host computes it, why."""
        call = self.call()
        rule = rule_of(call)
        if isinstance(rule, str):
            return rule
        if not rule.holds(call, shaped(call, shapes_of(self.inputs), self.shapes)):
            return f"shapes that differ from those declared, {', '.join(map(str, self.shapes))}"
        if not rule.parameters:
            return rule
        live = unknown(self.inputs, rule.parameters)
        if live:
            others = (each for each in rules_of(call) if not unknown(self.inputs, each.parameters) and each is not rule)
            return next(others, None) or f"{live} known only when it runs"
        try:
            found = self.operator.op.infer(operands(self.inputs, [each.dtype for each in call.outputs]))
        except Unknown:
            return rule
        except ShapeError as error:
            return str(error)
        return rule if found == self.shapes else f"a result of shape {found}, the model declares {self.shapes}"

    def unasked(self) -> AbstractContextManager[None]:
        """What is asked of open lengths inside is not noted, as the code does not hang on it."""
        return nullcontext() if self.spec.scope is None else self.spec.scope.asking(None)

    def describe(self) -> str:
        """`[5] float32[4] memory = MUL+ADD`: each result, where it is, and what gives it."""
        with self.unasked():
            return f"[{self.number}] {self._results()} = {self.name}"

    def _results(self) -> str:
        tensors = self.spec.subgraph.tensors
        return ", ".join(f"{tensors[each].dtype.value}{list(shape)} {self._kept(tensors[each].dtype, shape, home)}"
                            for each, shape, home in zip(self.operator.outputs, self.shapes, self.homes, strict=True))

    def _kept(self, dtype: DType, shape: Shape, home: ir.Value | None) -> str:
        """Where a result is, in words."""
        if home is not None and any(each is not None and each.memory is home for each in self.inputs):
            return "in place"
        return "register" if in_register_alone(prod(shape), dtype) else "memory"

    @property
    def _is_lent(self) -> bool:
        """Whether the one result stays where it lies."""
        return len(self.homes) == 1 and self.homes[0] is None and not in_register_alone(
            prod(self.shapes[0]), self.spec.subgraph.tensors[self.operator.outputs[0]].dtype)

    def by_rule(self, rule: Rule[Op]) -> Sequence[Value]:
        """Emits the operator by a rule; gives its results, in registers or where they must lie."""
        node = Node(self.operator.op, self.call(), self.inputs, self.shapes, self.place, self.function)
        if rule.fused is not None:
            return [self._settled(value, home) for value, home in zip(rule.fused(node), self.homes, strict=True)]
        assert rule.nest is not None
        if rule.lends is not None and self._is_lent:
            return [rule.lends(node)]
        results = [self._target(k) for k in range(len(self.homes))]
        rule.nest(node, self.function.e, tuple(sink for _, sink in results))
        return [finish() for finish, _ in results]

    def _settled(self, value: Value, home: ir.Value | None) -> Value:
        """A computed value in memory or, if it has one element, in a register."""
        e = self.function.e
        if in_register_alone(value.size, value.dtype):
            scalar = value.scalar(e)
            if home is not None:
                e.store(scalar, home, value.dtype)
            return in_register(scalar, value.shape, value.dtype, value.known)
        home = value.memory if home is None else home  # a view of what is lent lies where that does
        assert home is not None, f"{self.place}: a result has no memory"
        if value.memory is not home:
            value.write(e, home)
        return in_memory(home, value.shape, value.dtype)

    def _target(self, position: int) -> tuple[Callable[[], Value], Sink]:
        """Where a nest puts a result, and what the result then is."""
        function, shape = self.function, self.shapes[position]
        dtype = self.spec.subgraph.tensors[self.operator.outputs[position]].dtype
        home = self.homes[position]
        if home is None:
            home = function.e.slot(memory_type(dtype), max(prod(shape), 1))

        def put(e: Emitter, index: Sequence[ir.Value], value: ir.Value) -> None:
            e.store(value, home, dtype, e.linear(index, shape))

        def finish() -> Value:
            if in_register_alone(prod(shape), dtype):
                return in_register(function.e.load(home, dtype), shape, dtype)
            return in_memory(home, shape, dtype)

        return finish, Sink(put, home)

    def settle(self, value: Value) -> Value:
        """The value as the operator's first result."""
        return self._settled(value, self.homes[0])

    def target(self) -> tuple[Callable[[], Value], Sink]:
        """Where a nest puts the first result."""
        return self._target(0)


def unknown(values: Sequence[Value | None], positions: frozenset[int]) -> str:
    """The inputs among some whose values are not known when the code is made, in words; empty if there are none."""
    found = [f"input {k}" for k, each in enumerate(values)
             if k in positions and each is not None and each.known is None]
    return f"{' and '.join(found)} {'is' if len(found) == 1 else 'are'}" if found else ""


def shapes_of(values: Sequence[Value | None]) -> Sequence[Shape | None]:
    """The shape of each value that is there."""
    return [None if each is None else each.shape for each in values]


def operands(values: Sequence[Value | None], outputs: Sequence[DType]) -> Operands:
    """What a shape rule is given: the inputs, and the element types of the outputs."""
    return Operands(tuple(None if each is None else Operand(each.dtype, each.shape, each.known) for each in values),
                    len(outputs), declared=outputs)
