"""Pad with amounts that only a run tells, of which those below 0 cut."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from tests.needs import NATIVE
from tests.schema.onnx.graphs import parse

TOLD = "g (float[2, n, 3] x, int64[6] pads) => (float[a, b, c] y) { y = Pad(x, pads) }"
SHAPED = """g (float[2, n, 3] x) => (float[2, m, 3] y) {
    four = Constant<value = int64[1] {4}>() zero = Constant<value = int64[1] {0}>()
    n = Shape<start = 1, end = 2>(x) left = Sub(four, n)
    pads = Concat<axis = 0>(zero, zero, zero, zero, left, zero) y = Pad(x, pads) }"""


def surrounded(x: np.ndarray, pads: list[int]) -> np.ndarray:
    cuts = tuple(slice(max(-before, 0), size - max(-after, 0))
                 for size, before, after in zip(x.shape, pads[:3], pads[3:], strict=True))
    return np.pad(x[cuts], [(max(before, 0), max(after, 0)) for before, after in zip(pads[:3], pads[3:], strict=True)])


@pytest.mark.parametrize("pads", [[0, 1, 0, 0, 2, 0], [0, -1, 0, 0, 2, 0], [1, -2, 1, 0, -1, -1], [-1, 0, 0, 0, 0, 0]])
def test_amounts_that_a_run_is_given(pads: list[int]) -> None:
    x = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
    found = circlet.Session(parse(TOLD)).run({"x": x, "pads": np.array(pads)})["y"]
    np.testing.assert_array_equal(found, surrounded(x, pads), strict=True)


ALONG = """g (float[a, n, 3] x, int64[p] pads, float value, int64[m] axes) => (float[b, c, d] y) {
    y = Pad(x, pads, value, axes) }"""


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_axes_of_any_number_that_a_run_is_given(backend: str) -> None:
    x, value = np.arange(30, dtype=np.float32).reshape(2, 5, 3), np.float32(7)
    session = circlet.Session(parse(ALONG, 18), backend=backend)
    for pads, axes in (([1, 2], [1]), ([0, 3, 0, 1], [1, -1]), ([1, 0, 2, 0, 1, 1], [-3, 2, 1]), ([], [])):
        rows = [(0, 0)] * 3
        for axis, before, after in zip(axes, pads[:len(axes)], pads[len(axes):], strict=True):
            rows[axis] = (before, after)
        found = session.invoke(0, [x, np.array(pads, np.int64), value, np.array(axes, np.int64)])[0]
        np.testing.assert_array_equal(found, np.pad(x, rows, constant_values=value), strict=True)
    for axis in (3, -4):
        with pytest.raises(ExecutionError, match=f"index {axis} is out of range for an axis of size 3"):
            session.invoke(0, [x, np.array([1, 1]), value, np.array([axis])])
    with pytest.raises(ExecutionError, match=r"cannot reshape \(3,\)"):
        session.invoke(0, [x, np.array([1, 1, 1]), value, np.array([0])])


def test_amounts_that_follow_from_lengths() -> None:
    session = circlet.Session(parse(SHAPED))
    for length in (2, 4, 7, 3, 9):
        x = np.arange(6 * length, dtype=np.float32).reshape(2, length, 3)
        expected = surrounded(x, [0, 0, 0, 0, 4 - length, 0])
        np.testing.assert_array_equal(session.run({"x": x})["y"], expected, strict=True)


SQUEEZED = """g (float[a, n] x) => (float[m] y) {{
    pads = Constant<value = int64[2] {{2, 1}}>() s = Squeeze(x) y = Pad<mode = "{}">(s, pads) }}"""


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_a_rank_that_only_a_run_tells(backend: str, mode: str) -> None:
    """There are two amounts for each axis."""
    session = circlet.Session(parse(SQUEEZED.format(mode), 19), backend=backend)
    for shape in ((1, 5), (4, 1), (1, 9)):
        x = np.arange(max(shape), dtype=np.float32)
        expected = np.pad(x, (2, 1), mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(session.invoke(0, [x.reshape(shape)])[0], expected, strict=True)
    with pytest.raises(ExecutionError, match="expected"):
        session.invoke(0, [np.zeros((2, 5), np.float32)])


GOES_ON = """g (float[a, n, m] x) => (float[b, c, d] y) {
    pads = Constant<value = int64[6] {1, 2, 0, 0, 1, 3}>() y = Pad<mode = "%s">(x, pads) }"""


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_what_goes_on_at_any_lengths(mode: str, backend: str) -> None:
    """By more than the axis has, too, which numpy's `pad` knows as well."""
    session = circlet.Session(parse(GOES_ON % mode), backend=backend)
    for shape in ((2, 3, 4), (3, 2, 7), (5, 8, 2), (2, 3, 4), (4, 9, 33)):
        x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
        expected = np.pad(x, [(1, 0), (2, 1), (0, 3)], mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(session.invoke(0, [x])[0], expected, strict=True)
    with pytest.raises(ExecutionError, match="elements to go on with"):
        session.invoke(0, [np.ones((2, 0, 4), np.float32)])
    np.testing.assert_array_equal(session.invoke(0, [x])[0], expected, strict=True)
