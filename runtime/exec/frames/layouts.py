"""The layouts of subgraphs as they are specialised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.errors import Place
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.ir.length import bound, is_late, terms_of
from circlet.runtime.ir.terms import Assumption
from circlet.runtime.ir.types import ALIGNMENT, Array
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.specialize import General, Specialization, closed, is_open_value


class KnownValue:
    """A value that is known before the run, as far as it follows from the lengths."""

    def __init__(self, spec: Specialization, tensor: int) -> None:
        self._value = spec.known[tensor]
        self._dtype = spec.subgraph.tensors[tensor].dtype.numpy
        self._is_open = is_open_value(self._value)
        values = tuple(self._value.flat) if self._is_open else ()
        self.is_late = any(map(is_late, (*spec.shape(tensor), *values)))

    def at(self, lengths: Sequence[int]) -> Array:
        """The value at some lengths."""
        return closed(self._value, lengths, self._dtype) if self._is_open else self._value


def open_layout(general: General, aliases: Aliases,
                others: Iterable[int] = ()) -> tuple[Layout, Mapping[int, KnownValue]]:
    """Where inputs, results and other tensors lie at any lengths, and those that lie nowhere, as they are known."""
    spec, graph = general.spec, general.spec.subgraph
    values = {each: KnownValue(spec, each) for each in (*graph.inputs, *graph.outputs) if each in spec.known}
    roots = {each: aliases.root(each) for each in (*graph.inputs, *graph.outputs, *others) if each not in values}
    buffers = [Buffer(each, terms_of(bound(aliases.size(each)))) for each in sorted({*roots.values()})]
    found = _layout(spec, {each: (root, 0) for each, root in roots.items()}, buffers, general.scope.assumptions)
    scope = general.scope
    return replace(found, room=tuple(scope.lengths[scope.opened:]) if scope.capacities else ()), values


def fixed_layout(spec: Specialization, arrays: Sequence[Array | None], others: Iterable[int]) -> Layout | None:
    """The same at fixed shapes, as these and other tensors lie in some arrays; None where a result is known, or one has
    no memory. Those in one piece of memory stay where they are in it: code knows which begin at one place, and what
    is read soon after it was written is still in the cache."""
    found: dict[int, dict[int, Array]] = {}
    for each in (*spec.subgraph.inputs, *spec.subgraph.outputs, *others):
        array = arrays[each]
        if each in spec.known or array is None:
            return None
        found.setdefault(id(_owner(array)), {})[each] = array
    places: dict[int, tuple[int, int]] = {}
    buffers: list[Buffer] = []
    for number, lying in enumerate(found.values()):
        begin = min(array.ctypes.data for array in lying.values())
        end = max(array.ctypes.data + array.nbytes for array in lying.values())
        if end - begin > sum(array.nbytes + ALIGNMENT for array in lying.values()):
            return None  # parts of something larger, which a caller lends
        places.update((each, (number, array.ctypes.data - begin)) for each, array in lying.items())
        buffers.append(Buffer(number, terms_of(end - begin)))
    return _layout(spec, places, buffers, ())


def _owner(array: Array) -> object:
    """What the memory of an array belongs to."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _layout(spec: Specialization, places: Mapping[int, tuple[int, int]], buffers: Sequence[Buffer],
            assumptions: tuple[Assumption, ...]) -> Layout:
    graph = spec.subgraph
    borders = [Border(each, graph.tensors[each].dtype, tuple(map(terms_of, spec.shape(each))),
                      *places.get(each, (None, 0)))
               for each in dict.fromkeys((*graph.inputs, *graph.outputs, *places))]
    return Layout(Place(spec.index, graph.name, 0, ""), graph.inputs, graph.outputs, tuple(borders), tuple(buffers),
                  assumptions)
