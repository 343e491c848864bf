"""Functions of floats where there are no instructions for doubles, against double precision."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.native.emit import hyperbolic, math, trigonometry
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import Function
from circlet.backends.native.rules.real import division
from circlet.backends.native.targets.target import Goal
from tests.native import test_math
from tests.native.test_math import DENSE, SPECIAL, Array, applied, errors
from tests.native.test_targets import Words, plain

RANDOM = np.random.default_rng(0)
PAIRS = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1).astype(np.float32)
ANY = RANDOM.integers(0, 1 << 32, (2, 200000), dtype=np.uint64).astype(np.uint32).view(np.float32)
NEAR = np.stack([RANDOM.uniform(-100, 100, 200000), RANDOM.uniform(-3, 3, 200000)]).astype(np.float32)
TENTHS = np.stack([RANDOM.integers(-1000, 1000, 200000), RANDOM.integers(-20, 20, 200000)]) * np.float32(0.1)
LEAST = np.exp2(RANDOM.uniform(-149, -120, (2, 100000))).astype(np.float32)


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is made for a processor that has single precision alone."""
    target = plain(Words, Goal.SIZE)
    monkeypatch.setattr(test_math, "Emitter", lambda module, function, _: Emitter(module, function, target))


@pytest.mark.parametrize(("function", "expected", "most"), [
    (trigonometry.sin, np.sin, 1.3), (trigonometry.cos, np.cos, 1.3), (math.cbrt, np.cbrt, 0.9),
    (trigonometry.tan, np.tan, 3.2), (trigonometry.asin, np.arcsin, 4), (trigonometry.acos, np.arccos, 4),
    (trigonometry.atan, np.arctan, 2.5), (hyperbolic.sinh, np.sinh, 4), (hyperbolic.cosh, np.cosh, 4),
    (hyperbolic.asinh, np.arcsinh, 4), (hyperbolic.acosh, np.arccosh, 4), (hyperbolic.atanh, np.arctanh, 4)],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "")
def test_of_one_number(function: Function, expected: np.ufunc, most: float) -> None:
    with np.errstate(all="ignore"):
        assert errors(applied(function, DENSE), expected(DENSE.astype(np.float64))).max() <= most


@pytest.mark.parametrize(("function", "expected", "most"), [
    (math.power, np.power, 0.9), (trigonometry.atan2, np.arctan2, 2.5)], ids=["power", "atan2"])
def test_of_two_numbers(function: Function, expected: np.ufunc, most: float) -> None:
    positive = np.stack([np.exp2(RANDOM.uniform(-140, 127, 200000)), RANDOM.uniform(-3, 3, 200000)])
    with np.errstate(all="ignore"):
        for x, y in (PAIRS, positive.astype(np.float32), np.abs(NEAR[::-1])):
            wide = expected(x.astype(np.float64), y.astype(np.float64))
            assert errors(applied(function, x, y), wide).max() <= most


@pytest.mark.parametrize("numbers", [
    PAIRS, ANY, NEAR, TENTHS, LEAST], ids=["special", "any", "near", "tenths", "least"])
def test_division(numbers: Array) -> None:
    """Remainders to the bit; quotients too, up to 2 ** 24, from where on all are whole."""
    x, y = map(np.ascontiguousarray, numbers.astype(np.float32))
    with np.errstate(all="ignore"):
        exact, floor = np.fmod(x, y), np.floor(x.astype(np.float64) / y.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_equal(applied(division._real_remainder, x, y), exact)
        found = applied(division._real_floored, x, y)
        is_large = np.abs(floor) > 2.0**24
        np.testing.assert_array_equal(found[~is_large], floor[~is_large])
        np.testing.assert_allclose(found[is_large], floor[is_large], rtol=2e-7)
