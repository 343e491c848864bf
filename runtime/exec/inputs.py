"""Entry points, and what callers pass to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import InputError
from circlet.runtime.ir.model import Model, Signature, Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.specialize import fits


@dataclass(frozen=True)
class Entry:
    """An entry point: a subgraph and the names of its inputs and outputs."""

    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    """(name, tensor) in order."""
    outputs: tuple[tuple[str, int], ...]

    def input_shapes(self, model: Model) -> dict[str, Shape]:
        """The declared shape of each input, -1 for a length of the caller's choice."""
        tensors = model.subgraphs[self.subgraph].tensors
        return {name: tensors[index].signature for name, index in self.inputs}

    def arrange(self, inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]) -> list[npt.ArrayLike]:
        """The values in input order.

        Raises:
            InputError: an input is missing or unknown.
        """
        names = [name for name, _ in self.inputs]
        if not isinstance(inputs, Mapping):
            if isinstance(inputs, (np.ndarray, str, bytes)) or len(inputs) != len(names):
                found = type(inputs).__name__ if isinstance(inputs, (np.ndarray, str, bytes)) else str(len(inputs))
                raise InputError(f"expected {len(names)} inputs ({', '.join(names)}) as a dict or a list, "
                                 f"found {found}")
            return list(inputs)
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            faults = {"missing": missing, "unknown": unknown}
            problems = [f"{what} {', '.join(each)}" for what, each in faults.items() if each]
            raise InputError(f"inputs: {'; '.join(problems)} (the entry point takes {', '.join(names) or 'none'})")
        return [inputs[name] for name in names]


def entry_of(model: Model, subgraph: int, signature: Signature | None) -> Entry:
    """The entry point of a subgraph, named by a signature or by its tensors."""
    graph = model.subgraphs[subgraph]
    if signature is not None and _complete(signature, graph.inputs, graph.outputs):
        return Entry(subgraph, _ordered(signature.inputs, graph.inputs), _ordered(signature.outputs, graph.outputs))
    return Entry(subgraph, _named(graph.inputs, graph.tensors), _named(graph.outputs, graph.tensors))


def _ordered(names: Mapping[str, int], indices: Sequence[int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(names.items(), key=lambda each: indices.index(each[1])))


def _complete(signature: Signature, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
    return set(signature.inputs.values()) == set(inputs) and set(signature.outputs.values()) <= set(outputs)


def _named(indices: Sequence[int], tensors: Sequence[Tensor]) -> tuple[tuple[str, int], ...]:
    """Tensor names, made unique by their position where they are not."""
    names = [tensors[index].name for index in indices]
    return tuple(
        (name if name and names.count(name) == 1 else f"{name or 'tensor'}:{position}", index)
        for position, (name, index) in enumerate(zip(names, indices, strict=True))
    )


def as_array(value: npt.ArrayLike, tensor: Tensor, name: str) -> Array:
    """The value as an array of the tensor's element type and of a shape it allows.

    Raises:
        InputError: it is not one.
    """
    array = _converted(value, tensor.dtype, name)
    if not fits(array.shape, tensor.signature) and (tensor.has_rank or tensor.shape):
        raise InputError(f"input {name!r}: expected shape {_wanted(tensor.signature)}, found {array.shape}")
    return array


def _wanted(signature: Shape) -> str:
    return f"({', '.join('any' if dim < 0 else str(dim) for dim in signature)}{',' * (len(signature) == 1)})"


def _converted(value: npt.ArrayLike, dtype: DType, name: str) -> Array:
    wanted = dtype.numpy
    if dtype is DType.STRING:
        return _strings(value, name)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {name!r}: {error}") from None
    if array.dtype == wanted:
        return array
    if isinstance(value, (np.ndarray, np.generic)) or array.dtype.kind not in "biuf":
        raise InputError(f"input {name!r}: expected element type {dtype.value}, found {array.dtype}")
    if not _lossless(array, wanted):
        raise InputError(f"input {name!r}: {value!r} does not fit element type {dtype.value}")
    return array.astype(wanted)


def _lossless(array: Array, wanted: np.dtype[np.generic]) -> bool:
    if np.issubdtype(wanted, np.inexact):
        return True
    if array.dtype.kind == "f" or (wanted.kind == "b") != (array.dtype.kind == "b"):
        return False
    return wanted.kind == "b" or bool(np.all(array == array.astype(wanted)))


def _strings(value: npt.ArrayLike, name: str) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "SUO":
        raise InputError(f"input {name!r}: expected element type string, found {array.dtype}")
    flat = [each.encode() if isinstance(each, str) else each for each in array.reshape(-1).tolist()]
    if not all(isinstance(each, bytes) for each in flat):
        raise InputError(f"input {name!r}: expected str or bytes elements")
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(array.shape)
