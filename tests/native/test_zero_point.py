"""Zero points of rows of real numbers: by integers those of double precision, where quotients are halves, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.rules.quantized.zero_point import zero_point
from tests.native.compiled import call_of

Array = npt.NDArray[Any]
COUNT = 50000


def ends() -> Array:
    """Any intervals around zero, and such of which an end is a half, where a scale is 1: multiples of halves, of which
    some have no finite binary fraction for a scale."""
    random = np.random.default_rng(0)
    some = random.standard_normal((COUNT, 2)) * np.exp2(random.integers(-30, 30, (COUNT, 1)))
    odd = 2 * random.integers(0, 255, COUNT) + 1
    wide = random.integers(1, 1 << 15, COUNT)
    powers = wide * np.exp2(random.integers(-20, 20, COUNT))
    halves = np.stack([-odd * powers, (510 - odd) * powers], axis=1)
    thirds = np.stack([-wide, 510 * wide / odd - wide], axis=1)
    special = [[0, 1], [-1, 0], [0, 0], [-1e-40, 1e-39], [-1, 1e30], [-1e30, 1]]
    found = np.concatenate([some, halves, thirds, special]).astype(np.float32)
    return np.stack([np.minimum(found.min(1), 0), np.maximum(found.max(1), 0)], axis=1)


def test_zero_points() -> None:
    low, high = ends().T
    span = high - low
    with np.errstate(divide="ignore", over="ignore"):
        is_small = np.isinf(np.float32(1) / (span.astype(np.float64) / 255).astype(np.float32))
    span = np.where(is_small, np.float32(255), span)
    below, above = (each.astype(np.float64) / (span.astype(np.float64) / 255) for each in (low, high))
    nearest = np.where(-below + 128.0 < above + 127.0, -below - 128.0, -above + 127.0)
    expected = np.clip(np.trunc(nearest + np.copysign(np.nextafter(0.5, 0), nearest)), -128, 127)
    given = np.ascontiguousarray(np.stack([low, high, span], axis=1))

    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        with e.loop(len(given)) as k:
            begin = e.address(source, ir.FloatType(), e.builder.mul(k, e.number(3)))
            row = [e.builder.load(e.address(begin, ir.FloatType(), each), typ=ir.FloatType()) for each in range(3)]
            e.builder.store(zero_point(e, *row), e.address(target, I32, k))

    found = np.zeros(len(given), np.int32)
    call_of(write)(given, found)
    np.testing.assert_array_equal(found, expected)
    share = np.minimum(-below, above)
    is_perturbed = (np.abs(2 * share - np.rint(2 * share)) < 1e-12) & (2 * share != np.rint(2 * share))
    assert is_perturbed.sum() > 10, "double precision rounds some halves"
