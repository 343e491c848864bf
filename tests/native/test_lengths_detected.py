"""Sizes as detectors compute them, by way of floats: of images that are scaled as a run tells, and of what is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.elementwise import Add, Div, Minimum, Mul, Sub
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.layout import Concatenation, Pack
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.pad import Pad
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ReduceMax, ReduceMin
from circlet.runtime.ops.resample import Interpolation, Resample
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Ceil, Tanh
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS, Write, model, several
from tests.ops.cases import check

LENGTHS = ((8, 3), (5, 40), (64, 2), (33, 15), (12, 0), (15, 10), (8, 1), (2, 2), (9, 100), (8, 3))
"""Of x (n, 6), and a number k."""


def _scaled(g: Graph, x: Value, k: Value) -> Value:
    """Rows as an image (1, n, 2, 3), made larger by a factor that only the run tells."""
    factor = g(Add(), g(Mul(), g(Cast(), k), g.number(0.37)), g.number(1.1))
    sides = g(Pack(2), g(Mul(), g(Cast(), g.length(x, 0)), factor), g(Mul(), g.number(2.0), factor))
    sizes = g(Concatenation(0), g.ints(1), g(Cast(), sides, dtype=INTS), g.ints(3), dtype=INTS)
    return g(Resample((0, 1, 2, 3), Interpolation.LINEAR), g(Reshape(), x, g.ints(1, -1, 2, 3)), sizes)


def _padded(g: Graph, image: Value) -> Value:
    """As high and wide as the next multiples of 8."""
    rows = [g.ints(0, 0)]
    for axis in (1, 2):
        size = g.length(image, axis)
        largest = g(ReduceMax(), g(Reshape(), g(Cast(), size), g.ints(1)), g.ints(0))
        wanted = g(Mul(), g(Ceil(), g(Div(), largest, g.number(8.0))), g.number(8.0))
        rows.append(g(Pack(2), g.number(0), g(Sub(), g(Cast(), wanted, dtype=INTS), size, dtype=INTS), dtype=INTS))
    return g(Pad(), image, g(Pack(4), *rows, g.ints(0, 0), dtype=INTS))


def scaled(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """What is known of the sizes of an image is, though its height and width are not."""
    weights = g.builder.constant(np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    return [g(Tanh(), g(BatchMatMul(), _scaled(g, x, k), weights))]


def in_tiles(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Tiles of 8 by 8, and the greatest numbers."""
    image = _padded(g, _scaled(g, x, k))
    tiles = g(Reshape(), image, g.ints(1, -1, 8, 8, 3))
    numbers = g(Reshape(), image, g.ints(-1))
    most = g(ReduceMin(), g(Pack(2), g.number(50), g.length(numbers, 0), dtype=INTS), g.ints(0), dtype=INTS)
    return [g(Tanh(), tiles), several(g, TopKV2(), (DType.FLOAT32, INTS), numbers, most)[0]]


def found(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Of rows that begin with what is greater than 0 and are not many, the numbers in pairs."""
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    is_found = g(Greater(), first, g.number(0.0), dtype=DType.BOOL)
    at = g(Reshape(), g(Where(), is_found, dtype=DType.INT64), g.ints(-1), dtype=DType.INT64)
    rows = g(Gather(), x, at)
    pairs = g(Reshape(), rows, g(Pack(3), g.length(rows, 0), g.number(-1), g.number(2), dtype=INTS))
    return [g(ReduceMax(), g(Tanh(), pairs), g.ints(2))]


def twice(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """What is greater than 0, and numbers that say where, which are found apart."""
    first = g(Reshape(), g(Gather(1), x, g.ints(0)), g.ints(-1))
    is_found = g(Greater(), first, g.number(0.0), dtype=DType.BOOL)
    rows, others = (g(Gather(), first, g(Reshape(), g(Where(), is_found, dtype=DType.INT64), g.ints(-1),
                                        dtype=DType.INT64)) for _ in range(2))
    most = g(Minimum(), g.number(4), g.length(others, 0), dtype=INTS)
    return several(g, TopKV2(), (DType.FLOAT32, INTS), rows, most)[:1]


def beside(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Rows beside as many others as are made of floats."""
    count = g(Cast(), g(Mul(), g(Cast(), g.length(x, 0)), g(Div(), g(Cast(), k), g(Cast(), k))), dtype=INTS)
    others = g(Resample((0,)), x, g(Reshape(), count, g.ints(1), dtype=INTS))
    return [g(Tanh(), g(Concatenation(1), x, others)), g(Tanh(), g(Concatenation(1), others, others, x))]


def joined(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """The greatest few of each of four maps, and of all together some."""
    fewest = []
    for part in range(4):
        wide = g(Cast(), g(Mul(), g(Cast(), g(Add(), k, g.number(part + 1), dtype=INTS)), g.number(1.3)), dtype=INTS)
        image = g(Resample((0,)), g(Reshape(), x, g.ints(-1)), g(Reshape(), wide, g.ints(1), dtype=INTS))
        count = g(Minimum(), g.number(9), g.length(image, 0), dtype=INTS)
        fewest.append(several(g, TopKV2(), (DType.FLOAT32, INTS), image, count)[0])
    everything = g(Concatenation(0), *fewest)
    least = g(Minimum(), g.number(3), g.length(everything, 0), dtype=INTS)
    return several(g, TopKV2(), (DType.FLOAT32, INTS), everything, least)[:1]


CASES: dict[str, Write] = {"scaled": scaled, "in tiles": in_tiles, "found": found, "joined": joined, "twice": twice,
                          "beside": beside}


@pytest.mark.parametrize("name", CASES)
def test_one_function_serves_all_images(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(CASES[name]), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        given = [floats(rows, 6), np.array(max(k, name == "beside"), np.int32)]
        for one, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(one, expected, 1e-5 if expected.dtype.kind == "f" else None)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}


def test_nothing_is_found(folder: object, compiled: list[str]) -> None:
    native = circlet.Session(model(found), backend="native")
    for rows in (4, 7):
        assert native.invoke(0, [np.full((rows, 6), -1, np.float32), np.array(0, np.int32)])[0].shape == (0, 3)
    assert len(compiled) == 1
