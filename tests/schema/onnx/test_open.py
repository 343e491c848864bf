"""Graphs of which a run tells the lengths: what is imported of them beside their ranks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import NATIVE
from tests.schema.onnx.graphs import Case, check, f32

PICKED = """g (float[n, 3] x, float[n] score) => (float[k, 3] y) {
    zero = Constant<value = float {0.0}>() is = Greater(score, zero) at = NonZero(is)
    rows = Transpose<perm = [1, 0]>(at) y = GatherND(x, rows) }"""
RESIZED = """g (float[b, 2, h, w] x, float[b, c, h2, w2] like) => (float[b, 1, h2, w2] y) {
    begin = Constant<value = int64[1] {0}>() two = Constant<value = int64[1] {2}>()
    end = Constant<value = int64[1] {4}>()
    shape = Shape(x) same = Slice(shape, begin, two) wanted = Shape(like) size = Slice(wanted, two, end)
    sizes = Concat<axis = 0>(same, size)
    up = Resize<coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor">(
        x, "", "", sizes)
    both = Concat<axis = 1>(up, like)
    kernel = Constant<value = float[1, 3, 1, 1] {1.0, 2.0, 3.0}>() y = Conv(both, kernel) }"""


def picked(length: int) -> Case:
    x, score = np.arange(3 * length, dtype=np.float32).reshape(length, 3), np.sin(np.arange(length)).astype(np.float32)
    return Case(f"rows at {length}", PICKED, {"x": x, "score": score}, [x[score > 0]])


def resized(length: int) -> Case:
    x = np.arange(2 * length * length, dtype=np.float32).reshape(1, 2, length, length)
    like = np.ones((1, 1, 2 * length, 2 * length), np.float32)
    up = x.repeat(2, 2).repeat(2, 3)
    return Case(f"images at {length}", RESIZED, {"x": x, "like": like}, [up[:, :1] + 2 * up[:, 1:] + f32(3)])


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", [make(length) for make in (picked, resized) for length in (4, 7)], ids=str)
def test_open(case: Case, backend: str) -> None:
    check(case, backend)
