"""Limits and cancellation stop any loop within one iteration; state is as before the run, and the session goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import numpy as np
import pytest

import circlet
from circlet.runtime.exec import memory
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.controlflow import CallOnce, CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.recurrent import Rnn
from circlet.runtime.ops.shape import Fill
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, Array, f32, i32

Kinds = Sequence[tuple[DType, tuple[int, ...]]]
COUNTERS: Kinds = [(DType.INT32, ()), (DType.INT32, ())]
SLACK = 30.0
"""Seconds that stopping may take beyond an iteration."""


def count_to(g_: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(g_, v[0]), v[1]]


def counting(b: ModelBuilder) -> While:
    """`while v[0] < v[1]: v[0] += 1`"""
    return While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], COUNTERS),
                 g.define(b, "body", count_to, COUNTERS))


def single() -> Model:
    """Counts from 0 to n."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.op(counting(b), main.constant(0), main.input("n", DType.INT32), count=2)[0])
    return b.build()


def several() -> Model:
    """Two loops of n turns, one after the other, and one more in a called subgraph."""
    b = ModelBuilder()
    main = b.subgraph("main")
    loop = counting(b)

    def callee(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [s.op(loop, s.constant(0), v[0], count=2)[0]]

    n = main.input("n", DType.INT32)
    found = [main.op(loop, main.constant(0), n, count=2)[0] for _ in range(2)]
    called = main.op(CallSubgraph(g.define(b, "callee", callee, COUNTERS[:1])), n, count=1)[0]
    main.output(g.add(main, g.add(main, *found), called))
    return b.build()


def nested() -> Model:
    """A loop of n turns, each of which counts from 0 to n."""
    b = ModelBuilder()
    main = b.subgraph("main")
    inner = counting(b)

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        counted = s.op(inner, s.constant(0), v[1], count=2)[0]
        return [g.plus(s, v[0]), v[1], g.add(s, v[2], counted)]

    kinds = [*COUNTERS, (DType.INT32, ())]
    outer = While(g.define(b, "outer_cond", lambda s, v: [g.less(s, v[0], v[1])], kinds),
                  g.define(b, "outer_body", body, kinds))
    results = main.op(outer, main.constant(0), main.input("n", DType.INT32), main.constant(0), count=3)
    main.output(results[2])
    return b.build()


def growing() -> Model:
    """Counts from 1 to n + 1 while a vector grows, so that no shape is known in advance."""
    return g.while_model(lambda s, v: [g.less(s, v[0], v[2])],
                         lambda s, v: [*g.pad(0, 1)(s, v[:2]), v[2]], [i32([1]), i32([5]), i32([3])], loose=True)


def run_single(session: circlet.Session, n: int) -> int:
    return int(g.run(session, [i32(n)])[0])


def run_growing(session: circlet.Session, n: int) -> int:
    return int(g.run(session, [i32([0]), i32([5]), i32([n])])[0][0])


@dataclass(frozen=True)
class Program:
    """A model of loops, and what it does for a number n."""

    id: str
    make: Callable[[], Model]
    iterations: Callable[[int], int]
    result: Callable[[int], int]
    run: Callable[[circlet.Session, int], int] = run_single


PROGRAMS = [
    Program("single", single, lambda n: n, lambda n: n),
    Program("several", several, lambda n: 3 * n, lambda n: 3 * n),
    Program("nested", nested, lambda n: n + n * n, lambda n: n * n),
    Program("growing", growing, lambda n: n, lambda n: n, run_growing),
]


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_max_iterations_is_exact_and_counts_all_loops(program: Program, elide: bool) -> None:
    for n in (0, 1, 4):
        most = program.iterations(n)
        session = circlet.Session(program.make(), copy_elision=elide, limits=circlet.Limits(max_iterations=most))
        assert program.run(session, n) == program.result(n)
        with pytest.raises(circlet.LimitError, match=rf"subgraph \d+ .*WHILE.*max_iterations={most} "):
            program.run(session, n + 1)
        assert program.run(session, n) == program.result(n)


def test_every_run_has_its_own_iterations() -> None:
    session = circlet.Session(single(), limits=circlet.Limits(max_iterations=3))
    for _ in range(3):
        assert run_single(session, 3) == 3


def test_no_limit_is_too_large() -> None:
    session = circlet.Session(single(), limits=circlet.Limits(max_iterations=10**30, deadline=1e9))
    assert run_single(session, 5) == 5


@pytest.mark.parametrize("limits", [{"max_iterations": -1}, {"deadline": -0.1}, {"deadline": float("nan")},
                                    {"memory": -1}])
def test_limits_are_not_negative(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))} must not be negative"):
        circlet.Limits(**limits)  # type: ignore[arg-type]


