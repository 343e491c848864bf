"""CALL_ONCE and variables: upstream's cases, and state that survives runs but not failures."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, f32, i32

HANDLE = Tensor("handle", DType.RESOURCE, ())


def handle(b: SubgraphBuilder) -> Value:
    return b.op(VarHandle("", "v"), outputs=[HANDLE])[0]


def read(b: SubgraphBuilder, dtype: DType = DType.FLOAT32, shape: tuple[int, ...] = (), known: bool = False) -> Value:
    declared = Tensor("value", dtype, tuple(abs(dim) for dim in shape), None if known else shape, has_rank=known)
    return b.op(ReadVariable(), handle(b), outputs=[declared])[0]


def call_once_model(seed: int) -> Model:
    """Subgraph 1 assigns a random value; 0 and 2 call it once and read the value, 2 adds one."""
    b = ModelBuilder()
    main, init, other = b.subgraph("main"), b.subgraph("init"), b.subgraph("other")
    value = init.op(RandomUniform(seed, seed), init.constant([1]), outputs=[Tensor("r", DType.FLOAT32, (1,))])[0]
    init.op(AssignVariable(), handle(init), value, outputs=[])
    for entry, amount in ((main, 0.0), (other, 1.0)):
        entry.op(CallOnce(init.index), outputs=[])
        found = read(entry, shape=(1,), known=True)
        entry.output(g.plus(entry, found, amount) if amount else found)
        b.signature(entry.name, entry, {}, {"y": Value(entry.index, entry.build().outputs[0])})
    return b.build()


def test_call_once_runs_once_across_invocations_and_entry_points() -> None:
    session = circlet.Session(call_once_model(0))
    first = session.run()["y"]
    assert first == session.run()["y"]
    np.testing.assert_array_equal(session.signature("other")()["y"], first + np.float32(1))
    assert circlet.Session(call_once_model(0)).run()["y"] != first


def test_reset_state_forgets_that_it_was_called() -> None:
    session, counter = circlet.Session(call_once_model(1)), circlet.Counter()
    for _ in range(2):
        session.run(listener=counter)
        session.reset_state()
    assert counter.invocations == {0: 2, 1: 2}


def test_call_once_is_counted_once() -> None:
    session, counter = circlet.Session(call_once_model(1)), circlet.Counter()
    for _ in range(3):
        session.run(listener=counter)
    assert counter.invocations == {0: 3, 1: 1}


def assign_and_read(known: bool) -> Model:
    """Subgraph 0 assigns its input and reads it back, 1 only reads."""
    b = ModelBuilder()
    main, only = b.subgraph("main"), b.subgraph("read")
    x = main.input("x", DType.INT32, (2,) if known else (-1,))
    main.op(AssignVariable(), handle(main), x, outputs=[])
    main.output(read(main, DType.INT32, (2,) if known else (-1,), known))
    only.output(read(only, DType.INT32, (2,) if known else (-1,), known))
    return b.build()


@pytest.mark.parametrize("known", [True, False])
def test_assign_then_read(known: bool) -> None:
    session = circlet.Session(assign_and_read(known))
    for values in ([1, 3], [5, 4]):
        g.assert_equal(g.run(session, [i32(values)]), [i32(values)])
        g.assert_equal(session.invoke(1, []), [i32(values)])


def test_reassign_to_different_size() -> None:
    session = circlet.Session(assign_and_read(False))
    for values in ([1, 3], [1, 3, 4, 5], [], [7]):
        g.assert_equal(g.run(session, [i32(values)]), [i32(values)])


def test_read_before_assign_is_an_error() -> None:
    session = circlet.Session(assign_and_read(True))
    with pytest.raises(circlet.ExecutionError, match=r"subgraph 1 .*READ_VARIABLE.*'v' is read before it is assigned"):
        session.invoke(1, [])
    g.assert_equal(g.run(session, [i32([1, 2])]), [i32([1, 2])])


def test_type_collision_is_an_error() -> None:
    """In numpy's words: compiled code knows only that no float32 is held."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.op(AssignVariable(), handle(main), main.input("x", DType.INT32, (2,)), outputs=[])
    main.output(read(main, DType.FLOAT32, (2,), known=True))
    with pytest.raises(circlet.ExecutionError, match=r"READ_VARIABLE.*holds int32.*float32"):
        g.run(circlet.Session(b.build(), "cpu"), [i32([1, 2])])


def counting_model() -> Model:
    """`v` starts at 0; the loop adds one to it in each of `n` turns; the model returns it."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    init.op(AssignVariable(), handle(init), init.constant(0.0), outputs=[])
    kinds = [(DType.INT32, ()), (DType.INT32, ())]

    def body(s: SubgraphBuilder, v: object) -> list[Value]:
        assert isinstance(v, list)
        s.op(AssignVariable(), handle(s), g.plus(s, read(s, known=True), 1.0), outputs=[])
        return [g.plus(s, v[0]), v[1]]

    cond = g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], kinds)
    loop = While(cond, g.define(b, "body", body, kinds))
    main.op(CallOnce(init.index), outputs=[])
    main.op(loop, main.constant(0), main.input("n", DType.INT32), count=2)
    main.output(read(main, known=True))
    return b.build()


@pytest.mark.parametrize("elide", ELISION)
def test_state_is_as_before_a_run_that_fails(elide: bool) -> None:
    session = circlet.Session(counting_model(), copy_elision=elide, limits=circlet.Limits(max_iterations=5))
    assert g.run(session, [i32(3)]) == [f32(3)]
    with pytest.raises(circlet.LimitError, match="max_iterations=5"):
        g.run(session, [i32(6)])
    assert g.run(session, [i32(0)]) == [f32(3)]
    assert g.run(session, [i32(5)]) == [f32(8)]


def test_call_once_of_a_run_that_fails_runs_again() -> None:
    session = circlet.Session(counting_model(), limits=circlet.Limits(max_iterations=0))
    with pytest.raises(circlet.LimitError):
        g.run(session, [i32(1)])
    assert g.run(session, [i32(0)]) == [f32(0)]
