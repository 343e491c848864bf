"""Random numbers: how they are distributed, and what a seed does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from tests.native.conftest import compiled as compiled
from tests.needs import NATIVE
from tests.schema.onnx.graphs import load

BACKENDS = pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
DRAWN = """g (float[a, b] x) => (float[1000] normal, double[a, b] uniform, float[a, b] chance, int64[a, k] classes) {
    normal = RandomNormal<shape = [1000], mean = 3.0, scale = 2.0>()
    uniform = RandomUniformLike<low = 2.0, high = 5.0, dtype = 11, seed = 3.0>(x)
    chance = Bernoulli(x) classes = Multinomial<sample_size = 7, dtype = 7>(x) }"""
LIKE = """g (float[a, b] x) => (float[a, b] y) {
    one = RandomNormalLike<seed = 1.5>(x) other = RandomNormalLike<mean = -1.0>(x) y = Sub(one, other) }"""

COUNTED = """g (int64 n) => (float[k] y, float[m] steps, float[3] before) {
    before = RandomNormal<shape = [3], seed = 2.5>() least = Constant<value = float {-100}>()
    zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() low = ReduceMax<keepdims = 0>(before)
    is = Greater(low, least) more = Cast<to = 7>(is) m = Mul(n, more) all = Range(zero, m, one)
    x = Cast<to = 1>(all) y = RandomNormalLike<seed = 1.5>(x) axis = Constant<value = int64[1] {0}>()
    row = Unsqueeze(y, axis) shape = Shape(row) two = Constant<value = int64 {1}>() count = Gather(shape, two)
    end = Cast<to = 1>(count) first = Constant<value = float {0}>() step = Constant<value = float {1}>()
    steps = Range(first, end, step) }"""
"""As many numbers as a run tells, and their places as floats."""


def drawn(session: circlet.Session, rows: int = 40, columns: int = 60) -> dict[str, Any]:
    return dict(session.run({"x": np.full((rows, columns), 0.25, np.float32)}))


@BACKENDS
def test_numbers_are_distributed(backend: str) -> None:
    with circlet.Session(load(DRAWN), backend=backend) as session:
        found = drawn(session)
        assert abs(found["normal"].mean() - 3) < 0.5
        assert abs(found["normal"].std() - 2) < 0.5
        assert found["uniform"].dtype == np.float64
        assert (found["uniform"].min(), found["uniform"].max()) == pytest.approx((2, 5), abs=0.1)
        assert set(found["chance"].flat) == {0, 1}
        assert abs(found["chance"].mean() - 0.25) < 0.05
        assert found["classes"].shape == (40, 7)
        assert {*found["classes"].flat} <= {*range(60)}
        again = drawn(session)
        assert all((again[name] != value).any() for name, value in found.items())
        assert drawn(session, 3, 5)["uniform"].shape == (3, 5)


@BACKENDS
def test_a_seed_gives_the_same_numbers_in_each_session(backend: str) -> None:
    one, other = (drawn(circlet.Session(load(DRAWN), backend=backend)) for _ in range(2))
    assert (one["uniform"] == other["uniform"]).all()
    assert (one["normal"] != other["normal"]).any()


@BACKENDS
def test_sums_of_numbers_like_a_tensor(backend: str) -> None:
    found = drawn(circlet.Session(load(LIKE), backend=backend), 100, 100)["y"]
    assert abs(found.mean() - 1) < 0.2
    assert abs(found.var() - 2) < 0.3


@pytest.mark.parametrize("count", [40, 500])
@NATIVE
def test_numbers_do_not_hang_on_how_much_room_there_was(count: int, compiled: list[str],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that has no room for all of them is begun anew."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    one, other = (circlet.Session(load(COUNTED), backend=backend) for backend in ("cpu", "native"))
    for length in (count, 30, 2 * count):
        expected, found = (each.run({"n": np.int64(length)}) for each in (one, other))
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6, strict=True)
        np.testing.assert_allclose(found["before"], expected["before"], rtol=1e-6)
        assert (found["steps"] == np.arange(length)).all()
    assert len(compiled) == 1
