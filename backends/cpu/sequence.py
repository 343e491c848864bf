"""Numpy rules of the operators on sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.refusal import Refusal, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.held import Held
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import sequence as ops

_holder: Refusal = only({DType.VARIANT})


def _any(call: Call) -> str | None:
    return None


def _hold(node: Node[Any], make: Callable[[], Held | None]) -> Step:
    out = node.out

    def step() -> None:
        out[()] = make()

    return step


def _position(node: Node[Any], index: int) -> Callable[[], int] | None:
    found = node.optional(index)
    return None if found is None else found.item


@rule(ops.SequenceConstruct, accepts=_any)
def sequence_construct(node: Node[ops.SequenceConstruct]) -> Step:
    inputs = node.inputs
    return _hold(node, lambda: Held(tuple(each.copy() for each in inputs)))


@rule(ops.SequenceInsert, accepts=_holder)
def sequence_insert(node: Node[ops.SequenceInsert]) -> Step:
    source, value, position = node.input(0), node.input(1), _position(node, 2)

    def make() -> Held:
        items = ops.arrays(source)
        at = len(items) if position is None else ops.place(position(), len(items), more=1)
        return Held((*items[:at], value.copy(), *items[at:]))

    return _hold(node, make)


@rule(ops.SequenceErase, accepts=_holder)
def sequence_erase(node: Node[ops.SequenceErase]) -> Step:
    source, position = node.input(0), _position(node, 1)

    def make() -> Held:
        items = ops.arrays(source)
        del items[ops.place(-1 if position is None else position(), len(items))]
        return Held(tuple(items))

    return _hold(node, make)


@rule(ops.SequenceAt, accepts=_holder)
def sequence_at(node: Node[ops.SequenceAt]) -> Step:
    source, position, out = node.input(0), node.input(1).item, node.out

    def step() -> None:
        items = ops.arrays(source)
        store(out, items[ops.place(position(), len(items))])

    return step


@rule(ops.SequenceLength, accepts=_holder)
def sequence_length(node: Node[ops.SequenceLength]) -> Step:
    source, out = node.input(0), node.out
    return lambda: out.fill(len(ops.held(source).items))


@rule(ops.SequenceConcat, accepts=_holder)
def sequence_concat(node: Node[ops.SequenceConcat]) -> Step:
    source, out = node.input(0), node.out
    join: Callable[..., Array] = np.stack if node.op.new_axis else np.concatenate
    return lambda: store(out, join(ops.arrays(source), node.op.axis))


@rule(ops.SequenceSplit, accepts=_any)
def sequence_split(node: Node[ops.SequenceSplit]) -> Step:
    x, lengths, op = node.input(0), node.input(1), node.op
    axis = op.axis % x.ndim

    def make() -> Held:
        pieces = np.split(x, ops.cuts(x.shape[axis], lengths), axis)
        return Held(tuple((each if op.keep_axis else each.squeeze(axis)).copy() for each in pieces))

    return _hold(node, make)


@rule(ops.OptionalOf, accepts=_any)
def optional_of(node: Node[ops.OptionalOf]) -> Step:
    value = node.optional(0)
    return _hold(node, lambda: None if value is None else Held((value.copy(),), is_single=True))


@rule(ops.OptionalGetElement, accepts=_holder)
def optional_get_element(node: Node[ops.OptionalGetElement]) -> Step:
    source, out = node.input(0), node.out
    return lambda: store(out, ops.arrays(source)[0])


@rule(ops.OptionalHasElement, accepts=_holder)
def optional_has_element(node: Node[ops.OptionalHasElement]) -> Step:
    source, out = node.input(0), node.out
    return lambda: out.fill(source.item() is not None)
