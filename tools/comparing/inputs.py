"""Values at the ends of what types hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.late import imported
from circlet.tools.measuring.inputs import by_chance
from circlet.tools.results import Value


def extremes(tensor: Tensor, chance: np.random.Generator) -> Value:
    """A value of a tensor's type whose elements are by chance the least and the greatest of the type, those next to 0,
    0, and of floats NaN and infinities; strings and lists are as `by_chance` has them."""
    element = tensor.dtype.element
    if element is None or tensor.dtype in (DType.VARIANT, DType.STRING, DType.BOOL):
        return by_chance(tensor, tensor.shape, chance)
    if tensor.dtype.value.startswith(("int", "uint")):
        ends = _integers(tensor.dtype)
        chosen = [ends[each] for each in chance.integers(0, len(ends), tensor.shape).reshape(-1)]
        return np.array(chosen, object).astype(element).reshape(tensor.shape)
    real = np.dtype(f"float{element.itemsize * 4}") if element.kind == "c" else element
    limits: Any = imported("ml_dtypes").finfo(real)  # numpy's floats, too
    some = np.array([0.0, -0.0, float(limits.max), float(limits.min), float(limits.tiny),
                     float(limits.smallest_subnormal), np.nan, np.inf, -np.inf, 1.0, -1.0])
    with np.errstate(all="ignore"):
        found: Value = some[chance.integers(0, len(some), tensor.shape)].astype(element)
    return found


def _integers(dtype: DType) -> list[int]:
    bits, is_signed = int(dtype.value.lstrip("uint")), dtype.value.startswith("int")
    if is_signed:
        return [-(1 << bits - 1), (1 << bits - 1) - 1, 0, 1, -1]
    return [0, 1, (1 << bits) - 1, (1 << bits - 1)]
