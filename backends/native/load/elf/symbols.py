"""What profilers and debuggers see of native code: the part of a shared object that names its functions, which no
loader reads, and the map in which `perf` looks for code that lies in no file. Nothing here loads LLVM."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from struct import Struct

from circlet.runtime.records import dataclass

SYMBOL = Struct("<IBBHQQ")
"""Elf64_Sym: name, info, other, section, value, size."""
SECTION = Struct("<IIQQQQIIQQ")
"""Elf64_Shdr: name, type, flags, address, offset, size, link, info, alignment, size of an entry."""
FUNCTION = 2
"""STT_FUNC."""
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
"""SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB."""
_ALLOC_EXECUTE = 6
"""SHF_ALLOC and SHF_EXECINSTR."""
_TEXT, _NAMES = 1, 3
"""The numbers of sections."""
_TITLES = b"\0.text\0.symtab\0.strtab\0"
"""The names of sections, at 1, 7 and 15; those of functions follow."""
SECTIONS = 4
"""How many there are: none, which is the first in every file, the code, symbols, names."""


_HEADER = Struct("<16sHHIQQQIHHHHHH")
"""Elf64_Ehdr: identity, type, machine, version, entry, where segments and sections are, flags, sizes and numbers of
these."""
_ELF64 = b"\x7fELF\x02\x01"
"""What files of 64 bits, little-endian, begin with."""


@dataclass(frozen=True)
class Symbol:
    """A function: its name, where it begins, counted from where the object is loaded, and its bytes."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Tables:
    """What is appended to a shared object.

    Attributes:
        content: the bytes.
        headers: where in the file the headers of its sections begin.
    """

    content: bytes
    headers: int


def functions_of(content: bytes) -> Iterator[Symbol]:
    """The functions that an object file of ELF defines for others; addresses count from where their sections begin.
    None of files of other formats."""
    if content[:len(_ELF64)] != _ELF64:
        return
    _, _, _, _, _, _, begin, _, _, _, _, _, number, _ = _HEADER.unpack_from(content)
    sections = [SECTION.unpack_from(content, begin + k * SECTION.size) for k in range(number)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _SYMTAB:
            continue
        for name, info, _, section, value, length in SYMBOL.iter_unpack(content[offset:offset + size]):
            if info & 0xF == FUNCTION and info >> 4 and section:
                start = sections[link][4] + name
                yield Symbol(content[start:content.index(0, start)].decode(), value, length)


def symbol_tables(functions: Sequence[Symbol], text: range, begin: int) -> Tables:
    """A symbol table and the headers of sections.

    Args:
        functions: what it names.
        text: where the code lies, in the file and in memory alike.
        begin: where in the file the result is put, a multiple of 8.
    """
    names = bytearray(_TITLES)
    symbols = [bytes(SYMBOL.size)]
    for each in functions:
        symbols.append(SYMBOL.pack(len(names), FUNCTION, 0, _TEXT, each.address, each.size))
        names += each.name.encode(errors="backslashreplace") + b"\0"
    names += bytes(-len(names) % 8)
    table = b"".join(symbols)
    strings = begin + len(table)
    headers = (
        bytes(SECTION.size),
        SECTION.pack(1, _PROGBITS, _ALLOC_EXECUTE, text.start, text.start, len(text), 0, 0, 16, 0),
        SECTION.pack(7, _SYMTAB, 0, 0, begin, len(table), _NAMES, len(symbols), 8, SYMBOL.size),
        SECTION.pack(15, _STRTAB, 0, 0, strings, len(names), 0, 0, 1, 0),
    )
    return Tables(table + bytes(names) + b"".join(headers), strings + len(names))


def file_path(descriptor: int) -> str | None:
    """The path of an opened file, by which debuggers can open it too; None if it leads elsewhere by now."""
    with suppress(OSError):
        found = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.samestat(os.stat(found), os.fstat(descriptor)):
            return found
    return None


def map_path() -> str:
    """Where `perf` looks for the names of this process's code that lies in no file."""
    return f"/tmp/perf-{os.getpid()}.map"


def add_to_map(functions: Iterable[Symbol]) -> None:
    """Tells `perf` of functions: `START SIZE NAME`, a line each, numbers hexadecimal (jit-interface.txt of Linux).
    A file that is not this user's own is left alone."""
    lines = "".join(f"{each.address:x} {each.size:x} {each.name}\n" for each in functions)
    with suppress(OSError):
        file = os.open(map_path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_uid == os.geteuid():
                os.write(file, lines.encode(errors="backslashreplace"))
        finally:
            os.close(file)
