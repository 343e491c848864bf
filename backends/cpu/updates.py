"""Numpy rules of the operators that write over parts of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.cpu.elements import along, rows
from circlet.backends.cpu.index import scalars, window_at
from circlet.backends.cpu.rule import RULES, Node, rule
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.elements import ScatterElements, ScatterSlices
from circlet.runtime.ops.index import DynamicUpdateSlice, StablehloDynamicUpdateSlice, UpdateRow
from circlet.runtime.ops.updates import UpdateVariable

Places: TypeAlias = "Callable[[], Sequence[slice | Array]]"
"""Gives an index of the first axes, of slices or of arrays that broadcast."""


def _row(node: Node[Any]) -> Places:
    """Of UPDATE_ROW, whose index may be wrong."""
    index, last = node.input(2).item, len(node.out) - 1

    def places() -> Sequence[slice | Array]:
        row = min(max(index(), 0), last)
        return (slice(row, row + 1),)

    return places


def _window(node: Node[Any], starts: Callable[[], Sequence[int]]) -> Places:
    find = window_at(node.input(0).shape, node.input(1).shape, starts)
    return lambda: [each for each in find() if isinstance(each, slice)]


PLACES: dict[type[Op], Callable[[Node[Any]], Places]] = {
    DynamicUpdateSlice: lambda node: _window(node, node.input(2).tolist),
    StablehloDynamicUpdateSlice: lambda node: _window(node, scalars(node, 2)),
    UpdateRow: _row,
    ScatterElements: lambda node: along(node, node.op.axis),
    ScatterSlices: rows,
}
"""What each operator writes of its result that is not its first input."""


def runs(shape: Shape, places: Sequence[slice | Array]) -> tuple[Array, int]:
    """Where the runs of elements begin, in row-major order, that an index names, and how many elements each has."""
    strides = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    left, first, size = list(places), 0, prod(shape[len(places):])
    while left and isinstance(last := left[-1], slice):
        left.pop()
        start, stop, _ = last.indices(shape[len(left)])
        first += start * strides[len(left)]
        size *= stop - start
        if stop - start < shape[len(left)]:
            break
    begins = np.array(first, np.int64)
    for axis, each in enumerate(left):
        if isinstance(each, slice):
            each = np.arange(*each.indices(shape[axis])).reshape((-1,) + (1,) * (len(left) - axis - 1))
        begins = begins + each.astype(np.int64) * strides[axis]
    return begins, size


def update_of(op: UpdateVariable, call: Call) -> Call:
    """What writes over a part of a variable, as a call on the value."""
    return replace(call, op=op.update, inputs=(op.value, *call.inputs[1:]), outputs=(op.value,))


def _refuses_update(call: Call) -> str | None:
    assert isinstance(call.op, UpdateVariable)
    found = RULES.of(type(call.op.update))
    return "not implemented" if found is None else found.refuses(update_of(call.op, call))


@rule(UpdateVariable, accepts=_refuses_update)
def update_variable(node: Node[UpdateVariable]) -> Step:
    """Writes where the variable lies, which may be in one of two places, once what is there is kept."""
    op, variables, value = node.op, node.run.variables, node.op.value
    handle, call = node.input(0), update_of(node.op, node.call)
    found = RULES.of(type(op.update))
    assert found is not None, f"{op.update.name} has no rule, and was refused"
    bound: dict[int, tuple[Step, Callable[[], tuple[Array, int]]]] = {}

    def bind(home: Array) -> tuple[Step, Callable[[], tuple[Array, int]]]:
        on = Node(op.update, call, (home, *node.arrays[1:]), (home,), node.run)
        places = PLACES[type(op.update)](on)
        return found.bind(on), lambda: runs(home.shape, places())

    def step() -> None:
        number = int(handle.item())
        home = variables.home(number, value.shape, value.dtype)
        if home.ctypes.data not in bound:
            bound[home.ctypes.data] = bind(home)
        write, written = bound[home.ctypes.data]
        begins, size = written()
        variables.keep(number, begins * home.itemsize, size * home.itemsize)
        write()
        for out in node.outputs:
            out[...] = home

    return step
