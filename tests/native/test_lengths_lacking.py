"""Sizes that are less than numbers which the run tells, so that these are as large at the least, are one function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.native.test_lengths import floats
from tests.needs import NATIVE

pytest.importorskip("onnx")
pytestmark = NATIVE

from tests.schema.onnx.graphs import load  # noqa: E402

SPLIT = """g (float[n, l] x, int64[2] size) => (float[n, p, q] y) { zero = Constant<value = int64[1] {0}>()
    ones = Constant<value = int64[1] {1}>() less = Constant<value = int64[2] {-1, -2}>() shape = Shape(x)
    n = Slice(shape, zero, ones) counts = Add(size, less) sizes = Concat<axis = 0>(n, counts)
    z = Reshape<allowzero = 1>(x, sizes) y = Tanh(z) }"""
FOLD = """g (float[n, 12, l] x, int64[2] size) => (float[n, c, h, w] y) { windows = Constant<value = int64[2] {2, 3}>()
    y = Col2Im(x, size, windows) }"""
SIZES = ((2, 5, 9), (1, 30, 4), (3, 8, 8), (4, 2, 3), (2, 12, 70), (1, 2, 9), (2, 5, 9))
"""How many, and told height and width."""


def folded(x: np.ndarray, height: int, width: int) -> np.ndarray:
    """Sums of windows of 2 by 3."""
    found = np.zeros((len(x), 2, height, width), np.float32)
    parts = x.reshape(len(x), 2, 2, 3, height - 1, width - 2)
    for i in range(2):
        for k in range(3):
            found[:, :, i:i + height - 1, k:k + width - 2] += parts[:, :, i, k]
    return found


def test_what_is_split_is_one_function(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(SPLIT, 18), "native")
    for count, height, width in SIZES:
        x = floats(count, (height - 1) * (width - 2))
        found = session.run({"x": x, "size": np.array([height, width])})["y"]
        np.testing.assert_allclose(found, np.tanh(x).reshape(count, height - 1, width - 2), 1e-5, 1e-6)
    assert len(compiled) == 1


def test_windows_are_put_back_by_one_function(folder: Path, compiled: list[str]) -> None:
    session = circlet.Session(load(FOLD, 18), "native")
    for count, height, width in SIZES:
        x = floats(count, 12, (height - 1) * (width - 2))
        found = session.run({"x": x, "size": np.array([height, width])})["y"]
        np.testing.assert_allclose(found, folded(x, height, width), 1e-5, 1e-5)
    assert len(compiled) == 1


def test_smaller_numbers_give_what_they_are(folder: Path) -> None:
    sessions = [circlet.Session(load(SPLIT, 18), backend) for backend in ("cpu", "native")]
    for session in sessions:
        for _ in range(2):
            good = {"x": floats(2, 12), "size": np.array([5, 5])}
            assert session.run(good)["y"].shape == (2, 4, 3)
            assert session.run({"x": floats(2, 12), "size": np.array([0, 6])})["y"].shape == (2, 3, 4)
            assert session.run({"x": floats(2, 12), "size": np.array([4, 1])})["y"].shape == (2, 3, 4)
            assert session.run({"x": floats(2, 0), "size": np.array([1, 2])})["y"].shape == (2, 0, 0)
            for wrong in ([0, 1], [5, 6], [-1, 6], [1, 9]):
                with pytest.raises(circlet.ExecutionError, match="RESHAPE"):
                    session.run({"x": floats(2, 12), "size": np.array(wrong)})
