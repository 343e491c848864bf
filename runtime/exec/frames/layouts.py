"""The layouts of subgraphs as they are specialised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from circlet.runtime.errors import Place
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.ir.length import bound, terms_of
from circlet.runtime.ir.terms import Assumption, Terms, fixed
from circlet.runtime.ir.types import ALIGNMENT, Array
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.specialize import General, Specialization, is_open_value


def open_layout(general: General, aliases: Aliases,
                others: Iterable[int] = ()) -> tuple[Layout, Mapping[int, Array]]:
    """Where inputs, results and other tensors lie at any lengths, and the values of those that are the same for all."""
    spec, graph = general.spec, general.spec.subgraph
    known = {each: spec.known[each] for each in (*graph.inputs, *graph.outputs) if each in spec.known}
    roots = {each: aliases.root(each) for each in (*graph.inputs, *graph.outputs, *others) if each not in known}
    buffers = [Buffer(each, terms_of(bound(aliases.size(each)))) for each in sorted({*roots.values()})]
    found = _layout(spec, {each: (root, 0) for each, root in roots.items()}, buffers, general.scope.assumptions, known)
    scope = general.scope
    return replace(found, room=tuple(scope.lengths[scope.opened:]) if scope.capacities else ()), {
        tensor: each for tensor, each in known.items() if not is_open_value(each)}


def lying_value(spec: Specialization, aliases: Aliases, array: Array | None, tensor: int) -> Array | None:
    """The value of a tensor that lies in an array, if it is known: its own, or that of a tensor which lies there as
    well, as of what a loop hands on."""
    if tensor in spec.known or array is None:
        return spec.known.get(tensor)
    place = array.ctypes.data, array.nbytes
    values = (spec.known[each] for each in aliases.members(aliases.root(tensor)) if each in spec.known)
    return next((each for each in values if (each.ctypes.data, each.nbytes) == place), None)


def fixed_layout(spec: Specialization, aliases: Aliases, arrays: Sequence[Array | None],
                 others: Iterable[int]) -> tuple[Layout, Mapping[int, Array]] | None:
    """The same at fixed shapes, as these and other tensors lie in some arrays; None where one has no memory. Those in
    one piece of memory stay where they are in it: code knows which begin at one place, and what is read soon after it
    was written is still in the cache."""
    known = {each: value for each in spec.subgraph.outputs
             if (value := lying_value(spec, aliases, arrays[each], each)) is not None}
    room: Counter[int] = Counter()
    for array in arrays:
        if array is not None:
            room[id(_owner(array))] += array.nbytes + ALIGNMENT
    found: dict[int, dict[int, Array]] = {}
    for each in (*spec.subgraph.inputs, *spec.subgraph.outputs, *others):
        if each in known:
            continue
        array = arrays[each]
        if array is None:
            return None
        found.setdefault(id(_owner(array)), {})[each] = array
    places: dict[int, tuple[int, int]] = {}
    buffers: list[Buffer] = []
    for number, (owner, lying) in enumerate(found.items()):
        begin = min(array.ctypes.data for array in lying.values())
        end = max(array.ctypes.data + array.nbytes for array in lying.values())
        if end - begin > room[owner]:
            return None  # parts of something larger, which a caller lends
        places.update((each, (number, array.ctypes.data - begin)) for each, array in lying.items())
        buffers.append(Buffer(number, terms_of(end - begin)))
    return _layout(spec, places, buffers, (), known), known


def keeps_inputs(aliases: Aliases, layout: Layout, is_open: bool) -> bool:
    """Whether a subgraph leaves its inputs as they are, and nothing else lies where one does, except for parts of it at
    fixed shapes."""
    return not any(aliases.is_overwritten(aliases.root(each)) for each in layout.inputs) and all(
        _is_alone(each, layout, is_open) for each in layout.borders if each.tensor in layout.inputs)


def _is_alone(border: Border, layout: Layout, is_open: bool) -> bool:
    """Whether nothing else lies where a tensor does, unless that is a part of it."""
    if border.buffer is None:
        return False
    if [each.tensor for each in layout.borders if each.buffer == border.buffer] == [border.tensor]:
        return True
    size = next(each.size for each in layout.buffers if each.number == border.buffer)
    return not is_open and fixed(size) == prod(map(fixed, border.shape)) * border.dtype.numpy.itemsize


def _owner(array: Array) -> object:
    """What the memory of an array belongs to."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _layout(spec: Specialization, places: Mapping[int, tuple[int, int]], buffers: Sequence[Buffer],
            assumptions: tuple[Assumption, ...], known: Mapping[int, Array]) -> Layout:
    graph = spec.subgraph
    borders = []
    for each in dict.fromkeys((*graph.inputs, *graph.outputs, *places)):
        buffer, offset = places.get(each, (None, 0))
        numbers = () if buffer is not None else _numbers(known[each])
        borders.append(Border(each, graph.tensors[each].dtype, tuple(map(terms_of, spec.shape(each))), buffer, offset,
                              numbers))
    return Layout(Place(spec.index, graph.name, 0, ""), graph.inputs, graph.outputs, tuple(borders), tuple(buffers),
                  assumptions)


def _numbers(value: Array) -> tuple[Terms, ...]:
    return tuple(map(terms_of, value.flat)) if is_open_value(value) else ()
