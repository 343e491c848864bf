"""Grids of affine maps, against places that numpy multiplies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from tests.needs import NATIVE
from tests.schema.onnx.graphs import load

RANDOM = np.random.default_rng(5)


def places(length: int, is_aligned: bool) -> npt.NDArray[np.float64]:
    if is_aligned:
        return np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
    return (2 * np.arange(length) + 1) / length - 1


def expected(theta: npt.NDArray[np.float32], sizes: tuple[int, ...], is_aligned: bool) -> npt.NDArray[np.float64]:
    axes = np.meshgrid(*(places(each, is_aligned) for each in sizes), indexing="ij")
    points = np.stack([*axes[::-1], np.ones(sizes)], -1)
    found: npt.NDArray[np.float64] = np.einsum("nij,...j->n...i", theta, points)
    return found


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("is_aligned", [False, True], ids=["edges", "centres"])
@pytest.mark.parametrize("axes", [2, 3])
def test_grids(axes: int, is_aligned: bool, backend: str) -> None:
    dims = ", ".join("dhw"[:axes])
    session = circlet.Session(load(
        f"g (float[n, {axes}, {axes + 1}] theta, int64[{axes + 2}] size) => (float[n, {dims}, {axes}] y) "
        f"{{ y = AffineGrid<align_corners = {int(is_aligned)}>(theta, size) }}", 20), backend=backend)
    for batch, *sizes in ((1, 4, 5, 6), (3, 3, 7, 2), (1, 1, 3, 2), (2, 2, 1, 9)):
        theta = RANDOM.normal(size=(batch, axes, axes + 1)).astype(np.float32)
        found = session.run({"theta": theta, "size": np.array([batch, 3, *sizes[:axes]])})["y"]
        np.testing.assert_allclose(found, expected(theta, tuple(sizes[:axes]), is_aligned), 1e-5, 1e-6)
