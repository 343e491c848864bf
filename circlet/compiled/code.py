"""Code out of a file in this process: the shared object, its functions, and the memory that these are given."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Protocol

import numpy as np

from circlet.backends.native.load.library import Opened
from circlet.runtime.errors import InputError, ModelError
from circlet.runtime.exec.memory import allocate, copies
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.exec.watch import UNBOUNDED
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import ALIGNMENT, Array
from circlet.runtime.late import LOADING
from circlet.schema.container import Bounds, FunctionCode, Part, Variant, expect_checksum

_PIECE = 1 << 16
"""Bytes that are copied at a time."""
MOST_ITERATIONS = (1 << 32) - 1
"""What the word for them holds."""


class Library(ctypes.CDLL):
    """A shared object out of an opened file."""

    def __init__(self, descriptor: int) -> None:
        self._opened = Opened(descriptor)
        super().__init__("", handle=self._opened.handle)


def library(file: int, variant: Variant) -> ctypes.CDLL:
    """The code for a processor in an opened file; it stays while the library does, whatever becomes of the file.

    Raises:
        ModelError: it is damaged.
        OSError: the system does not load it.
    """
    try:
        with _anonymous() as copy:
            _copy(file, variant, copy)
            return Library(copy)
    except OSError:
        return _from_folder(file, variant)


@contextmanager
def _anonymous() -> Iterator[int]:
    """A file in memory."""
    if not hasattr(os, "memfd_create"):
        raise OSError("the system has no files in memory")
    descriptor = os.memfd_create("circlet")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _from_folder(file: int, variant: Variant) -> ctypes.CDLL:
    """As `library`, by way of the folder for temporary files."""
    from tempfile import NamedTemporaryFile  # seldom needed

    with NamedTemporaryFile(prefix="circlet", suffix=".so") as copy:
        _copy(file, variant, copy.fileno())
        return ctypes.CDLL(copy.name)


def _copy(file: int, variant: Variant, target: int) -> None:
    """Copies code, and expects it to be what it was, and called as it was.

    Raises:
        ModelError: it is not.
    """
    expect_checksum(variant.part, chain(_pieces(file, variant.part, target), [variant.interface]), "the code")


def _pieces(file: int, part: Part, target: int) -> Iterator[bytes]:
    """The pieces of a part, each written to another file."""
    end = part.offset + part.size
    for offset in range(part.offset, end, _PIECE):
        piece = os.pread(file, min(_PIECE, end - offset), offset)
        left = memoryview(piece)
        while left:
            left = left[os.write(target, left):]
        yield piece


def symbol(code: ctypes.CDLL, name: str) -> ctypes._FuncPointer:
    """A function of a library.

    Raises:
        ModelError: it has none of that name.
    """
    try:
        return code[name]
    except (AttributeError, ValueError):
        raise ModelError(f"the code has no function {name!r}") from None


def memory(size: int, alignment: int) -> Array:
    """So many bytes; what they hold is open.

    Raises:
        LimitError: there is not memory enough.
    """
    raw = allocate((size + alignment if alignment > ALIGNMENT else size,), np.dtype(np.uint8))
    begin = -raw.ctypes.data % alignment
    return raw[begin:begin + size]


class Words(ctypes.Structure):
    """The words of the caller at the beginning of a state, as `aot/limits.py` has them; a `Control`."""

    stop: int
    """1 where the run must stop."""
    _most: int
    _fields_ = [("stop", ctypes.c_uint32), ("_most", ctypes.c_uint32)]
    deadline = UNBOUNDED

    @property
    def iterations(self) -> int:
        """How many a run may make."""
        return self._most

    @iterations.setter
    def iterations(self, value: int) -> None:
        self._most = min(value, MOST_ITERATIONS)


class Function:
    """A function of a library that computes a subgraph."""

    def __init__(self, code: ctypes.CDLL, found: FunctionCode, graph: Subgraph, bounds: Sequence[Bounds]) -> None:
        """
        Args:
            code: the library.
            found: which of its functions.
            graph: its inputs and outputs.
            bounds: of the open lengths of each tensor.

        Raises:
            ModelError: the library does not have it.
        """
        self._lengths = [list(zip(_open_axes(graph.tensors[each]), bounds[each], strict=True)) for each in graph.inputs]
        """For each input the axes whose lengths are open, with what these are at least and at most."""
        self.is_open = any(bounds)
        """Whether there are such."""
        self.sites, self.writes = found.sites, found.writes
        self._code = symbol(code, found.symbol)
        self._code.argtypes, self._code.restype = [ctypes.c_void_p] * 4, ctypes.c_int32
        self._graph = graph

    def expect_lengths(self, entry: Entry, arrays: Sequence[Array]) -> None:
        """Expects lengths that there is code for.

        Args:
            entry: has the names that the caller knows.
            arrays: for the inputs.

        Raises:
            InputError: one is out of its bounds.
        """
        for tensor, value, lengths in zip(self._graph.inputs, arrays, self._lengths, strict=True):
            for axis, (least, most) in lengths:
                if not least <= value.shape[axis] <= most:
                    name = next(name for name, each in entry.inputs if each == tensor)
                    raise InputError(f"input {name!r}: the code is for lengths {least} to {most} of axis {axis}, found "
                                     f"{value.shape[axis]}; a Session of the same file takes any")

    def bind(self, arena: int, state: int) -> Bound:
        """The function with memory for inputs and outputs.

        Args:
            arena, state: the addresses.

        Raises:
            LimitError: there is not memory enough.
        """
        if self.is_open:
            with LOADING:
                from circlet.compiled.lengths import OpenFunction

            return OpenFunction(self._code, self._graph, arena, state)
        inputs, outputs = ([_array(self._graph.tensors[each]) for each in side]
                           for side in (self._graph.inputs, self._graph.outputs))
        return BoundFunction(self._code, inputs, outputs, arena, state)


class Bound(Protocol):
    """A function with memory for one run at a time."""

    @property
    def results(self) -> Callable[[], list[Array]]:
        """Gives copies of the outputs of the last run.

        Raises:
            LimitError: there is not memory enough.
        """
        ...

    def run(self, arrays: Sequence[Array]) -> int:
        """Runs it on arrays of the inputs' types and shapes, within the bounds; gives the status."""
        ...


class BoundFunction:
    """A function with memory for one run at a time. Inputs are copied, as code must not see them change: it checks
    indices before it uses them."""

    def __init__(self, code: ctypes._FuncPointer, inputs: Sequence[Array], outputs: Sequence[Array], arena: int,
                 state: int) -> None:
        self._inputs, self._outputs = inputs, outputs
        structs = [(ctypes.c_void_p * max(len(side), 1))(*(each.ctypes.data for each in side))
                   for side in (inputs, outputs)]
        self._call: Callable[[], int] = partial(code, *structs, ctypes.c_void_p(arena), ctypes.c_void_p(state))
        self.results = partial(copies, outputs)
        """Gives copies of the outputs of the last run.

        Raises:
            LimitError: there is not memory enough.
        """

    def run(self, arrays: Sequence[Array]) -> int:
        """Runs it on arrays of the inputs' types and shapes; gives the status."""
        for home, value in zip(self._inputs, arrays, strict=True):
            home[...] = value
        return self._call()


def _open_axes(tensor: Tensor) -> list[int]:
    """The axes whose lengths are open."""
    return [axis for axis, size in enumerate(tensor.signature) if size == -1]


def _array(tensor: Tensor) -> Array:
    """Memory for a tensor."""
    return allocate(tensor.shape, tensor.dtype.numpy)
