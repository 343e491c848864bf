"""Small arrays for cases, written down or made by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt


def grid(shape: Sequence[int], values: Sequence[float], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """The values, in order, in the given shape."""
    return np.array(values, dtype).reshape(shape)


def ramp(shape: Sequence[int], dtype: npt.DTypeLike = np.float32, step: int = 7, span: int = 23,
         start: int = -11, scale: float = 1) -> npt.NDArray[Any]:
    """Values that climb by `step` and wrap around within `span` values from `start`, times `scale`.

    Sums of products of such floats are exact in any order, while `scale` is a power of two.
    """
    return ((np.arange(prod(shape)) * step % span + start) * scale).astype(dtype).reshape(shape)
