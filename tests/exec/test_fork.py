"""A session in the child of a fork, which has one thread: whatever other threads were doing, it can be used."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import cache
from circlet.backends.native.load import llvm as target
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.late import LOADING
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.exec.test_variables import assign_and_read, counting_model

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
BACKENDS = ["cpu", "native"]
FORKS, FEW = 20, 4
TURNS = {"cpu": 200, "native": 1 << 20}
"""Of a loop that takes milliseconds."""
PATIENCE = 20
HANDLE = Tensor("handle", DType.RESOURCE, ())


def two_counters() -> Model:
    """Adds one to a variable, counts to `n`, adds one to another variable; returns both."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    kinds = [(DType.INT32, ()), (DType.INT32, ())]
    loop = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], kinds),
                 g.define(b, "body", lambda s, v: [g.plus(s, v[0]), v[1]], kinds))

    def handle(s: SubgraphBuilder, name: str) -> Value:
        return s.op(VarHandle("", name), outputs=[HANDLE])[0]

    def read(name: str) -> Value:
        return main.op(ReadVariable(), handle(main, name), outputs=[Tensor(name, DType.INT32, ())])[0]

    def count(name: str) -> None:
        main.op(AssignVariable(), handle(main, name), g.plus(main, read(name)), outputs=[])

    for name in ("first", "second"):
        init.op(AssignVariable(), handle(init, name), init.constant(np.int32(0)), outputs=[])
    main.op(CallOnce(init.index), outputs=[])
    count("first")
    turns = main.op(loop, main.constant(0), main.input("n", DType.INT32), count=2)
    count("second")
    main.output(read("first"), read("second"), turns[0])
    return b.build()


def expect(work: Callable[[], bool]) -> None:
    """That `work` is true in a child, and ends."""
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, "the child hangs" if status == -signal.SIGALRM else f"the child ends with {status}"


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Does something again and again in a thread of its own."""
    is_over, has_begun = Event(), Event()

    def repeat() -> None:
        while not is_over.is_set():
            work()
            has_begun.set()

    thread = Thread(target=repeat)
    thread.start()
    has_begun.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def held(lock: object) -> Iterator[None]:
    """Another thread holds a lock."""
    taken, is_over = Event(), Event()

    def hold() -> None:
        with lock:  # type: ignore[attr-defined]
            taken.set()
            is_over.wait()

    thread = Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_is_that_before_a_run_of_another_thread(backend: str) -> None:
    session, turns = circlet.Session(two_counters(), backend), TURNS[backend]

    def counters(turns: int) -> tuple[int, int]:
        first, second, _ = g.run(session, [i32(turns)])
        return int(first), int(second)

    def goes_on() -> bool:
        first, second = counters(0)
        return first == second and counters(5) == (first + 1, second + 1) and not session._running

    under_way = 0
    with meanwhile(lambda: counters(turns)):
        for _ in range(FORKS):
            expect(goes_on)
            under_way += session._state.is_changing
            time.sleep(0.002)
    assert under_way > FORKS // 4, "too few runs were interrupted to tell"
    assert goes_on()


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_of_any_shape_come_back(backend: str) -> None:
    session = circlet.Session(assign_and_read(False), backend)
    values = [i32(np.full(size, size)) for size in (1, 2, 1000, 3)]
    for each in values:
        session.run([each])

    def assign() -> None:
        for each in values:
            session.run([each])

    def is_one_of_them() -> bool:
        (found,) = session.invoke(1, [])
        (now,) = g.run(session, [values[1]])
        return any(np.array_equal(found, each) for each in values) and np.array_equal(now, values[1])

    with meanwhile(assign):
        for _ in range(FEW):
            expect(is_one_of_them)


class Forking(circlet.Listener):
    """Forks in the midst of a run of the thread's own, which both processes bring to an end."""

    child: int | None = None

    def will_invoke(self, subgraph: int) -> None:
        if self.child is None:
            self.child = os.fork()
            if not self.child:
                signal.alarm(PATIENCE)


def test_a_run_of_the_same_thread_goes_on() -> None:
    session, listener = circlet.Session(counting_model()), Forking()
    g.run(session, [i32(3)])
    results = list(session.run([i32(4)], listener).values())
    if listener.child == 0:
        os._exit(0 if [*results, *g.run(session, [i32(1)])] == [7, 8] else 1)
    assert results == [7]
    assert listener.child is not None
    assert os.waitstatus_to_exitcode(os.waitpid(listener.child, 0)[1]) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_come_from_the_pool(backend: str) -> None:
    session = circlet.Session(g.while_model(g.at_most(9), g.counter, [i32(0)]), backend)
    with meanwhile(lambda: g.run(session, [i32(0)])):
        for _ in range(FEW):
            expect(lambda: g.run(session, [i32(0)]) == g.run(session, [i32(1)]))


def compiled(amount: int) -> list[float]:
    """What a model gives that was compiled for this call."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), g.plus(s, v[1], float(amount))]

    session = circlet.Session(g.while_model(g.at_most(2), body, [i32(0), f32(0)]), "native")
    return [float(each) for each in g.run(session, [i32(0), f32(0)])]


def is_compiled(amount: int) -> bool:
    return compiled(amount) == [3, 3 * amount]


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "linked"])
def test_a_child_compiles_while_another_thread_is_in_llvm(is_kept: bool, monkeypatch: pytest.MonkeyPatch,
                                                          tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path) if is_kept else "")
    assert is_compiled(2)
    with held(target._LOCKS.outer):
        expect(partial(is_compiled, 3))
    assert is_compiled(2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_has_memory_while_another_thread_is_given_some(backend: str) -> None:
    session = circlet.Session(two_counters(), backend)
    with held(session._variables._lock):
        expect(lambda: [int(each) for each in g.run(session, [i32(3)])] == [1, 1, 3])
    assert [int(each) for each in g.run(session, [i32(3)])] == [1, 1, 3]


@pytest.mark.slow
def test_a_child_compiles_while_another_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    compiled(0)
    with meanwhile(lambda: compiled(1)):
        for amount in range(FORKS):
            expect(partial(is_compiled, amount))


def test_a_fork_waits_for_modules_that_are_loaded() -> None:
    thread = Thread(target=expect, args=(lambda: True,))
    with held(LOADING):
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert not thread.is_alive()
