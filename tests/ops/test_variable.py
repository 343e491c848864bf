"""Variables of a session."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.session import Session
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

HANDLE = T(0, DType.RESOURCE)

CASES = [
    Case("first", VarHandle("container", "name"), [], [HANDLE]),
    Case("unassigned", ReadVariable(), [HANDLE], [1.0], error="variable 0 is read before it is assigned"),
    Case("assign", AssignVariable(), [HANDLE, [1.0, 2.0]], []),
    Case("number", AssignVariable(), [0, [1.0]], [], error=r"element type int32 of input 0 \(supported: resource\)"),
    Case("handles", ReadVariable(), [T([0, 1], DType.RESOURCE)], [1.0], error="expected a resource with exactly one"),
]
test_variables = case_test(CASES)


def _handle(graph: SubgraphBuilder, name: str) -> Value:
    return graph.apply(VarHandle("", name))


def _read(graph: SubgraphBuilder, name: str, dtype: DType = DType.FLOAT32) -> Value:
    """What a variable holds; its shape is known when it is read."""
    return graph.op(ReadVariable(), _handle(graph, name), outputs=[Tensor(name, dtype, (), has_rank=False)])[0]


def test_names_tell_variables_apart() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.op(AssignVariable(), _handle(main, "a"), main.input("x", DType.FLOAT32, (-1,)))
    main.op(AssignVariable(), _handle(main, "b"), main.constant(2.0))
    main.output(_read(main, "a"), _read(main, "b"), _handle(main, "a"), _handle(main, "b"))
    session = Session(builder.build())
    for size in (3, 1):
        a, b, first, second = session.run([np.ones(size, np.float32)]).values()
        assert a.tolist() == [1.0] * size
        assert b.tolist() == 2.0
        assert [first, second] == [0, 1]


def test_a_variable_keeps_its_type() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.op(AssignVariable(), _handle(main, "a"), main.constant(1))
    main.output(_read(main, "a"))
    with pytest.raises(ExecutionError, match="the variable holds int32, the model reads float32"):
        Session(builder.build()).run([])
