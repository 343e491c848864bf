"""Results of which only the run tells many lengths, and shapes that are computed of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elements import GatherElements
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Pack
from circlet.runtime.ops.reduce import Cumsum, ReduceMax
from circlet.runtime.ops.shape import BroadcastArgs, BroadcastTo, Fill
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, model


def test_lengths_that_are_told_may_be_many(folder: object, tmp_path: Path) -> None:
    """Room for as many of each as is begun with would be more memory than there is; the second session has a plan."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    size = g.builder.input("size", INTS, (9,))
    filled = g(Fill(), size, g.number(1.0))
    g.builder.output(g(ReduceMax(), g(Cumsum(), filled, g.number(0)), g.ints(*range(9))))
    circlet.save(b.build(), tmp_path / "many.tflite")
    for _ in range(2):
        session = circlet.Session(tmp_path / "many.tflite", backend="native")
        for longest in (3, 5, 3):
            assert session.invoke(0, [np.array([longest, 2, 1, 1, 2, 1, 3, 1, 2], np.int32)])[0] == longest


def test_shapes_that_are_told_are_native(folder: object, compiled: list[str]) -> None:
    """A row as often as the larger of two shapes says, of which one is a number of the run."""
    def repeated(g: Graph, x: Value, k: Value) -> Sequence[Value]:
        told = g.builder.op(Pack(2), k, g.number(6), outputs=[Tensor("", INTS, (2,))])[0]
        shape = g(BroadcastArgs(), told, g.ints(1, 6), dtype=INTS)
        return [g(BroadcastTo(), g.builder.constant(floats(1, 6)), shape)]

    made = model(repeated)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    for rows, k in ((2, 3), (3, 1), (2, 100), (2, 7)):
        given = [floats(rows, 6), np.array(k, np.int32)]
        assert np.array_equal(native.invoke(0, given)[0], cpu.invoke(0, given)[0])
    assert len(compiled) == 1
    assert set(native.backend_of(0)) == {"native"}


def test_numbers_of_lengths_that_are_a_table_are_made_by_a_loop(folder: Path, compiled: list[str]) -> None:
    """A row for each of many places that count from a length, as of positions relative to the last one; each number of
    them would become instructions of its own."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, 90))
    places = g(Add(), g.length(x, 0), g.builder.constant(np.arange(-60, 0, dtype=np.int32)[:, None]), dtype=INTS)
    g.builder.output(g(GatherElements(0), x, g(BroadcastTo(), places, g.ints(60, 90), dtype=INTS)))
    session = circlet.Session(b.build(), backend="native")
    for rows in (75, 60, 200):
        value = floats(rows, 90)
        np.testing.assert_array_equal(session.invoke(0, [value])[0], value[-60:])
    with pytest.raises(circlet.ExecutionError, match="is out of range for an axis of size 20"):
        session.invoke(0, [floats(20, 90)])
    assert len(compiled) == 1
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert max(sizes) < 1 << 15, sizes
