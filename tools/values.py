"""Reads what a command line gives to inputs: literals and numpy files."""

from __future__ import annotations

import ast
import math
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError  # noqa: N812  # an exception, whatever zlib calls it

import numpy as np

from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.exec.values.results import giver
from circlet.runtime.exec.values.rule import as_array
from circlet.runtime.ir.held import SequenceOf
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.tools.console import note
from circlet.tools.results import Value, type_text
from circlet.tools.tables import plain

CONSTANTS = {"true": True, "false": False, "null": None, "nan": math.nan, "NaN": math.nan, "inf": math.inf,
             "Infinity": math.inf}
"""The names in literals, beside Python's own."""
_MEMBER = re.compile(r"(.+\.npz):(.+)")


def tensors_of(model: Model, entry: Entry, named: Sequence[tuple[str, int]]) -> dict[str, Tensor]:
    """The tensors that an entry point's inputs or outputs name."""
    return {name: model.subgraphs[entry.subgraph].tensors[index] for name, index in named}


def read_inputs(model: Model, entry: Entry, given: Sequence[tuple[str, str]]) -> dict[str, Value]:
    """The inputs of an entry point by name; those that are not given are not in it.

    Raises:
        InputError: a value is not one that its input takes, or has no input.
        OSError: a file cannot be read.
    """
    tensors = tensors_of(model, entry, entry.inputs)
    values: dict[str, Value] = {}
    for name, text in given:
        if name not in tensors:
            raise InputError(f"no input {name!r}; the entry point takes {', '.join(tensors) or 'none'}"
                             f"{suggestion(name, tensors)}")
        if name in values:
            raise InputError(f"input {name!r} is given twice")
        values[name] = read_value(text, tensors[name], name)
    return values


def read_value(text: str, tensor: Tensor, name: str) -> Value:
    """A literal, or after `@` what a file holds, as a value of the tensor's type and shape, as a session takes it.

    Raises:
        InputError: it is not one.
        OSError: the file cannot be read.
    """
    value = _file_value(text[1:], tensor, name) if text.startswith("@") else _literal_value(text, tensor, name)
    stored = as_array(value, tensor, name)
    give = giver(tensor, is_text=False)
    given: Value = stored if give is None else give(stored)
    return given


def zeros(tensor: Tensor) -> Value:
    """Zeros, or empty strings, of a tensor's declared shape; lengths that it leaves open are 1. A sequence is empty, an
    optional has no value."""
    if tensor.dtype is DType.VARIANT:
        return [] if isinstance(tensor.held, SequenceOf) else None
    return np.full(tensor.shape, b"" if tensor.dtype is DType.STRING else 0, tensor.dtype.element)


def zero_inputs(model: Model, entry: Entry) -> dict[str, Value]:
    """Zeros for all inputs of an entry point, of which a note tells.

    Raises:
        InputError: they take too much memory.
    """
    tensors = tensors_of(model, entry, entry.inputs)
    try:
        arrays = {name: zeros(tensor) for name, tensor in tensors.items()}
    except ValueError as error:
        raise InputError(f"the inputs cannot be filled with zeros: {error}") from None
    described = ", ".join(f"{plain(name)} {type_text(tensors[name], array)}" for name, array in arrays.items())
    note(f"no --input given, filled with zeros: {described}")
    return arrays


def literal(text: str) -> object:
    """A number, boolean, string or nested list, spelt as in Python or JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(_Constants().visit(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"expected a literal, found {text!r}") from None


class _Constants(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node


def _literal_value(text: str, tensor: Tensor, name: str) -> Any:
    """The value that a literal spells; a string that is not quoted stands for itself."""
    try:
        value = literal(text)
    except ValueError:
        if tensor.dtype is DType.STRING:
            return text
        raise InputError(f"input {name!r}: expected a literal such as 27, true or [1.5, 2], or @FILE, found "
                         f"{text!r}") from None
    if tensor.dtype is DType.STRING:
        return value if isinstance(value, (str, bytes, list, tuple)) else text
    if tensor.dtype is not DType.VARIANT:
        try:
            np.asarray(value)
        except ValueError:
            raise InputError(f"input {name!r}: expected rows of equal length, found {text}") from None
    return value


def _file_value(path: str, tensor: Tensor, name: str) -> Any:
    """What a file holds for a tensor: for a sequence all members of an archive, in order, otherwise an array."""
    if isinstance(tensor.held, SequenceOf) and path.endswith(".npz"):
        with _faults(name, path), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return [archive[key] for key in archive.files]
    array = _load(path, name)
    element = tensor.dtype.element
    if element is not None and element.kind == array.dtype.kind == "V" and element.itemsize == array.dtype.itemsize:
        # numpy stores types of other packages as bytes without a name.
        return array.view(element)
    return array


@contextmanager
def _faults(name: str, file: str) -> Iterator[None]:
    """Raises an InputError for what numpy raises of files that are not its own."""
    try:
        yield
    except (ValueError, TypeError, EOFError, BadZipFile, ZlibError, NotImplementedError):
        raise InputError(f"input {name!r}: {file}: expected a .npy or .npz file of plain arrays") from None


def _load(path: str, name: str) -> Array:
    """The array in `FILE.npy`, in `FILE.npz:KEY`, or in an archive under the input's name or alone."""
    member = _MEMBER.fullmatch(path)
    file, key = (member[1], member[2]) if member else (path, None)
    with _faults(name, file), BytesIO(sys.stdin.buffer.read()) if file == "-" else open(file, "rb") as stream:
        found = np.load(stream, allow_pickle=False)
        keys = [] if isinstance(found, np.ndarray) else found.files
        if key is None:
            key = name if name in keys else keys[0] if len(keys) == 1 else None
        array = found if isinstance(found, np.ndarray) else found[key] if key in keys else None
        if isinstance(array, bytes):
            raise ValueError("a member of the archive is no array")
    if array is None:
        raise InputError(f"input {name!r}: {file}: expected FILE.npz:KEY with a KEY among {', '.join(keys) or 'none'}"
                         + (f", found {key}" if key else ""))
    return array
