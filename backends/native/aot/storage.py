"""Where the memory of a compiled model lies: constants in one block, what outlives runs in the state, the rest in the
arena."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

_MARK_BYTES = 32
"""Of the mark that the block of constants is found by in an object file. 256 random bits are in no other place."""
_MOST_ALIGNED = 16
"""What constants are aligned to at the most, as vectors are loaded without more."""


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Block(ir.GlobalVariable):  # type: ignore[misc]  # llvmlite is untyped
    """Constants of which LLVM knows no value."""

    def descr(self, buf: list[str]) -> None:
        """Writes its definition."""
        found: list[str] = []
        super().descr(found)
        buf.append("".join(found).replace("constant", "externally_initialized constant", 1))


class Constants:
    """Constants, one behind another, each content once. They are not in the module's text, which would be three times
    as large: the object file has a block with a mark, and is filled in afterwards."""

    def __init__(self, module: ir.Module, name: str) -> None:
        """
        Args:
            module: that refers to them.
            name: of the block.
        """
        self._parts: list[Array] = []
        self._places: dict[bytes | tuple[int, int], int] = {}
        self._kept: list[Array] = []
        self._size = 0
        self._mark = os.urandom(_MARK_BYTES)
        self.block = _Block(module, ir.ArrayType(I8, 0), name)
        self.block.linkage, self.block.global_constant, self.block.align = "internal", True, _MOST_ALIGNED

    def place(self, array: Array) -> int:
        """Where in the block the bytes of an array are."""
        at = array.ctypes.data, array.nbytes
        if at in self._places:
            return self._places[at]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        content = data.tobytes()
        if content not in self._places:
            alignment = min(_MOST_ALIGNED, 1 << max(data.nbytes - 1, 0).bit_length())
            begin = _aligned(self._size, max(alignment, array.dtype.alignment))
            self._parts.append(np.zeros(begin - self._size, np.uint8))
            self._parts.append(data)
            self._size = begin + data.nbytes
            self._places[content] = begin
        self._kept.append(array)
        self._places[at] = self._places[content]
        return self._places[content]

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return self._size

    def close(self, module: ir.Module) -> None:
        """Defines the block; nothing more is placed then."""
        if not self._size:
            del module.globals[self.block.name]
            return
        size = max(self._size, _MARK_BYTES)
        rest = ir.ArrayType(I8, size - _MARK_BYTES)
        kind = ir.LiteralStructType([ir.ArrayType(I8, _MARK_BYTES), rest])
        self.block.value_type, self.block.gtype = kind, kind
        self.block.initializer = ir.Constant(kind, [ir.Constant(kind.elements[0], bytearray(self._mark)),
                                                    ir.Constant(rest, None)])

    def fill(self, code: bytes) -> bytes:
        """An object file with the constants in it."""
        if not self._size:
            return code
        begin = code.index(self._mark)
        data = np.concatenate(self._parts).tobytes()
        return code[:begin] + data.ljust(_MARK_BYTES, b"\0") + code[begin + max(len(data), _MARK_BYTES):]


@dataclass(frozen=True)
class Region:
    """A part of the state."""

    offset: int
    size: int


class State:
    """What outlives runs: variables, and whether they have a value."""

    def __init__(self, header_bytes: int) -> None:
        """
        Args:
            header_bytes: what the caller writes, at the beginning.
        """
        self.header_bytes = header_bytes
        self.nbytes = header_bytes
        self._regions: dict[Hashable, Region] = {}
        self.initial: dict[int, Array] = {}
        """What tensors are before the first run, by offset, unless that is zero."""

    def place(self, key: Hashable, size: int, alignment: int) -> Region:
        """The part of a key, zero at first."""
        if key not in self._regions:
            offset = _aligned(self.nbytes, alignment)
            self._regions[key] = Region(offset, size)
            self.nbytes = offset + size
        return self._regions[key]

    def initialise(self, region: Region, array: Array) -> None:
        """Says what a part is before the first run."""
        if array.any():
            self.initial[region.offset] = array

    @property
    def regions(self) -> Iterable[Region]:
        """All parts."""
        return self._regions.values()
