"""The state of a session: variables, variable tensors, and what was initialised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec import fork
from circlet.runtime.exec.store import Store
from circlet.runtime.ir.model import Tensor
from circlet.runtime.ir.types import Array, DType, Shape


class Variables:
    """The state of a session that outlives its runs.

    Only runs change values. Memory may be handed out meanwhile to other threads, which compile.
    """

    def __init__(self) -> None:
        self.values: dict[int, Array] = {}
        """By handle, unless a cell holds it. An assignment replaces the array, it never writes into one, so a copy of
        the dict is a snapshot."""
        self.handles: dict[tuple[str, str], int] = {}
        """By (container, shared name)."""
        self._store = Store()
        self._lock = Lock()
        """Held while memory is handed out."""
        self._cells: dict[int, tuple[Array, ...]] = {}
        self._holders: dict[int, Array] = {}
        self._called: dict[int, Array] = {}
        self._tensors: dict[tuple[int, int], tuple[Array, int]] = {}
        fork.watch(self)

    def after_fork(self) -> None:
        self._lock = Lock()

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def reserve(self, handle: int, shape: Shape, dtype: DType) -> Array:
        """The memory of a variable for values of a type and shape, where compiled code finds them. A value that there
        is stays where it lies."""
        found = self._fitting(handle, shape, dtype.numpy)
        if found is not None:
            return found
        with self._lock:
            found = self._fitting(handle, shape, dtype.numpy)
            if found is None:
                found = self._store.allocate(shape, dtype.numpy)
                self._cells[handle] = (*self._cells.get(handle, ()), found)
        return found

    def cell(self, handle: int, shape: Shape, dtype: DType) -> Array:
        """The same, with the value in it if it is of that type and shape; for the thread that runs."""
        found = self.reserve(handle, shape, dtype)
        self._settle(handle)
        return found

    def holder(self, handle: int) -> Array:
        """An int64: the address of the cell that holds the value of a variable; 0 if none does."""
        return self._word(self._holders, handle, np.dtype(np.int64))

    def _word(self, words: dict[int, Array], key: int, dtype: np.dtype[np.generic]) -> Array:
        """The word of a key, zero at first."""
        found = words.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in words:
                words[key] = self._store.allocate((), dtype)
        return words[key]

    def _fitting(self, handle: int, shape: Shape, dtype: np.dtype[np.generic]) -> Array | None:
        return next((each for each in self._cells.get(handle, ()) if each.shape == shape and each.dtype == dtype), None)

    def _settle(self, handle: int) -> None:
        """Puts a value into its cell, if there is one for it."""
        value = self.values.get(handle)
        if value is None or handle not in self._cells:
            return
        cell = self._fitting(handle, value.shape, value.dtype)
        self.holder(handle).fill(0 if cell is None else cell.ctypes.data)
        if cell is not None:
            cell[...] = self.values.pop(handle)

    def read(self, handle: int) -> Array:
        """The value of a variable, which the next assignment may overwrite."""
        for cell in self._cells.get(handle, ()):
            if self.holder(handle) == cell.ctypes.data:
                return cell
        try:
            return self.values[handle]
        except KeyError:
            raise ExecutionError(f"variable {self.name_of(handle)!r} is read before it is assigned") from None

    def assign(self, handle: int, value: Array) -> None:
        """Gives a variable a copy of a value."""
        self.values[handle] = value.copy()
        self._settle(handle)

    def name_of(self, handle: int) -> str | int:
        """The name of a variable, or, if it has none, its handle."""
        return next((name for (_, name), number in tuple(self.handles.items()) if number == handle), handle)

    def called(self, subgraph: int) -> Array:
        """An int32: whether CALL_ONCE has run a subgraph."""
        return self._word(self._called, subgraph, np.dtype(np.int32))

    def tensor(self, subgraph: int, index: int, declared: Tensor) -> Array:
        """The memory of a variable tensor, which kernels write into; it starts as zero, as real value."""
        key = (subgraph, index)
        with self._lock:
            if key not in self._tensors:
                zero = _zero(declared)
                self._tensors[key] = self._store.allocate(declared.shape, declared.dtype.numpy, zero), zero
        return self._tensors[key][0]

    def clear_tensors(self, subgraph: int | None = None) -> None:
        """Makes the variable tensors of one subgraph, or of all, zero."""
        with self._lock:
            tensors = tuple(self._tensors.items())
        for (owner, _), (array, zero) in tensors:
            if subgraph in (None, owner):
                array.fill(zero)

    def snapshot(self) -> Snapshot:
        """What `restore` needs to bring the present state back."""
        return Snapshot(dict(self.values), self._store.content())

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to an earlier state; the memory of cells and variable tensors stays where it is."""
        self.values = dict(snapshot.values)
        self._store.restore(snapshot.content)
        for handle in tuple(self.values):
            self._settle(handle)

    def reset(self) -> None:
        """Forgets every assignment, as in a new session."""
        self.restore(Snapshot({}, ()))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of `Variables` at one moment."""

    values: dict[int, Array]
    content: Sequence[Array]
    """Of cells, variable tensors and what CALL_ONCE has run."""


def _zero(declared: Tensor) -> int:
    quantization = declared.quantization
    return quantization.zero_point if quantization is not None and declared.dtype is DType.INT8 else 0
