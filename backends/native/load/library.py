"""Machine code in this process."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from struct import Struct
from typing import Any, Protocol

import numpy as np

from circlet.runtime.late import LOADING

VARIABLE = "CIRCLET_PERF"
"""The environment variable that, set to 1, has native code be visible to profilers and debuggers."""
ENTRY = "circlet_entry"
"""The name of the function that a library is entered by."""
ELF = b"\x7fELF"
"""What an ELF file begins with."""
_KIND = slice(16, 18)
"""Where an ELF file's type is, a 16-bit number."""
HEAD = _KIND.stop
"""Bytes of a file that tell whether it is a shared object."""
_SHARED = b"\x03\x00"
"""ET_DYN, a shared object."""
_BEGIN, _TEXT, _DYNAMIC = 24, 64 + 56 + 8, 64 + 3 * 56 + 8
"""Where `elf/shared_object.py` writes how its code is entered, `e_entry`, and its second and fourth segment, from
`p_offset` on (System V ABI)."""
_STRINGS, _SYMBOLS, _RELOCATIONS, _SIZE = 5, 6, 7, 8
"""DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ."""
_WORDS, _PAIR, _RELOCATION = Struct("<4Q"), Struct("<2Q"), Struct("<QIIq")
"""Four numbers; Elf64_Dyn; Elf64_Rela."""
_SYMBOL, _RELATIVE = 24, 8
"""Bytes of an Elf64_Sym; R_X86_64_RELATIVE."""
_MOST_RELOCATIONS = 16
"""How many are made here: a choice. There are none but for functions of the C library, such as `memcpy`."""
_LONGEST = 64
"""Bytes of the names of such functions, at the most."""
_NUMBERS = count(1)
"""Numbers of paths, from 1 on."""

_X86_64 = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x48\xb8")
"""`movabs $..., register` without the number: of the registers for arguments (System V Application Binary Interface,
AMD64 Architecture Processor Supplement, 3.2.3), the last one for the function."""
_X86_64_JUMP = b"\xff\xe0"
"""`jmp *%rax`."""
_AARCH64 = b"".join(each.to_bytes(4, "little") for each in (
    0x580000C0, 0x580000E1, 0x58000102, 0x58000123, 0xD61F0060, 0xD503201F))
"""`ldr x0, .+24`, `ldr x1, .+28`, `ldr x2, .+32`, `ldr x3, .+36`, `br x3`, `nop`: the addresses follow (Procedure Call
Standard for the Arm 64-bit Architecture, 6.8.2)."""
_READ, _WRITE, _EXECUTE = 1, 2, 4
"""PROT_READ, PROT_WRITE, PROT_EXEC of Linux's `mman-common.h`."""
_PRIVATE, _ANONYMOUS = 0x02, 0x20
"""MAP_PRIVATE, MAP_ANONYMOUS."""
_FAILED = ctypes.c_void_p(-1).value
"""MAP_FAILED."""
_PAGES = 64
"""Pages that are asked for at a time: a choice."""


class Library(Protocol):
    """Machine code in this process; it stays as long as the object does."""

    address: int
    """Where the entry function begins."""


class SharedLibrary:
    """A shared object that the system loaded."""

    def __init__(self, descriptor: int) -> None:
        """
        Args:
            descriptor: of the opened file, which may be closed afterwards.

        Raises:
            OSError: the system refuses to, or has no paths of opened files (`/proc`).
        """
        self._opened = Opened(descriptor)
        self.address: int = _ctypes.dlsym(self._opened.handle, ENTRY)


class Opened:
    """A shared object that the system loaded, and lets go of when nobody has this any more."""

    def __init__(self, descriptor: int) -> None:
        """
        Args:
            descriptor: of the opened file, which may be closed afterwards.

        Raises:
            OSError: the system refuses to, or has no paths of opened files (`/proc`).
        """
        path = _visible_path(descriptor) if is_visible() else _path(descriptor)
        self.handle: int = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
        """What the system knows it by."""

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and "handle" in self.__dict__:  # at the end a daemon thread may be in it
            _ctypes.dlclose(self.handle)


class MappedLibrary:
    """A shared object of `elf/shared_object.py` in a file that is mapped: what the system's loader would do takes it
    0.1 ms."""

    def __init__(self, mapping: Mapping) -> None:
        """
        Args:
            mapping: of the file that the shared object begins.

        Raises:
            OSError: there is too much to do, something is not found, or the system lets nothing be executed.
        """
        self._mapping = mapping
        self._content = np.asarray(mapping).data
        begin, _, _, size = _WORDS.unpack_from(self._content, _TEXT)
        mapping.allow(begin, size)  # before anything is written: some systems refuse it afterwards
        for place, value in self._relocated():
            ctypes.c_uint64.from_address(mapping.address + place).value = value
        entry, *_ = _WORDS.unpack_from(self._content, _BEGIN)
        self.address: int = mapping.address + entry

    def _relocated(self) -> list[tuple[int, int]]:
        """Places in the segment of data, and what goes there."""
        begin, _, _, size = _WORDS.unpack_from(self._content, _DYNAMIC)
        told = dict(_PAIR.iter_unpack(self._content[begin:begin + size]))
        if told[_SIZE] > _MOST_RELOCATIONS * _RELOCATION.size:
            raise OSError("the loader is sooner")
        found = []
        for place, kind, symbol, addend in _RELOCATION.iter_unpack(
                self._content[told[_RELOCATIONS]:told[_RELOCATIONS] + told[_SIZE]]):
            begin = self._mapping.address if kind == _RELATIVE else self._outside(
                told[_STRINGS], told[_SYMBOLS] + symbol * _SYMBOL)
            found.append((place, begin + addend))
        return found

    def _outside(self, strings: int, symbol: int) -> int:
        """Where something lies that a symbol names."""
        begin = strings + int.from_bytes(self._content[symbol:symbol + 4], "little")
        name = bytes(self._content[begin:begin + _LONGEST])
        found: int = _ctypes.dlsym(ctypes.pythonapi._handle, name[:name.index(0)].decode())
        return found


