"""Parts of variables are written where these lie, and a run that fails leaves none of it behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Timer
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.exec.state.cell import BLOCK, Cell
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elements import Combine, ScatterElements, ScatterSlices
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, StablehloDynamicUpdateSlice, UpdateRow
from circlet.runtime.ops.layout import Pack, Slice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.passes.pipelines import INTERPRETED
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.native.test_variable import Operators
from tests.needs import NATIVE

SHAPE = (3, 40, 7)
"""Of the variable: its values have some blocks, the last of them short, none of which begins where a row does."""
ROW = (2, 3, 7)
"""Of what is written over it: two runs."""
Write: TypeAlias = Callable[[SubgraphBuilder, Value, Value, Value], Value]
"""Gives a value of which a part is another value, from an index on."""


def handle(s: SubgraphBuilder, name: str = "v") -> Value:
    return s.op(VarHandle("", name), outputs=[Tensor(f"handle_{name}", DType.RESOURCE, ())])[0]


def read(s: SubgraphBuilder, shape: tuple[int, ...] = SHAPE, name: str = "v") -> Value:
    return s.op(ReadVariable(), handle(s, name), outputs=[Tensor("value", DType.FLOAT32, shape)])[0]


def assign(s: SubgraphBuilder, value: Value, name: str = "v") -> None:
    s.op(AssignVariable(), handle(s, name), value, outputs=[])


def window(s: SubgraphBuilder, x: Value, row: Value, at: Value) -> Value:
    return s.apply(DynamicUpdateSlice(), x, row, at)


def window_of_scalars(s: SubgraphBuilder, x: Value, row: Value, at: Value) -> Value:
    parts = [s.apply(Gather(0, 0), at, s.constant(k)) for k in range(3)]
    return s.apply(StablehloDynamicUpdateSlice(), x, row, *parts)


def _first(s: SubgraphBuilder, row: Value, sizes: Sequence[int]) -> Value:
    return s.apply(Slice(), row, s.constant([0, 0, 0]), s.constant(list(sizes)))


def one_row(s: SubgraphBuilder, x: Value, row: Value, at: Value) -> Value:
    """The row at the first index is element (0, 0, 0) of `row`; the index is checked."""
    spread = g.add(s, s.constant(np.zeros((1, *SHAPE[1:]), np.float32)), _first(s, row, (1, 1, 1)))
    index = s.apply(Gather(0, 0), at, s.constant(0))
    return s.op(UpdateRow(), x, spread, index, outputs=[Tensor("", DType.FLOAT32, SHAPE)])[0]


def slices(s: SubgraphBuilder, x: Value, row: Value, at: Value) -> Value:
    """The 7 elements at the first two indices become more."""
    places = s.apply(Slice(), at, s.constant([0]), s.constant([2]))
    update = s.constant(np.arange(7, dtype=np.float32))
    return s.op(ScatterSlices(Combine.ADD), x, places, update, outputs=[Tensor("", DType.FLOAT32, SHAPE)])[0]


def elements(s: SubgraphBuilder, x: Value, row: Value, at: Value) -> Value:
    """Those of `row`, at indices along the last axis but one of which two are the first of `at`."""
    index = g.add(s, s.constant(np.broadcast_to(i32([[[3], [0], [0]]]), ROW).copy()),
                  s.apply(Slice(), at, s.constant([0]), s.constant([1])))
    return s.op(ScatterElements(1), x, index, row, outputs=[Tensor("", DType.FLOAT32, SHAPE)])[0]


WRITES: Mapping[str, Write] = {each.__name__: each for each in (
    window, window_of_scalars, one_row, slices, elements)}


def _end(s: SubgraphBuilder, stop: Value) -> None:
    """Fails unless `stop` is 0."""
    s.output(s.apply(Gather(0, 0), s.constant([1.0]), stop))


def _given(s: SubgraphBuilder) -> tuple[Value, Value, Value]:
    return s.input("row", DType.FLOAT32, ROW), s.input("at", DType.INT32, (3,)), s.input("stop", DType.INT32, ())


def update(s: SubgraphBuilder, write: Write) -> None:
    row, at, stop = _given(s)
    assign(s, write(s, read(s), row, at))
    _end(s, stop)


def update_twice(s: SubgraphBuilder, write: Write) -> None:
    row, at, stop = _given(s)
    assign(s, write(s, write(s, read(s), row, at), g.plus(s, row, 1.0), g.plus(s, at)))
    assign(s, write(s, read(s), row, g.plus(s, at, 2)))
    _end(s, stop)


def update_and_assign(s: SubgraphBuilder, write: Write) -> None:
    row, at, stop = _given(s)
    assign(s, write(s, read(s), row, at))
    assign(s, g.plus(s, read(s), 0.5))
    assign(s, write(s, read(s), row, g.plus(s, at)))
    _end(s, stop)


def update_and_use(s: SubgraphBuilder, write: Write) -> None:
    row, at, stop = _given(s)
    before = read(s)
    made = write(s, read(s), row, at)
    total = g.add(s, made, before)
    assign(s, made)
    assign(s, total, "w")
    _end(s, stop)


def use_between(s: SubgraphBuilder, write: Write) -> None:
    """What is read between an update and the assignment is the value before."""
    row, at, stop = _given(s)
    made = write(s, read(s), row, at)
    before = read(s)
    assign(s, made)
    assign(s, before, "w")
    _end(s, stop)


def use_before(s: SubgraphBuilder, write: Write) -> None:
    """What is updated is read before, and the other value after, which is updated again."""
    row, at, stop = _given(s)
    before = read(s)
    seen = g.plus(s, before, 1.0)
    assign(s, write(s, before, row, at))
    after = read(s)
    assign(s, g.add(s, seen, after), "w")
    assign(s, write(s, after, row, g.plus(s, at)))
    _end(s, stop)


def assign_between(s: SubgraphBuilder, write: Write) -> None:
    """What is assigned between reading and updating is not what is updated."""
    row, at, stop = _given(s)
    before = read(s)
    assign(s, g.plus(s, before, 0.5))
    assign(s, write(s, before, row, at))
    _end(s, stop)


PROGRAMS = (update, update_twice, update_and_assign, update_and_use, use_between, use_before, assign_between)


def programs(write: Write) -> Model:
    """Subgraph 0 assigns and 1 reads `v`, 2 reads `w`; the others are those of `PROGRAMS`."""
    b = ModelBuilder()
    whole, value, other = (b.subgraph(each) for each in ("assign", "read", "read_other"))
    assign(whole, whole.input("x", DType.FLOAT32, SHAPE))
    value.output(read(value))
    other.output(read(other, name="w"))
    for each in PROGRAMS:
        each(b.subgraph(each.__name__), write)
    return b.build()


class Copying:
    """The same programs, as operators define them: each computes a value of its own."""

    def __init__(self, write: Write) -> None:
        b = ModelBuilder()
        m = b.subgraph("main")
        x = m.input("x", DType.FLOAT32, SHAPE)
        m.output(write(m, x, m.input("row", DType.FLOAT32, ROW), m.input("at", DType.INT32, (3,))))
        self._write = circlet.Session(b.build(), "cpu")
        self.v, self.w = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)

    def write(self, x: Array, row: Array, at: Array) -> Array:
        return self._write.invoke(0, [x, row, at])[0]

    def run(self, program: int, row: Array, at: Array) -> None:
        """What a program makes of the variables.

        Raises:
            ExecutionError: an index is out of range.
        """
        write, v = self.write, self.v
        made = write(v, row, at)
        if program == 1:
            made = write(write(made, row + np.float32(1), at + 1), row, at + 2)
        if program == 2:
            made = write(made + np.float32(0.5), row, at + 1)
        if program in (3, 4):
            self.w = made + v if program == 3 else v
        if program == 5:
            self.w, made = v + np.float32(1) + made, write(made, row, at + 1)
        self.v = made


def session_of(write: str, backend: str) -> circlet.Session:
    session = circlet.Session(programs(WRITES[write]), backend)
    session.invoke(0, [np.zeros(SHAPE, np.float32)])
    return session


LISTENERS: Mapping[str, Callable[[], circlet.Listener | None]] = {
    "nobody": lambda: None, "counts": circlet.Counter, "operators": Operators}
ACTIONS = st.lists(st.tuples(
    st.integers(0, len(PROGRAMS)), st.tuples(*(st.integers(-2, 45) for _ in range(3))), st.sampled_from([0, 0, 1]),
    st.sampled_from(["nobody", *LISTENERS])), min_size=1, max_size=12)


@pytest.mark.parametrize("examples", [8, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("write", WRITES)
def test_state_is_that_of_copies(backend: str, write: str, examples: int) -> None:
    """After any runs, some of which fail once they have written, and whoever computes them."""
    session, expected = session_of(write, backend), Copying(WRITES[write])
    session.invoke(3 + PROGRAMS.index(use_between), [np.zeros(ROW, np.float32), i32([0, 0, 0]), i32(0)])

    def step(number: int, program: int, place: tuple[int, ...], stop: int, heard: str) -> None:
        if program == len(PROGRAMS):
            expected.v = np.full(SHAPE, -number, np.float32)
            session.invoke(0, [expected.v])
            return
        before, row, at = (expected.v, expected.w), np.full(ROW, number + 1, np.float32), i32(place)
        try:
            expected.run(program, row, at)
        except circlet.ExecutionError:
            stop = 1
        if stop:
            expected.v, expected.w = before
            with pytest.raises(circlet.ExecutionError):
                session.invoke(3 + program, [row, at, i32(1)], LISTENERS[heard]())
        else:
            session.invoke(3 + program, [row, at, i32(0)], LISTENERS[heard]())

    @settings(max_examples=examples, deadline=None)
    @given(ACTIONS)
    def check(actions: list[tuple[int, tuple[int, ...], int, str]]) -> None:
        expected.v, expected.w = (session.invoke(k, [])[0] for k in (1, 2))
        for number, action in enumerate(actions):
            step(number, *action)
            g.assert_equal([session.invoke(k, [])[0] for k in (1, 2)], [expected.v, expected.w])

    check()


def test_which_operators_are_updates() -> None:
    """All but where the value before is still to be read."""
    for write in WRITES.values():
        found = [[each.name for each in subgraph.operators] for subgraph in INTERPRETED.run(programs(write)).subgraphs]
        assert [each.count("UPDATE_VARIABLE") for each in found[3:]] == [1, 3, 2, 1, 0, 2, 0]
        assert [each.count("READ_VARIABLE") for each in found[3:]] == [0, 0, 1, 1, 2, 2, 1]


@NATIVE
@pytest.mark.parametrize("write", WRITES)
def test_updates_are_native(write: str) -> None:
    session = session_of(write, "native")
    session.invoke(3, [np.zeros(ROW, np.float32), i32([0, 0, 0]), i32(0)])
    assert "cpu" not in session.backend_of(3)


def looping(turns: int = 1 << 30) -> Model:
    """Each turn writes the number of the turn to a row of the variable; subgraph 3 assigns it, 4 reads it."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, ())]

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        number = s.op(Cast(), v[0], outputs=[Tensor("number", DType.FLOAT32, ())])[0]
        row = g.add(s, s.constant(np.zeros((1, *SHAPE[1:]), np.float32)), number)
        at = s.apply(Pack(3, 0), g.modulo(s, v[0], SHAPE[0]), s.constant(0), s.constant(0))
        assign(s, s.apply(DynamicUpdateSlice(), read(s), row, at))
        return [g.plus(s, v[0])]

    loop = While(g.define(b, "cond", g.below(turns), kinds), g.define(b, "body", body, kinds))
    whole, value = b.subgraph("assign"), b.subgraph("read")
    assign(whole, whole.input("x", DType.FLOAT32, SHAPE))
    value.output(read(value))
    main.output(*main.op(loop, main.constant(0), count=1))
    return b.build()


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("limits", [circlet.Limits(max_iterations=7), circlet.Limits(deadline=0.05)], ids=str)
def test_a_loop_that_is_stopped(backend: str, limits: circlet.Limits) -> None:
    session, value = circlet.Session(looping(), backend), np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    session.invoke(3, [value])
    for _ in range(3):
        session.limits = limits
        with pytest.raises(circlet.LimitError):
            session.invoke(0, [])
        session.limits = circlet.Limits()
        g.assert_equal(session.invoke(4, []), [value])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_run_that_is_cancelled(backend: str) -> None:
    session, value = circlet.Session(looping(), backend), np.ones(SHAPE, np.float32)
    session.invoke(3, [value])
    timer = Timer(0.1, session.cancel)
    timer.start()
    with pytest.raises(circlet.CancelledError):
        session.invoke(0, [])
    timer.join()
    g.assert_equal(session.invoke(4, []), [value])


