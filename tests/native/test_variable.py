"""Native operators on variables, and state that numpy and native code share."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model, Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec import graphs as g
from tests.exec.graphs import f32
from tests.exec.test_variables import assign_and_read, counting_model

START = f32([1, 2, 3])


def _handle(b: SubgraphBuilder) -> Value:
    return b.op(VarHandle("", "v"), outputs=[Tensor("handle", DType.RESOURCE, ())])[0]


def _read(b: SubgraphBuilder) -> Value:
    return b.op(ReadVariable(), _handle(b), outputs=[Tensor("", DType.FLOAT32, START.shape)])[0]


def _adding() -> Model:
    """Subgraph 0 adds its input to a variable, which subgraph 1 gives its first value."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    init.op(AssignVariable(), _handle(init), init.constant(START), outputs=[])
    main.op(CallOnce(init.index), outputs=[])
    total = g.add(main, _read(main), main.input("x", DType.FLOAT32, START.shape))
    main.op(AssignVariable(), _handle(main), total, outputs=[])
    main.output(_read(main))
    return b.build()


def test_native_and_observed_runs_share_a_variable() -> None:
    session = circlet.Session(_adding(), backend="native")
    assert set(session.backend_of(0)) == {"native", "controlflow"}
    assert set(session.backend_of(1)) == {"native"}
    for turn in range(1, 5):
        listener = circlet.Counter() if turn % 2 else None
        (found,) = session.invoke(0, [f32([1, 1, 1])], listener)
        g.assert_equal([found], [START + np.float32(turn)])
    session.reset_state()
    g.assert_equal(session.invoke(0, [f32([0, 0, 0])]), [START])


def test_a_run_that_fails_leaves_no_trace() -> None:
    limits = circlet.Limits(max_iterations=5)
    session = circlet.Session(counting_model(), backend="native", limits=limits)
    assert g.run(session, [np.int32(3)]) == [f32(3)]
    with pytest.raises(circlet.LimitError):
        g.run(session, [np.int32(6)])
    assert g.run(session, [np.int32(5)]) == [f32(8)]


def test_reading_before_assigning() -> None:
    session = circlet.Session(assign_and_read(True), backend="native")
    with pytest.raises(circlet.ExecutionError, match=r"subgraph 1 .*READ_VARIABLE.*'v' is read before it is assigned"):
        session.invoke(1, [])
    g.assert_equal(g.run(session, [np.array([1, 2], np.int32)]), [np.array([1, 2], np.int32)])


def test_values_of_two_shapes() -> None:
    """Whoever assigns last decides what kind of value there is to read."""
    b = ModelBuilder()
    for size in (2, 3):
        writer, reader = b.subgraph(f"write{size}"), b.subgraph(f"read{size}")
        writer.op(AssignVariable(), _handle(writer), writer.input("x", DType.FLOAT32, (size,)), outputs=[])
        reader.output(*reader.op(ReadVariable(), _handle(reader), outputs=[Tensor("", DType.FLOAT32, (size,))]))
    session = circlet.Session(b.build(), backend="native")
    for size, listener in ((2, None), (3, circlet.Counter()), (2, circlet.Counter()), (3, None)):
        value, index, other = np.arange(size, dtype=np.float32), 2 * (size - 2), 2 * (3 - size)
        session.invoke(index, [value], listener)
        g.assert_equal(session.invoke(index + 1, []), [value])
        with pytest.raises(circlet.ExecutionError, match="is read before it is assigned a float32"):
            session.invoke(other + 1, [])


def test_an_empty_value_is_held_apart_from_others() -> None:
    """Where a cell begins says which one holds the value, even if it has no bytes."""
    session = circlet.Session(assign_and_read(False), backend="native")
    for values in ([1, 3], [], [4]):
        g.assert_equal(g.run(session, [np.array(values, np.int32)]), [np.array(values, np.int32)])
