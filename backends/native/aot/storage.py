"""Where the memory of a compiled model lies: constants beside the code, what outlives runs in the state."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

_PREFIX_BYTES, _NUMBER_BYTES = 24, 8
"""Of the mark that a constant is found by in an object file: 192 random bits, which are in no other place, and its
number."""
_MARK_BYTES = _PREFIX_BYTES + _NUMBER_BYTES
_MOST_ALIGNED = 16
"""What constants are aligned to at the most, as vectors are loaded without more."""


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Hidden(ir.GlobalVariable):  # type: ignore[misc]  # llvmlite is untyped
    """A constant of which LLVM does not know the value."""

    def descr(self, buf: list[str]) -> None:
        """Writes its definition."""
        found: list[str] = []
        super().descr(found)
        buf.append("".join(found).replace("constant", "externally_initialized constant", 1))


class Constants:
    """Constants, each content once. Large ones are not in the module's text, which would be three times as large: the
    object file has their marks, and is filled in afterwards. LLVM drops those that nothing reads."""

    def __init__(self, module: ir.Module, name: str) -> None:
        """
        Args:
            module: that refers to them.
            name: that their symbols begin with.
        """
        self._module = module
        self._name = name
        self._prefix = os.urandom(_PREFIX_BYTES)
        self._contents: list[bytes] = []
        self._found: dict[bytes | tuple[int, int], ir.GlobalVariable] = {}
        self._kept: list[Array] = []
        """The arrays, so that no others come to lie where they do."""

    def place(self, array: Array) -> ir.GlobalVariable:
        """The constant with the bytes of an array."""
        at = array.ctypes.data, array.nbytes
        if at not in self._found:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes()
            if content not in self._found:
                self._found[content] = self._made(content, array.dtype.alignment)
            self._kept.append(array)
            self._found[at] = self._found[content]
        return self._found[at]

    def _made(self, content: bytes, alignment: int) -> ir.GlobalVariable:
        number, size = len(self._contents), len(content)
        self._contents.append(content)
        if size < _MARK_BYTES:
            kind = ir.ArrayType(I8, size)
            value = ir.Constant(kind, bytearray(content))
        else:
            mark, rest = ir.ArrayType(I8, _MARK_BYTES), ir.ArrayType(I8, size - _MARK_BYTES)
            kind = ir.LiteralStructType([mark, rest])
            marked = bytearray(self._prefix + number.to_bytes(_NUMBER_BYTES, "little"))
            value = ir.Constant(kind, [ir.Constant(mark, marked), ir.Constant(rest, None)])
        found = _Hidden(self._module, kind, f"{self._name}_{number}")
        found.linkage, found.global_constant, found.initializer = "internal", True, value
        found.align = max(alignment, min(_MOST_ALIGNED, 1 << max(size - 1, 0).bit_length()))
        return found

    def fill(self, code: bytes) -> bytes:
        """An object file with the constants in it."""
        found = bytearray(code)
        begin = code.find(self._prefix)
        while begin >= 0:
            number = int.from_bytes(code[begin + _PREFIX_BYTES:begin + _MARK_BYTES], "little")
            content = self._contents[number]
            found[begin:begin + len(content)] = content
            begin = code.find(self._prefix, begin + _MARK_BYTES)
        return bytes(found)


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
