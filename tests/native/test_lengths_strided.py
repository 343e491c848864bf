"""Slices by strides that only a run tells, and by what loops carry unchanged, are code for any lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.native.test_lengths import floats
from tests.schema.onnx.graphs import load

SPACED = """g (float[b, n, 3] x, int64[2] start, int64[2] end, int64[2] step) => (float[k, m, 3] y) {
    axes = Constant<value = int64[2] {1, 0}>() part = Slice(x, start, end, axes, step) y = Tanh(part) }"""
LAST = (1 << 63) - 1
PARTS = ((4, 30, (2, 0), (25, 9), (3, 1)), (5, 9, (-1, 3), (-LAST, 0), (-2, -1)),
         (2, 40, (-50, 5), (LAST, -9), (7, -3)), (7, 11, (5, 5), (5, -9), (-1, 2)),
         (3, 6, (50, 0), (-50, 3), (-LAST - 1, LAST)), (1, 1, (0, 0), (1, 1), (9, 9)))
"""Rows and columns, and where slices of columns and rows begin, end, and how far apart their elements are."""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_strides_of_any_sign_and_bounds_of_any_size(backend: str, folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(SPACED, 17), backend)
    for rows, columns, start, end, step in PARTS:
        x = floats(rows, columns, 3)
        found = session.invoke(0, [x, *(np.array(each, np.int64) for each in (start, end, step))])[0]
        outer, inner = (slice(start[k], None if step[k] < 0 and end[k] < -max(rows, columns) else end[k], step[k])
                        for k in (1, 0))
        np.testing.assert_allclose(found, np.tanh(x[outer, inner]), rtol=1e-6)
    assert len(compiled) <= 1
    assert set(session.backend_of(0)) <= {backend, "none"}
    with pytest.raises(circlet.CircletError, match="strides: expected none that is 0, found it in entry 0"):
        session.invoke(0, [x, np.zeros(2, np.int64), np.ones(2, np.int64), np.array([1, 0])])


CARRIED = """g (float[t, b, 4] x) => (float[t, b, 2] y) {
    yes = Constant<value = bool {1}>() sizes = Shape(x) zero = Constant<value = int64 {0}>()
    turns = Gather(sizes, zero) every = Constant<value = float[1] {2}>()
    y0, y1, y = Loop(turns, yes, every, x)<body = body (int64 i, bool c, float[1] step, float[t, b, 4] all)
        => (bool more, float[1] step, float[t, b, 4] all, float[b, 2] row) {
        more = Identity(yes) one = Constant<value = int64 {1}>() next = Add(i, one)
        flat = Constant<value = int64[1] {0}>() from = Unsqueeze(i, flat) to = Unsqueeze(next, flat)
        wide = Cast<to = 7>(step) strides = Sub(wide, last) part = Slice(all, from, to, flat, strides)
        slice = Squeeze(part, flat) last = Constant<value = int64[1] {1}>() four = Constant<value = int64[1] {4}>()
        row = Slice(slice, flat, four, last, wide) }> }"""
"""What a loop carries unchanged, as TensorFlow's loops do all that is around them, says how its slices are spaced."""


@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_constants_that_loops_carry(backend: str, folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(CARRIED, 17), backend)
    for steps, batch in ((9, 3), (20, 1), (5, 8)):
        x = floats(steps, batch, 4)
        np.testing.assert_array_equal(session.invoke(0, [x])[0], x[:, :, ::2])
    assert len(compiled) <= 1
    assert set(session.backend_of(0)) <= {backend, "none", "controlflow"}


BACKWARDS = """g (float[n, 3] x, float[n] by) => (float[k, 3] y) {
    none = Constant<value = float {0}>() first = Constant<value = int64[1] {0}>()
    last = Constant<value = int64[1] {-1}>() all = Constant<value = int64[1] {-9223372036854775807}>()
    step = Constant<value = int64[1] {-STEP}>() mask = Greater(by, none) rows = Compress<axis = 0>(x, mask)
    turned = Slice(rows, last, all, first, step) y = Tanh(turned) }"""


@pytest.mark.parametrize("backend", ["native", "cpu"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_chosen_rows_are_read_backwards(step: int, backend: str, folder: Path, compiled: list[str]) -> None:
    """As `x[mask].flip(0)`, of none and of one, too."""
    session = circlet.Session(load(BACKWARDS.replace("STEP", str(step)), 17), backend)
    for signs in ([1, -1, 1, 1, -1], [-1, 1, 1], [1] * 30, [-1, -1], [-1, 1], [1, 1, -1, -1, 1, 1, 1], [1]):
        x, by = floats(len(signs), 3), np.array(signs, np.float32)
        (found,) = session.invoke(0, [x, by])
        np.testing.assert_allclose(found, np.tanh(x[by > 0][::-step]), rtol=1e-6)
    assert len(compiled) <= 1
    assert set(session.backend_of(0)) <= {backend, "none"}
