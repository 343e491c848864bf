"""Compiled models in this process: shared objects, called as C calls them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.embed.compiled import Compiled, Interface
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
        """Calls `init` or `reset`."""
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
        made = [np.full(each.shape, 77, each.tensor.dtype.numpy) for each in entry.outputs]
        status = self.function(f"{entry.name}_run")(_struct(taken), _struct(made), *(
            ctypes.c_void_p(each.ctypes.data) for each in (self.arena, self.state)))
        return status, {each.name: value for each, value in zip(entry.outputs, made, strict=True)}

    def _entry(self, key: str | None) -> Interface:
        return next(each for each in self.found.interfaces if key in (None, each.key))


def _struct(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(each.ctypes.data for each in arrays))