def test_a_loop_on_either_backend() -> None:
    for backend in ("cpu", "native"):
        session = circlet.Session(looping(8), backend)
        session.invoke(3, [np.zeros(SHAPE, np.float32)])
        session.invoke(0, [])
        g.assert_equal(session.invoke(4, []), [np.broadcast_to(f32([[[6]], [[7]], [[5]]]), SHAPE)])


class Once(circlet.Listener):
    """Does something before the last operator of subgraph 3."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def will_run(self, subgraph: int, operator: int) -> None:
        if subgraph == 3 and self._is_last(operator):
            act, self._act = self._act, lambda: None
            act()

    def _is_last(self, operator: int) -> bool:
        return operator == LAST


LAST = len(programs(window).subgraphs[3].operators) - 1


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("stop", [0, 1])
@pytest.mark.parametrize("inner", [3, 4, 5, 0])
def test_updates_within_a_run(backend: str, stop: int, inner: int) -> None:
    """What runs within a run write stays if the outer one ends well; one that fails leaves all as it found it."""
    session, value = session_of("window", backend), np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    row, at = np.full(ROW, 9, np.float32), i32([1, 2, 0])
    session.invoke(0, [value])
    seen: list[Array] = []

    def act() -> None:
        arrays = [row + np.float32(1), i32([0, 3, 0])]
        if inner:
            with pytest.raises(circlet.ExecutionError):
                session.invoke(inner, [*arrays, i32(1)])
        seen.append(session.invoke(1, [])[0])
        session.invoke(inner, [*arrays, i32(0)] if inner else [-value])
        seen.append(session.invoke(1, [])[0])

    if stop:
        with pytest.raises(circlet.ExecutionError):
            session.invoke(3, [row, at, i32(1)], Once(act))
    else:
        session.invoke(3, [row, at, i32(0)], Once(act))
    updated = value.copy()
    updated[1:3, 2:5] = 9
    g.assert_equal([seen[0]], [updated])
    g.assert_equal(session.invoke(1, []), [value if stop else seen[1]])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_an_update_takes_no_memory_that_grows_with_the_variable(backend: str) -> None:
    b = ModelBuilder()
    whole, main = b.subgraph("assign"), b.subgraph("main")
    shape = (1 << 10, 1 << 10)
    assign(whole, whole.input("x", DType.FLOAT32, shape))
    row = main.input("row", DType.FLOAT32, (1, shape[1]))
    assign(main, main.apply(DynamicUpdateSlice(), read(main, shape), row, main.constant([5, 0])))
    main.output(g.plus(main, row, 1.0))
    session, x = circlet.Session(b.build(), backend), np.ones((1, shape[1]), np.float32)
    session.invoke(0, [np.zeros(shape, np.float32)])
    session.invoke(1, [x])
    assert g.memory_of(lambda: session.invoke(1, [x])) < 1 << 18


@given(st.lists(st.tuples(st.integers(0, 9 * BLOCK), st.integers(1, 3 * BLOCK)), max_size=6))
def test_what_is_kept_is_put_back(parts: list[tuple[int, int]]) -> None:
    """By runs that write parts of a value, whose last block is short."""
    value = np.random.default_rng(1).integers(0, 256, 12 * BLOCK + 5, np.uint8)
    cell = Cell.make(value.shape, value.dtype)
    for run in (1, 2):
        cell.halves[0][...] = value
        for begin, size in parts:
            cell.keep(0, np.array([begin, begin + 17]), size, run)
            cell.halves[0][begin:begin + size] = 7
            cell.halves[0][begin + 17:begin + 17 + size] = 8
        cell.take_back(0, run)
        np.testing.assert_array_equal(cell.halves[0], value)
