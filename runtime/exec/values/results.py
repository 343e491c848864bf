"""What callers get: stored results as arrays of the elements that the model declares, lists and None."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from circlet.runtime.ir.held import Held, OptionalOf, SequenceOf, ValueType
from circlet.runtime.ir.packed import BITS, unpacked
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, objects


def giver(tensor: Tensor, is_text: bool) -> Callable[[Array], Any] | None:
    """What makes of a stored result that which callers get; None where that is the same array.

    Args:
        tensor: the output.
        is_text: whether strings are text in UTF-8, which becomes `str`; otherwise they are `bytes`. Bytes that are no
            UTF-8 become the surrogates that `surrogateescape` makes of them.
    """
    if tensor.dtype is DType.VARIANT:
        return partial(_unheld, type=tensor.held, is_text=is_text)
    if tensor.data is not None and tensor.dtype in BITS:
        constant = unpacked(tensor.data, tensor.dtype, tensor.shape)
        return lambda stored: constant.copy()
    return _giver(tensor.dtype, is_text)


def _giver(dtype: DType, is_text: bool) -> Callable[[Array], Array] | None:
    if dtype is DType.STRING:
        return _text if is_text else None
    element = dtype.element
    return None if element is None or element == dtype.numpy else partial(np.ndarray.view, dtype=element)


def _text(strings: Array) -> Array:
    return objects([each.decode(errors="surrogateescape") for each in strings.reshape(-1).tolist()], strings.shape)


def _unheld(holder: Array, type: SequenceOf | OptionalOf | None, is_text: bool) -> Any:
    """A list for a sequence; for an optional its value, or None."""
    return _value(holder.item(), type, is_text)


def _value(stored: Array | Held | None, type: ValueType | None, is_text: bool) -> Any:
    if stored is None:
        return None
    if not isinstance(stored, Held):
        give = _giver(type, is_text) if isinstance(type, DType) else None
        return stored.copy() if give is None else give(stored.copy())
    element = None if type is None or isinstance(type, DType) else type.element
    if isinstance(type, OptionalOf) and not stored.is_single:
        return _value(stored, element, is_text)
    found = [_value(each, element, is_text) for each in stored.items]
    return found[0] if stored.is_single else found