def is_visible() -> bool:
    """Whether the environment asks for code that tools can see; see `elf/symbols.py`."""
    return os.environ.get(VARIABLE) == "1"


def _visible_path(descriptor: int) -> str:
    """The path of an opened file by which debuggers can open it too, if it still leads there."""
    with LOADING:
        from circlet.backends.native.load.elf.symbols import file_path

    return file_path(descriptor) or _path(descriptor)


def _path(descriptor: int) -> str:
    """A path of an opened file that no other call gives: the system's loader takes files of one path for one file,
    though descriptors are used again. Dots, which lead nowhere, write a number."""
    dots = "".join("/." if digit == "1" else "/" for digit in f"{next(_NUMBERS):b}")
    return f"/proc/self/fd{dots}/{descriptor}"


def is_shared(code: bytes) -> bool:
    """Whether code is a shared object rather than an object file."""
    return code[:4] == ELF and code[_KIND] == _SHARED


def thunk_code(machine: str, function: int, arguments: Sequence[int]) -> bytes | None:
    """Machine code that loads three addresses into registers and goes on to a function that takes them.

    Args:
        machine: as `os.uname` calls it.
        function: its address.
        arguments: the addresses.

    Returns:
        None for processors other than x86-64 and AArch64.
    """
    addresses = [each.to_bytes(8, "little") for each in (*arguments, function)]
    if machine == "x86_64":
        return b"".join(map(bytes.__add__, _X86_64, addresses)) + _X86_64_JUMP
    return _AARCH64 + b"".join(addresses) if machine == "aarch64" else None


class Thunk:
    """A function without arguments: machine code in a page of its own, which is never writable and executable at a
    time."""

    def __init__(self, content: bytes) -> None:
        """
        Raises:
            OSError: the system gives no memory, or lets none be executed.
        """
        pages = _pages()
        self.address = pages.take()
        pages.protect(self.address, _READ | _WRITE)
        ctypes.memmove(self.address, content, len(content))
        pages.protect(self.address, _READ | _EXECUTE)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and "address" in self.__dict__:  # at the end a daemon thread may be in it
            _pages().spare.append(self.address)


class Mapping:
    """The bytes of an opened file in memory of the process's own, as long as the object is there; a read-only array is
    made of it. The module `mmap` would take 0.25 ms to load."""

    def __init__(self, descriptor: int, size: int) -> None:
        """
        Raises:
            OSError: the file cannot be mapped.
        """
        system = _memory()
        self._size = size
        self.address: int = system.map(None, size, _READ | _WRITE, _PRIVATE, descriptor, 0)
        if self.address == _FAILED:
            raise OSError("the file cannot be mapped")
        self._release = system.unmap
        self.__array_interface__ = {"data": (self.address, True), "shape": (size,), "typestr": "|u1", "version": 3}
        """See "The array interface protocol" of numpy."""

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and "_release" in self.__dict__:  # at the end a daemon thread may be in it
            self._release(self.address, self._size)

    def allow(self, begin: int, size: int) -> None:
        """Lets so many bytes be executed, and not be written to, from the begin of a page on.

        Raises:
            OSError: the system does not.
        """
        if _memory().protect(self.address + begin, size, _READ | _EXECUTE):
            raise OSError("files may not be executed")


class _Memory:
    """What the system has for memory."""

    def __init__(self) -> None:
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self.map = _function("mmap", address, address, size, number, number, number, ctypes.c_long)
        self.unmap = _function("munmap", number, address, size)
        self.protect = _function("mprotect", number, address, size, number)


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the system's, which is called with Python's lock; types of functions would take longer to make."""
    found = ctypes.pythonapi[name]
    found.restype, found.argtypes = result, arguments
    return found


@lru_cache(1)
def _memory() -> _Memory:
    """That of this process."""
    return _Memory()


with suppress(AttributeError):  # of a system without such functions, whose files are read
    _memory()  # the import takes the 40 us of making it, rather than the first load


class _Pages:
    """Pages of memory, which are used again and never given back: single ones that are free between what others map
    would get the data of code that lies too far away."""

    def __init__(self) -> None:
        self._system = _memory()
        self._size = os.sysconf("SC_PAGE_SIZE")
        self.spare: list[int] = []
        """The addresses of those that nobody uses."""

    def take(self) -> int:
        """The address of a page, which is then the caller's.

        Raises:
            OSError: there is no memory.
        """
        try:
            return self.spare.pop()
        except IndexError:
            begin: int = self._system.map(None, _PAGES * self._size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
            if begin == _FAILED:
                raise OSError("there is no memory for functions") from None
            self.spare += range(begin + self._size, begin + _PAGES * self._size, self._size)
            return begin

    def protect(self, page: int, rights: int) -> None:
        """Changes what may be done with a page.

        Raises:
            OSError: the system does not let it.
        """
        if self._system.protect(page, self._size, rights):
            raise OSError("memory may not be executed")


def thunk(function: int, arguments: Sequence[int]) -> Thunk | None:
    """A function without arguments that calls one with three addresses, for which ctypes takes 40 ns instead of 170;
    None where there can be none."""
    if sys.platform != "linux":
        return None
    content = thunk_code(os.uname().machine, function, arguments)
    try:
        return None if content is None else Thunk(content)
    except OSError:
        return None


@lru_cache(1)
def _pages() -> _Pages:
    """Those of this process."""
    return _Pages()
