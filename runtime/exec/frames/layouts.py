"""The layouts of subgraphs as they are specialised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from circlet.runtime.errors import Place
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.ir.length import bound, is_late, terms_of
from circlet.runtime.ir.terms import Assumption
from circlet.runtime.ir.types import Array
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


def open_layout(general: General, aliases: Aliases) -> tuple[Layout, Mapping[int, KnownValue]]:
    """Where inputs and results lie at any lengths, and those that lie nowhere, as they are known."""
    spec, graph = general.spec, general.spec.subgraph
    values = {each: KnownValue(spec, each) for each in (*graph.inputs, *graph.outputs) if each in spec.known}
    roots = {each: aliases.root(each) for each in (*graph.inputs, *graph.outputs) if each not in values}
    buffers = [Buffer(each, terms_of(bound(aliases.size(each)))) for each in sorted({*roots.values()})]
    found = _layout(spec, roots, buffers, general.scope.assumptions)
    scope = general.scope
    return replace(found, room=tuple(scope.lengths[scope.opened:]) if scope.capacities else ()), values


def fixed_layout(spec: Specialization, arrays: Sequence[Array | None], others: Iterable[int]) -> Layout | None:
    """The same at fixed shapes, as these and other tensors lie in some arrays; None where a result is known, or one has
    no memory. Code knows which arrays begin at one place, so these share a buffer."""
    sizes: dict[int, int] = {}
    first: dict[int, int] = {}
    buffers: dict[int, int] = {}
    for each in (*spec.subgraph.inputs, *spec.subgraph.outputs, *others):
        array = arrays[each]
        if each in spec.known or array is None:
            return None
        number = buffers[each] = first.setdefault(array.ctypes.data, each)
        sizes[number] = max(sizes.get(number, 0), array.nbytes)
    return _layout(spec, buffers, [Buffer(each, terms_of(size)) for each, size in sizes.items()], ())


def _layout(spec: Specialization, places: Mapping[int, int], buffers: Sequence[Buffer],
            assumptions: tuple[Assumption, ...]) -> Layout:
    graph = spec.subgraph
    borders = [Border(each, graph.tensors[each].dtype, tuple(map(terms_of, spec.shape(each))), places.get(each))
               for each in dict.fromkeys((*graph.inputs, *graph.outputs, *places))]
    return Layout(Place(spec.index, graph.name, 0, ""), graph.inputs, graph.outputs, tuple(borders), tuple(buffers),
                  assumptions)
