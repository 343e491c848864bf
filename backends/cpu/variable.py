"""Numpy rules of the operators on variables."""

from __future__ import annotations

from typing import Any

from circlet.backends.cpu.rule import Node, rule, store
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.variable import AssignVariable, ReadDeclared, ReadVariable, VarHandle


@rule(VarHandle, accepts=lambda call: None)
def var_handle(node: Node[VarHandle]) -> Step:
    handle = node.run.variables.handle(node.op.container, node.op.shared_name)
    out = node.out

    def step() -> None:
        out.fill(handle)

    return step


def _read(node: Node[Any]) -> Array:
    value = node.run.variables.read(int(node.input(0).item()))
    expected = node.call.outputs[0].dtype
    if value.dtype != expected.numpy:
        raise ExecutionError(f"the variable holds {value.dtype}, the model reads {expected.value}")
    return value


def _copied(node: Node[Any]) -> Step:
    out = node.out
    return lambda: store(out, _read(node))


@rule(ReadVariable, accepts={DType.RESOURCE}, evaluate=lambda node: [_read(node).copy()])
def read_variable(node: Node[ReadVariable]) -> Step:
    return _copied(node)


@rule(ReadDeclared, accepts={DType.RESOURCE}, evaluate=lambda node: [_read(node).copy()])
def read_declared(node: Node[ReadDeclared]) -> Step:
    return _copied(node)


@rule(AssignVariable, accepts={DType.RESOURCE})
def assign_variable(node: Node[AssignVariable]) -> Step:
    handle, value, variables = node.input(0), node.input(1), node.run.variables

    def step() -> None:
        variables.assign(int(handle.item()), value)

    return step
