"""What a subgraph is invoked with: the shapes of its inputs, and those numbers that its caller knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.length import is_late, is_open, terms_of, value
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.controlflow import Branch, Invoke, PreTestedLoop

MOST_OPEN = 1 << 10
"""Integers in a tensor that follows from open lengths, each of which becomes instructions where the tensor is read; a
choice. What sizes follow from has a few, and masks and tables of so many are faster computed by a loop."""
MOST_NUMBERS = 16
"""In a tensor: more than a shape or the paddings of one have. A choice."""
NUMBERS = (DType.INT32, DType.INT64)
"""The element types of tensors that shapes follow from."""

Values: TypeAlias = "tuple[tuple[int, tuple[int, ...]], ...]"
"""The numbers of some inputs, by position."""


class Entry(tuple[Shape, ...]):
    """The shapes of inputs of which some values are known."""

    values: Values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.values == other.values and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple.__hash__(self), self.values))


def entry(shapes: Iterable[Shape], values: Values) -> tuple[Shape, ...]:
    """The shapes of inputs, and what is known of their values."""
    if not values:
        return tuple(shapes)
    found = Entry(shapes)
    found.values = values
    return found


def late_sizes(shapes: tuple[Shape, ...]) -> frozenset[Terms]:
    """The lengths among some that only a run tells, and those that are known as values."""
    numbers = (numbers for _, numbers in values_of(shapes))
    return frozenset(terms_of(size) for each in (*shapes, *numbers) for size in each if is_late(size))


def values_of(shapes: tuple[Shape, ...]) -> Values:
    """What is known of the values of inputs."""
    return shapes.values if isinstance(shapes, Entry) else ()


def closed(array: Array, lengths: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    """A value at some lengths."""
    numbers = [value(each, lengths) for each in array.flat]
    found = np.array(numbers, np.int64).astype(dtype).reshape(array.shape)
    found.setflags(write=False)
    return found


def known_inputs(subgraph: Subgraph, shapes: tuple[Shape, ...]) -> Mapping[int, Array]:
    """The values of inputs that are known, by tensor."""
    found: dict[int, Array] = {}
    for position, numbers in values_of(shapes):
        tensor = subgraph.inputs[position]
        made = np.empty(len(numbers), np.object_ if is_open(numbers) else subgraph.tensors[tensor].dtype.numpy)
        made[:] = numbers
        found[tensor] = made.reshape(shapes[position])
        found[tensor].setflags(write=False)
    return found


def invoked_with(operator: Operator) -> tuple[int, ...]:
    """The operands of the subgraphs that an operator invokes."""
    return operator.inputs[1:] if isinstance(operator.op, Branch) else operator.inputs


def is_few(dtype: DType, shape: Shape | None) -> bool:
    """Whether there are so few numbers that shapes may follow from them."""
    return dtype in NUMBERS and shape is not None and not is_open(shape) and 0 < prod(shape) <= MOST_NUMBERS


def sized(subgraph: Subgraph, invoked: Callable[[int], Collection[int]] = lambda index: ()) -> frozenset[int]:
    """The tensors that sizes follow from.

    Args:
        subgraph: that has them.
        invoked: of a subgraph that operators invoke, the positions of inputs that sizes follow from in it.
    """
    found = {operator.inputs[position] for operator in subgraph.operators for position in operator.op.sizes
             if position < len(operator.inputs)}
    for operator in reversed(subgraph.operators):
        if operator.op.callees():
            found.update(invoked_with(operator)[each] for callee in operator.op.callees() for each in invoked(callee))
        elif not found.isdisjoint(operator.outputs):
            found.update(operator.inputs)
    return frozenset(found)


def sized_inputs(subgraph: Subgraph, invoked: Callable[[int], Collection[int]]) -> frozenset[int]:
    """The inputs of a subgraph, by position, that sizes follow from; see `sized`."""
    found = sized(subgraph, invoked)
    return frozenset(position for position, each in enumerate(subgraph.inputs) if each in found)


def passed_on(model: Model, operator: Operator, among: Callable[[int], Collection[int]]) -> Mapping[int, int]:
    """The operands, by position, that subgraphs find as they are whenever an operator invokes them, or asks for the
    shapes of their results: of a loop those that its body does not change.

    Args:
        model: with the subgraphs.
        operator: invokes them.
        among: of a subgraph, the positions of inputs that are asked for.
    """
    asked = operator.op.asked_with(operator.inputs)
    if asked is not None:
        return {position: tensor for position, tensor in asked[1].items() if position in among(asked[0])}
    if not isinstance(operator.op, (PreTestedLoop, Branch, Invoke)):
        return {}
    wanted = {position for each in operator.op.callees() for position in among(each)}
    found = {position: tensor for position, tensor in enumerate(invoked_with(operator))
             if position in wanted and tensor != ABSENT}
    if isinstance(operator.op, PreTestedLoop):
        body = operator.op.body_subgraph_index
        return {position: tensor for position, tensor in found.items()
                if _given_back(model, body, position) == position}
    return found


def _given_back(model: Model, index: int, position: int) -> int | None:
    """The input, by position, that a subgraph has as a result, be it by way of one that it calls; None where it is no
    input."""
    subgraph = model.subgraphs[index]
    tensor = subgraph.outputs[position]
    while tensor not in subgraph.inputs:
        operator = next((each for each in subgraph.operators if tensor in each.outputs), None)
        if operator is None or not isinstance(operator.op, Invoke):
            return None
        given = _given_back(model, operator.op.callees()[0], operator.outputs.index(tensor))
        if given is None:
            return None
        tensor = operator.inputs[given]
    return subgraph.inputs.index(tensor)
