"""Lengths that only a run tells, which are long to follow, or for all of which together there is no room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.reduce import Cumsum, ReduceMax
from circlet.runtime.ops.shape import Fill
from tests.native.test_lengths import Graph
from tests.native.test_lengths_hosted import INTS


@pytest.mark.parametrize("depth", [3, 60, 500])
def test_long_computations_of_bounds_are_followed_in_time(depth: int) -> None:
    """Each number is made of the one before twice, so that they have 2 to the power of the depth ways to the first."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, end = g.builder.input("x", DType.FLOAT32, (-1, 6)), g.builder.input("k", INTS, (2,))
    for _ in range(depth):
        end = g(Gather(), end, g(Sub(), end, end, dtype=INTS), dtype=INTS)
    g.builder.output(g(StridedSlice(), x, g.ints(0, 0), end, g.ints(1, 1)))
    session = circlet.Session(b.build(), "native")
    for length in (5, 9):
        value = np.arange(6 * length, dtype=np.float32).reshape(length, 6)
        (found,) = session.invoke(0, [value, np.array([3, 4], np.int32)])
        np.testing.assert_array_equal(found, value[:3, :3])


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
