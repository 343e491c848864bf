"""What is in an object file: System V ABI, chapter 4, of 32 or 64 bits, little-endian."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from circlet.embed.contents import Contents
from circlet.runtime.records import dataclass

_SYMTAB, _ALLOC, _EXECUTE = 2, 2, 4
"""SHT_SYMTAB, SHF_ALLOC, SHF_EXECINSTR."""
_SECTIONS = {1: (Struct("<I"), 32, Struct("<HH"), 46, Struct("<IIIIIIIIII")),
             2: (Struct("<Q"), 40, Struct("<HH"), 58, Struct("<IIQQQQIIQQ"))}
"""By class: the word e_shoff and where it is, e_shentsize and e_shnum, a section header."""
_SYMBOLS = {1: Struct("<IIIBBH"), 2: Struct("<IBBHQQ")}
"""By class: st_name, st_value, st_size, st_info, st_other, st_shndx; of 64 bits in another order."""


@dataclass(frozen=True)
class Section:
    """A section: its kind, flags, place in the file, size, and the section that it is linked to."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


def read(content: bytes) -> Contents:
    """What an object file holds."""
    kind = content[4]
    sections = list(_sections(content, kind))
    loaded = [each for each in sections if each.flags & _ALLOC and not each.name.startswith((".ARM.", ".eh_frame"))]
    symbols = [(name, index) for name, is_global, index in _symbols(content, kind, sections) if is_global and name]
    return Contents(
        sum(each.size for each in loaded if each.flags & _EXECUTE),
        sum(each.size for each in loaded if not each.flags & _EXECUTE),
        tuple(sorted(name for name, index in symbols if index)),
        tuple(sorted(name for name, index in symbols if not index)))


def _sections(content: bytes, kind: int) -> Iterator[Section]:
    word, at, counts, where, header = _SECTIONS[kind]
    (begin,), (size, count) = word.unpack_from(content, at), counts.unpack_from(content, where)
    (names,) = Struct("<H").unpack_from(content, where + 4)
    found = [header.unpack_from(content, begin + k * size) for k in range(count)]
    texts = found[names][4]
    for name, section, flags, _, offset, length, link, *_ in found:
        yield Section(_text(content, texts + name), section, flags, offset, length, link)


def _symbols(content: bytes, kind: int, sections: list[Section]) -> Iterator[tuple[str, bool, int]]:
    """Name, whether others see it, and section of each symbol."""
    form = _SYMBOLS[kind]
    for table in sections:
        if table.kind != _SYMTAB:
            continue
        for begin in range(table.offset, table.offset + table.size, form.size):
            fields = form.unpack_from(content, begin)
            info, index = (fields[3], fields[5]) if kind == 1 else (fields[1], fields[3])
            yield _text(content, sections[table.link].offset + fields[0]), info >> 4 != 0, index


def _text(content: bytes, begin: int) -> str:
    return content[begin:content.index(b"\0", begin)].decode()
