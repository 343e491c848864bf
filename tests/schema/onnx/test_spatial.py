"""Col2Im: windows put back to where they were taken from, beside loops over them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import circlet
from circlet.runtime.errors import CircletError
from tests.native.conftest import compiled as compiled
from tests.needs import NATIVE
from tests.schema.onnx.graphs import load

GIVEN = """g (float[n, {rows}, count] x, int64[{axes}] size) => ({result} y) {{
    windows = Constant<value = int64[{axes}] {{{windows}}}>() y = Col2Im<{attributes}>(x, size, windows) }}"""
ADDED = """g (float[n, c, length] x) => (float[n, 1, 1, l] y) {
    shape = Shape(x) two = Constant<value = int64[1] {2}>() three = Constant<value = int64[1] {3}>()
    four = Constant<value = int64[1] {4}>() count = Slice(shape, two, three) steps = Mul(count, four)
    length = Add(steps, four) one = Constant<value = int64[1] {1}>() size = Concat<axis = 0>(one, length)
    windows = Constant<value = int64[2] {1, 8}>() y = Col2Im<strides = [1, 4]>(x, size, windows) }"""
"""Overlap and add: frames of 8, 4 apart."""
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "apart": ((2, 2), {"strides": (2, 2)}, ((4, 6), (6, 6), (9, 5))),
    "overlapping": ((3, 2), {"strides": (1, 1), "pads": (1, 0, 1, 1)}, ((4, 6), (9, 5), (3, 2))),
    "uneven": ((4, 5), {"strides": (3, 2), "pads": (1, 2, 0, 1)}, ((8, 11), (4, 5), (15, 9))),
    "dilated": ((3, 2), {"strides": (2, 1), "dilations": (2, 3), "pads": (1, 1, 1, 1)}, ((8, 11), (5, 5), (15, 9))),
    "gaps": ((1, 3), {"strides": (1, 5)}, ((1, 8), (1, 30), (3, 3))),
    "signals": ((6,), {"strides": (4,), "pads": (1, 2)}, ((21,), (8,), (100,))),
}


def _added(x: NDArray[np.float32], size: tuple[int, ...], windows: tuple[int, ...], strides: tuple[int, ...],
           dilations: tuple[int, ...], pads: tuple[int, ...]) -> NDArray[np.float32]:
    """The sums, one window's elements after the other's."""
    rank, whole = len(size), (slice(None), slice(None))
    channels = x.shape[1] // int(np.prod(windows))
    found = np.zeros((len(x), channels, *(s + pads[k] + pads[k + rank] for k, s in enumerate(size))), np.float32)
    counts = _counts(size, windows, strides, dilations, pads)
    parts = x.reshape(len(x), channels, *windows, *counts)
    for window, place in product(np.ndindex(*windows), np.ndindex(*counts)):
        at = tuple(p * s + w * d for p, s, w, d in zip(place, strides, window, dilations, strict=True))
        found[whole + at] += parts[whole + window + place]
    return found[whole + tuple(slice(pads[k], pads[k] + s) for k, s in enumerate(size))]


def _counts(size: tuple[int, ...], windows: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...],
            pads: tuple[int, ...]) -> list[int]:
    rank = len(size)
    return [(size[k] + pads[k] + pads[k + rank] - dilations[k] * (windows[k] - 1) - 1) // strides[k] + 1
            for k in range(rank)]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_windows_are_added(name: str, backend: str) -> None:
    windows, given, sizes = CASES[name]
    rank = len(windows)
    attributes = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, **given}
    text = GIVEN.format(rows=2 * int(np.prod(windows)), axes=rank, windows=", ".join(map(str, windows)),
                        result=f"float[n, 2, {', '.join('hwl'[:rank])}]",
                        attributes=", ".join(f"{key} = [{', '.join(map(str, each))}]" for key, each in given.items()))
    session = circlet.Session(load(text, 18), backend=backend)
    for size in (*sizes, sizes[0]):
        count = int(np.prod(_counts(size, windows, **attributes)))
        x = np.random.default_rng(0).normal(size=(2, 2 * int(np.prod(windows)), count)).astype(np.float32)
        found = session.run({"x": x, "size": np.array(size, np.int64)})["y"]
        np.testing.assert_allclose(found, _added(x, size, windows, **attributes), rtol=1e-5, atol=1e-6, strict=True)
    with pytest.raises(CircletError):
        session.run({"x": x[:, :, 1:], "size": np.array(size, np.int64)})


@NATIVE
def test_one_function_adds_frames_of_any_length(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    session = circlet.Session(load(ADDED, 18), backend="native")
    for count in (9, 30, 1, 100, 2):
        x = np.random.default_rng(0).normal(size=(2, 8, count)).astype(np.float32)
        expected = _added(x, (1, 4 * count + 4), (1, 8), (1, 4), (1, 1), (0,) * 4)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6, strict=True)
    assert len(compiled) == 1
