"""Short names for the arrays and tensors of operator cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import Array, DType
from tests.ops.cases import T

f32: Callable[..., Array] = partial(np.array, dtype=np.float32)
i8: Callable[..., Array] = partial(np.array, dtype=np.int8)
i16: Callable[..., Array] = partial(np.array, dtype=np.int16)
i32: Callable[..., Array] = partial(np.array, dtype=np.int32)
i64: Callable[..., Array] = partial(np.array, dtype=np.int64)
u8: Callable[..., Array] = partial(np.array, dtype=np.uint8)
u32: Callable[..., Array] = partial(np.array, dtype=np.uint32)


def const(values: npt.ArrayLike, dtype: npt.DTypeLike = np.int32) -> T:
    """A constant of the model."""
    return T(np.array(values, dtype), constant=True)


def strings(*values: Any) -> T:
    """A vector of strings, or a tensor of the given rows."""
    return T(list(values), DType.STRING)


def empty(*shape: int, dtype: npt.DTypeLike = np.float32) -> T:
    """A tensor without elements."""
    return T(np.zeros(shape, dtype))
