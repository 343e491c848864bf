"""Native rules of the operators on variables, for those whose values have one type and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.variable import AssignVariable, ReadDeclared, ReadVariable, VarHandle


@fused(VarHandle)
def var_handle(node: Node[VarHandle]) -> tuple[Value]:
    """The number of the handle is known when the code is made."""
    return (handle_value(node.function, node.op, node.shape),)


def handle_value(function: Function, op: VarHandle, shape: Shape) -> Value:
    """The handle that an operator gives, known when the code is made."""
    number = function.variables.handle(op.container, op.shared_name)
    known = np.array(number, DType.RESOURCE.numpy).reshape(shape)
    return in_register(function.e.constant(number, DType.RESOURCE), shape, DType.RESOURCE, known)


def handle_of(node: Node[Any]) -> int:
    """The number of the variable that input 0 is a handle of."""
    known = node.input(0).known
    assert known is not None, "the handle is a parameter"
    return int(known.item())


def _read(node: Node[Any]) -> Value:
    """Of a handle: the value in its cell; leaves the function unless this cell holds it."""
    dtype = node.call.outputs[0].dtype
    cell = node.function.cell(handle_of(node), node.shape, dtype)
    return in_memory(cell.value(node.place), node.shape, dtype)


def _copy(node: Node[Any], e: Emitter, sink: Sink) -> None:
    value = _read(node)
    assert sink.memory is not None, "nothing follows a rule that is the last one"
    e.copy(sink.memory, value.memory, value.nbytes)


@nest(ReadVariable, movable, parameters=frozenset({0}), is_last=True, lends=_read)
def read_variable(node: Node[ReadVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle: the value, copied from its cell."""
    _copy(node, e, sinks[0])


@nest(ReadDeclared, movable, parameters=frozenset({0}), is_last=True, lends=_read)
def read_declared(node: Node[ReadDeclared], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """The same."""
    _copy(node, e, sinks[0])


@nest(AssignVariable, movable, parameters=frozenset({0}), is_last=True)
def assign_variable(node: Node[AssignVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle and a value: writes the value to the variable's cell."""
    value = node.input(1)
    node.function.cell(handle_of(node), value.shape, value.dtype).assign(value)
