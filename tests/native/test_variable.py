"""Native operators on variables, and state that numpy and native code share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread

import numpy as np
import pytest

import circlet
from circlet.runtime.exec import memory
from circlet.runtime.exec.state import store
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import CallOnce, CallSubgraph
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, StridedSlice
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec import graphs as g
from tests.exec.graphs import f32
from tests.exec.test_variables import assign_and_read, counting_model
from tests.native.test_lengths import Graph, floats

START = f32([1, 2, 3])
PATIENCE = 20
"""Seconds."""


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


@contextmanager
def held_lowering(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, Event]]:
    """Threads that compile wait where they ask for the word that says which cell holds a value: whether one has come
    there, and whether it may go on."""
    ask, runs = Variables.holder, current_thread()
    arrived, may_go_on = Event(), Event()

    def holder(self: Variables, handle: int) -> Array:
        if current_thread() is not runs:
            arrived.set()
            assert may_go_on.wait(PATIENCE)
        return ask(self, handle)

    monkeypatch.setattr(Variables, "holder", holder)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    try:
        yield arrived, may_go_on
    finally:
        may_go_on.set()


class Operators(circlet.Listener):
    """Hears of each operator, so that numpy computes it."""

    def will_run(self, subgraph: int, operator: int) -> None:
        pass


def test_compiling_moves_no_value_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on numpy assigns while a function is lowered that a deadline left behind."""
    values = [np.array([k, k + 1], np.int32) for k in range(3)]
    session = circlet.Session(assign_and_read(True), "native")
    session.run([values[0]], Operators())
    with held_lowering(monkeypatch) as (arrived, may_go_on):
        session.limits = circlet.Limits(deadline=0.05)
        with pytest.raises(circlet.LimitError, match="deadline"):
            session.run([values[1]])
        session.limits = circlet.Limits()
        assert arrived.wait(PATIENCE)
        g.assert_equal(session.invoke(1, [], Operators()), [values[0]])
        g.assert_equal(session.invoke(0, [values[1]], Operators()), [values[1]])
        may_go_on.set()
        g.assert_equal(session.invoke(0, [values[2]]), [values[2]])
    assert "native" in session.backend_of(0)
    g.assert_equal(session.invoke(1, [], Operators()), [values[2]])


def test_threads_are_given_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ask for one word at once, the second while the first has it made."""
    variables, begun, may_go_on = Variables(), Event(), Event()
    make, found = memory.allocate, {}

    def allocate(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        if current_thread() is first:
            begun.set()
            assert may_go_on.wait(PATIENCE)
        return make(shape, dtype)

    monkeypatch.setattr(store, "allocate", allocate)
    first, second = (Thread(target=lambda k=k: found.update({k: variables.holder(0)})) for k in range(2))
    first.start()
    assert begun.wait(PATIENCE)
    second.start()
    second.join(0.2)
    may_go_on.set()
    for each in (first, second):
        each.join(PATIENCE)
    assert found[0] is found[1] is variables.holder(0)


class Within(circlet.Listener):
    """Does something in the midst of a run, once the variable was assigned."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def will_invoke(self, subgraph: int) -> None:
        if subgraph == 1:
            self._act()


