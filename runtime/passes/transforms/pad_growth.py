"""Makes a loop that appends to what it carries one whose shapes stay the same while it runs.

A decoder that appends to its cache in every turn has other shapes in each, so that nothing bound or compiled for one
turn serves the next. Here the cache becomes a buffer with room for more, and its length a number that is carried too:

- What is appended is written into the buffer. What reads the buffer computes with all of it; where elements beyond the
  length would make a difference (sums, products along them, softmax) they become ones that make none.
- Lengths are followed through the body: from shapes that operators ask for, to shapes that they are given.
- The new loop runs until the buffer is full. An outer one lengthens it, by a factor, and goes on.

Where some operator has no rule the loop stays as it is. Operators keep their places; what takes the place of one is
called. Sums may be rounded otherwise, as there are zeros among what is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ops.controlflow import CallSubgraph, PreTestedLoop
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.passes.transforms.growth.padding import Group
from circlet.runtime.passes.transforms.growth.rounds import Grown, build_rounds
from circlet.runtime.passes.transforms.growth.state import COUNTER, Length, Padded, Refused
from circlet.runtime.passes.transforms.growth.trace import Growth, find_growth, origin
from circlet.runtime.passes.transforms.growth.work import Work
from circlet.runtime.passes.transforms.loops.layout import scalar

Stays: TypeAlias = "Callable[[Model, int, int, bool], bool]"
"""Whether the loop that is an operator of a subgraph is to stay as it is."""


def pad_growth(model: Model, stays: Stays = lambda *_: False) -> Model:
    """Replaces each such WHILE by a CALL of a subgraph with loops of fixed shapes, but for those that run natively as
    they are. New subgraphs follow the others."""
    for index in range(len(model.subgraphs)):
        for number, operator in enumerate(model.subgraphs[index].operators):
            if isinstance(operator.op, PreTestedLoop):
                model = _padded(model, index, number, operator.op, stays)
    return model


def _padded(model: Model, index: int, number: int, op: PreTestedLoop, stays: Stays) -> Model:
    """The model with one loop replaced, if it grows and can be."""
    caller = model.subgraphs[index]
    operator = caller.operators[number]
    try:
        members, groups = _groups(caller, operator, find_growth(model, op))
        work = _work(model, op, members, groups) if members else None
    except Refused:
        return model
    if work is None or stays(model, index, number, False):  # in this order, as that takes longer to answer
        return model
    body = work.padded[op.body_subgraph_index]
    work.padded[op.body_subgraph_index] = _counting(body, [each.growth for each in groups])
    carried = [model.subgraphs[op.body_subgraph_index].tensors[each] for each in body.inputs[:len(operator.inputs)]]
    grown = Grown(f"{caller.name}[{number}]", work, members, carried)
    callee, passed = build_rounds(grown, caller, operator, op)
    call = replace(operator, op=CallSubgraph(callee), inputs=passed, version=1)
    work.padded[index] = replace(caller, operators=(*caller.operators[:number], call, *caller.operators[number + 1:]))
    return work.finished()


def _groups(caller: Subgraph, operator: Operator,
            growths: Sequence[Growth]) -> tuple[list[tuple[Growth, int]], list[Group]]:
    """Which carried tensors are equally long in every turn: those that begin so and grow alike."""
    numbers: dict[tuple[int, int, tuple[int, int]], int] = {}
    members: list[tuple[Growth, int]] = []
    groups: list[Group] = []
    for growth in growths:
        first = operator.inputs[growth.position]
        size = caller.tensors[first].signature[growth.axis:growth.axis + 1] or (-1,)
        key = (growth.size, size[0], origin(caller, first, growth.axis) if size[0] < 0 else (0, 0))
        if key not in numbers:
            numbers[key] = len(groups)
            groups.append(Group(growth.size, max(size[0], 0)))
        members.append((growth, numbers[key]))
    return members, groups


def _work(model: Model, op: PreTestedLoop, members: Sequence[tuple[Growth, int]], groups: Sequence[Group]) -> Work:
    """Condition and body padded; buffers are zero beyond their lengths, if that lasts.

    Raises:
        Refused: some operator cannot be padded, or the loop does more than append.
    """
    count = len(model.subgraphs[op.body_subgraph_index].inputs)
    for is_zero in (True, False):
        before: list[Padded | None] = [None] * count
        after: list[Padded | None] = [None] * count
        for growth, group in members:
            before[growth.position] = Padded({growth.axis: Length(group)}, is_zero)
            after[growth.position] = Padded({growth.axis: Length(group, growth.size)}, is_zero)
        work = Work(model, groups)
        results = work.pad(op.body_subgraph_index, before)
        if [None if each is None else each.axes for each in results] != [
                None if each is None else each.axes for each in after]:
            raise Refused("the loop does more than append")
        if any(work.pad(op.cond_subgraph_index, before)):
            raise Refused("the condition has a length")
        if list(results) == after:
            return work
    raise Refused("what lies beyond lengths becomes zero")


def _counting(body: Subgraph, sizes: Sequence[int]) -> Subgraph:
    """A padded body that gives the new lengths too."""
    tensors, operators, outputs = list(body.tensors), list(body.operators), list(body.outputs)
    for length, size in zip(body.inputs[len(body.inputs) - len(sizes):], sizes, strict=True):
        grown = np.array(size, COUNTER.numpy)
        grown.setflags(write=False)
        tensors += [Tensor("growth", COUNTER, (), data=grown), scalar("grown", COUNTER)]
        operators.append(Operator(Add(), (length, len(tensors) - 2), (len(tensors) - 1,)))
        outputs.append(len(tensors) - 1)
    return replace(body, tensors=tuple(tensors), operators=tuple(operators), outputs=tuple(outputs))
