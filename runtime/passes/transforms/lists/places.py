"""Where sequences go in a model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from circlet.runtime.ir.model import ABSENT, Model, Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ops.controlflow import Branch, CallSubgraph, If, Invoke, PreTestedLoop
from circlet.runtime.ops.shape import Alias
from circlet.runtime.records import replace

Place: TypeAlias = tuple[int, int]
"""A subgraph and one of its tensors."""
T = TypeVar("T", bound=Hashable)
"""What lies next to others."""


def connected(near: Mapping[T, Iterable[T]], begin: T) -> set[T]:
    """What lies next to something, with all that lies next to that."""
    found, left = {begin}, [begin]
    while left:
        new = {*near.get(left.pop(), ())} - found
        found |= new
        left += new
    return found


def reached(model: Model, operator: Operator) -> set[int]:
    """The subgraphs that an operator invokes, and those that these do."""
    found, left = set[int](), [*operator.op.callees()]
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            left += (callee for each in model.subgraphs[index].operators for callee in each.op.callees())
    return found


def same_values(model: Model, index: int, operator: Operator) -> Iterator[tuple[Place, Place]]:
    """The values that are one by an operator that hands them on, or by which a loop goes on."""
    op = operator.op

    def paired(inside: int, tensors: Sequence[int], outside: Sequence[int]) -> Iterator[tuple[Place, Place]]:
        return (((inside, one), (index, other)) for one, other in zip(tensors, outside, strict=False)
                if other != ABSENT)

    if isinstance(op, Alias):
        yield from paired(index, operator.outputs, operator.inputs[:1])
    elif isinstance(op, (Branch, Invoke, PreTestedLoop)):
        for callee in op.callees():
            inner = model.subgraphs[callee]
            yield from paired(callee, inner.inputs, operator.inputs[isinstance(op, Branch):])
            if not isinstance(op, PreTestedLoop) or callee == op.body_subgraph_index:
                yield from paired(callee, inner.outputs, operator.outputs)
        if isinstance(op, PreTestedLoop):
            yield from paired(index, operator.inputs, operator.outputs)


def redirected(op: Op, numbers: Mapping[int, int]) -> Op:
    """An operator that invokes other subgraphs."""
    if isinstance(op, PreTestedLoop):
        return replace(op, cond_subgraph_index=numbers.get(op.cond_subgraph_index, op.cond_subgraph_index),
                       body_subgraph_index=numbers.get(op.body_subgraph_index, op.body_subgraph_index))
    if isinstance(op, If):
        return replace(op, then_subgraph_index=numbers.get(op.then_subgraph_index, op.then_subgraph_index),
                       else_subgraph_index=numbers.get(op.else_subgraph_index, op.else_subgraph_index))
    assert isinstance(op, CallSubgraph), f"{op.title} takes no sequence"
    return replace(op, subgraph=numbers.get(op.subgraph, op.subgraph))
