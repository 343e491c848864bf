"""The state of a session: variables, variable tensors, and what was initialised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec import fork
from circlet.runtime.exec.state.store import BEFORE, CHANGED, NOW, Store, Words
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.state.cell import Cell


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
        self._words = Words()
        self._holders: dict[int, Array] = {}
        """For each handle its words."""
        self.updated: set[int] = set()
        """The handles of variables of which the model writes over parts."""
        self.number = np.zeros(1, np.int64)
        """An int64: how many runs have begun."""
        self._begun = 0
        """The same."""
        self._before: tuple[dict[int, Array], Sequence[Array]] = {}, ()
        """Values, and what the store held, when the latest run began."""
        self._within: list[Snapshot] = []
        """The states when runs began that are within others."""
        self._called: dict[int, Array] = {}
        self._tensors: dict[tuple[int, int], tuple[Array, int]] = {}
        fork.watch(self)

    def after_fork(self) -> None:
        self._lock = Lock()

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def name_all(self, model: Model) -> None:
        """Gives each variable the handle that it has in all sessions of the model; compiled code relies on it."""
        for subgraph in model.subgraphs:
            for operator in subgraph.operators:
                variable, updated = operator.op.variable(), operator.op.updated()
                if variable is not None:
                    self.handle(*variable)
                if updated is not None:
                    self.updated.add(self.handle(*updated))

    def reserve(self, handle: int, shape: Shape, dtype: DType) -> Cell:
        """The memory of a variable for values of a type and shape, where compiled code finds them. A value that there
        is stays where it lies."""
        found = self._fitting(handle, shape, dtype.numpy)
        if found is not None:
            return found
        with LOADING:
            from circlet.runtime.exec.state.cell import Cell

        with self._lock:
            found = self._fitting(handle, shape, dtype.numpy)
            if found is None:
                found = Cell.make(shape, dtype.numpy)
                self._cells[handle] = (*self._cells.get(handle, ()), found)
        return found

    def cell(self, handle: int, shape: Shape, dtype: DType) -> Cell:
        """The same, with the value in it if it is of that type and shape; for the thread that runs."""
        found = self.reserve(handle, shape, dtype)
        self._settle(handle)
        return found

    def holder(self, handle: int) -> Array:
        """The words of a variable, three int64: `NOW`, `BEFORE`, `CHANGED`."""
        return self._word(self._holders, handle, self._words.take)

    def _word(self, words: dict[int, Array], key: int, make: Callable[[], Array]) -> Array:
        """The word, or the words, of a key, zero at first."""
        found = words.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in words:
                words[key] = make()
        return words[key]

    def _fitting(self, handle: int, shape: Shape, dtype: np.dtype[np.generic]) -> Cell | None:
        return next((each for each in self._cells.get(handle, ())
                     if each.halves[0].shape == shape and each.halves[0].dtype == dtype), None)

    def _settle(self, handle: int) -> None:
        """Puts a value into its cell, if there is one for it."""
        value = self.values.get(handle)
        if value is not None and handle in self._cells and self._is_written(handle, value):
            del self.values[handle]

    def _is_written(self, handle: int, value: Array) -> bool:
        """Writes a value to the cell for it; says whether there is one."""
        cell, holder = self._fitting(handle, value.shape, value.dtype), self.holder(handle)
        if cell is None:
            holder[NOW] = 0
            return False
        self._take_back(handle, holder)
        free = cell.halves[int(cell.half(holder[BEFORE]) == 0)]
        free[...] = value
        holder[NOW] = free.ctypes.data
        return True

    def _take_back(self, handle: int, holder: Array) -> None:
        """Puts back what the run wrote over of the value of a variable before the run."""
        if holder[CHANGED] == self.number[0]:
            cell, half = self._part(handle, BEFORE)
            cell.take_back(half, holder[CHANGED])
            holder[CHANGED] = 0

    def _part(self, handle: int, word: int) -> tuple[Cell, int]:
        """The cell, and which half of it, that a word of a variable names."""
        address = self.holder(handle)[word]
        return next((cell, half) for cell in self._cells[handle] if (half := cell.half(address)) is not None)

    def home(self, handle: int, shape: Shape, dtype: DType) -> Array:
        """Where the value of a variable lies, to be written over in part; `keep` first what is there.

        Raises:
            ExecutionError: it has no value, or one of another type or shape.
        """
        cell, value = self.cell(handle, shape, dtype), self.read(handle)
        if value.dtype != dtype.numpy:
            raise ExecutionError(f"the variable holds {value.dtype}, the model reads {dtype.value}")
        if value.shape != shape:
            raise ExecutionError(f"the result has shape {value.shape}, the model declares {shape}")
        assert any(value is each for each in cell.halves), "a cell holds values of its type and shape"
        return value

    def keep(self, handle: int, begins: Array, size: int) -> None:
        """Keeps what there is in parts of the value of a variable, so that a run that fails can be taken back.

        Args:
            handle: its value is in a cell.
            begins: the byte at which each part begins.
            size: the bytes of each.
        """
        holder = self.holder(handle)
        if holder[NOW] == holder[BEFORE] and size and begins.size:
            cell, half = self._part(handle, NOW)
            holder[CHANGED] = self.number[0]
            cell.keep(half, begins, size, holder[CHANGED])

    def read(self, handle: int) -> Array:
        """The value of a variable, which the next assignment may overwrite."""
        found = self.value(handle)
        if found is None:
            raise ExecutionError(f"variable {self.name_of(handle)!r} is read before it is assigned")
        return found

    def value(self, handle: int) -> Array | None:
        """The same; None where nothing was assigned."""
        found = self._held(handle) if handle in self._cells else None
        return self.values.get(handle) if found is None else found

    def _held(self, handle: int) -> Array | None:
        """What holds the value of a variable, in one of its cells."""
        halves = (half for cell in self._cells.get(handle, ()) for half in cell.halves)
        return next((half for half in halves if self.holder(handle)[NOW] == half.ctypes.data), None)

    def assign(self, handle: int, value: Array) -> None:
        """Gives a variable a copy of a value."""
        if handle in self._cells and self._is_written(handle, value):
            self.values.pop(handle, None)
        else:
            self.values[handle] = value.copy()

    def give(self, handle: int, value: Array) -> None:
        """Gives a variable a value that nobody else has, nor writes to."""
        if handle in self._cells:
            self.assign(handle, value)
        else:
            self.values[handle] = value

    def name_of(self, handle: int) -> str | int:
        """The name of a variable, or, if it has none, its handle."""
        return next((name for (_, name), number in tuple(self.handles.items()) if number == handle), handle)

    def called(self, subgraph: int) -> Array:
        """An int32: whether CALL_ONCE has run a subgraph."""
        return self._word(self._called, subgraph, partial(self._store.allocate, (), np.dtype(np.int32)))

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

    def begin(self) -> None:
        """A run begins, which `roll_back` takes back. It leaves the values in cells where they are."""
        self._begun += 1
        self.number[0] = self._begun
        self._words.begin()
        self._before = self.values.copy(), self._store.content()

    def roll_back(self) -> None:
        """Goes back to the state when the latest run began; the memory of cells and variable tensors stays where it
        is."""
        for handle, holder in tuple(self._holders.items()):
            self._take_back(handle, holder)
        values, content = self._before
        self.values = dict(values)
        self._store.restore(content)
        self._words.roll_back()
        self._settle_all()

    def begin_again(self) -> None:
        """Goes back to the state when the run in progress began, which then does its work once more."""
        if self._within:
            self.restore(self._within[-1])
            return
        self.roll_back()
        self.begin()  # by another number, as blocks are marked that the other half need not keep any more

    @contextmanager
    def within(self) -> Iterator[Snapshot]:
        """A run begins within another one, and ends where this does; gives the state that it begins with."""
        found = self.snapshot()
        self._within.append(found)
        try:
            yield found
        finally:
            self._within.pop()

    def snapshot(self) -> Snapshot:
        """What `restore` needs to bring the present state back, in the midst of a run."""
        return Snapshot(self.values.copy(), self._store.content(), self._words.content(),
                        [(each, each.copy()) for handle in tuple(self._cells) for each in self._needed(handle)])

    def _needed(self, handle: int) -> list[Array]:
        """The memory of a variable's cells that says what its value is, and what it was before the run."""
        held = self._held(handle)
        found = [each.marks for each in self._cells[handle]] + ([] if held is None else [held])
        if self.holder(handle)[CHANGED] == self.number[0]:
            found += self._part(handle, BEFORE)[0].halves
        return found

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to an earlier state of the same run; the memory of cells and variable tensors stays where it is."""
        self.values = dict(snapshot.values)
        self._store.restore(snapshot.content)
        self._words.restore(snapshot.words)
        for memory, content in snapshot.held:
            memory[...] = content
        self._settle_all()

    def _settle_all(self) -> None:
        for handle in tuple(self.values):
            self._settle(handle)

    def reset(self) -> None:
        """Forgets every assignment, as in a new session."""
        self.values = {}
        self._store.restore(())
        self._words.reset()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of `Variables` at one moment."""

    values: dict[int, Array]
    content: Sequence[Array]
    """Of variable tensors, and what CALL_ONCE has run."""
    words: Sequence[Array]
    """Which cells hold values."""
    held: Sequence[tuple[Array, Array]]
    """Memory of cells with what it held."""


def _zero(declared: Tensor) -> int:
    quantization = declared.quantization
    return quantization.zero_point if quantization is not None and declared.dtype is DType.INT8 else 0
