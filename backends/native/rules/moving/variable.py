"""Native rules of the operators on variables, for those whose values have one type and shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.value import Value, in_register
from circlet.backends.native.program import Cell, Holder
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.records import dataclass


@fused(VarHandle)
def var_handle(node: Node[VarHandle]) -> tuple[Value]:
    """The number of the handle is known when the code is made."""
    number = node.function.variables.handle(node.op.container, node.op.shared_name)
    known = np.array(number, DType.RESOURCE.numpy).reshape(node.shape)
    return (in_register(node.function.e.constant(number, DType.RESOURCE), node.shape, DType.RESOURCE, known),)


@dataclass(frozen=True)
class _Cell:
    """Where the values of a variable lie that have a type and shape."""

    handle: int
    halves: tuple[ir.Value, ...]
    holder: ir.Value
    """The words that say which half holds the value, and which did before the run."""

    def is_in(self, e: Emitter, half: int, word: int) -> ir.Value:
        """Whether a word is the address of a half."""
        return e.builder.icmp_signed("==", e.load(self.holder, DType.INT64, word),
                                     e.builder.ptrtoint(self.halves[half], I64))


def _cell(node: Node[Any], shape: Shape, dtype: DType) -> _Cell:
    """The cell of a variable, which is known when the code is made."""
    known, function = node.input(0).known, node.function
    assert known is not None, "the handle is a parameter"
    handle = int(known.item())
    halves = (function.external(memory, Cell(handle, shape, dtype, half))
              for half, memory in enumerate(function.variables.reserve(handle, shape, dtype)))
    return _Cell(handle, tuple(halves), function.external(function.variables.holder(handle), Holder(handle)))


@nest(ReadVariable, movable, parameters=frozenset({0}), is_last=True)
def read_variable(node: Node[ReadVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle: the value, copied from its cell; leaves the function unless this cell holds it."""
    dtype, function = node.call.outputs[0].dtype, node.function
    cell = _cell(node, node.shape, dtype)
    is_first, is_second = (cell.is_in(e, half, 0) for half in range(2))
    function.fail_unless(e.builder.or_(is_first, is_second), node.place,
                         f"variable {function.variables.name_of(cell.handle)!r} is read before it is "
                         f"assigned a {dtype.value} of shape {node.shape}")
    assert sinks[0].memory is not None, "nothing follows a rule that is the last one"
    e.copy(sinks[0].memory, e.builder.select(is_first, *cell.halves), prod(node.shape) * dtype.numpy.itemsize)


@nest(AssignVariable, movable, parameters=frozenset({0}), is_last=True)
def assign_variable(node: Node[AssignVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle and a value: writes the value to the half of its cell that did not hold one before the run, so that
    this can be taken back, and the address to the word of the variable."""
    value = node.input(1)
    cell = _cell(node, value.shape, value.dtype)
    free = e.builder.select(cell.is_in(e, 0, 1), *reversed(cell.halves))
    node.function.write(value, free)
    e.store(e.builder.ptrtoint(free, I64), cell.holder, DType.INT64)
