"""Constants of few bits, of which files hold several elements in a byte."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.ir.types import Array, DType, Shape

BITS = {DType.INT2: 2, DType.INT4: 4, DType.UINT4: 4}
"""How many bits an element takes."""


def unpacked(raw: Array, dtype: DType, shape: Shape | None = None) -> Array:
    """The elements of bytes, the first one in the lowest bits, as an array of `dtype.element`.

    Args:
        raw: the bytes.
        dtype: one of `BITS`.
        shape: of the elements; without it they are a vector of all that the bytes hold.
    """
    element, bits = dtype.element, BITS[dtype]
    assert element is not None
    fields = (raw.reshape(-1, 1) >> np.arange(0, 8, bits).astype(np.uint8)) & np.uint8((1 << bits) - 1)
    elements: Array = fields.reshape(-1).view(element)
    return elements if shape is None else elements[:prod(shape)].reshape(shape)
