"""Artifacts of what the lowering of functions collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from circlet.backends.native.load.artifact import Artifact
from circlet.backends.native.load.manifest import Constant, Manifest, Origin, Stored
from circlet.backends.native.parts import Fixed, Source
from circlet.backends.native.program import Program
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.length import terms_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import ALIGNMENT, Array


def gather(program: Program, code: tuple[bytes, ...], places: Mapping[tuple[int, int], Constant]) -> Artifact:
    """An artifact of what the lowering collected; `places` are the constants of the model."""
    stored: list[Array] = []
    origins: list[Origin] = []
    size = 0
    for array, source in zip(program.externals, program.sources, strict=True):
        origin = _origin(array, source, places, size)
        origins.append(origin)
        if isinstance(origin, Stored):
            stored.append(array)
            size = _aligned(size + origin.size)
    manifest = Manifest(tuple(program.sites), tuple(program.host_calls), tuple(origins),
                        tuple(map(terms_of, program.arena_tops)), terms_of(program.scratch_bytes),
                        program.shares_loops, program.is_brief, program.grows, tuple(program.outline), program.watched,
                        program.assumptions, program.quotes, program.regions,
                        labels=tuple(chain(*program.labels.items())))
    return Artifact(code, manifest, _joined(stored, size))


def constants_of(model: Model) -> Mapping[tuple[int, int], Constant]:
    """The constants of a model, by address and bytes."""
    return {
        (each.data.ctypes.data, each.data.nbytes): Constant(index, number)
        for index, subgraph in enumerate(model.subgraphs) for number, each in enumerate(subgraph.tensors)
        if each.data is not None
    }


def _origin(array: Array, source: Source, places: Mapping[tuple[int, int], Constant], offset: int) -> Origin:
    """Where a frame finds an array: what its source says, among the model's constants, or in the artifact."""
    if not isinstance(source, Fixed):
        return source
    return places.get((array.ctypes.data, array.nbytes)) or Stored(offset, array.nbytes)


def _aligned(size: int) -> int:
    """A size, filled up to a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _joined(arrays: Sequence[Array], size: int) -> Array:
    """The bytes of arrays one after another, each on a cache line of its own."""
    memory, offset = allocate((size,), np.dtype(np.uint8)), 0
    for each in arrays:
        end = offset + each.nbytes
        memory[offset:end] = np.ascontiguousarray(each).reshape(-1).view(np.uint8)
        memory[end:_aligned(end)] = 0
        offset = _aligned(end)
    return memory
