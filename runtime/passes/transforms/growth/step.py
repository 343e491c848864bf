"""One operator while its subgraph is padded, and the tables of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import INTEGERS, Array, Shape
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.loop_steps import LoopLength
from circlet.runtime.passes.transforms.growth.padding import Padding
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, NotKnown, Padded, Refused
from circlet.runtime.passes.transforms.loops.layout import like, scalar
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Step:
    """One operator on padded tensors, or on values that are lengths."""

    padding: Padding
    number: int
    operator: Operator

    @property
    def op(self) -> Op:
        return self.operator.op

    def has(self, position: int) -> bool:
        return position < len(self.operator.inputs) and self.operator.inputs[position] != ABSENT

    def state(self, position: int) -> Padded | None:
        """What an input is; None where it has its own shape."""
        return self.padding.states.get(self.operator.inputs[position]) if self.has(position) else None

    @property
    def states(self) -> list[Padded | None]:
        return [self.state(k) for k in range(len(self.operator.inputs))]

    def padded(self, position: int = 0) -> Padded:
        """What an input is that must be padded, while the others are not."""
        found = self.state(position)
        if found is None or any(each is not None for k, each in enumerate(self.states) if k != position):
            raise Refused(f"{self.operator.name} has padded operands where it cannot")
        return found

    def tensor(self, position: int) -> Tensor:
        return self.padding.subgraph.tensors[self.operator.inputs[position]]

    def signature(self, position: int) -> Shape:
        """The declared shape of an input, with -1 for what is not known."""
        tensor = self.tensor(position)
        if not (tensor.has_rank or tensor.shape):
            raise Refused(f"the rank of {tensor.name!r} is not known")
        return tensor.signature

    def axis(self, axis: int, position: int = 0) -> int:
        """An axis of an input, counted from the front."""
        rank = len(self.signature(position))
        if not -rank <= axis < rank:
            raise Refused(f"{self.operator.name} has no axis {axis}")
        return axis % rank

    def constant(self, position: int) -> Array:
        """The value of an input that must be constant."""
        data = self.tensor(position).data
        if data is None:
            raise Refused(f"input {position} of {self.operator.name} is not constant")
        return data

    def value(self, position: int) -> Array | None:
        """The integers in an input, of which some may be lengths; None where they are not known."""
        if not self.has(position):
            return None
        found = self.padding.values.get(self.operator.inputs[position])
        tensor = self.tensor(position)
        return found if tensor.data is None or tensor.dtype not in INTEGERS else tensor.data.astype(object)

    @property
    def output(self) -> Tensor:
        return self.padding.subgraph.tensors[self.operator.outputs[0]]

    def result(self, name: str) -> Tensor:
        """A tensor like the first output."""
        return like(self.output, name)

    def follow(self) -> None:
        """The operator stays, and its integers are known if those of its operands are, of which some are lengths."""
        rule, found = FOLLOWED.get(type(self.op)), [self.value(k) for k in range(len(self.operator.inputs))]
        known = [each for each in found if each is not None]
        if rule is not None and len(known) == len(found):
            with suppress(NotKnown):
                self.padding.values[self.operator.outputs[0]] = rule(self.op, known)
        self.keep()

    def keep(self, *states: Padded | None) -> None:
        """The operator does for padded tensors what it does for others; each result is one of `states`."""
        self.put(self.operator, *states)

    def put(self, operator: Operator, *states: Padded | None) -> None:
        """Another operator takes the place."""
        self.padding.put(operator, dict(zip(self.operator.outputs, states, strict=False)))

    def call(self, build: Build, state: Padded | None = None) -> None:
        """A CALL takes the place: of a new subgraph with the operators that replace this one."""
        name = f"{self.padding.subgraph.name}[{self.number}] {self.operator.name.lower()}"
        callee = Callee(self, self.padding.buffers.builder.subgraph(name))
        callee.s.output(build(callee))
        self.put(replace(self.operator, op=CallSubgraph(callee.s.index), inputs=tuple(callee.passed), version=1), state)


class Callee:
    """The subgraph with the operators that replace one."""

    def __init__(self, step: Step, s: SubgraphBuilder) -> None:
        self.step = step
        self._padding = step.padding
        self.s = s
        self.passed: list[int] = []
        """The tensors that it is called with."""
        self._known: dict[int, Value] = {}
        self._operands = step.operator.inputs

    def _take(self, tensor: int) -> Value:
        """A tensor of the caller."""
        if tensor not in self._known:
            declared = self._padding.tensor(tensor)
            self._known[tensor] = self.s.tensor(declared if declared.is_constant else like(declared, declared.name))
            if not declared.is_constant:
                self.s.feed(self._known[tensor])
                self.passed.append(tensor)
        return self._known[tensor]

    def operand(self, position: int) -> Value | None:
        """An operand; None where it is absent."""
        tensor = self._operands[position]
        return None if tensor == ABSENT else self._take(tensor)

    def given(self, position: int = 0) -> Value:
        """An operand that is there."""
        return self._take(self._operands[position])

    def rest(self, first: int) -> list[Value | None]:
        """The operands from one on."""
        return [self.operand(k) for k in range(first, len(self._operands))]

    def length(self, wanted: Length) -> Value:
        """A length, a scalar."""
        count = self._take(self._padding.lengths[wanted.group])
        if not wanted.extra:
            return count
        more = self.s.constant(np.array(wanted.extra, COUNTER.numpy))
        return self.s.op(Add(), count, more, outputs=[scalar("length", COUNTER)])[0]

    def room(self, group: int) -> Value:
        """How long the buffers of a group are, a scalar."""
        for tensor, state in self._padding.states.items():
            for axis, length in state.axes.items():
                if length.group == group:
                    return capacity(self.s, self._take(tensor), axis)
        raise Refused("no tensor is as long as is asked for")


def capacity(s: SubgraphBuilder, x: Value, axis: int) -> Value:
    """How long a tensor is along an axis, a scalar."""
    return s.op(LoopLength(axis=axis, dtype=COUNTER), x, outputs=[scalar("capacity", COUNTER)])[0]


Build: TypeAlias = Callable[[Callee], Value]
"""Adds the operators that replace one; gives its result."""
Rule: TypeAlias = Callable[[Step], None]
RULES: dict[type[Op], Rule] = {}
"""What becomes of each operator on padded tensors."""
MADE: dict[type[Op], Rule] = {}
"""What becomes of those that make tensors as long as other operands say, if these are lengths."""


Follow: TypeAlias = Callable[[Op, Sequence[Array]], Array]
FOLLOWED: dict[type[Op], Follow] = {}
"""What operators on integers, of which some are lengths, give."""


def pads(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the rule of operators."""
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


def makes(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Registers the decorated function as the rule of operators that make tensors as long as operands say."""
    def register(rule: Rule) -> Rule:
        MADE.update(dict.fromkeys(ops, rule))
        return rule

    return register


def follows(*ops: type[Op]) -> Callable[[Follow], Follow]:
    """Registers the decorated function as what operators do to integers of which some are lengths."""
    def register(rule: Follow) -> Follow:
        FOLLOWED.update(dict.fromkeys(ops, rule))
        return rule

    return register
