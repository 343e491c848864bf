"""Limits, cancellation and errors inside native loops: they stop at once, leave the state, and say where."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import Place
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import FloorMod, Mul
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.reduce import ReduceMax
from circlet.runtime.ops.shape import Reshape
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, f32, i32
from tests.exec.test_limits import COUNTERS, ENDLESS, PROGRAMS, SLACK, Program, assigning, recurring, repeated, stateful


def native(model: Model, elide: bool = True, **limits: float) -> circlet.Session:
    return circlet.Session(model, backend="native", copy_elision=elide,
                           limits=circlet.Limits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_max_iterations_is_exact_and_counts_all_loops(program: Program, elide: bool) -> None:
    for n in (0, 1, 4):
        most = program.iterations(n)
        session = native(program.make(), elide, max_iterations=most)
        assert program.run(session, n) == program.result(n)
        with pytest.raises(circlet.LimitError, match=rf"subgraph \d+ .*WHILE.*max_iterations={most} "):
            program.run(session, n + 1)
        assert program.run(session, n) == program.result(n)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_the_loop_that_would_make_a_turn_too_many_is_named(program: Program) -> None:
    messages = []
    for backend in ("cpu", "native"):
        limits = circlet.Limits(max_iterations=program.iterations(4))
        with pytest.raises(circlet.LimitError) as error:
            program.run(circlet.Session(program.make(), backend, limits=limits), 5)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_many_iterations_are_counted() -> None:
    program = next(each for each in PROGRAMS if each.id == "nested")
    session = native(program.make(), max_iterations=program.iterations(3000) - 1)
    with pytest.raises(circlet.LimitError, match="max_iterations=9002999 "):
        program.run(session, 3000)
    assert program.run(session, 2999) == 2999**2


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("deadline", [None, 0.05])
def test_endless_loop_is_stopped(name: str, elide: bool, deadline: float | None) -> None:
    """By a deadline, or by another thread, which runs while native code does."""
    make, forever, at_once = ENDLESS[name]
    session = native(make(), elide)
    for _ in range(2):
        session.limits = circlet.Limits()
        g.assert_equal(g.run(session, at_once), at_once)
        session.limits = circlet.Limits(deadline=deadline)
        start = time.monotonic()
        with repeated(session.cancel if deadline is None else bool, 0.05), \
                pytest.raises(circlet.CancelledError if deadline is None else circlet.LimitError,
                              match=r"subgraph \d+ .*WHILE"):
            g.run(session, forever)
        assert 0.04 <= time.monotonic() - start < 0.05 + SLACK


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize(("body", "shape"), [(assigning, ()), (recurring, (1, 1))])
def test_state_is_as_before_a_run_that_fails(body: g.Formula, shape: tuple[int, ...], elide: bool) -> None:
    model = stateful(body, shape)
    for limits in ({"max_iterations": 1000}, {"deadline": 0.5}):
        session = native(model, elide)
        g.assert_equal(g.run(session, [i32(3)]), [np.full(shape, 3, np.float32)])
        session.limits = circlet.Limits(**limits)
        with pytest.raises(circlet.LimitError):
            g.run(session, [i32(1 << 30)])
        session.limits = circlet.Limits()
        g.assert_equal(g.run(session, [i32(4)]), [np.full(shape, 7, np.float32)])
        session.reset_state()
        g.assert_equal(g.run(session, [i32(2)]), [np.full(shape, 2, np.float32)])


def looked_up(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Adds table[i], doubled, in turn i; the table has four elements."""
    table = s.constant(f32([1, 2, 3, 4]))
    element = s.apply(Mul(), s.apply(Gather(), table, v[0]), s.constant(2.0))
    return [g.plus(s, v[0]), v[1], g.add(s, v[2], element)]


