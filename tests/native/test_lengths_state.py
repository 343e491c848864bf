"""Code that has too little room for what a run comes to begins anew, and finds variables as they were before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import CallSubgraph, While
from circlet.runtime.ops.elementwise import Minimum
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.shape import Range, Reshape
from circlet.runtime.ops.variable import ReadVariable
from tests.exec import graphs as g
from tests.exec.graphs import i32
from tests.exec.test_updates import ROW, SHAPE, assign, handle, read, window
from tests.native.test_variable import Within

STEPS = ((3, 0), (70, 0), (500, 1), (500, 0), (2, 0), (3000, 1), (1, 0), (9000, 0), (-9700, 0), (4, 0))
"""How much is added to a count, of which there is room for 64 at first; and 1 where the run then fails."""
PLACES = (i32([0, 2, 0]), i32([1, 30, 0]), i32([0, 3, 0]))


def count(s: SubgraphBuilder) -> Value:
    return s.op(ReadVariable(), handle(s, "n"), outputs=[Tensor("n", DType.INT32, ())])[0]


def counting(s: SubgraphBuilder, n: Value) -> None:
    """Adds to the count, and gives so many numbers, which are known to be so many when the count was changed."""
    assign(s, g.add(s, count(s), n), "n")
    s.output(s.apply(Range(), s.constant(0), count(s), s.constant(1)))


def updated(b: ModelBuilder, s: SubgraphBuilder, row: Value, at: Value, n: Value) -> None:
    assign(s, window(s, read(s), row, at))
    counting(s, n)


def updated_and_assigned(b: ModelBuilder, s: SubgraphBuilder, row: Value, at: Value, n: Value) -> None:
    """What was kept of the value before is given up in the midst of it."""
    assign(s, window(s, read(s), row, at))
    assign(s, g.plus(s, read(s), 0.5))
    counting(s, n)


def tiled(b: ModelBuilder, s: SubgraphBuilder, row: Value, at: Value, n: Value) -> None:
    assign(s, g.plus(s, read(s), 0.25))
    counting(s, n)
    assign(s, window(s, read(s), row, at))
    s.output(s.apply(Tile(), s.constant(np.ones(2, np.float32)), s.apply(Reshape(), count(s), s.constant([1]))))


def appended(b: ModelBuilder, s: SubgraphBuilder, row: Value, at: Value, n: Value) -> None:
    """By a loop, each turn of which changes a variable."""
    kinds = [Tensor("i", DType.INT32, ()), Tensor("n", DType.INT32, ()), Tensor("x", DType.FLOAT32, (1,), (-1,))]
    counting(s, n)
    cond, body = b.subgraph("cond"), b.subgraph("body")
    i, end, _ = (cond.input(each.name, each.dtype, each.signature) for each in kinds)
    cond.output(g.less(cond, i, end))
    i, end, x = (body.input(each.name, each.dtype, each.signature) for each in kinds)
    assign(body, window(body, read(body), body.constant(np.ones(ROW, np.float32)), body.constant(PLACES[0])))
    assign(body, g.plus(body, read(body), 0.25))
    longer = body.op(Concatenation(0), x, body.constant(np.ones(1, np.float32)), outputs=[kinds[2]])[0]
    body.output(g.plus(body, i), end, longer)
    start = s.constant(np.ones(1, np.float32))
    s.output(s.op(While(cond.index, body.index), s.constant(0), s.apply(Minimum(), count(s), s.constant(200)), start,
                  outputs=kinds)[2])


WRITES = (updated, updated_and_assigned, tiled, appended)


def model() -> Model:
    """Subgraph 0 gives the variables, 1 their first values, and the others change them and fail unless `stop` is 0."""
    b = ModelBuilder()
    reader, writer = b.subgraph("read"), b.subgraph("write")
    reader.output(read(reader), count(reader))
    assign(writer, writer.input("x", DType.FLOAT32, SHAPE))
    assign(writer, writer.constant(0), "n")
    for each in WRITES:
        s = b.subgraph(each.__name__)
        row, at = s.input("row", DType.FLOAT32, ROW), s.input("at", DType.INT32, (3,))
        n, stop = s.input("n", DType.INT32, ()), s.input("stop", DType.INT32, ())
        each(b, s, row, at, n)
        s.output(s.apply(Gather(0, 0), s.constant([1.0]), stop))
    return b.build()


def found(session: circlet.Session, subgraph: int, given: Sequence[Array]) -> list[Array]:
    """What a run gives; nothing where it fails."""
    try:
        return session.invoke(subgraph, given)
    except circlet.ExecutionError:
        return []


@pytest.mark.parametrize("write", range(len(WRITES)), ids=[each.__name__ for each in WRITES])
def test_state_is_as_if_there_had_been_room(write: int, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(), backend=each) for each in ("native", "cpu"))
    for session in (native, cpu):
        session.invoke(1, [np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)])
    before = len(compiled)
    for k, (n, stop) in enumerate(STEPS):
        given = [np.full(ROW, -k, np.float32), PLACES[k % len(PLACES)], i32(n), i32(stop)]
        g.assert_equal(found(native, 2 + write, given), found(cpu, 2 + write, given))
        g.assert_equal(native.invoke(0, []), cpu.invoke(0, []))
    assert len(compiled) - before == 3, "for all lengths, for reading, and for a count that is negative"
    assert set(native.backend_of(2 + write)) == {"native"}


@pytest.mark.parametrize("n", [5, 700])
def test_runs_within_a_run_begin_anew_where_they_began(n: int) -> None:
    """What the outer run assigned before stays."""
    b = ModelBuilder()
    main, callee, inner = b.subgraph("main"), b.subgraph("callee"), b.subgraph("inner")
    assign(main, main.input("x", DType.INT32, ()), "n")
    callee.output(g.plus(callee, callee.input("a", DType.INT32, ())))
    main.op(CallSubgraph(callee.index), main.input("a", DType.INT32, ()), outputs=[Tensor("", DType.INT32, ())])
    main.output(count(main))
    counting(inner, inner.input("n", DType.INT32, ()))
    session, made = circlet.Session(b.build(), "native"), []
    session.invoke(0, [i32(1), i32(0)])
    listener = Within(lambda: made.extend(session.invoke(2, [i32(n)]) + session.invoke(2, [i32(n)])))
    g.assert_equal(session.invoke(0, [i32(40), i32(0)], listener), [i32(40 + 2 * n)])
    assert [len(each) for each in made] == [40 + n, 40 + 2 * n]
