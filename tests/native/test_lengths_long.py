"""Lengths that only a run tells, which are long to follow."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.resample import Resample
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.sample import RoiAlign
from tests.native.test_lengths import Graph
from tests.native.test_lengths_hosted import INTS

LONG = 2**24 + 3


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


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_places_beyond_what_float32_counts_stay_inside(backend: str) -> None:
    """So many elements are one more, as a float32, and the places of the last ones lie beyond them."""
    count = LONG
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    bytes_, row = g.builder.input("x", DType.UINT8, (-1,)), g.builder.input("row", DType.FLOAT32, (1, 1, -1, 1))
    twice = g.builder.constant(np.array([2], np.float32))
    g.builder.output(g(Resample((0,)), bytes_, twice, dtype=DType.UINT8))
    g.builder.output(g(ResizeBilinear(), row, g.ints(1, count + 5)))
    given = np.zeros(count, np.uint8), np.zeros((1, 1, count, 1), np.float32)
    for each in given:
        each.reshape(-1)[-1] = 77
    for found in circlet.Session(b.build(), backend).invoke(0, given):
        assert found.reshape(-1)[-1] == 77


@pytest.mark.parametrize("is_max", [False, True])
@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_samples_beyond_what_float32_counts_stay_inside(backend: str, is_max: bool) -> None:
    """Of an image of many columns, and of many rows, a box at the end."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, boxes = g.builder.input("x", DType.FLOAT32, (1, -1, -1, 1)), g.builder.input("boxes", DType.FLOAT32, (1, 4))
    op = RoiAlign(1, 1, samples=2, scale=1.0, is_max=is_max, is_half_pixel=False)
    g.builder.output(g(op, x, boxes, g.ints(0)))
    session = circlet.Session(b.build(), backend)
    for shape in ((1, 1, LONG, 1), (1, LONG, 1, 1)):
        image = np.zeros(shape, np.float32)
        image.reshape(-1)[-1] = 77
        begin, end = LONG - 1, LONG + 1
        box = np.array([[begin, 0, end, 1] if shape[1] == 1 else [0, begin, 1, end]], np.float32)
        (found,) = session.invoke(0, [image, box])
        np.testing.assert_array_equal(found.reshape(-1), [77])
