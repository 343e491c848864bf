"""Entry points, and what callers pass to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.errors import InputError
from circlet.runtime.exec.results import giver
from circlet.runtime.exec.tensor_info import TensorInfo
from circlet.runtime.exec.values import as_array
from circlet.runtime.ir.model import Model, Signature, Subgraph, Tensor
from circlet.runtime.ir.types import Array, DType, Shape

Inputs: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
"""`{name: value}`, or the values in input order; see `circlet.runtime.exec.values` for what is taken."""
Outputs: TypeAlias = "dict[str, Any]"
"""`{name: value}`: arrays, for sequences lists of them, for optionals None or the value."""


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry point: a subgraph and the names of its inputs and outputs."""

    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    """(name, tensor) in order."""
    outputs: tuple[tuple[str, int], ...]
    graph: Subgraph
    is_text: bool = False
    """Whether strings come out as `str` rather than as `bytes`."""

    def __repr__(self) -> str:
        names = (", ".join(name for name, _ in side) for side in (self.inputs, self.outputs))
        return f"<Entry of subgraph {self.subgraph}: {' -> '.join(names)}>"

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    @cached_property
    def _declared(self) -> tuple[tuple[str, np.dtype[np.generic] | None, Shape], ...]:
        """For each input of the subgraph, in its order, the name and what an array must be to need no other check."""
        names = {tensor: name for name, tensor in self.inputs}
        found = ((names[index], self.graph.tensors[index]) for index in self.graph.inputs)
        return tuple((name, None if each.dtype in _CONVERTED else each.dtype.numpy, each.signature)
                     for name, each in found)

    @cached_property
    def _count(self) -> int:
        """How many names there are if each stands for one input of the subgraph; else -1."""
        tensors = {index for _, index in self.inputs}
        return len(tensors) if len(tensors) == len(self.inputs) == len(self.graph.inputs) else -1

    @cached_property
    def declared_shapes(self) -> tuple[Shape, ...]:
        """The shapes of what `ready` gives."""
        return tuple(shape for _, _, shape in self._declared)

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

    @cached_property
    def _givers(self) -> tuple[tuple[str, Callable[[Array], Any]], ...]:
        """The outputs that callers get in another form than they are stored in, and what gives them that."""
        found = ((name, giver(self.graph.tensors[tensor], self.is_text)) for name, tensor in self.outputs)
        return tuple((name, give) for name, give in found if give is not None)

    def describe(self, named: Iterable[tuple[str, int]]) -> dict[str, TensorInfo]:
        """What the inputs or the outputs are, by name."""
        return {name: TensorInfo.of(name, self.graph.tensors[index]) for name, index in named}

    def arrays(self, inputs: Inputs) -> list[Array]:
        """The subgraph's inputs as the runtime stores them, in order.

        Raises:
            InputError: an input is missing, unknown, or of another type or shape than declared.
        """
        found = [as_array(value, self.graph.tensors[index], name)
                 for value, (name, index) in zip(self._arrange(inputs), self.inputs, strict=True)]
        return found if self._order is None else [found[each] for each in self._order]

    def ready(self, inputs: object) -> list[Array] | None:
        """What `arrays` gives for a dictionary of arrays of just the declared types and shapes; None for all else."""
        if type(inputs) is not dict or len(inputs) != self._count:
            return None
        found = []
        for name, dtype, shape in self._declared:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                return None
            found.append(value)
        return found

    def _arrange(self, inputs: Inputs) -> Iterable[Any]:
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

    def named(self, results: Sequence[Array]) -> Outputs:
        """The subgraph's outputs by name as callers get them; a result with several names is copied for each but the
        first."""
        found: Outputs = {name: results[position].copy() if is_repeated else results[position]
                          for name, position, is_repeated in self._results}
        for name, give in self._givers:
            found[name] = give(found[name])
        return found


_CONVERTED = frozenset(each for each in DType if not each.is_computable) | {
    DType.STRING, DType.VARIANT, DType.BFLOAT16}
"""The types of which callers have other arrays than the runtime."""


def entry_of(model: Model, subgraph: int, signature: Signature | None) -> Entry:
    """The entry point of a subgraph, named by a signature or by its tensors."""
    graph = model.subgraphs[subgraph]
    if signature is not None and _complete(signature, graph.inputs, graph.outputs):
        inputs, outputs = _ordered(signature.inputs, graph.inputs), _ordered(signature.outputs, graph.outputs)
    else:
        inputs, outputs = _named(graph.inputs, graph.tensors), _named(graph.outputs, graph.tensors)
    return Entry(subgraph, inputs, outputs, graph, model.format == "onnx")


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
