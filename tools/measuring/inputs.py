"""Values for inputs: those that are given, others by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape, fits, shape_text
from circlet.tools.results import Value
from circlet.tools.values import read_inputs, tensors_of, zeros

SMALL = 10
"""Integers that are not quantised are below this: they may be indices, lengths or counts of turns. A choice."""


def inputs_of(model: Model, entry: Entry, given: Sequence[tuple[str, str]], shapes: Mapping[str, Shape],
              seed: int) -> tuple[dict[str, Value], frozenset[str]]:
    """The inputs of an entry point by name, and the names of those that are by chance.

    Args:
        given: name and value, as `circlet run` takes them.
        shapes: of other inputs, in place of those declared.
        seed: what chance follows from.

    Raises:
        InputError: a value or a shape is not one that its input takes, or has no input.
        OSError: a file cannot be read.
    """
    tensors = tensors_of(model, entry, entry.inputs)
    values = read_inputs(model, entry, given)
    for name, shape in shapes.items():
        _expect_shape(name, shape, tensors, values)
    chance = np.random.default_rng(seed)
    found = {name: values[name] if name in values else by_chance(tensor, shapes.get(name, tensor.shape), chance)
             for name, tensor in tensors.items()}
    return found, frozenset(tensors.keys() - values.keys())


def _expect_shape(name: str, shape: Shape, tensors: Mapping[str, Tensor], values: Mapping[str, Value]) -> None:
    if name not in tensors:
        raise InputError(f"no input {name!r}; the entry point takes {', '.join(tensors) or 'none'}"
                         f"{suggestion(name, tensors)}")
    if name in values:
        raise InputError(f"input {name!r} is given a value and a shape")
    if not fits(shape, tensors[name].signature):
        raise InputError(f"input {name!r}: expected shape {shape_text(tensors[name].signature)}, "
                         f"found {shape_text(shape)}")


def by_chance(tensor: Tensor, shape: Shape, chance: np.random.Generator) -> Value:
    """A value of a tensor's type: floats of mean 0 and deviation 1, quantised integers and bytes from all there are,
    other integers from 0 to 9, strings of one digit. A sequence is empty, an optional has no value."""
    dtype = tensor.dtype
    if dtype is DType.VARIANT:
        return zeros(tensor)
    if dtype is DType.STRING:
        return chance.integers(0, SMALL, shape).astype("S").astype(object)
    element = dtype.element
    if element is None:
        raise InputError(f"no array holds elements of type {dtype.value}")
    if dtype is DType.BOOL:
        return chance.integers(0, 2, shape).astype(np.bool_)
    if dtype.value.startswith(("int", "uint")):
        return chance.integers(*_range(tensor), shape, np.int64, endpoint=True).astype(element)
    found: Array = chance.normal(size=shape)
    if dtype.value.startswith("complex"):
        found = found + 1j * chance.normal(size=shape)
    return found.astype(element)


def _range(tensor: Tensor) -> tuple[int, int]:
    """The least and the greatest integer that a tensor is given."""
    name = tensor.dtype.value
    bits, is_signed = int(name.lstrip("uint")), name.startswith("int")
    least, greatest = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    is_quantized = tensor.quantization is not None and bool(tensor.quantization.scales)
    if bits <= 16 and (is_quantized or tensor.dtype is DType.UINT8):
        return least, greatest
    return 0, min(SMALL - 1, greatest)
