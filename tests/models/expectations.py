"""Reads the inputs and expected outputs that lie beside a model; needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
TOLERANCE = 1e-5
"""Of floats: relative, and absolute as a part of the largest expected value."""


@dataclass(frozen=True)
class Expectation:
    """One call of a signature. A model's calls are made in order on one session."""

    number: int
    signature: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


def keys(expectation: Expectation) -> dict[str, Array]:
    """The arrays of a call under the names that files hold them by."""
    suffix = f".{expectation.number}" if expectation.number else ""
    return {
        f"{expectation.signature}/{kind}{suffix}/{name}": value.astype("S") if value.dtype == object else value
        for kind, values in (("in", expectation.inputs), ("out", expectation.outputs))
        for name, value in values.items()
    }


def read(path: Path) -> list[Expectation]:
    """The calls in a file, first to last; strings come as object arrays of bytes."""
    calls: dict[tuple[int, str], tuple[dict[str, Array], dict[str, Array]]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            signature, kind, name = key.split("/", 2)
            kind, _, number = kind.partition(".")
            value = arrays[key]
            sides = calls.setdefault((int(number or 0), signature), ({}, {}))
            sides[kind == "out"][name] = value.astype(object) if value.dtype.kind == "S" else value
    return [Expectation(number, signature, *sides) for (number, signature), sides in sorted(calls.items())]


def agrees(actual: Array, expected: Array) -> bool:
    """Whether a result is what was expected: floats within the tolerance, everything else exactly."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(actual, expected))
    bound = TOLERANCE * float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
    return bool(np.allclose(actual, expected, rtol=TOLERANCE, atol=bound, equal_nan=True))
