"""Compiled models in this process: shared objects, called as C calls them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.native.aot.between import Between, longest
from circlet.embed.compiled import Compiled, Interface, Port
from circlet.embed.files import files
from circlet.embed.names import identifier

Array = npt.NDArray[Any]
_NUMBERS = count()
"""Numbers of files: a system knows a library by the place of its file."""
_DIRT = 0xA5
"""What memory holds that nobody has written."""


def memory(size: int, alignment: int) -> Array:
    """So many bytes, filled with what nobody may rely on."""
    raw = np.full(size + alignment, _DIRT, np.uint8)
    begin = -raw.ctypes.data % alignment
    return raw[begin:begin + size]


class Library:
    """A compiled model with a state and an arena of its own."""

    def __init__(self, found: Compiled, folder: Path) -> None:
        """
        Args:
            found: the model, compiled for this machine.
            folder: for the file, which must stay.
        """
        self.found = found
        path = folder / f"{next(_NUMBERS)}_{found.name}.so"
        path.write_bytes(files(found, "shared")[f"{found.name}.so"])
        self._library = ctypes.CDLL(str(path))
        self.state = memory(found.code.state.nbytes, found.alignment)
        self.arena = memory(found.code.arena_bytes, found.alignment)
        self.call("init")

    def call(self, name: str) -> None:
        """Calls `init` or `reset`; these are there if there is a state."""
        if self.found.code.state.nbytes:
            self.function(f"{self.found.name}_{name}")(ctypes.c_void_p(self.state.ctypes.data))

    def function(self, symbol: str) -> Callable[..., int]:
        """A function of the object."""
        found: Callable[..., int] = getattr(self._library, symbol)
        return found

    def run(self, inputs: Mapping[str, Array], key: str | None = None) -> tuple[int, dict[str, Array]]:
        """The status and the outputs of a run, by their names in C."""
        entry = self._entry(key)
        given = {identifier(name): value for name, value in inputs.items()}
        taken = [np.ascontiguousarray(given[each.name]) for each in entry.inputs]
        made = [memory(each.nbytes + 1, 64) for each in entry.outputs]
        told = [np.full(len(each.opened), 77, np.uintp) for each in entry.outputs]
        words = [[value.ctypes.data, *(value.shape[axis] for axis in each.opened)]
                 for each, value in zip(entry.inputs, taken, strict=True)]
        results = [[value.ctypes.data, *([lengths.ctypes.data] if lengths.size else [])]
                   for value, lengths in zip(made, told, strict=True)]
        status = self.function(f"{entry.name}_run")(_struct(words), _struct(results), *(
            ctypes.c_void_p(each.ctypes.data) for each in (self.arena, self.state)))
        assert all(each[-1] == _DIRT for each in made), "the code wrote beyond an output"
        if status:
            return status, {each.name: value for each, value in zip(entry.outputs, made, strict=True)}
        return status, {each.name: view(each, value, lengths.tolist())
                        for each, value, lengths in zip(entry.outputs, made, told, strict=True)}

    def _entry(self, key: str | None) -> Interface:
        return next(each for each in self.found.interfaces if key in (None, each.key))


def view(port: Port, content: Array, lengths: Sequence[int]) -> Array:
    """The output in memory for the largest one, of the lengths that the run told."""
    told = dict(zip(port.opened, lengths, strict=True))
    for axis, length in told.items():
        found = port.shape[axis]
        assert isinstance(found, Between)
        assert found.least <= length <= found.most, f"{port.name}: length {length}, expected {found}"
    shape = [told.get(axis, size) for axis, size in enumerate(longest(port.shape))]
    dtype = port.tensor.dtype.numpy
    return content[:prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _struct(words: Sequence[Sequence[int]]) -> ctypes.Array[ctypes.c_size_t]:
    flat = [each for some in words for each in some]
    return (ctypes.c_size_t * max(len(flat), 1))(*flat)
