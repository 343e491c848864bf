"""Carried values that change places: no copy in any turn, and the results of plain Python, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import LogicalAnd
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.elementwise import Sub
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import ReverseV2
from circlet.runtime.ops.reduce import Cumsum, ReduceMax
from circlet.runtime.ops.shape import Reshape
from tests.exec import graphs as g
from tests.exec.graphs import Array, i32
from tests.properties import holds

BACKENDS = ("cpu", "native")
LENGTH = 4
ROW = (DType.INT32, (LENGTH,))
SCALAR = (DType.INT32, ())
Emit = Callable[[SubgraphBuilder, Value, Value], Value]
MAKES: dict[str, tuple[Emit, Callable[[Array, Array], Array]]] = {
    "same": (lambda s, a, b: a, lambda a, b: a),
    "view": (lambda s, a, b: s.apply(Reshape(), s.apply(Reshape(), a, s.constant([2, 2])), s.constant([LENGTH])),
             lambda a, b: a),
    "sub": (lambda s, a, b: s.apply(Sub(), a, b), lambda a, b: a - b),
    "reverse": (lambda s, a, b: s.apply(ReverseV2(), a, s.constant([0])), lambda a, b: a[::-1].copy()),
    "cumsum": (lambda s, a, b: s.apply(Cumsum(), s.apply(Sub(), a, b), s.constant(0)),
               lambda a, b: np.cumsum(a - b, dtype=np.int32)),
    "update": (lambda s, a, b: s.apply(DynamicUpdateSlice(), a, s.constant([7]), s.constant([1])),
               lambda a, b: np.concatenate([a[:1], i32([7]), a[2:]])),
    "constant": (lambda s, a, b: s.constant(i32([3, 1, 4, 1])), lambda a, b: i32([3, 1, 4, 1])),
}


@dataclass(frozen=True)
class Output:
    """What a body returns in one place: a function of two of its inputs."""

    make: str
    a: int
    b: int


Body = tuple[Output, ...]
"""What a body returns for each of as many inputs."""


def bodies(count: int) -> st.SearchStrategy[Body]:
    """Permutations, mostly, some of whose values are computed, or given twice."""
    inputs = st.integers(0, count - 1)
    names = st.sampled_from(["same", "same", "same", *MAKES])
    loose = st.tuples(*(st.builds(Output, names, inputs, inputs) for _ in range(count)))
    permuted = st.permutations(range(count)).flatmap(
        lambda order: st.tuples(*(st.builds(Output, names, st.just(k), inputs) for k in order)))
    return permuted | loose


def emit(body: Body, s: SubgraphBuilder, rows: Sequence[Value]) -> list[Value]:
    return [MAKES[each.make][0](s, rows[each.a], rows[each.b]) for each in body]


def interpret(body: Body, rows: Sequence[Array]) -> list[Array]:
    return [MAKES[each.make][1](rows[each.a], rows[each.b]) for each in body]


@dataclass(frozen=True)
class Program:
    """`while i < n and max(rows[read]) < 99: rows = outer(*rows); rows[anew] = START[anew];
    for _ in range(i): rows = inner(*rows); if i % 2: rows = chosen(*rows)`, without what is None."""

    outer: Body
    read: int
    inner: Body | None = None
    chosen: Body | None = None
    anew: frozenset[int] = frozenset()
    """Rows with which the inner loop begins as constants."""

    @property
    def count(self) -> int:
        return len(self.outer)

    def restarted(self, rows: Sequence[Array]) -> list[Array]:
        return [START[k] if k in self.anew else row for k, row in enumerate(rows)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    count = draw(st.integers(2, 5))
    optional = st.none() | bodies(count)
    return Program(draw(bodies(count)), draw(st.integers(0, count - 1)), draw(optional), draw(optional),
                   draw(st.frozensets(st.integers(0, count - 1))))


def loop_model(program: Program) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    rows = [ROW] * program.count
    kinds = [SCALAR, SCALAR, *rows]
    declared = [g.declared(f"t{k}", *each) for k, each in enumerate(kinds)]

    def goes_on(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        top = s.apply(ReduceMax(), v[2 + program.read], s.constant([0]))
        return [s.apply(LogicalAnd(), g.less(s, v[0], v[1]), g.less(s, top, s.constant(99)))]

    def counted(body: Body) -> g.Formula:
        return lambda s, v: [g.plus(s, v[0]), v[1], *emit(body, s, v[2:])]

    inner, chosen = program.inner, program.chosen
    nested = None if inner is None else While(
        g.define(b, "below", lambda s, v: [g.less(s, v[0], v[1])], kinds), g.define(b, "inner", counted(inner), kinds))
    branch = None if chosen is None else If(
        g.define(b, "then", lambda s, v: emit(chosen, s, v), rows), g.define(b, "else", lambda s, v: list(v), rows))

    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        values: Sequence[Value] = emit(program.outer, s, v[2:])
        if nested is not None:
            begun = [s.constant(START[k]) if k in program.anew else value for k, value in enumerate(values)]
            values = s.op(nested, s.constant(0), v[0], *begun, outputs=declared)[2:]
        if branch is not None:
            odd = g.less(s, s.constant(0), g.modulo(s, v[0], 2))
            values = s.op(branch, odd, *values, outputs=declared[2:])
        return [g.plus(s, v[0]), v[1], *values]

    op = While(g.define(b, "cond", goes_on, kinds), g.define(b, "body", turn, kinds))
    given_rows = [main.input(f"x{k}", *ROW) for k in range(program.count)]
    results = main.op(op, main.constant(0), main.input("n", DType.INT32), *given_rows, outputs=declared)
    main.output(*results[2:])
    return b.build()


def expected(program: Program, turns: int, rows: Sequence[Array]) -> list[Array]:
    state, turn = list(rows), 0
    while turn < turns and state[program.read].max() < 99:
        state = interpret(program.outer, state)
        if program.inner is not None:
            state = program.restarted(state)
            for _ in range(turn):
                state = interpret(program.inner, state)
        if program.chosen is not None and turn % 2:
            state = interpret(program.chosen, state)
        turn += 1
    return state


START = [i32([1, 2, 3, 4]), i32([5, 6, 7, 8]), i32([-1, 0, 1, 2]), i32([9, 7, 5, 3]), i32([-4, 4, -4, 4])]


def agrees(program: Program, sessions: Sequence[circlet.Session]) -> None:
    start = START[:program.count]
    for turns in (3, 0, 4, 1, 2, 5):
        wanted = expected(program, turns, start)
        for session in sessions:
            g.assert_equal(list(session.run([*start, np.int32(turns)]).values()), wanted)


@holds(programs(), few=30, many=200)
def test_numpy_runs_random_rotations(program: Program) -> None:
    model = loop_model(program)
    agrees(program, [circlet.Session(model, "cpu", copy_elision=elide) for elide in g.ELISION])


@holds(programs(), few=5, many=25)
def test_native_code_runs_random_rotations(program: Program) -> None:
    model = loop_model(program)
    agrees(program, [circlet.Session(model, "native", copy_elision=elide) for elide in g.ELISION])


def same(*order: int) -> Body:
    return tuple(Output("same", k, k) for k in order)


class Heard(Listener):
    """The edges that were copied, in order."""

    def __init__(self) -> None:
        self.edges: list[str] = []

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self.edges.append(edge)


RECURRENCE = (Output("sub", 0, 1), Output("same", 0, 0))
MOVING = (Output("reverse", 1, 1), Output("same", 0, 0))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("body", "actions"), [
    (same(1, 0), ["rotate", "rotate"]),
    (same(1, 2, 0), ["rotate"] * 3),
    (RECURRENCE, ["rotate", "rotate"]),
    (MOVING, ["rotate", "rotate"]),
    (same(0, 0), ["invariant", "copy"]),
    (same(1, 1), ["copy", "invariant"]),
    (same(1, 2, 3, 0, 5, 6, 4), ["copy"] * 7),
    (same(1, 0, 4, 2, 3), ["rotate"] * 5),
], ids=["swap", "rotate", "recurrence", "moving", "first_twice", "second_twice", "too_long", "two_cycles"])
def test_action_of_each_carried_value(body: Body, actions: list[str], backend: str) -> None:
    edges = circlet.Session(loop_model(Program(body, 0)), backend).copies()
    assert [each.action.value for each in edges if each.edge.startswith("carry")][2:] == actions


@pytest.mark.parametrize(("body", "leaving"), [
    (same(1, 0), [0, 3]),
    (same(1, 2, 0), [0, 4, 4]),
    (RECURRENCE, [0, 3]),
    (MOVING, [0, 2, 2]),
], ids=["swap", "rotate", "recurrence", "moving"])
def test_only_the_end_of_a_loop_copies(body: Body, leaving: list[int]) -> None:
    """In numpy as in native code, for any number of turns."""
    model, rows = loop_model(Program(body, 0)), START[:len(body)]
    stepped, native = circlet.Session(model, "cpu"), circlet.Session(model, "native")
    for turns in range(7):
        heard, counter = Heard(), circlet.Counter()
        stepped.run([*rows, np.int32(turns)], listener=heard)
        assert [each.split()[0] for each in heard.edges if each != "input 0"] == (
            ["output"] * leaving[turns % len(leaving)])
        native.run([*rows, np.int32(turns)], listener=counter)
        assert counter.copies == leaving[turns % len(leaving)]
