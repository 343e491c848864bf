"""What is wrong with lengths is told before code is made, and at once where they come again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather, ScatterNd
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.unary import Tanh
from circlet.runtime.passes.analyses.specialize import Specialization, Specializer
from tests.native.test_lengths import Graph, floats, model
from tests.native.test_lengths_one import sessions


def picked(g: Graph) -> Sequence[Value]:
    """Rows 5 and 2 of x (n, 4)."""
    x = g.builder.input("x", DType.FLOAT32, (-1, 4))
    return [g(Tanh(), g(Gather(), g(Tanh(), x), g.ints(5, 2)))]


def summed(g: Graph) -> Sequence[Value]:
    return [g(Add(), *(g.builder.input(name, DType.FLOAT32, (-1, 4)) for name in "xy"))]


def test_rows_that_a_length_lacks_are_refused_before_code_is_made(folder: object, compiled: list[str]) -> None:
    for session in sessions(model(picked)):
        with pytest.raises(circlet.ExecutionError, match="index 5 is out of range for an axis of size 3"):
            session.invoke(0, [floats(3, 4)])
    assert not compiled
    session, _ = sessions(model(picked))
    for n in (6, 9):
        x = floats(n, 4)
        np.testing.assert_allclose(session.invoke(0, [x])[0], np.tanh(np.tanh(x[[5, 2]])), 1e-5)
        with pytest.raises(circlet.ExecutionError, match="index 5 is out of range for an axis of size 4"):
            session.invoke(0, [floats(4, 4)])
    assert len(compiled) == 1


def test_a_known_shape_is_not_left_to_the_run(folder: object) -> None:
    """Of a result that nothing reads, of rows of which nobody says by how many numbers each names a place."""
    b = ModelBuilder()
    main, called = b.subgraph("main"), b.subgraph("called")
    places = called.input("places", DType.INT32, (-1, -1))
    fives, shape = called.constant(np.array([5], np.float32)), called.constant(np.array([2, 3], np.int32))
    made = Tensor("made", DType.FLOAT32, (), has_rank=False)
    called.output(*called.op(ScatterNd(), places, fives, shape, outputs=[made]))
    main.op(CallSubgraph(called.index), main.input("places", DType.INT32, (-1, -1)), outputs=[made])
    for session in sessions(b.build()):
        for _ in range(2):
            assert session.invoke(0, [np.zeros((1, 2), np.int32)]) == []
            with pytest.raises(circlet.ExecutionError, match=r"\(SCATTER_ND\): cannot scatter updates \(1,\)"):
                session.invoke(0, [np.zeros((1, 1), np.int32)])


@pytest.mark.parametrize("number", [0, 1])
def test_rows_that_no_run_reads_are_not_refused(number: int) -> None:
    """A branch that is not taken."""
    b = ModelBuilder()
    taken, left = (b.subgraph(name) for name in ("taken", "left"))
    for branch, op in ((taken, Tanh()), (left, Gather())):
        x = branch.input("x", DType.FLOAT32, (3, 4))
        given = [x] if branch is taken else [x, branch.constant(np.array([5, 2, 1], np.int32))]
        branch.output(Graph(branch)(op, *given))
    main = b.subgraph("main")
    x, which = main.input("x", DType.FLOAT32, (3, 4)), main.input("which", DType.BOOL, ())
    main.output(*main.op(If(taken.index, left.index), which, x, outputs=[Tensor("y", DType.FLOAT32, (3, 4))]))
    session, rows = sessions(b.build())[number], floats(3, 4)
    np.testing.assert_allclose(session.invoke(main.index, [rows, np.array(True)])[0], np.tanh(rows), 1e-5)
    with pytest.raises(circlet.ExecutionError, match="index 5 is out of range for an axis of size 3"):
        session.invoke(main.index, [rows, np.array(False)])


@pytest.mark.parametrize("number", [0, 1])
def test_shapes_that_were_refused_are_refused_at_once(number: int, folder: object, monkeypatch: pytest.MonkeyPatch
                                                      ) -> None:
    session = sessions(model(summed))[number]
    derived, extend = [], Specializer.extend

    def counted(self: Specializer, so_far: Specialization, values: Mapping[int, Array] | None = None) -> Specialization:
        derived.append(so_far)
        return extend(self, so_far, values)

    monkeypatch.setattr(Specializer, "extend", counted)
    messages = []
    for n in (2, 3, 2, 3):
        before = len(derived)
        with pytest.raises(circlet.ExecutionError, match=r"operator 0 \(ADD\): shapes .* do not broadcast") as error:
            session.invoke(0, [floats(n, 4), floats(5, 4)])
        messages.append((str(error.value), len(derived) - before))
    assert messages[2:] == [(text, 0) for text, _ in messages[:2]]
    assert messages[0] != messages[1]
    assert derived


def appended(main: Graph, *subgraphs: Graph) -> Sequence[Value]:
    """While k < n, a row of zeros: n (any,) and x (m, 4) to (m + n, 4)."""
    for g in (*subgraphs, main):
        k = main.number(0) if g is main else g.builder.input("k", DType.INT32, ())
        n, x = g.builder.input("n", DType.INT32, (-1,)), g.builder.input("x", DType.FLOAT32, (-1, 4))
        if g is subgraphs[0]:
            g.builder.output(g(Less(), k, n, dtype=DType.BOOL))
        elif g is not main:
            row = g.builder.constant(np.zeros((1, 4), np.float32))
            g.builder.output(g(Add(), k, g.number(1), dtype=DType.INT32), n, g(Concatenation(0), x, row))
    loop = While(*(each.builder.index for each in subgraphs))
    return [main.builder.op(loop, k, n, x, outputs=[Tensor("", DType.INT32, ()), *(
        Tensor("", each, (), has_rank=False) for each in (DType.INT32, DType.FLOAT32))])[2]]


@pytest.mark.parametrize("first", [[2], [0, 2], []])
def test_a_loop_that_appends_has_a_condition_of_one_element(first: list[int]) -> None:
    for session in sessions(model(appended, 3)):
        for numbers in (first, [3], [5, 1], [], [4]):
            given = [np.array(numbers, np.int32), floats(2, 4)]
            if len(numbers) == 1:
                assert session.invoke(0, given)[0].shape == (2 + numbers[0], 4)
                continue
            with pytest.raises(circlet.ExecutionError, match="exactly one element, found shape"):
                session.invoke(0, given)
