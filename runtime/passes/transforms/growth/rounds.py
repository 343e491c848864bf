"""The loops that take the place of one whose carried tensors grow.

An outer loop lengthens the buffers, and an inner one, whose shapes are fixed, runs until they are full.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import LessEqual, LogicalAnd
from circlet.runtime.ops.controlflow import If, LoopRounds, PreTestedLoop, While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.loop_options import Mode, ScanOutput
from circlet.runtime.ops.loop_steps import LoopGrow, LoopLength, LoopTake
from circlet.runtime.ops.unary import LogicalNot
from circlet.runtime.passes.transforms.growth.state import COUNTER
from circlet.runtime.passes.transforms.growth.step import capacity
from circlet.runtime.passes.transforms.growth.trace import Growth
from circlet.runtime.passes.transforms.growth.work import Work
from circlet.runtime.passes.transforms.loops.layout import like, scalar
from circlet.runtime.passes.transforms.loops.setup import Operands
from circlet.runtime.records import dataclass

MOST_ELEMENTS = 1 << 18
"""In a buffer that is longer than it needs to be."""


@dataclass(frozen=True)
class Grown:
    """A loop on its way: what grows in which group, and what goes round, lengths last."""

    name: str
    work: Work
    members: Sequence[tuple[Growth, int]]
    """What grows, and its group."""
    carried: Sequence[Tensor]

    @property
    def slots(self) -> list[Tensor]:
        """What goes round: the carried values, then the lengths."""
        lengths = (scalar(f"length_{k}", COUNTER) for k in range(len(self.work.buffers.groups)))
        return [*(like(each, each.name) for each in self.carried), *lengths]

    def subgraph(self, role: str) -> SubgraphBuilder:
        return self.work.buffers.builder.subgraph(f"{self.name} {role}")

    def enter(self, s: SubgraphBuilder) -> list[Value]:
        """Makes what goes round the inputs of a subgraph."""
        found = [s.tensor(each) for each in self.slots]
        s.feed(*found)
        return found

    def first(self, group: int) -> Growth:
        """A tensor that is as long as all of a group."""
        return next(growth for growth, each in self.members if each == group)


def build_rounds(grown: Grown, caller: Subgraph, operator: Operator, op: PreTestedLoop) -> tuple[int, tuple[int, ...]]:
    """Adds the subgraphs; gives the one to call instead of the loop, and the caller's tensors to pass."""
    test = _test(grown, op)
    s = grown.subgraph("growing")
    operands = Operands(s, caller)
    values = [operands.take(each) for each in operator.inputs]
    for group in range(len(grown.work.buffers.groups)):
        first = grown.first(group)
        length = LoopLength(axis=first.axis, dtype=COUNTER)
        values.append(s.op(length, values[first.position], outputs=[scalar("length", COUNTER)])[0])
    rounds = LoopRounds(_is_full(grown), _round(grown, test, op))
    results = list(s.op(rounds, *values, outputs=grown.slots))
    for growth, group in grown.members:
        count = results[len(operator.inputs) + group]
        taken = like(grown.carried[growth.position], "taken")
        results[growth.position] = s.op(LoopTake(_along(growth)), results[growth.position], count, outputs=[taken])[0]
    s.output(*results[:len(operator.inputs)])
    return s.index, tuple(operands.passed)


def _along(growth: Growth) -> ScanOutput:
    return ScanOutput(0, growth.axis, Mode.CONCAT)


def _room(grown: Grown, s: SubgraphBuilder, values: Sequence[Value]) -> Value:
    """Whether the buffers have room for another turn."""
    flags = []
    for group, need in grown.work.buffers.need.items():
        more = s.constant(np.array(need, COUNTER.numpy))
        wanted = s.op(Add(), values[len(grown.carried) + group], more, outputs=[scalar("wanted", COUNTER)])[0]
        first = grown.first(group)
        there = capacity(s, values[first.position], first.axis)
        flags.append(s.op(LessEqual(), wanted, there, outputs=[scalar("room", DType.BOOL)])[0])
    found = flags[0]
    for each in flags[1:]:
        found = s.op(LogicalAnd(), found, each, outputs=[scalar("room", DType.BOOL)])[0]
    return found


def _least(grown: Grown, group: int) -> int:
    """How long buffers are at least: up to 64 rows, if they do not take too much memory."""
    row = max(prod(abs(size) for axis, size in enumerate(grown.carried[each.position].signature) if axis != each.axis)
              for each, number in grown.members if number == group)
    return 1 << min(max((MOST_ELEMENTS // max(row, 1)).bit_length() - 1, 2), 6)


def _is_full(grown: Grown) -> int:
    """The condition of the outer loop, which does not ask that of the model again."""
    s = grown.subgraph("is full")
    room = _room(grown, s, grown.enter(s))
    s.output(*s.op(LogicalNot(), room, outputs=[scalar("full", DType.BOOL)]))
    return s.index


def _test(grown: Grown, op: PreTestedLoop) -> int:
    """The condition of the inner loop: that of the model, where there is room for another turn."""
    never = grown.subgraph("full")
    grown.enter(never)
    never.output(never.constant(False, DType.BOOL))
    s = grown.subgraph("test")
    values = grown.enter(s)
    choice = If(op.cond_subgraph_index, never.index)
    s.output(*s.op(choice, _room(grown, s, values), *values, outputs=[scalar("goes_on", DType.BOOL)]))
    return s.index


def _round(grown: Grown, test: int, op: PreTestedLoop) -> int:
    """The body of the outer loop: longer buffers, and turns until they are full."""
    s = grown.subgraph("round")
    values = grown.enter(s)
    for growth, group in grown.members:
        longer = LoopGrow(_along(growth), even=True, need=grown.work.buffers.need[group], least=_least(grown, group))
        kind = like(grown.carried[growth.position], "longer")
        values[growth.position] = s.op(longer, values[growth.position], outputs=[kind])[0]
    s.output(*s.op(While(test, op.body_subgraph_index), *values, outputs=grown.slots))
    return s.index
