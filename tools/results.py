"""Arrays that come out of a model: as text, as JSON and as files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.exec.values.exact import plain
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, Quantization, Shape, objects

Value: TypeAlias = "Array | list[Any] | None"
"""What a session takes and gives: an array, for a sequence a list of values, for an optional a value or None."""
SHOWN = 64
"""Of arrays with more elements only the first and last few are printed."""
LINE = 100
MAX_NAME = 100
NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def shape_text(tensor: Tensor, shape: Shape) -> str:
    """An element type with a shape, e.g. `int32[2,3]`."""
    return f"{tensor.dtype.value}[{','.join(map(str, shape))}]"


def type_text(tensor: Tensor, value: Value) -> str:
    """The type of a value, e.g. `int32[2,3]`, `sequence of float32` or `optional float32`."""
    if tensor.held is not None or not isinstance(value, np.ndarray):
        return tensor.type_text
    return shape_text(tensor, value.shape)


def values_text(value: Value) -> str:
    """The values as numpy prints them, strings decoded; of a sequence in brackets."""
    if value is None:
        return "none"
    if isinstance(value, list):
        texts = [values_text(each) for each in value]
        return "[" + (",\n " if any("\n" in each for each in texts) else ", ").join(
            indent(each, " ").lstrip() for each in texts) + "]"
    if value.dtype.kind == "O":
        value = objects([_decoded(each) for each in value.reshape(-1)], value.shape)
    return np.array2string(value, max_line_width=LINE, threshold=SHOWN)


def json_values(value: Value) -> Any:
    """The values as nested lists of what JSON holds; a sequence is a list, an optional without a value null.

    NaN and infinities are the strings NaN, Infinity and -Infinity; complex numbers pairs of their parts; strings are
    text with bytes that are not UTF-8 as escapes.
    """
    if value is None or isinstance(value, list):
        return None if value is None else [json_values(each) for each in value]
    if value.dtype.kind == "O":
        return _each(value.tolist(), _decoded)
    array = _standard(value)
    if array.dtype.kind == "c":
        return json_values(np.stack([array.real, array.imag], axis=-1))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _each(array.tolist(), _finite)
    return array.tolist()


def json_shape(value: Value) -> list[int] | None:
    """The shape of an array; null for a sequence or an optional without a value."""
    return list(value.shape) if isinstance(value, np.ndarray) else None


def json_quantization(quantization: Quantization | None) -> dict[str, Any] | None:
    """How stored values stand for real ones, `scale * (stored - zero_point)`; None where they are real themselves."""
    if quantization is None or not quantization.scales:
        return None
    return {"scales": _each(list(quantization.scales), _finite),
            "zero_points": list(quantization.zero_points) or [0] * len(quantization.scales),
            "axis": quantization.axis if quantization.per_axis else None}


def save_arrays(folder: str, values: Mapping[str, Value]) -> dict[str, str]:
    """Writes each array to `NAME.npy` in a folder, which is made if need be, and each sequence to `NAME.npz`, whose
    members numpy calls `arr_0`, `arr_1` and so on. What is read from there as an input is the same value.

    Numbers of types that numpy lacks are stored as float32, int8 or uint8, which hold them all; strings as numpy's
    arrays of fixed length, of text or of bytes.

    Returns:
        The path of each value's file; an optional without a value has none.

    Raises:
        OSError: a file cannot be written.
        UnsupportedError: the format cannot hold a string, or a sequence holds sequences.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    files = dict(zip(values, (str(Path(folder, name)) for name in file_names(values)), strict=True))
    for name, value in values.items():
        if isinstance(value, list):
            files[name] = str(Path(files[name]).with_suffix(".npz"))
            np.savez(files[name], *(_storable(name, each) for each in value))
        elif value is not None:
            np.save(files[name], _storable(name, value), allow_pickle=False)
    return {name: file for name, file in files.items() if values[name] is not None}


def save_array(path: str, name: str, value: Value) -> None:
    """Writes an array to one `.npy` file, as `save_arrays` does.

    Raises:
        OSError: the file cannot be written.
        UnsupportedError: it is no array, or one that the format cannot hold.
    """
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(f"tensor {name!r}: a .npy file holds arrays alone")
    with open(path, "wb") as stream:
        np.save(stream, _storable(name, value), allow_pickle=False)


def file_names(names: Iterable[str]) -> list[str]:
    """A file name for each name: other characters than letters, digits, `.`, `_` and `-` become `_`; each is unique."""
    found: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:MAX_NAME].strip(".") or "output"
        unique, number = stem, 1
        while unique.lower() in found:
            unique, number = f"{stem}.{number}", number + 1
        found[unique.lower()] = f"{unique}.npy"
    return list(found.values())


def _storable(name: str, value: Value) -> Array:
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(f"output {name!r}: files cannot hold sequences of sequences")
    if value.dtype.kind != "O":
        return _standard(value)
    items = value.reshape(-1).tolist()
    if any(each.endswith("\0" if isinstance(each, str) else b"\0") for each in items):
        raise UnsupportedError(f"output {name!r}: a .npy file cannot hold strings that end in zero bytes")
    return value.astype("U" if items and isinstance(items[0], str) else "S")


def _standard(array: Array) -> Array:
    """The numbers in a type of numpy's own."""
    found = plain(array)
    return array if found is None else found


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    return [_each(each, convert) for each in value] if isinstance(value, list) else convert(value)


def _decoded(value: str | bytes) -> str:
    content = value if isinstance(value, bytes) else value.encode(errors="surrogateescape")
    return content.decode("utf-8", "backslashreplace")


def _finite(value: float) -> float | str:
    return "NaN" if math.isnan(value) else NON_FINITE.get(value, value)
