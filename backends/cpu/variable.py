"""Numpy rules of the operators on variables."""

from __future__ import annotations

from circlet.backends.cpu.rule import Node, rule, store
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Step
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle


@rule(VarHandle, accepts=lambda call: None)
def var_handle(node: Node[VarHandle]) -> Step:
    handle = node.activation.variables.handle(node.op.container, node.op.shared_name)
    out = node.out

    def step() -> None:
        out.fill(handle)

    return step


@rule(ReadVariable, accepts={DType.RESOURCE})
def read_variable(node: Node[ReadVariable]) -> Step:
    handle, out, variables = node.input(0), node.out, node.activation.variables
    expected = node.call.outputs[0].dtype

    def step() -> None:
        value = variables.read(int(handle.item()))
        if value.dtype != out.dtype:
            raise ExecutionError(f"the variable holds {value.dtype}, the model reads {expected.value}")
        store(out, value)

    return step


@rule(AssignVariable, accepts={DType.RESOURCE})
def assign_variable(node: Node[AssignVariable]) -> Step:
    handle, value, variables = node.input(0), node.input(1), node.activation.variables

    def step() -> None:
        variables.values[int(handle.item())] = value.copy()

    return step
