"""Arrays that come out of a model: as text, as JSON and as files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.model import Tensor
from circlet.runtime.ir.types import Array, Quantization, Shape

SHOWN = 64
"""Of arrays with more elements only the first and last few are printed."""
LINE = 100
MAX_NAME = 100
NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def shape_text(tensor: Tensor, shape: Shape) -> str:
    """An element type with a shape, e.g. `int32[2,3]`."""
    return f"{tensor.dtype.value}[{','.join(map(str, shape))}]"


def values_text(array: Array) -> str:
    """The values as numpy prints them, strings decoded."""
    if array.dtype.kind == "O":
        array = _filled(array.shape, [_decoded(each) for each in array.reshape(-1)])
    return np.array2string(array, max_line_width=LINE, threshold=SHOWN)


def json_values(array: Array) -> Any:
    """The values as nested lists of what JSON holds.

    NaN and infinities are the strings NaN, Infinity and -Infinity; complex numbers pairs of their parts; strings are
    text with bytes that are not UTF-8 as escapes.
    """
    if array.dtype.kind == "c":
        return json_values(np.stack([array.real, array.imag], axis=-1))
    if array.dtype.kind == "O":
        return _each(array.tolist(), _decoded)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _each(array.tolist(), _finite)
    return array.tolist()


def json_quantization(quantization: Quantization | None) -> dict[str, Any] | None:
    """How stored values stand for real ones, `scale * (stored - zero_point)`; None where they are real themselves."""
    if quantization is None or not quantization.scales:
        return None
    return {"scales": _each(list(quantization.scales), _finite),
            "zero_points": list(quantization.zero_points) or [0] * len(quantization.scales),
            "axis": quantization.axis if quantization.per_axis else None}


def save_arrays(folder: str, arrays: dict[str, Array]) -> dict[str, str]:
    """Writes each array to `NAME.npy` in a folder, which is made if need be; strings as numpy's fixed-length bytes.

    Returns:
        The path of each array's file.

    Raises:
        OSError: a file cannot be written.
        UnsupportedError: the format cannot hold a string.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    files = dict(zip(arrays, (str(Path(folder, name)) for name in file_names(arrays)), strict=True))
    for name, array in arrays.items():
        np.save(files[name], _storable(name, array), allow_pickle=False)
    return files


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


def _storable(name: str, array: Array) -> Array:
    if array.dtype.kind != "O":
        return array
    if not all(isinstance(each, bytes) and not each.endswith(b"\0") for each in array.reshape(-1)):
        raise UnsupportedError(f"output {name!r}: a .npy file cannot hold strings that end in zero bytes")
    return array.astype("S")


def _filled(shape: Shape, values: list[object]) -> Array:
    result = np.empty(len(values), object)
    result[:] = values
    return result.reshape(shape)


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    return [_each(each, convert) for each in value] if isinstance(value, list) else convert(value)


def _decoded(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _finite(value: float) -> float | str:
    return "NaN" if math.isnan(value) else NON_FINITE.get(value, value)
