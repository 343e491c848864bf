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


@fused(VarHandle)
def var_handle(node: Node[VarHandle]) -> tuple[Value]:
    """The number of the handle is known when the code is made."""
    number = node.function.variables.handle(node.op.container, node.op.shared_name)
    known = np.array(number, DType.RESOURCE.numpy).reshape(node.shape)
    return (in_register(node.function.e.constant(number, DType.RESOURCE), node.shape, DType.RESOURCE, known),)


def _memory(node: Node[Any], shape: Shape, dtype: DType) -> tuple[int, ir.Value, ir.Value]:
    """The handle, which is known when the code is made, where values of a type and shape lie, and the word that says
    whether there is one."""
    known, function = node.input(0).known, node.function
    assert known is not None, "the handle is a parameter"
    handle = int(known.item())
    cell = function.external(function.variables.reserve(handle, shape, dtype), Cell(handle, shape, dtype))
    return handle, cell, function.external(function.variables.holder(handle), Holder(handle))


@nest(ReadVariable, movable, parameters=frozenset({0}), is_last=True)
def read_variable(node: Node[ReadVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    dtype, function = node.call.outputs[0].dtype, node.function
    handle, cell, holder = _memory(node, node.shape, dtype)
    held = e.builder.icmp_signed("==", e.load(holder, DType.INT64), e.builder.ptrtoint(cell, I64))
    function.fail_unless(held, node.place, f"variable {function.variables.name_of(handle)!r} is read before it is "
                         f"assigned a {dtype.value} of shape {node.shape}")
    assert sinks[0].memory is not None, "nothing follows a rule that is the last one"
    e.copy(sinks[0].memory, cell, prod(node.shape) * dtype.numpy.itemsize)


@nest(AssignVariable, movable, parameters=frozenset({0}), is_last=True)
def assign_variable(node: Node[AssignVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    value = node.input(1)
    _, cell, holder = _memory(node, value.shape, value.dtype)
    node.function.write(value, cell)
    e.store(e.builder.ptrtoint(cell, I64), holder, DType.INT64)
