"""Entry points, and what callers pass to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from circlet.runtime.errors import InputError
from circlet.runtime.ir.held import Held, holding
from circlet.runtime.ir.model import Model, Signature, Subgraph, Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.passes.specialize import fits


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry point: a subgraph and the names of its inputs and outputs."""

    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    """(name, tensor) in order."""
    outputs: tuple[tuple[str, int], ...]
    graph: Subgraph

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @cached_property
    def _plan(self) -> tuple[tuple[str, Tensor, np.dtype[np.generic] | None, Shape], ...]:
        """For each input what an array must be to need no other check."""
        found = ((name, self.graph.tensors[index]) for name, index in self.inputs)
        return tuple((name, each, None if each.dtype is DType.STRING else each.dtype.numpy, each.signature)
                     for name, each in found)

    @cached_property
    def _order(self) -> tuple[int, ...] | None:
        """For each input of the subgraph the name, by number, that stands for it; None if they are in this order."""
        numbers = {tensor: number for number, (_, tensor) in enumerate(self.inputs)}
        order = tuple(numbers[each] for each in self.graph.inputs)
        return None if order == tuple(range(len(self.inputs))) else order

    @cached_property
    def _results(self) -> tuple[tuple[str, int, bool], ...]:
        """For each output its name, its position in the subgraph, and whether an earlier name stands for it too."""
        tensors = [tensor for _, tensor in self.outputs]
        return tuple((name, self.graph.outputs.index(tensor), tensor in tensors[:k])
                     for k, (name, tensor) in enumerate(self.outputs))

    @property
    def input_shapes(self) -> dict[str, Shape]:
        """The declared shape of each input, -1 for a length of the caller's choice."""
        return {name: self.graph.tensors[index].signature for name, index in self.inputs}

    def arrays(self, inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]) -> list[Array]:
        """The subgraph's inputs, in order.

        Raises:
            InputError: an input is missing, unknown, or of another type or shape than declared.
        """
        found = self._ready(inputs) or [as_array(value, tensor, name) for value, (name, tensor, _, _)
                                        in zip(self._arrange(inputs), self._plan, strict=True)]
        return found if self._order is None else [found[each] for each in self._order]

    def _ready(self, inputs: object) -> list[Array] | None:
        """The values of a dictionary in input order, if all are arrays of just the declared types and shapes."""
        if type(inputs) is not dict or len(inputs) != len(self._plan):
            return None
        found = []
        for name, _, dtype, shape in self._plan:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                return None
            found.append(value)
        return found

    def _arrange(self, inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]) -> Iterable[npt.ArrayLike]:
        """The values in input order."""
        names = self._names
        if type(inputs) is not dict and not isinstance(inputs, Mapping):
            listed = isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes))
            if not listed or len(inputs) != len(names):
                raise InputError(f"expected {len(names)} inputs ({', '.join(names)}) as a dict or a list, "
                                 f"found {len(inputs) if listed else type(inputs).__name__}")
            return inputs
        if len(inputs) == len(names):
            try:
                return [inputs[name] for name in names]
            except KeyError:
                pass  # the message below names all that is missing
        missing = [name for name in names if name not in inputs]
        unknown = [str(name) for name in inputs if name not in names]
        faults = {"missing": missing, "unknown": unknown}
        problems = [f"{what} {', '.join(each)}" for what, each in faults.items() if each]
        raise InputError(f"inputs: {'; '.join(problems)} (the entry point takes {', '.join(names) or 'none'})")

    def named(self, results: Sequence[Array]) -> dict[str, Array]:
        """The subgraph's outputs by name; a result with several names is copied for each but the first."""
        return {name: results[position].copy() if is_repeated else results[position]
                for name, position, is_repeated in self._results}


def entry_of(model: Model, subgraph: int, signature: Signature | None) -> Entry:
    """The entry point of a subgraph, named by a signature or by its tensors."""
    graph = model.subgraphs[subgraph]
    if signature is not None and _complete(signature, graph.inputs, graph.outputs):
        inputs, outputs = _ordered(signature.inputs, graph.inputs), _ordered(signature.outputs, graph.outputs)
    else:
        inputs, outputs = _named(graph.inputs, graph.tensors), _named(graph.outputs, graph.tensors)
    return Entry(subgraph, inputs, outputs, graph)


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
    if dtype is DType.STRING:
        return _strings(value, name)
    if dtype is DType.VARIANT:
        return holding(_held(value, name))
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {name!r}: {error}") from None
    wanted = dtype.numpy
    if array.dtype.newbyteorder("=") == wanted:
        return array
    if dtype is DType.BFLOAT16 and array.dtype.name == dtype.value:
        return array.view(wanted)
    if isinstance(value, (np.ndarray, np.generic)) or array.dtype.kind not in "biufc":
        raise InputError(f"input {name!r}: expected element type {dtype.value}, found {array.dtype}")
    with np.errstate(all="ignore"):
        if not _lossless(array, wanted):
            raise InputError(f"input {name!r}: {_excerpt(value)} does not fit element type {dtype.value}")
        return array.astype(wanted)


def _held(value: npt.ArrayLike | None, name: str) -> Held | None:
    """What a sequence, given as a list, or an optional holds."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject and not value.shape:
        value = value.item()
    if value is None or isinstance(value, Held):
        return value
    if isinstance(value, (list, tuple)):
        return Held(tuple(held if isinstance(each, (list, tuple)) and (held := _held(each, name)) else np.array(each)
                          for each in value))
    if isinstance(value, (np.ndarray, np.generic)):
        return Held((np.array(value),), is_single=True)
    raise InputError(f"input {name!r}: expected a list of arrays, an array or None, found {type(value).__name__}")


def _lossless(array: Array, wanted: np.dtype[np.generic]) -> bool:
    """Whether Python numbers become another type without more loss than the rounding of floats."""
    kinds = "biufc"
    if (array.dtype.kind == "b") != (wanted.kind == "b") or kinds.index(array.dtype.kind) > kinds.index(wanted.kind):
        return False
    converted = array.astype(wanted)
    if wanted.kind in "fc":
        return bool(np.all(np.isfinite(converted) | ~np.isfinite(array)))
    return bool(np.all(array == converted))


def _excerpt(value: npt.ArrayLike) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _strings(value: npt.ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(value, object)
        flat = [each.encode() if isinstance(each, str) else each for each in array.reshape(-1).tolist()]
    except ValueError as error:
        raise InputError(f"input {name!r}: {error}") from None
    wrong = [type(each).__name__ for each in flat if not isinstance(each, bytes)]
    if wrong:
        raise InputError(f"input {name!r}: expected str or bytes elements, found {wrong[0]}")
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(array.shape)
