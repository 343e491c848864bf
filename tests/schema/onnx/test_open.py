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

CACHED = """g (float[b, n, 8] x, float[b, 2, p, 4] keys) => (float[b, m, 8] y) {
    split = Constant<value = int64[4] {0, 0, 2, 4}>() heads = Reshape(x, split)
    ours = Transpose<perm = [0, 2, 1, 3]>(heads) all = Concat<axis = 2>(keys, ours)
    back = Transpose<perm = [0, 2, 1, 3]>(all) joined = Constant<value = int64[3] {0, -1, 8}>()
    rows = Reshape(back, joined) scale = Constant<value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}>()
    y = LayerNormalization<axis = -1, epsilon = 0.0>(rows, scale) }"""
RECURRENT = """g (float[t, b, 1] x, int32[b] lens) => (float[t, 1, b, 1] y) {
    w = Constant<value = float[1, 3, 1] {0.5, 1.0, 2.0}>() r = Constant<value = float[1, 3, 1] {0.0, 0.0, 0.0}>()
    none = Constant<value = float[1, 6] {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}>()
    y = GRU<hidden_size = 1, linear_before_reset = 1>(x, w, r, none, lens) }"""


def picked(length: int) -> Case:
    x, score = np.arange(3 * length, dtype=np.float32).reshape(length, 3), np.sin(np.arange(length)).astype(np.float32)
    return Case(f"rows at {length}", PICKED, {"x": x, "score": score}, [x[score > 0]])


def resized(length: int) -> Case:
    x = np.arange(2 * length * length, dtype=np.float32).reshape(1, 2, length, length)
    like = np.ones((1, 1, 2 * length, 2 * length), np.float32)
    up = x.repeat(2, 2).repeat(2, 3)
    return Case(f"images at {length}", RESIZED, {"x": x, "like": like}, [up[:, :1] + 2 * up[:, 1:] + f32(3)])


def cached(length: int) -> Case:
    numbers = np.sin(np.arange(16 * length + 48, dtype=np.float32))
    x, keys = numbers[48:].reshape(2, length, 8), numbers[:48].reshape(2, 2, 3, 4)
    every = np.concatenate([keys, x.reshape(2, length, 2, 4).transpose(0, 2, 1, 3)], 2)
    rows = every.transpose(0, 2, 1, 3).reshape(2, -1, 8)
    expected = (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)
    return Case(f"cache and {length}", CACHED, {"x": x, "keys": keys}, [expected])


def recurrent(length: int) -> Case:
    """Of two rows, the second one shorter; nothing of the state is multiplied, so that a gate is one of the input."""
    x = np.sin(np.arange(2 * length, dtype=np.float32)).reshape(length, 2, 1)
    state, expected = np.zeros((2, 1)), np.zeros((length, 1, 2, 1), np.float32)
    for t, step in enumerate(x):
        kept = 1 / (1 + np.exp(-0.5 * step))
        state = (1 - kept) * np.tanh(2.0 * step) + kept * state
        expected[t, 0] = state
    expected[length - 2:, 0, 1] = 0
    return Case(f"GRU of {length}", RECURRENT, {"x": x, "lens": np.array([length, length - 2], np.int32)}, [expected])


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", [make(length) for make in (picked, resized, cached, recurrent) for length in (4, 7)],
                         ids=str)
def test_open(case: Case, backend: str) -> None:
    check(case, backend)
