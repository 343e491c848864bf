"""Artifacts of what the lowering of functions collected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain

import numpy as np

from circlet.backends.native.load.artifact import Artifact
from circlet.backends.native.load.manifest import Constant, Manifest, Origin, Stored
from circlet.backends.native.load.sealed import checksum
from circlet.backends.native.parts import Fixed, Source
from circlet.backends.native.program import Program
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.length import terms_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import ALIGNMENT, Array


def gather(program: Program, code: tuple[bytes, ...], places: Mapping[tuple[int, int], Constant]) -> Artifact:
    """An artifact of what the lowering collected; `places` are the constants of the model. The program is left without
    its arrays, so that those which are not the model's are gone one by one while they are put together."""
    stored = _Parts()
    origins = [_origin(array, source, places, stored)
               for array, source in zip(program.externals, program.sources, strict=True)]
    program.externals.clear()
    manifest = Manifest(tuple(program.sites), tuple(program.host_calls), tuple(origins),
                        tuple(map(terms_of, program.arena_tops)), terms_of(program.scratch_bytes),
                        program.shares_loops, program.is_brief, terms_of(program.work), program.grows,
                        tuple(program.outline), program.watched, program.assumptions, program.quotes,
                        program.regions, labels=tuple(chain(*program.labels.items())),
                        notices=tuple(program.notices))
    return Artifact(code, manifest, stored.joined())


def constants_of(model: Model) -> Mapping[tuple[int, int], Constant]:
    """The constants of a model, by address and bytes."""
    return {
        (each.data.ctypes.data, each.data.nbytes): Constant(index, number)
        for index, subgraph in enumerate(model.subgraphs) for number, each in enumerate(subgraph.tensors)
        if each.data is not None
    }


def _origin(array: Array, source: Source, places: Mapping[tuple[int, int], Constant], stored: _Parts) -> Origin:
    """Where a frame finds an array: what its source says, among the model's constants, or in the artifact."""
    if not isinstance(source, Fixed):
        return source
    return places.get((array.ctypes.data, array.nbytes)) or stored.place(array)


class _Parts:
    """The arrays that are kept with a function, each on a cache line of its own; those of the same bytes are one, so
    that the functions that are made of the same operators keep the same, however often they have these."""

    def __init__(self) -> None:
        self._parts: list[tuple[Stored, Array]] = []
        self._alike: dict[bytes, list[tuple[Stored, Array]]] = defaultdict(list)
        """By what is likely to tell them apart."""
        self._size = 0

    def place(self, array: Array) -> Stored:
        """Where an array is kept."""
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        alike = self._alike[checksum(content)]
        for place, other in alike:
            if np.array_equal(content, other):
                return place
        found = Stored(self._size, content.size)
        for each in (alike, self._parts):
            each.append((found, content))
        self._size += -(-content.size // ALIGNMENT) * ALIGNMENT
        return found

    def joined(self) -> Array:
        """The bytes of all of them, which it drops."""
        memory = allocate((self._size,), np.dtype(np.uint8))
        begin = self._size
        self._alike.clear()
        while self._parts:
            place, content = self._parts.pop()
            end = place.offset + place.size
            memory[end:begin] = 0
            memory[place.offset:end] = content
            begin = place.offset
        return memory
