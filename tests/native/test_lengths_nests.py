"""Loops over axes together, of which the last ones are open: an index is counted on from turn to turn, and from where
the part of a thread begins."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import Transpose
from tests.native.test_lengths import Graph, floats

CASES = {
    "heads": ((2, -1, 4, 8), (0, 2, 1, 3)),
    "heads-back": ((2, 4, -1, 8), (0, 2, 1, 3)),
    "front": ((3, 2, -1, 5), (1, 0, 2, 3)),
    "both-open": ((3, -1, -1, 6), (0, 2, 1, 3)),
    "turned": ((2, -1, 4, 16), (0, 2, 3, 1)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_elements_are_moved(name: str, threads: int, folder: object, compiled: list[str]) -> None:
    shape, permutation = CASES[name]
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(g(Transpose(), g.builder.input("x", DType.FLOAT32, shape), g.ints(*permutation)))
    session = circlet.Session(b.build(), backend="native", num_threads=threads)
    for length in (7, 1000, 2, 333):
        x = floats(*(length if size == -1 and axis == shape.index(-1) else 9 if size == -1 else size
                     for axis, size in enumerate(shape)))
        np.testing.assert_array_equal(session.invoke(0, [x])[0], x.transpose(permutation))
    assert len(compiled) == 1
