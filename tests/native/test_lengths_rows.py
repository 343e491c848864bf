"""Rows that are put together of parts as long as the run tells, and set in a loop, are as long as what they replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Sub
from circlet.runtime.ops.index import Gather, UpdateRow
from circlet.runtime.ops.layout import Concatenation, Pack, StridedSlice
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.shape import ExpandDims, Fill, Reshape
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS
from tests.needs import NATIVE
from tests.ops.cases import check

pytestmark = NATIVE

Put: TypeAlias = Callable[[Graph, Value, Value], Value]
FLOAT = DType.FLOAT32


def first(g: Graph, row: Value, count: Value) -> Value:
    """The softmax of the first elements."""
    return g(Softmax(1.0), g(StridedSlice(begin_mask=1), row, g.ints(0), g(Reshape(), count, g.ints(1), dtype=INTS),
                             g.ints(1)))


def left(g: Graph, count: Value) -> Value:
    return g(Sub(), g.number(8), count, dtype=INTS)


def padded(g: Graph, row: Value, count: Value) -> Value:
    amounts = g(Pack(2), g.number(0), left(g, count), dtype=INTS)
    return g(Pad(), first(g, row, count), g(Reshape(), amounts, g.ints(1, 2), dtype=INTS))


def filled(g: Graph, row: Value, count: Value) -> Value:
    zeros = g(Fill(), g(Reshape(), left(g, count), g.ints(1), dtype=INTS), g.number(0.0))
    return g(Concatenation(0), first(g, row, count), zeros)


def rolled(g: Graph, row: Value, count: Value) -> Value:
    place = g(Reshape(), count, g.ints(1), dtype=INTS)
    behind = g(StridedSlice(end_mask=1), row, place, g.ints(0), g.ints(1))
    return g(Concatenation(0), behind, g(StridedSlice(begin_mask=1), row, g.ints(0), place, g.ints(1)))


def mapped(put: Put) -> Model:
    """What is made of each row of x (n, 8) and an element of k (n,), as TensorFlow writes `map_fn`."""
    b = ModelBuilder()
    main, cond, body = (Graph(b.subgraph(each)) for each in ("main", "cond", "body"))
    for g in (cond, body):
        i, n, rows, x, k = (g.builder.input(each, kind, shape) for each, kind, shape in (
            ("i", INTS, ()), ("n", INTS, ()), ("rows", FLOAT, (-1, 8)), ("x", FLOAT, (-1, 8)), ("k", INTS, (-1,))))
        if g is cond:
            g.builder.output(g(Less(), i, n, dtype=DType.BOOL))
        else:
            row = put(g, g(Gather(), x, i), g(Gather(), k, i, dtype=INTS))
            g.builder.output(g(Add(), i, g.number(1), dtype=INTS), n,
                             g(UpdateRow(), rows, g(ExpandDims(), row, g.number(0)), i), x, k)
    x, k = main.builder.input("x", FLOAT, (-1, 8)), main.builder.input("k", INTS, (-1,))
    n = main.length(x, 0)
    kinds = [Tensor("", INTS, ()), Tensor("", INTS, ()), *(Tensor("", FLOAT, (), has_rank=False) for _ in "rx"),
             Tensor("", INTS, (), has_rank=False)]
    rows = main(Fill(), main(Pack(2), n, main.number(8), dtype=INTS), main.number(0.0))
    main.builder.output(main.builder.op(While(cond.builder.index, body.builder.index), main.number(0), n, rows, x, k,
                                        outputs=kinds)[2])
    return b.build()


@pytest.mark.parametrize("put", [padded, filled, rolled])
def test_one_function_serves_all_lengths(put: Put, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(mapped(put), backend=each) for each in ("native", "cpu"))
    for rows in (5, 2, 30, 9, 1, 12):
        given = [floats(rows, 8), np.random.default_rng(rows).integers(1, 9, rows).astype(np.int32)]
        check(native.invoke(0, given)[0], cpu.invoke(0, given)[0], 1e-6)
    assert len(compiled) == 1


def found(session: circlet.Session, counts: list[int]) -> Array | str:
    try:
        return session.invoke(0, [np.ones((4, 8), np.float32), np.array(counts, np.int32)])[0]
    except circlet.ExecutionError as problem:
        return str(problem)


@pytest.mark.parametrize("put", [padded, filled])
def test_rows_of_other_sizes_are_the_errors_of_numpy(put: Put, folder: object) -> None:
    native, cpu = (circlet.Session(mapped(put), backend=each) for each in ("native", "cpu"))
    for counts, fits in (([1, 8, 2, 3], True), ([1, 9, 2, 3], False), ([-1, 2, 3, 4], False), ([0, 8, 0, 1], True)):
        one, other = found(native, counts), found(cpu, counts)
        if isinstance(one, str) or isinstance(other, str):
            assert one == other
            assert not fits
        else:
            check(one, other, 1e-6)
            assert fits
