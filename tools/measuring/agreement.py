"""Whether two runtimes give the same results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from circlet.runtime.ir.types import Array
from circlet.tools.results import Value

TOLERANCE = 1e-3
"""Of float results: the largest difference as a part of the largest value; a choice, beyond what other orders of
summation come to."""


@dataclass(frozen=True)
class Agreement:
    """How outputs compare with others.

    Attributes:
        agrees: integers, booleans and strings are equal, and floats differ by no more than `TOLERANCE`.
        text: in words.
        largest: the largest difference of a float output, as a part of its largest value; infinite where NaN or
            infinity differ. None where shapes or types do.
        output: which output that is; None where all are equal.
    """

    agrees: bool
    text: str
    largest: float | None = 0.0
    output: str | None = None

    @property
    def brief(self) -> str:
        """In few words, where they agree."""
        return f"within {self.largest:.1e}" if self.largest else "equal"


def agreement(found: Mapping[str, Value], expected: Mapping[str, Value]) -> Agreement:
    """How outputs compare with what is expected."""
    ours, theirs = ({name: each for given, value in side.items() for name, each in _arrays(given, value)}
                    for side in (found, expected))
    if ours.keys() != theirs.keys():
        return Agreement(False, f"outputs {', '.join(ours) or 'none'} instead of {', '.join(theirs) or 'none'}", None)
    largest, output = 0.0, None
    for name, value in theirs.items():
        fault = _fault(ours[name], value)
        if fault is not None:
            return Agreement(False, f"{name} {fault}", None, name)
        distance = _distance(ours[name], value)
        if distance > largest:
            largest, output = distance, name
    if output is None:
        return Agreement(True, "equal")
    return Agreement(largest <= TOLERANCE, f"{output} differs by {largest:.1e} of its largest value", largest, output)


def _arrays(name: str, value: Value) -> Iterator[tuple[str, Array]]:
    """The arrays that a value is made of, and names for them."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _arrays(f"{name}[{number}]", each)


def _fault(found: Array, expected: Array) -> str | None:
    """What cannot be overlooked, whatever the tolerance: other types, shapes, integers."""
    is_text = expected.dtype.kind in "OSU"
    if found.shape != expected.shape or (found.dtype != expected.dtype and not is_text):
        return f"is {found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if _is_real(expected):
        return None
    if is_text:
        found, expected = found.astype("S"), expected.astype("S")
    number = np.count_nonzero(found != expected)
    return f"differs in {number:,} of {expected.size:,} elements" if number else None


def _is_real(array: Array) -> bool:
    """Whether an array holds numbers that are rounded; ml_dtypes' floats have the kind `V`."""
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _distance(found: Array, expected: Array) -> float:
    """The largest difference as a part of the largest finite expected value; infinite where NaN or infinity differ."""
    if not _is_real(expected):
        return 0.0
    if expected.dtype.kind != "c":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(found[~finite], expected[~finite], True):
        return math.inf
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    return float(np.max(np.abs(found[finite] - expected[finite]), initial=0.0)) / (largest or 1.0)
