"""Numpy rules of what lowered loops are made of."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.move import copy, moving
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, guarded
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.layout import Index
from circlet.runtime.ops.loop_options import TripPolicy
from circlet.runtime.ops.loop_steps import (
    ENDLESS,
    TAKEN_AS_ENDLESS,
    Collection,
    LoopBuffer,
    LoopCount,
    LoopFront,
    LoopGrow,
    LoopKeep,
    LoopLength,
    LoopRoom,
    LoopScalar,
    LoopShape,
    LoopSlices,
    LoopStore,
    LoopTake,
    LoopZeros,
)


@rule(LoopScalar, accepts=moving())
def loop_scalar(node: Node[LoopScalar]) -> Step:
    return copy(node.out, node.input(0).reshape(()))


@rule(LoopKeep, accepts=moving(parameters=(1,)))
def loop_keep(node: Node[LoopKeep]) -> Step:
    return guarded(node, (1,), copy(node.out, node.input(0)))


def _accepts(call: Call) -> str | None:
    return None


@rule(LoopCount, accepts=_accepts)
def loop_count(node: Node[LoopCount]) -> Step:
    out, value, op = node.out, node.input(0).item, node.op

    def step() -> None:
        trip_count = int(value())
        if trip_count < ENDLESS and op.policy is TripPolicy.NEGATIVE_IS_INFINITE:
            warnings.warn(TAKEN_AS_ENDLESS.format(trip_count), stacklevel=2)
        out[...] = op.resolve(trip_count)

    return step


@rule(LoopSlices, accepts=_accepts)
def loop_slices(node: Node[LoopSlices]) -> Step:
    count = node.op.count(tuple(each.shape for each in node.inputs))
    return partial(node.out.fill, count)


@rule(LoopLength, accepts=_accepts)
def loop_length(node: Node[LoopLength]) -> Step:
    return partial(node.out.fill, node.op.length(node.input(0).shape))


@rule(LoopShape, accepts=_accepts)
def loop_shape(node: Node[LoopShape]) -> Step:
    """Where it was not known before."""
    return copy(node.out, np.array(node.input(node.op.own + node.op.position).shape, np.int64))


@rule(LoopRoom, accepts=_accepts)
def loop_room(node: Node[LoopRoom]) -> Step:
    out, value, op = node.out, node.input(0).item, node.op

    def step() -> None:
        out[...] = op.round(int(value()))

    return step


def _cleared(node: Node[Any]) -> Step:
    return partial(_clear, node.out)


rule(LoopZeros, accepts=_accepts)(_cleared)
rule(LoopBuffer, accepts=_accepts)(_cleared)


def _clear(out: Array) -> None:
    out.fill(b"" if out.dtype.hasobject else 0)


def _window(op: Collection, rank: int, begin: int, length: int) -> Index:
    """The index of a part of the axis along which elements lie."""
    return (*[slice(None)] * op.axis(rank), slice(begin, begin + length), ...)


@rule(LoopStore, accepts=moving(parameters=(2,)))
def loop_store(node: Node[LoopStore]) -> Step:
    x, out, op = node.input(0), node.out, node.op
    element = node.input(1).reshape(op.slices(node.input(1).shape))
    number, length = node.input(2).item, out.shape[op.axis(out.ndim)]

    def step() -> None:
        place = op.place(int(number()), length)
        if not 0 <= place <= length - op.scan.part:
            raise ExecutionError(f"iteration {number()} makes an element, the scan output has room for "
                                 f"{length // op.scan.part}")
        out[_window(op, out.ndim, place, op.scan.part)] = element

    if x.shape != out.shape:
        return chain(partial(_clear, out), step)
    return step if np.may_share_memory(x, out) else chain(copy(out, x), step)


@rule(LoopGrow, accepts=moving(parameters=(1,)))
def loop_grow(node: Node[LoopGrow]) -> Step:
    x, out, op = node.input(0), node.out, node.op
    axis = op.axis(x.ndim)
    begin = out.shape[axis] - x.shape[axis] if op.backwards else 0
    return chain(partial(_clear, out), copy(out[_window(op, x.ndim, begin, x.shape[axis])], x))


@rule(LoopTake, accepts=moving(parameters=(1,)))
def loop_take(node: Node[LoopTake]) -> Step:
    x, out, op = node.input(0), node.out, node.op
    axis = op.axis(x.ndim)
    begin = x.shape[axis] - out.shape[axis] if op.backwards else 0
    return guarded(node, (1,), copy(out, x[_window(op, x.ndim, begin, out.shape[axis])]))


@rule(LoopFront, accepts=moving(parameters=(1,)))
def loop_front(node: Node[LoopFront]) -> Step:
    x, out, op, number = node.input(0), node.out, node.op, node.input(1).item
    length = x.shape[op.axis(x.ndim)]

    def step() -> None:
        taken = int(number()) * op.scan.part
        out[_window(op, x.ndim, 0, taken)] = x[_window(op, x.ndim, length - taken, taken)]
        _clear(out[_window(op, x.ndim, taken, length - taken)])

    return step