def _assigning_around_a_call() -> Model:
    """Subgraph 0 assigns x, calls 1, which does nothing, and asks for an element of x; 2 assigns, 3 reads."""
    b = ModelBuilder()
    main, callee = b.subgraph("main"), b.subgraph("callee")
    writer, reader = b.subgraph("write"), b.subgraph("read")
    x, at = main.input("x", DType.FLOAT32, START.shape), main.input("at", DType.INT32, ())
    main.op(AssignVariable(), _handle(main), x, outputs=[])
    callee.output(g.add(callee, *[callee.input("a", DType.INT32, ())] * 2))
    called = main.op(CallSubgraph(callee.index), at, outputs=[Tensor("", DType.INT32, ())])[0]
    main.output(main.apply(Gather(0, 0), x, called))
    writer.op(AssignVariable(), _handle(writer), writer.input("x", DType.FLOAT32, START.shape), outputs=[])
    reader.output(_read(reader))
    return b.build()


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("at", [0, 9])
def test_runs_within_a_run(backend: str, at: int) -> None:
    """What they assign stays if the outer run ends well; else all is as before it."""
    session = circlet.Session(_assigning_around_a_call(), backend)
    inner, outer = START * 10, START * 100
    for before in (START, START * 2):
        session.invoke(2, [before])
        listener = Within(lambda: [session.invoke(2, [each]) for each in (inner, inner + np.float32(1))])
        if at:
            with pytest.raises(circlet.ExecutionError):
                session.invoke(0, [outer, np.array(at, np.int32)], listener)
        else:
            session.invoke(0, [outer, np.array(at, np.int32)], listener)
        g.assert_equal(session.invoke(3, []), [before if at else inner + np.float32(1)])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_state_that_is_reset_within_a_run_comes_back_if_that_fails(backend: str) -> None:
    session = circlet.Session(_assigning_around_a_call(), backend)
    session.invoke(2, [START])

    def act() -> None:
        session.reset_state()
        for k in range(3):
            session.invoke(2, [START * k])

    with pytest.raises(circlet.ExecutionError):
        session.invoke(0, [START * 7, np.array(9, np.int32)], Within(act))
    g.assert_equal(session.invoke(3, []), [START])


def test_large_variables_are_not_copied_where_they_are_not_assigned() -> None:
    """A run of another subgraph takes no memory that grows with them."""
    b = ModelBuilder()
    writer, other = b.subgraph("write"), b.subgraph("other")
    writer.op(AssignVariable(), _handle(writer), writer.input("x", DType.FLOAT32, (1 << 20,)), outputs=[])
    other.output(g.plus(other, other.input("x", DType.FLOAT32, ()), 1.0))
    session, x = circlet.Session(b.build(), "native"), f32(1)
    session.invoke(0, [np.zeros(1 << 20, np.float32)])
    session.invoke(1, [x])
    assert g.memory_of(lambda: session.invoke(1, [x])) < 1 << 18


def test_one_function_reads_scalars_and_serves_all_lengths(folder: object, compiled: list[str]) -> None:
    """How many rows came so far, which a declared scalar holds, and the last two, which come before those of a run."""
    b = ModelBuilder()
    main, init = Graph(b.subgraph("main")), b.subgraph("init")

    def handle(s: SubgraphBuilder, name: str) -> Value:
        return s.op(VarHandle("", name), outputs=[Tensor(name, DType.RESOURCE, ())])[0]

    def read(name: str, dtype: DType, shape: tuple[int, ...]) -> Value:
        return main.builder.op(ReadVariable(), handle(main.builder, name), outputs=[Tensor("", dtype, shape)])[0]

    for name, value in (("count", np.array(0, np.int32)), ("last", np.zeros((2, 3), np.float32))):
        init.op(AssignVariable(), handle(init, name), init.constant(value), outputs=[])
    main.builder.op(CallOnce(init.index), outputs=[])
    x = main.builder.input("x", DType.FLOAT32, (-1, 3))
    together = main(Concatenation(0), read("last", DType.FLOAT32, (2, 3)), x)
    count = main(Add(), read("count", DType.INT32, ()), main.length(x, 0), dtype=DType.INT32)
    last = main(StridedSlice(end_mask=3), together, main.ints(-2, 0), main.ints(0, 0), main.ints(1, 1))
    for name, found in (("count", count), ("last", last)):
        main.builder.op(AssignVariable(), handle(main.builder, name), found, outputs=[])
    main.builder.output(together, read("count", DType.INT32, ()))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for n in (5, 3, 40, 17):
        given = floats(n, 3)
        g.assert_equal(native.invoke(0, [given]), cpu.invoke(0, [given]))
    assert len(compiled) == 1