def endless(body: g.Formula, state: Sequence[Array], loose: bool = False) -> Model:
    """A loop that ends only if its first value is negative."""
    return g.while_model(lambda s, v: [g.less(s, s.constant(-1), v[0])], body, state, loose)


def same(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [s.apply(Mul(), v[0], s.constant(1))]


def turned(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """The lengths of the values change places in each turn."""
    return [s.apply(Mul(), v[0], s.constant(1)), v[2], v[1]]


def endless_branches() -> Model:
    """An endless loop that runs an endless loop in a branch, so that the inner one is what must be stopped."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds: Kinds = [(DType.INT32, ())]
    cond = g.define(b, "cond", lambda s, v: [g.less(s, s.constant(-1), v[0])], kinds)
    inner = While(cond, g.define(b, "inner", same, kinds))
    branch = If(g.define(b, "then", lambda s, v: list(s.op(inner, v[0], count=1)), kinds),
                g.define(b, "else", lambda s, v: [v[0]], kinds))

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return s.op(branch, g.less(s, s.constant(-1), v[0]), v[0], outputs=[g.declared("x", *kinds[0])])

    outer = While(cond, g.define(b, "outer", body, kinds))
    main.output(*main.op(outer, main.input("x", DType.INT32), count=1))
    return g.typed(b.build(), [DType.INT32])


ENDLESS: dict[str, tuple[Callable[[], Model], list[Array], list[Array]]] = {
    "static": (lambda: endless(same, [i32(0)]), [i32(0)], [i32(-5)]),
    "dynamic": (lambda: endless(turned, [i32(0), f32([1]), f32([1, 2])], loose=True),
                [i32(0), f32([1]), f32([1, 2])], [i32(-5), f32([3]), f32([4, 5])]),
    "branches": (endless_branches, [i32(0)], [i32(-5)]),
}
"""Models, what they never end with, and what they end with at once."""


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("name", ENDLESS)
def test_deadline_stops_an_endless_loop(name: str, elide: bool) -> None:
    make, forever, at_once = ENDLESS[name]
    session = circlet.Session(make(), copy_elision=elide)
    for _ in range(2):
        session.limits = circlet.Limits()
        g.assert_equal(g.run(session, at_once), at_once)
        session.limits = circlet.Limits(deadline=0.05)
        start = time.monotonic()
        with pytest.raises(circlet.LimitError, match=r"subgraph \d+ .*WHILE.*deadline of 0.05 s"):
            g.run(session, forever)
        assert 0.05 <= time.monotonic() - start < 0.05 + SLACK


class Started(circlet.Listener):
    """Says when a run has invoked a subgraph so many times."""

    def __init__(self, invocations: int) -> None:
        self.event = Event()
        self._left = invocations

    def will_invoke(self, subgraph: int) -> None:
        self._left -= 1
        if not self._left:
            self.event.set()


@contextmanager
def repeated(action: Callable[[], object], delay: float) -> Iterator[None]:
    """Does something after a delay, and again and again until the block ends: a run may begin late."""
    done = Event()

    def act() -> None:
        wait = delay
        while not done.wait(wait):
            action()
            wait = 0.05

    thread = Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def cancelled_when(event: Event, session: circlet.Session) -> Iterator[None]:
    """Cancels from another thread once the event is set, and checks that the block ends soon afterwards."""
    times: list[float] = []

    def cancel() -> None:
        assert event.wait(10)
        session.cancel()
        times.append(time.monotonic())

    thread = Thread(target=cancel)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert time.monotonic() - times[0] < SLACK


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("name", ENDLESS)
def test_cancel_stops_an_endless_loop(name: str, elide: bool) -> None:
    make, forever, at_once = ENDLESS[name]
    session = circlet.Session(make(), copy_elision=elide)
    for _ in range(2):
        started = Started(50)
        with cancelled_when(started.event, session), \
                pytest.raises(circlet.CancelledError, match=r"subgraph \d+ .*WHILE.*cancelled"):
            session.run(forever, listener=started)
        g.assert_equal(g.run(session, at_once), at_once)


def test_cancel_stops_a_loop_that_nobody_observes() -> None:
    session = circlet.Session(endless(same, [i32(0)]))
    with repeated(session.cancel, 0.1), pytest.raises(circlet.CancelledError):
        g.run(session, [i32(0)])


def test_cancel_stops_all_runs() -> None:
    session = circlet.Session(endless(same, [i32(0)]))
    listeners = [Started(20) for _ in range(3)]
    errors: list[BaseException] = []

    def run(listener: Started) -> None:
        try:
            session.run([i32(0)], listener=listener)
        except circlet.CancelledError as error:
            errors.append(error)

    threads = [Thread(target=run, args=(each,)) for each in listeners]
    for each in threads:
        each.start()
    for listener in listeners:
        assert listener.event.wait(10)
    session.cancel()
    for each in threads:
        each.join(10)
    assert len(errors) == 3


def test_cancel_without_a_run_does_nothing() -> None:
    session = circlet.Session(single())
    session.cancel()
    assert run_single(session, 3) == 3
    session.cancel()
    session.cancel()
    assert run_single(session, 3) == 3


def straight(operators: int = 20, length: int = 3) -> Model:
    """Operators without a loop."""
    b = ModelBuilder()
    main = b.subgraph("main")
    value = main.input("x", DType.FLOAT32, (length,))
    for _ in range(operators):
        value = g.plus(main, value, 1.0)
    main.output(value)
    return b.build()


class CancelsAtOnce(circlet.Listener):
    """Cancels as the first operator runs."""

    def __init__(self, session: circlet.Session) -> None:
        self._session = session
        self.operators = 0

    def will_run(self, subgraph: int, operator: int) -> None:
        self.operators += 1
        self._session.cancel()


def test_limits_are_looked_at_between_operators_with_much_to_do() -> None:
    session = circlet.Session(straight(length=1 << 13))
    listener = CancelsAtOnce(session)
    x = np.zeros(1 << 13, np.float32)
    with pytest.raises(circlet.CancelledError, match=r"operator 0 \(ADD\): .*cancelled"):
        session.run([x], listener=listener)
    assert listener.operators == 1
    g.assert_equal(g.run(session, [x]), [x + 20])


def test_a_run_that_took_longer_than_its_deadline_is_an_error() -> None:
    for model, given in ((straight(), f32([1, 2, 3])), (single(), i32(0))):
        session = circlet.Session(model, limits=circlet.Limits(deadline=0))
        with pytest.raises(circlet.LimitError, match="deadline of 0 s"):
            session.run([given])


def filling() -> Model:
    """A vector of as many ones as an input says, and then twice that."""
    b = ModelBuilder()
    main = b.subgraph("main")
    vector = Tensor("vector", DType.FLOAT32, (1,), shape_signature=(-1,))
    (ones,) = main.op(Fill(), main.input("n", DType.INT32, (1,)), main.constant(1.0), outputs=[vector])
    main.output(main.op(Mul(), ones, main.constant(2.0), outputs=[vector])[0])
    return b.build()


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_buffers_take_no_more_memory_than_a_limit_says(backend: str) -> None:
    session = circlet.Session(filling(), backend=backend, limits=circlet.Limits(memory=1 << 20))
    for n in (1000, 1 << 20, 2000, 10**9, 10**12 % (1 << 31), 1000):
        if n > 2000:
            with pytest.raises(circlet.LimitError, match=r"bytes.* more than"):
                session.run([i32([n])])
        else:
            g.assert_equal(g.run(session, [i32([n])]), [np.full(n, 2, np.float32)])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_buffers_take_no_more_than_a_share_of_the_free_memory(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 300 << 20)
    session = circlet.Session(filling(), backend=backend)
    with pytest.raises(circlet.LimitError, match=r"bytes.* more than"):
        session.run([i32([50 << 20])])
    g.assert_equal(g.run(session, [i32([3])]), [f32([2, 2, 2])])


def test_buffers_that_are_given_up_make_room() -> None:
    """Each turn of the loop makes another vector, of 40 bytes more; the limit holds a few of them, not all."""
    session = circlet.Session(growing(), limits=circlet.Limits(memory=100_000))
    assert run_growing(session, 300) == 300


def test_free_memory_is_told() -> None:
    assert 0 < memory.free_memory() <= memory.physical_memory()


def handle(s: SubgraphBuilder) -> Value:
    return s.op(VarHandle("", "v"), outputs=[Tensor("handle", DType.RESOURCE, ())])[0]


def read(s: SubgraphBuilder) -> Value:
    return s.op(ReadVariable(), handle(s), outputs=[Tensor("value", DType.FLOAT32, ())])[0]


def assigning(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    s.op(AssignVariable(), handle(s), g.plus(s, read(s), 1.0), outputs=[])
    return [g.plus(s, v[0]), v[1]]


def recurring(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Adds one to a variable tensor, which is the state of a recurrent network; the variable `v` becomes its value."""
    state = s.tensor(Tensor("state", DType.FLOAT32, (1, 1), is_variable=True))
    one, zero = s.constant(f32([[1]])), s.constant(f32([0]))
    found = s.apply(Rnn(fused_activation_function=Activation.NONE), one, one, one, zero, state)
    s.op(AssignVariable(), handle(s), found, outputs=[])
    return [g.plus(s, v[0]), v[1]]


def stateful(body: g.Formula, shape: tuple[int, ...]) -> Model:
    """`v` starts at 0 and is moved on in each of n turns; the model returns it."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    init.op(AssignVariable(), handle(init), init.constant(np.zeros(shape, np.float32)), outputs=[])
    loop = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], COUNTERS),
                 g.define(b, "body", body, COUNTERS))
    main.op(CallOnce(init.index), outputs=[])
    main.op(loop, main.constant(0), main.input("n", DType.INT32), count=2)
    main.output(main.op(ReadVariable(), handle(main), outputs=[Tensor("value", DType.FLOAT32, shape)])[0])
    return b.build()


STATEFUL = pytest.mark.parametrize(("body", "shape"), [(assigning, ()), (recurring, (1, 1))],
                                   ids=["variable", "variable_tensor"])


@pytest.mark.parametrize("elide", ELISION)
@STATEFUL
def test_state_is_as_before_a_run_that_goes_over_a_limit(body: g.Formula, shape: tuple[int, ...], elide: bool) -> None:
    session = circlet.Session(stateful(body, shape), copy_elision=elide, limits=circlet.Limits(max_iterations=4))
    total = 0
    for n in (3, 5, 0, 4, 100, 1):
        if n > 4:
            with pytest.raises(circlet.LimitError):
                session.run([i32(n)])
        else:
            total += n
            g.assert_equal(g.run(session, [i32(n)]), [np.full(shape, total, np.float32)])
    session.reset_state()
    g.assert_equal(g.run(session, [i32(2)]), [np.full(shape, 2, np.float32)])


@STATEFUL
@pytest.mark.parametrize("deadline", [None, 0.05])
def test_state_is_as_before_a_run_that_is_stopped(body: g.Formula, shape: tuple[int, ...],
                                                  deadline: float | None) -> None:
    session = circlet.Session(stateful(body, shape))
    g.assert_equal(g.run(session, [i32(2)]), [np.full(shape, 2, np.float32)])
    session.limits = circlet.Limits(deadline=deadline)
    with pytest.raises(circlet.CancelledError if deadline is None else circlet.LimitError):
        session.run([i32(1 << 30)], listener=CancelsAtOnce(session) if deadline is None else None)
    session.limits = circlet.Limits()
    g.assert_equal(g.run(session, [i32(1)]), [np.full(shape, 3, np.float32)])
