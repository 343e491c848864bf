"""What is known of subgraphs before they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.network import Tensor
from circlet.profiling.plans import plans
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from circlet.runtime.ops.loop_options import Carried
from circlet.runtime.ops.unary import Neg
from circlet.runtime.passes.analyses.work import Work
from tests.models.expectations import read
from tests.needs import NATIVE

MODELS = Path(__file__).parent.parent / "models"


@pytest.mark.parametrize("name", ["lstm", "cnn", "nested_while", "residual_int8", "game_of_life", "k_means"])
def test_arenas_are_those_of_frames(name: str) -> None:
    session = circlet.Session(MODELS / f"{name}.tflite", "cpu")
    executors = session.survey().executors
    graph = session.executed.subgraphs[0]
    shapes = tuple(graph.tensors[each].shape for each in graph.inputs)
    arena = plans(executors, session.model, {0: shapes})[0].arena
    frame = executors.frame(0, shapes, Run(Variables()))
    assert frame.size == arena.size + sum(each.nbytes for each in frame.inputs)
    assert 0 < max(arena.live) <= arena.size
    for each in arena.buffers:
        assert each.first <= each.last
        assert each.offset + each.size <= arena.size
        for other in arena.buffers:
            at_once = _overlap(each.first, each.last + 1, other.first, other.last + 1)
            assert each is other or not at_once or not _overlap(
                each.offset, each.offset + each.size, other.offset, other.offset + other.size)


def _overlap(begin: int, end: int, other_begin: int, other_end: int) -> bool:
    return max(begin, other_begin) < min(end, other_end)


def test_work_is_of_the_shapes_of_runs() -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (-1, 4))
    main.output(main.apply(Neg(), main.apply(Add(), x, x)))
    session = circlet.Session(builder.build(), "cpu")
    with circlet.profile(session) as found:
        session.run([np.ones((2, 4), np.float32)])
        session.run([np.ones((5, 4), np.float32)])
    assert found.shapes == {0: ((5, 4),)}
    works = {each.name: each.work for each in found.tables.operators}
    assert works["ADD"] is not None
    assert works["NEG"] is not None
    assert (works["ADD"].flops, works["ADD"].read, works["ADD"].written) == (20, 160, 80)
    assert (works["NEG"].flops, works["NEG"].read, works["NEG"].written) == (20, 80, 80)


def test_work_in_a_loop() -> None:
    path = MODELS / "matmul_loop.tflite"
    session = circlet.Session(path, "cpu")
    with circlet.profile(session) as found:
        session.run(read(path.with_suffix(".npz"))[0].inputs)
    rows = found.tables.operators
    assert all((each.work is None) == bool(each.invokes) for each in rows)
    dense = max((each for each in rows if each.work is not None), key=lambda each: each.work.flops if each.work else 0)
    assert dense.name in ("FULLY_CONNECTED", "BATCH_MATMUL")
    assert dense.work is not None
    graph = found.model.subgraphs[dense.subgraph]
    operator = graph.operators[dense.index]
    left, out = (graph.tensors[each].shape for each in (operator.inputs[0], operator.outputs[0]))
    products = 2 * int(np.prod(out)) * left[-1]
    assert products <= dense.work.flops <= products + int(np.prod(out)), "with a bias, or without"


@NATIVE
def test_work_of_merged_operators_is_what_they_touch() -> None:
    """A row of a table is added to an accumulator, and their sum is put in a row of another table, in place."""
    net = circlet.Network()
    table = net.input("table", np.float32, (64, 8))

    def turn(index: Tensor, total: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        row = table[index]
        total = total * 0.5 + row
        return index + 1, total, net.update(rows, (total + row).reshape((1, 8)), (index, 0))

    _, total, out = net.while_loop(lambda index, total, rows: index < 64, turn, (
        0, np.zeros(8, np.float32), np.zeros((64, 8), np.float32)))
    net.output(total, "total")
    net.output(out, "rows")
    session = circlet.Session(net.build(), "native")
    with circlet.profile(session) as found:
        session.run([np.ones((64, 8), np.float32)])
    row, index, pair = 32, 4, 8
    rows = sorted(found.tables.operators, key=lambda each: each.index)
    assert [each.work for each in rows if len(each.parts) > 1] == [
        Work(16, row + index + row + 4, row),
        Work(8, row + index + row + pair + pair, row),
    ], "the factor; where to put it, and the shape"


@NATIVE
def test_work_in_a_body_that_a_pass_made() -> None:
    """A loop's body that knows an invariant: what is merged there was in no subgraph of the model."""
    builder = circlet.ModelBuilder()
    main, body = builder.subgraph("main"), builder.subgraph("body")
    row, factor = body.input("row", np.float32, (4,)), body.input("factor", np.float32, (4,))
    body.output(body.apply(Mul(), body.apply(Add(), body.apply(Mul(), row, factor), row), factor))
    op = Loop(1, carried=(Carried(0, 0),), invariants=(1,))
    found = add_loop(main, op, body, trip_count=main.input("count", np.int64, ()),
                     carried=[main.input("row", np.float32, (4,))], invariants=[main.constant(np.ones(4, np.float32))])
    main.output(*found.carried)
    session = circlet.Session(builder.build(), "native")
    with circlet.profile(session) as profile:
        session.run([np.array(3), np.ones(4, np.float32)])
    merged = [each for each in profile.tables.operators if each.parts]
    assert [each.work for each in merged] == [None]
    assert merged[0].subgraph >= len(session.model.subgraphs)
