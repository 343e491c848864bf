"""Entry points, what callers pass to them, and how that gets into frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

import numpy as np

from circlet.runtime.errors import InputError, plural
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.ir.model import Model, Signature, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.late import LOADING

if TYPE_CHECKING:
    from circlet.runtime.exec.frames.cache import Key
    from circlet.runtime.exec.step import Step
    from circlet.runtime.exec.values.tensor_info import TensorInfo

_ARRAY = np.ndarray
Inputs: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
"""`{name: value}`, or the values in input order; see `circlet.runtime.exec.values.rule` for what is taken."""
Outputs: TypeAlias = "dict[str, Any]"
"""`{name: value}`: arrays, for sequences lists of them, for optionals None or the value."""


class Entry:
    """An entry point: a subgraph and the names of its inputs and outputs."""

    def __init__(self, subgraph: int, inputs: tuple[tuple[str, int], ...], outputs: tuple[tuple[str, int], ...],
                 graph: Subgraph, is_text: bool = False) -> None:
        """
        Args:
            subgraph: its index.
            inputs: (name, tensor) in order.
            outputs: the same.
            graph: the subgraph.
            is_text: whether strings come out as `str` rather than as `bytes`.
        """
        self.subgraph, self.inputs, self.outputs, self.graph = subgraph, inputs, outputs, graph
        self._names = tuple(name for name, _ in inputs)
        self.declared = _declared(inputs, graph)
        """For each input of the subgraph, in its order, the name and what an array must be to need no other check."""
        self._closed = tuple([tuple([(axis, size) for axis, size in enumerate(shape) if size >= 0]) for *_, shape in
                              self.declared])
        """The axes of each whose lengths are fixed, with these."""
        self.is_open = any([-1 in shape for *_, shape in self.declared])
        """Whether lengths of inputs are the caller's choice."""
        self.key: Key = subgraph, tuple(shape for _, _, shape in self.declared), Observation.NONE.value
        """Subgraph, declared shapes of inputs, and what is observed of runs without a listener."""
        self._timed_key: Key = *self.key[:2], Observation.TIMES.value
        """The same of runs that are timed."""
        tensors = [tensor for _, tensor in inputs]
        is_plain = len(set(tensors)) == len(tensors) == len(graph.inputs)
        self._count = len(tensors) if is_plain else -1
        """How many names there are if each stands for one input of the subgraph; else -1."""
        order = tuple(dict(zip(tensors, range(len(tensors)), strict=True))[each] for each in graph.inputs)
        self._order = None if order == tuple(range(len(inputs))) else order
        """For each input of the subgraph the name, by number, that stands for it; None if they are in this order."""
        made = [tensor for _, tensor in outputs]
        self._results = tuple((name, graph.outputs.index(tensor), tensor in made[:k])
                              for k, (name, tensor) in enumerate(outputs))
        """For each output its name, its position in the subgraph, and whether an earlier name stands for it too."""
        givers = ((name, _giver(graph.tensors[tensor], is_text)) for name, tensor in outputs)
        self._givers = tuple((name, give) for name, give in givers if give is not None)
        """The outputs that callers get in another form than they are stored in, and what gives them that."""
        self.is_converted = bool(self._givers)
        """Whether callers get some outputs in another form than they are stored in."""
        self.places = tuple((name, position) for name, position, _ in self._results)
        """For each output its name, and its position in the subgraph."""
        self._only = outputs[0][0] if len(made) == len(graph.outputs) == 1 and not self._givers else None
        """The name of the one output that there is, if callers get it as it is stored."""

    def __repr__(self) -> str:
        names = (", ".join(name for name, _ in side) for side in (self.inputs, self.outputs))
        return f"<Entry of subgraph {self.subgraph}: {' -> '.join(names)}>"

    def describe(self, named: Iterable[tuple[str, int]]) -> dict[str, TensorInfo]:
        """What the inputs or the outputs are, by name."""
        with LOADING:
            from circlet.runtime.exec.values.tensor_info import TensorInfo

        return {name: TensorInfo.of(name, self.graph.tensors[index]) for name, index in named}

    def arrays(self, inputs: Inputs) -> list[Array]:
        """The subgraph's inputs as the runtime stores them, in order.

        Raises:
            InputError: an input is missing, unknown, or of another type or shape than declared.
        """
        take = _rule()
        found = [take(value, self.graph.tensors[index], name)
                 for value, (name, index) in zip(self._arrange(inputs), self.inputs, strict=True)]
        return found if self._order is None else [found[each] for each in self._order]

    def ready(self, inputs: object) -> list[Array] | None:
        """What `arrays` gives for a dictionary of arrays, and numpy's scalars, of just the declared types and of shapes
        that are allowed; None for all else."""
        if type(inputs) is not dict or len(inputs) != self._count:
            return None
        found = []
        for (name, dtype, declared), closed in zip(self.declared, self._closed):  # noqa: B905  # as many
            if name not in inputs:
                return None
            value = inputs[name]
            if type(value) is not _ARRAY:
                if declared or dtype is None or type(value) is not dtype.type:
                    return None
                value = np.asarray(value)
            if value.dtype is not dtype and value.dtype != dtype:
                return None
            if value.shape != declared and not _is_allowed(value.shape, declared, closed):
                return None
            found.append(value)
        return found

    def key_of(self, arrays: Sequence[Array], is_timed: bool) -> Key:
        """Subgraph, shapes of inputs that are ready, and what is observed."""
        key = self._timed_key if is_timed else self.key
        return (key[0], tuple([each.shape for each in arrays]), key[2]) if self.is_open else key

    def _arrange(self, inputs: Inputs) -> Iterable[Any]:
        """The values in input order."""
        names = self._names
        if type(inputs) is not dict and not isinstance(inputs, Mapping):
            listed = isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes))
            if not listed or len(inputs) != len(names):
                raise InputError(f"expected {plural(len(names), 'input')} ({', '.join(names)}) as a dict or a list, "
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
        if self._only is not None:
            return {self._only: results[0]}
        found: Outputs = {name: results[position].copy() if is_repeated else results[position]
                          for name, position, is_repeated in self._results}
        for name, give in self._givers:
            found[name] = give(found[name])
        return found


class Direct(Protocol):
    """A subgraph bound to memory that stays where it is."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Where values of inputs go."""
        ...

    @property
    def whole(self) -> Step | None:
        """What computes the outputs, if it is one step of a backend."""
        ...

    @property
    def copies(self) -> Sequence[Callable[[], Array]] | None:
        """What gives copies of the outputs, if these are always the same arrays."""
        ...

    def compute(self) -> list[Array]:
        """Runs the subgraph on what `inputs` hold; the results belong to the caller."""
        ...


_Fill: TypeAlias = Callable[[dict[str, Any]], bool]
_Finish: TypeAlias = Callable[[Direct], Outputs]


@final
class Lane:
    """An entry point on a frame at the declared shapes. It does not hold the frame, which holds it."""

    def __init__(self, entry: Entry, frame: Direct) -> None:
        """
        Args:
            entry: has a dictionary of arrays for each input that fits, see `Entry.ready`.
            frame: at shapes that the entry point allows.
        """
        self.entry = entry
        self.fill = _fill(entry, frame.inputs)
        """Copies arrays, and numpy's scalars, to the inputs of the frame; says whether they were of its shapes and the
        declared types, otherwise the inputs may hold anything."""
        self.finish = _finish(entry, frame)
        """Runs the frame, and gives what callers get."""


def _fill(entry: Entry, targets: tuple[Array, ...]) -> _Fill:
    rows = tuple((name, dtype, _ARRAY if dtype is None or target.shape else dtype.type, target.shape, target)
                 for (name, dtype, _), target in zip(entry.declared, targets, strict=True))

    def fill(inputs: dict[str, Any]) -> bool:
        if len(inputs) != len(rows):
            return False
        for name, dtype, scalar, shape, target in rows:
            value: Any = inputs.get(name)
            kind = type(value)
            if (kind is not _ARRAY and kind is not scalar) or value.shape != shape:
                return False
            if value.dtype is not dtype and value.dtype != dtype:
                return False
            target[...] = value
        return True

    return fill


def _finish(entry: Entry, frame: Direct) -> _Finish:
    named, step, copies = entry.named, frame.whole, frame.copies
    if step is None or copies is None or entry.is_converted:
        return lambda frame: named(frame.compute())
    pairs = tuple((name, copies[position]) for name, position in entry.places)
    if len(pairs) == 1:
        (only, copy), = pairs

        def finish_only(frame: Direct) -> Outputs:
            step()
            return {only: copy()}

        return finish_only

    def finish(frame: Direct) -> Outputs:
        step()
        return {name: copy() for name, copy in pairs}

    return finish


def _is_allowed(shape: Shape, declared: Shape, closed: Sequence[tuple[int, int]]) -> bool:
    """Whether a shape differs from the one declared in open dimensions alone, of which there are some."""
    if len(shape) != len(declared) or len(shape) == len(closed):
        return False
    return all([shape[axis] == size for axis, size in closed])


_CONVERTED = frozenset(each for each in DType if not each.is_computable) | {
    DType.STRING, DType.VARIANT, DType.BFLOAT16}
"""The types of which callers have other arrays than the runtime."""


@cache
def _rule() -> Callable[[Any, Tensor, str], Array]:
    """What takes a value for an input, which is of no use to callers that have arrays as they are stored."""
    with LOADING:
        from circlet.runtime.exec.values.rule import as_array

    return as_array


def _giver(tensor: Tensor, is_text: bool) -> Callable[[Array], Any] | None:
    """What makes of a stored result that which callers get; None where that is the same array."""
    if tensor.dtype not in _CONVERTED:
        return None
    with LOADING:
        from circlet.runtime.exec.values.results import giver

    return giver(tensor, is_text)


def _declared(inputs: Iterable[tuple[str, int]],
              graph: Subgraph) -> tuple[tuple[str, np.dtype[np.generic] | None, Shape], ...]:
    names = {tensor: name for name, tensor in inputs}
    found = ((names[index], graph.tensors[index]) for index in graph.inputs)
    return tuple((name, None if each.dtype in _CONVERTED else each.dtype.numpy, each.signature) for name, each in found)


def entry_of(model: Model, subgraph: int, signature: Signature | None) -> Entry:
    """The entry point of a subgraph, named by a signature or by its tensors."""
    graph = model.subgraphs[subgraph]
    if signature is not None and _complete(signature, graph.inputs, graph.outputs):
        inputs, outputs = _ordered(signature.inputs, graph.inputs), _ordered(signature.outputs, graph.outputs)
    else:
        inputs, outputs = _named(graph.inputs, graph.tensors), _named(graph.outputs, graph.tensors)
    return Entry(subgraph, inputs, outputs, graph, model.format == "onnx")


def _ordered(names: Mapping[str, int], indices: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """The names in the order of the tensors; of those for one tensor each has the next of its places, if there is."""
    places: dict[int, list[int]] = {}
    for place, index in enumerate(indices):
        places.setdefault(index, []).append(place)
    found = [(own.pop(0) if len(own := places[index]) > 1 else own[0], name, index) for name, index in names.items()]
    return tuple((name, index) for _, name, index in sorted(found, key=itemgetter(0)))


def _complete(signature: Signature, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
    return set(signature.inputs.values()) == set(inputs) and set(signature.outputs.values()) <= set(outputs)


def _named(indices: Sequence[int], tensors: Sequence[Tensor]) -> tuple[tuple[str, int], ...]:
    """Tensor names, made unique by their position where they are not."""
    names = [tensors[index].name for index in indices]
    return tuple(
        (name if name and names.count(name) == 1 else f"{name or 'tensor'}:{position}", index)
        for position, (name, index) in enumerate(zip(names, indices, strict=True))
    )