def remainders(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Adds 4 % (4 - i) in turn i."""
    b = s.constant(4)
    divisor = g.add(s, b, s.apply(Mul(), v[0], s.constant(-1)))
    return [g.plus(s, v[0]), v[1], g.add(s, v[2], s.apply(FloorMod(), b, divisor))]


def failing(body: g.Formula, start: float | int, nested: bool) -> Model:
    """n turns of a body that fails in the fifth, in a branch of an outer loop if `nested`."""
    b = ModelBuilder()
    main = b.subgraph("main")
    total = (DType.FLOAT32 if isinstance(start, float) else DType.INT32, ())
    kinds = [*COUNTERS, total]
    loop = While(g.define(b, "cond", lambda s, v: [g.less(s, v[0], v[1])], kinds), g.define(b, "body", body, kinds))

    def inner(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [s.op(loop, s.constant(0), v[1], s.constant(start), count=3)[2]]

    def outer(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        branch = If(g.define(b, "then", inner, kinds), g.define(b, "else", lambda s, v: [v[2]], kinds))
        chosen = s.op(branch, g.less(s, s.constant(1), v[0]), *v, outputs=[g.declared("chosen", *total)])
        return [g.plus(s, v[0]), v[1], chosen[0]]

    whole = While(loop.cond_subgraph_index, g.define(b, "outer", outer, kinds)) if nested else loop
    main.output(main.op(whole, main.constant(0), main.input("n", DType.INT32), main.constant(start), count=3)[2])
    return b.build()


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("body", "start", "operator", "total"), [(looked_up, 0.0, 1, 20.0), (remainders, 0, 3, 1)])
def test_an_error_says_where_it_was(body: g.Formula, start: float | int, operator: int, total: float, nested: bool,
                                    elide: bool) -> None:
    model = failing(body, start, nested)
    subgraph = next(k for k, each in enumerate(model.subgraphs) if each.name == "body")
    session, cpu = native(model, elide), circlet.Session(model, backend="cpu", copy_elision=elide)
    for _ in range(2):
        with pytest.raises(circlet.ExecutionError) as wanted:
            g.run(cpu, [i32(5)])
        with pytest.raises(circlet.ExecutionError) as raised:
            g.run(session, [i32(5)])
        assert str(raised.value) == str(wanted.value)
        place = raised.value.place
        assert isinstance(place, Place)
        assert (place.subgraph, place.subgraph_name) == (subgraph, "body")
        assert model.subgraphs[subgraph].operators[place.operator].name == place.operator_name
        assert g.run(session, [i32(4)])[0] == total


def test_a_large_buffer_is_refused_before_code_is_made_for_it() -> None:
    """The loop's body needs a matrix that no machine has room for."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        column = s.apply(Reshape(), v[1], s.constant([1 << 22, 1]))
        square = s.apply(Softmax(beta=1.0), s.apply(Mul(), column, v[1]))
        return [g.plus(s, v[0]), s.apply(ReduceMax(), square, s.constant([0]))]

    model = g.while_model(g.at_most(1), body, [i32(0), np.zeros(1 << 22, np.float32)])
    with pytest.raises(circlet.LimitError, match="more than this machine has"):
        g.run(native(model, True), [i32(0), np.zeros(1 << 22, np.float32)])


@pytest.mark.slow
def test_subgraphs_that_invoke_the_next_one_twice_are_not_emitted_without_end() -> None:
    b = ModelBuilder()
    chain = [b.subgraph(f"s{k}") for k in range(15)]
    for k, each in enumerate(chain):
        x = each.input("x", DType.FLOAT32, (2,))
        for _ in range(2 if k < 14 else 0):
            (x,) = each.op(CallSubgraph(k + 1), x, outputs=[g.declared("y", DType.FLOAT32, (2,))])
        each.output(g.plus(each, x, 1.0) if k == 14 else x)
    (found,) = g.run(native(b.build(), True), [np.zeros(2, np.float32)])
    np.testing.assert_array_equal(found, np.full(2, 1 << 14, np.float32))
