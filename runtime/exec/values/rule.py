"""The one rule for values that callers give: what the declared element type holds without loss is taken.

An array, or whatever has elements of a type of its own, is taken if each element is the same number in the declared
type; NaN is the same as NaN. Numbers of Python, alone or in lists, are literals of the declared type: floats are
rounded, if what is finite stays so. Booleans are no numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.runtime.errors import InputError
from circlet.runtime.exec.values.exact import convert, is_integer, plain
from circlet.runtime.ir.held import Held, OptionalOf, SequenceOf, ValueType, holding
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape, fits, objects

CONTIGUOUS = 2.0 ** 53
"""Below it numpy, which reads lists of integers and floats as float64, has rounded no integer."""


def as_array(value: Any, tensor: Tensor, name: str) -> Array:
    """The value as the runtime stores one of the tensor's element type, of a shape that the tensor allows.

    Args:
        value: an array, what numpy or DLPack makes one of, numbers or strings, nested lists of these; for a sequence
            a list of such, for an optional such or None.
        tensor: the input.
        name: what messages call it.

    Raises:
        InputError: it is not one, or the element type would change a value.
    """
    if tensor.dtype is DType.VARIANT:
        array = holding(_held(value, tensor.held, name))
    else:
        array = elements(value, tensor.dtype, name)
    if not fits(array.shape, tensor.signature) and (tensor.has_rank or tensor.shape):
        raise InputError(f"input {name!r}: expected shape {_wanted(tensor.signature)}, found {array.shape}")
    return array


def elements(value: object, dtype: DType, name: str) -> Array:
    """The value as the runtime stores elements of a type; see `as_array`.

    Raises:
        InputError: the type does not hold it.
    """
    if dtype is DType.STRING:
        return _strings(value, name)
    wanted = dtype.element
    if wanted is None:
        raise InputError(f"input {name!r}: no array holds elements of type {dtype.value}")
    array = _read(value, name)
    if array.dtype == wanted:
        return dtype.stored(array)
    return dtype.stored(_converted(value, array, wanted, name))


def _read(value: object, name: str, dtype: np.dtype[Any] | None = None) -> Array:
    """What numpy, or DLPack, makes of a value, in the element type that the value has or in the one given."""
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            value = np.from_dlpack(value)
        array = np.asarray(value, dtype)
    except Exception as error:  # whatever another library's objects raise
        raise InputError(f"input {name!r}: {error}") from None
    if type(value) is not np.ndarray and _is_masked(value):
        raise InputError(f"input {name!r}: some elements are masked; .filled(...) gives them values")
    return array


def _is_masked(value: object) -> bool:
    """Whether a masked array, or one in lists, hides an element."""
    if isinstance(value, np.ndarray):
        return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))
    if not isinstance(value, (list, tuple)) or set(map(type, value)) <= {int, float, bool, complex}:
        return False
    return any(map(_is_masked, value))


def _is_literal(value: object) -> bool:
    """Whether a value is made of Python's numbers, which have no element type of their own."""
    if not isinstance(value, (list, tuple)):
        return isinstance(value, (int, float, complex)) and not isinstance(value, np.generic)
    return set(map(type, value)) <= {int, float, bool, complex} or all(map(_is_literal, value))


def _converted(value: object, array: Array, wanted: np.dtype[Any], name: str) -> Array:
    """The elements in another type, if it holds them."""
    source = plain(array)
    if source is None:
        raise InputError(f"input {name!r}: expected element type {wanted}, found {array.dtype}")
    if not source.size:
        return np.empty(source.shape, wanted)
    is_literal = _is_literal(value)
    if (source.dtype.kind == "b") == (wanted.kind == "b"):
        with np.errstate(all="ignore"):
            made, same, finite = convert(source, wanted)
            fitting = _fitting_literals(source, wanted, same, finite) if is_literal else same
        if fitting.all():
            return made
        where = tuple(map(int, np.argwhere(~fitting)[0]))
        what = f" with {array[where]!s}{f' at {list(where)}' if where else ''}, which {wanted} does not hold: " \
               f".astype('{wanted}') would change it"
    else:
        what = ""
    raise InputError(f"input {name!r}: " + (f"{_excerpt(value)} does not fit element type {wanted}" if is_literal else
                                            f"expected element type {wanted}, found {array.dtype}{what}"))


def _fitting_literals(source: Array, wanted: np.dtype[Any], same: Array, finite: Array) -> Array:
    """Which numbers are literals of a type: floats are rounded, integers are not."""
    if not is_integer(wanted):
        return same | finite
    return same if is_integer(source.dtype) else same & (np.abs(source) < CONTIGUOUS)


def _held(value: object, type: ValueType | None, name: str) -> Held | None:
    """What a sequence, given as a list, or an optional holds; where its type is not known, the value tells."""
    if isinstance(type, OptionalOf):
        if value is None or not isinstance(type.element, DType):
            return None if value is None else _held(value, type.element, name)
        return Held((elements(value, type.element, name).copy(),), is_single=True)
    if isinstance(value, (list, tuple)):
        element = type.element if isinstance(type, SequenceOf) else None
        return Held(tuple(_item(each, element, f"{name}[{position}]") for position, each in enumerate(value)))
    if isinstance(type, SequenceOf) or not (value is None or isinstance(value, (np.ndarray, np.generic))):
        raise InputError(f"input {name!r}: expected {type or 'a list of arrays, an array or None'}, as a list, found "
                         f"{value.__class__.__name__}")
    return None if value is None else Held((np.array(value),), is_single=True)


def _item(value: object, type: ValueType | None, name: str) -> Array | Held:
    """An element of a sequence."""
    if isinstance(type, DType) or (type is None and isinstance(value, (np.ndarray, np.generic))):
        copied: Array = (np.asarray(value) if type is None else elements(value, type, name)).copy()
        return copied
    held = _held(value, type, name)
    if held is None:
        raise InputError(f"input {name!r}: expected a value, found None")
    return held


def _strings(value: object, name: str) -> Array:
    """Strings as bytes: text is encoded as UTF-8, surrogates that stand for single bytes as those."""
    array = _read(value, name, np.dtype(object))
    try:
        flat = [each.encode(errors="surrogateescape") if isinstance(each, str) else each
                for each in array.reshape(-1).tolist()]
    except UnicodeEncodeError as error:
        raise InputError(f"input {name!r}: {error}") from None
    wrong = [type(each).__name__ for each in flat if not isinstance(each, bytes)]
    if wrong:
        raise InputError(f"input {name!r}: expected str or bytes elements, found {wrong[0]}")
    return objects(flat, array.shape)


def _wanted(signature: Shape) -> str:
    return f"({', '.join('any' if dim < 0 else str(dim) for dim in signature)}{',' * (len(signature) == 1)})"


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
