"""The state of a session: variables, variable tensors, and what was initialised."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec import fork
from circlet.runtime.exec.memory import allocate
from circlet.runtime.exec.store import Store
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.records import dataclass

Cell: TypeAlias = "tuple[Array, Array]"
"""The memory for the values of a variable that have one type and shape: one holds what was there before the run, the
other is written."""


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
        self._cells: dict[int, tuple[Cell, ...]] = {}
        self._holders: dict[int, Array] = {}
        """For each handle the address of what holds the value, and the one that did before the run."""
        self._called: dict[int, Array] = {}
        self._tensors: dict[tuple[int, int], tuple[Array, int]] = {}
        fork.watch(self)

    def after_fork(self) -> None:
        self._lock = Lock()

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def reserve(self, handle: int, shape: Shape, dtype: DType) -> Cell:
        """The memory of a variable for values of a type and shape, where compiled code finds them. A value that there
        is stays where it lies."""
        found = self._fitting(handle, shape, dtype.numpy)
        if found is not None:
            return found
        with self._lock:
            found = self._fitting(handle, shape, dtype.numpy)
            if found is None:
                found = allocate(shape, dtype.numpy), allocate(shape, dtype.numpy)
                self._cells[handle] = (*self._cells.get(handle, ()), found)
        return found

    def cell(self, handle: int, shape: Shape, dtype: DType) -> Cell:
        """The same, with the value in it if it is of that type and shape; for the thread that runs."""
        found = self.reserve(handle, shape, dtype)
        self._settle(handle)
        return found

    def holder(self, handle: int) -> Array:
        """Two int64: the address of what holds the value of a variable, in one of its cells, 0 if none does; and what
        that was before the run, which is not to be written."""
        return self._word(self._holders, handle, (2,), np.dtype(np.int64))

    def _word(self, words: dict[int, Array], key: int, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
        """The word, or the words, of a key, zero at first."""
        found = words.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in words:
                words[key] = self._store.allocate(shape, dtype)
        return words[key]

    def _fitting(self, handle: int, shape: Shape, dtype: np.dtype[np.generic]) -> Cell | None:
        return next((each for each in self._cells.get(handle, ())
                     if each[0].shape == shape and each[0].dtype == dtype), None)

    def _settle(self, handle: int) -> None:
        """Puts a value into its cell, if there is one for it."""
        value = self.values.get(handle)
        if value is not None and handle in self._cells and self._is_written(handle, value):
            del self.values[handle]

    def _is_written(self, handle: int, value: Array) -> bool:
        """Writes a value to the cell for it; says whether there is one."""
        cell, holder = self._fitting(handle, value.shape, value.dtype), self.holder(handle)
        if cell is None:
            holder[0] = 0
            return False
        free = cell[int(holder[1] == cell[0].ctypes.data)]
        free[...] = value
        holder[0] = free.ctypes.data
        return True

    def read(self, handle: int) -> Array:
        """The value of a variable, which the next assignment may overwrite."""
        found = self._held(handle)
        if found is not None:
            return found
        try:
            return self.values[handle]
        except KeyError:
            raise ExecutionError(f"variable {self.name_of(handle)!r} is read before it is assigned") from None

    def _held(self, handle: int) -> Array | None:
        """What holds the value of a variable, in one of its cells."""
        halves = (half for cell in self._cells.get(handle, ()) for half in cell)
        return next((half for half in halves if self.holder(handle)[0] == half.ctypes.data), None)

    def assign(self, handle: int, value: Array) -> None:
        """Gives a variable a copy of a value."""
        if handle in self._cells and self._is_written(handle, value):
            self.values.pop(handle, None)
        else:
            self.values[handle] = value.copy()

    def name_of(self, handle: int) -> str | int:
        """The name of a variable, or, if it has none, its handle."""
        return next((name for (_, name), number in tuple(self.handles.items()) if number == handle), handle)

    def called(self, subgraph: int) -> Array:
        """An int32: whether CALL_ONCE has run a subgraph."""
        return self._word(self._called, subgraph, (), np.dtype(np.int32))

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

    def snapshot(self, is_nested: bool = False) -> Snapshot:
        """What `restore` needs to bring the present state back.

        Args:
            is_nested: whether a run, for which another snapshot was taken, is in progress. Otherwise one begins, which
                leaves the values in cells where they are.
        """
        if is_nested:
            held = [half for handle in tuple(self._cells) if (half := self._held(handle)) is not None]
            return Snapshot(dict(self.values), self._store.content(), [(half, half.copy()) for half in held])
        for each in tuple(self._holders.values()):
            each[1] = each[0]
        return Snapshot(dict(self.values), self._store.content())

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to an earlier state; the memory of cells and variable tensors stays where it is."""
        self.values = dict(snapshot.values)
        self._store.restore(snapshot.content)
        for half, value in snapshot.held:
            half[...] = value
        for handle in tuple(self.values):
            self._settle(handle)

    def reset(self) -> None:
        """Forgets every assignment, as in a new session."""
        before = [(each, int(each[1])) for each in tuple(self._holders.values())]
        self.restore(Snapshot({}, ()))
        for holder, address in before:
            holder[1] = address


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of `Variables` at one moment."""

    values: dict[int, Array]
    content: Sequence[Array]
    """Of variable tensors, what CALL_ONCE has run, and which cells hold values."""
    held: Sequence[tuple[Array, Array]] = ()
    """Memory of cells with the values that it held, as far as the run may overwrite these."""


def _zero(declared: Tensor) -> int:
    quantization = declared.quantization
    return quantization.zero_point if quantization is not None and declared.dtype is DType.INT8 else 0
