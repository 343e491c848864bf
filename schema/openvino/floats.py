"""Floats of few bits: what each of their codes stands for."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import Array
from circlet.runtime.late import imported

_NORMAL = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
           -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
           0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)
"""Between each two of them there is as much of a normal distribution."""
_TYPES = {"f4e2m1": "float4_e2m1fn", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu"}
"""What they are called by `ml_dtypes`."""


def decoded(codes: Array, kind: str) -> Array:
    """The numbers, float32, that codes, one in a byte, stand for in a type of `FEW_BITS`."""
    if kind == "nf4":
        return np.array(_NORMAL, np.float32)[codes]
    every = np.arange(16 if kind == "f4e2m1" else 256, dtype=np.uint8)
    found: Array = every.view(getattr(imported("ml_dtypes"), _TYPES[kind])).astype(np.float32)[codes]
    return found
