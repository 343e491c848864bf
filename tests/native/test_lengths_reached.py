"""Images as large as only a run tells are taken to be large enough for what slides over them, or is made of them: code
for any lengths goes on, and a run that finds it otherwise has numpy's error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.reduce import Mean
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.shape import Reshape
from tests.native.test_lengths import Graph, floats, weights
from tests.native.test_plans import is_prepared
from tests.ops.cases import check

VALID, INTS, I64 = Padding.VALID, DType.INT32, DType.INT64


def taken(g: Graph) -> Value:
    """Of x (1, n, 4, 3) the rows where a mask (n,) says so."""
    x, mask = g.builder.input("x", DType.FLOAT32, (1, -1, 4, 3)), g.builder.input("mask", DType.BOOL, (-1,))
    places = g(Reshape(), g(Where(), mask, dtype=I64), g.ints(-1), dtype=I64)
    return g(Gather(axis=1), x, places)


def cut(g: Graph) -> Value:
    """Of x (1, n, 4, 3) the first rows, as many as the second of two numbers says."""
    x, ends = g.builder.input("x", DType.FLOAT32, (1, -1, 4, 3)), g.builder.input("ends", INTS, (2,))
    return g(StridedSlice(end_mask=1), x, g.ints(0, 0), ends, g.ints(1, 1))


def convolved(g: Graph, x: Value) -> Sequence[Value]:
    y = g(Conv2D(VALID, 1, 2), x, g.builder.constant(weights(7, 3, 2, 3)))
    z = g(DepthwiseConv2D(VALID, 1, 1, depth_multiplier=1), y, g.builder.constant(weights(1, 2, 2, 7)))
    return [z, g(Mean(), z, g.ints(1, 2))]


def pooled(g: Graph, x: Value) -> Sequence[Value]:
    return [g(op(VALID, 1, 2, filter_width=2, filter_height=3), x) for op in (MaxPool2D, AveragePool2D)]


def resized(g: Graph, x: Value) -> Sequence[Value]:
    return [g(ResizeBilinear(), x, g.ints(6, 5))]


def model(parts: Callable[[Graph], Value], write: Callable[[Graph, Value], Sequence[Value]]) -> Model:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(*write(g, parts(g)))
    return b.build()


def given(parts: Callable[[Graph], Value], rows: int, count: int) -> Sequence[np.ndarray]:
    """An image of so many rows, of which so many are to be taken."""
    if parts is cut:
        return [floats(1, rows, 4, 3), np.array([1, count], np.int32)]
    return [floats(1, rows, 4, 3), np.random.default_rng(rows).permutation(rows) < count]


@pytest.mark.parametrize("write", [convolved, pooled, resized])
@pytest.mark.parametrize("parts", [taken, cut])
def test_one_function_serves_all_lengths(parts: Callable[[Graph], Value], folder: Path, compiled: list[str],
                                         write: Callable[[Graph, Value], Sequence[Value]]) -> None:
    made = model(parts, write)
    native, cpu = (circlet.Session(made, each) for each in ("native", "cpu"))
    for rows, count in ((9, 7), (30, 12), (8, 8), (100, 61), (9, 7)):
        values = given(parts, rows, count)
        for found, expected in zip(native.invoke(0, values), cpu.invoke(0, values), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize("backend", ["native", "cpu"])
@pytest.mark.parametrize(("write", "message"), [
    (convolved, r"\(CONV_2D\): a window that spans 3 elements does not fit into 0"),
    (pooled, r"\(MAX_POOL_2D\): a window that spans 3 elements does not fit into 0"),
    (resized, r"\(RESIZE_BILINEAR\): cannot resize 0 x 4 to 6 x 5"),
], ids=["convolved", "pooled", "resized"])
@pytest.mark.parametrize("parts", [taken, cut])
def test_images_that_are_too_small_are_errors(parts: Callable[[Graph], Value], message: str, backend: str, folder: Path,
                                              write: Callable[[Graph, Value], Sequence[Value]]) -> None:
    session = circlet.Session(model(parts, write), backend)
    values = given(parts, 9, 6)
    expected = session.invoke(0, values)
    for rows in (9, 14):
        with pytest.raises(circlet.CircletError, match=message):
            session.invoke(0, given(parts, rows, 0))
        for found, before in zip(session.invoke(0, values), expected, strict=True):
            check(found, before, None)


def test_a_window_may_fit_nowhere(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(model(taken, pooled), "native")
    for rows, count, left in ((9, 7, 3), (9, 2, 0), (5, 1, 0), (6, 3, 1)):
        assert [each.shape for each in session.invoke(0, given(taken, rows, count))] == [(1, left, 3, 3)] * 2
    assert len(compiled) == 1


def test_what_is_taken_is_planned(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    circlet.save(model(taken, convolved), path)
    first = circlet.Session(path, "native").invoke(0, values := given(taken, 9, 7))
    session = circlet.Session(path, "native")
    for found, expected in zip(session.invoke(0, values), first, strict=True):
        check(found, expected, None)
    assert is_prepared(session)


SQUARED = """g (float[b, n, 3] x) => (float[b, 3, m, k] y) {
    sizes = Shape(x) at = Constant<value = int64 {1}>() n = Gather(sizes, at) real = Cast<to = 1>(n)
    half = Constant<value = float {0.5}>() side = Pow(real, half) whole = Cast<to = 7>(side)
    first = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    row = Unsqueeze(whole, first) b = Slice(sizes, first, one) three = Constant<value = int64[1] {3}>()
    shape = Concat<axis = 0>(b, three, row, row) turned = Transpose<perm = [0, 2, 1]>(x)
    image = Reshape(turned, shape) twice = Constant<value = float[4] {1.0, 1.0, 2.0, 2.0}>()
    up = Resize<coordinate_transformation_mode = "align_corners", mode = "linear">(image, "", twice)
    more = Resize<coordinate_transformation_mode = "half_pixel", mode = "linear">(up, "", twice)
    y = Resize<coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor">(
        more, "", twice) }"""
"""Squares of as many elements as a dense prediction of a transformer has tokens, and what is made of them."""


def test_sides_of_squares_are_scaled(folder: Path, compiled: list[str]) -> None:
    pytest.importorskip("onnx")
    from tests.schema.onnx.graphs import load

    native, cpu = (circlet.Session(load(SQUARED, 17), each) for each in ("native", "cpu"))
    for b, side in ((2, 4), (1, 7), (3, 2), (2, 12)):
        x = floats(b, side * side, 3)
        check(native.invoke(0, [x])[0], cpu.invoke(0, [x])[0], 1e-5)
    assert len(compiled) == 1
    assert {*native.backend_of(0)} <= {"native", "none"}
