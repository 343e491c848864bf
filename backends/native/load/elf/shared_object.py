"""Turns object files into a shared object, which the system's loader maps without LLVM.

Only what LLVM writes for position-independent code of an x86-64 ELF system is known here. The format is that of the
System V ABI and its AMD64 supplement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct, pack, pack_into

from circlet.backends.native.load.elf.symbols import FUNCTION, SECTION, SECTIONS, SYMBOL, Symbol, symbol_tables
from circlet.runtime.records import dataclass, field, replace

_HEADER = Struct("<16sHHIQQQIHHHHHH")
"""Elf64_Ehdr: identity, type, machine, version, entry, where segments and sections are, flags, sizes and numbers of
these."""
_RELOCATION = Struct("<QQq")
"""Elf64_Rela: offset, info, addend."""
_SEGMENT = Struct("<IIQQQQQQ")
"""Elf64_Phdr: type, flags, offset, two addresses, sizes in the file and in memory, alignment."""
_IDENTITY = b"\x7fELF\x02\x01\x01" + bytes(9)
"""e_ident: 64 bits, little-endian, version 1, System V."""
_RELOCATABLE, _SHARED, _X86_64 = 1, 3, 62
"""ET_REL, ET_DYN; EM_X86_64."""
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
"""SHT_SYMTAB, SHT_RELA, SHT_NOBITS."""
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
"""SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR."""
_UNDEFINED, _RESERVED = 0, 0xFF00
"""SHN_UNDEF, SHN_LORESERVE."""
_LOCAL = 0
"""STB_LOCAL."""
_PAGE = 4096
"""Bytes of a page, the unit of protection."""
_R, _RX, _RW = 4, 5, 6
"""Sums of PF_R (4), PF_W (2) and PF_X (1)."""
_ABSOLUTE, _PC, _PLT, _GLOBAL_DATA, _RELATIVE, _GOT, _GOT_X, _REX_GOT_X = 1, 2, 4, 6, 8, 9, 41, 42
"""R_X86_64_64, PC32, PLT32, GLOB_DAT, RELATIVE, GOTPCREL, GOTPCRELX, REX_GOTPCRELX."""
_SEGMENTS = 5
"""How many there are: three that are loaded, PT_DYNAMIC, PT_GNU_STACK."""
_STACK = 0x6474E551
"""PT_GNU_STACK, without which the loader makes stacks executable."""
_STUB = b"\xff\x25"
"""`jmp *distance(%rip)`, followed by the distance of a slot: what a call of another library's function goes to."""
_STUB_BYTES = 8
"""Of a stub, filled up."""


class UnknownObject(Exception):
    """The object file holds something that this module does not know."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int

    @property
    def access(self) -> int:
        """The segment that the section belongs to."""
        if self.flags & _EXECUTE:
            return _RX
        return _RW if self.flags & _WRITE else _R


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int
    binding: int
    kind: int
    size: int


class _Object:
    """An object file, read."""

    def __init__(self, content: bytes) -> None:
        identity, kind, machine, *_, offset, _, _, _, _, _, number, names = _HEADER.unpack_from(content)
        if identity[:7] != _IDENTITY[:7] or (kind, machine) != (_RELOCATABLE, _X86_64):
            raise UnknownObject("no object file of x86-64")
        self.content = content
        raw = [SECTION.unpack_from(content, offset + k * SECTION.size) for k in range(number)]
        self.sections = [
            _Section(self._text(raw[names][4] + name), kind, flags, place, size, link, info, max(alignment, 1))
            for name, kind, flags, _, place, size, link, info, alignment, _ in raw
        ]
        table = next(each for each in self.sections if each.kind == _SYMTAB)
        self.symbols = [
            _Symbol(self._text(self.sections[table.link].offset + name), section, value, info >> 4, info & 0xF, size)
            for name, info, _, section, value, size in SYMBOL.iter_unpack(self.bytes(table))
        ]
        self._tables: dict[int, list[_Section]] = {}
        """The tables of relocations of each section that has any."""
        for each in self.sections:
            if each.kind == _RELA:
                self._tables.setdefault(each.info, []).append(each)

    def _text(self, offset: int) -> str:
        """A string of the file, ended by a zero byte."""
        return self.content[offset:self.content.index(0, offset)].decode()

    def bytes(self, section: _Section) -> bytes:
        """What the file holds of a section."""
        if section.kind == _NOBITS:
            return bytes(section.size)
        return self.content[section.offset:section.offset + section.size]

    def loaded(self) -> Iterator[int]:
        """The sections that a program needs; not the tables for unwinding, as nothing is thrown."""
        for number, each in enumerate(self.sections):
            if each.flags & _ALLOC and each.size and each.name != ".eh_frame":
                yield number

    def relocations(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Of a section: place, type, symbol, addend."""
        for each in self._tables.get(number, ()):
            for place, info, addend in _RELOCATION.iter_unpack(self.bytes(each)):
                yield place, info & 0xFFFFFFFF, info >> 32, addend


class _Program:
    """Object files as if they were one: sections and symbols are numbered through, and what one file defines for all
    stands for what others leave open under its name."""

    def __init__(self, objects: Sequence[_Object]) -> None:
        self._origin: list[tuple[_Object, int]] = []
        """Of each section: its file, and its number there."""
        self._first: dict[_Object, int] = {}
        """The number of each file's first symbol."""
        self.symbols: list[_Symbol] = []
        for each in objects:
            start, self._first[each] = len(self._origin), len(self.symbols)
            self._origin += [(each, number) for number in range(len(each.sections))]
            self.symbols += [
                replace(symbol, section=start + symbol.section) if 0 < symbol.section < _RESERVED else symbol
                for symbol in each.symbols
            ]
        if len(self._origin) >= _RESERVED:
            raise UnknownObject("too many sections")
        self.named = self._resolved()
        """What each name stands for."""

    def _resolved(self) -> dict[str, int]:
        """The symbol that a name means in all files: the one that defines it, else the first that asks for it."""
        asked = {each.name: number for number, each in reversed(list(enumerate(self.symbols)))
                 if each.section == _UNDEFINED}
        defined: dict[str, int] = {}
        for number, each in enumerate(self.symbols):
            is_for_all = each.section != _UNDEFINED and each.binding != _LOCAL
            if is_for_all and defined.setdefault(each.name, number) != number:
                raise UnknownObject(f"symbol {each.name!r} is defined twice")
        return {**asked, **defined}

    def section(self, number: int) -> _Section:
        """A section, by its number among all files'."""
        source, own = self._origin[number]
        return source.sections[own]

    def bytes(self, number: int) -> bytes:
        """What the files hold of a section."""
        source, own = self._origin[number]
        return source.bytes(source.sections[own])

    def loaded(self) -> list[int]:
        """The sections that a program needs."""
        return [start + own for start, (source, number) in enumerate(self._origin) if number == 0
                for own in source.loaded()]

    def relocations(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        """Of a section: place, type, symbol, addend."""
        source, own = self._origin[number]
        for place, kind, symbol, addend in source.relocations(own):
            found = self._first[source] + symbol
            is_open = self.symbols[found].section == _UNDEFINED
            yield place, kind, self.named[self.symbols[found].name] if is_open else found, addend


@dataclass
class _Image:
    """A shared object in the making: three segments, and what the loader is told."""

    parts: dict[int, bytearray] = field(default_factory=lambda: {_R: bytearray(), _RX: bytearray(), _RW: bytearray()})
    """The bytes of each segment, by access."""
    dynamic: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Relocations left to the loader: place in the last segment, type, dynamic symbol, addend."""

    def add(self, access: int, content: bytes, alignment: int) -> int:
        """Appends to a segment; gives the place."""
        part = self.parts[access]
        part.extend(bytes(-len(part) % alignment))
        place = len(part)
        part.extend(content)
        return place


def shared_object(contents: Sequence[bytes], exports: Sequence[str], labels: Mapping[str, str] | None = None) -> bytes:
    """A shared object of object files that belong together.

    Args:
        contents: the object files.
        exports: its global symbols.
        labels: what tools are to call functions, by symbol; others have their own names.

    Raises:
        UnknownObject: the files cannot be turned into one here.
    """
    return _Linker(_Program([_Object(each) for each in contents]), exports).link(labels or {})


class _Linker:
    def __init__(self, source: _Program, exports: Sequence[str]) -> None:
        self._source = source
        self._exports = exports
        self._image = _Image()
        self._places = {
            number: self._placed(source.section(number), source.bytes(number)) for number in source.loaded()
        }
        called = {symbol: None for number in self._places for _, _, symbol, _ in source.relocations(number)
                  if source.symbols[symbol].section == _UNDEFINED}
        self._imports = {symbol: number for number, symbol in enumerate(called, start=1)}
        """The dynamic symbol of each that another library defines."""
        self._slots: dict[int, int] = {}
        """Where in the last segment the address of a symbol is kept."""
        self._stubs = {symbol: self._image.add(_RX, bytes(_STUB_BYTES), _STUB_BYTES) for symbol in self._imports}
        self._fixups = [
            (number, *relocation) for number in self._places for relocation in source.relocations(number)
        ]
        for _, _, kind, symbol, _ in self._fixups:
            if symbol in self._imports or kind in (_GOT, _GOT_X, _REX_GOT_X):
                self._slot(symbol)

    def _placed(self, section: _Section, content: bytes) -> tuple[int, int]:
        """Appends a section to its segment; gives both."""
        return section.access, self._image.add(section.access, content, section.alignment)

    def _slot(self, symbol: int) -> None:
        """Reserves 8 bytes for the address of a symbol, once."""
        if symbol not in self._slots:
            self._slots[symbol] = self._image.add(_RW, bytes(8), 8)

    def link(self, labels: Mapping[str, str]) -> bytes:
        """The file: header, tables, then the segments, laid out before relocations are resolved, and names for
        tools."""
        tables = self._tables([0] * len(self._exports))
        head = _HEADER.size + _SEGMENTS * _SEGMENT.size
        for each in (_R, _RX, _RW):
            self._image.parts[each].extend(bytes(-len(self._image.parts[each]) % 16))
        dynamic = self._image.add(_RW, bytes(16 * 11), 16)
        relocations = self._count_dynamic()
        begin = -(-(head + len(tables) + relocations * _RELOCATION.size) // 64) * 64
        bases = self._bases(begin)
        self._resolve(bases)
        assert len(self._image.dynamic) == relocations
        self._describe(dynamic, head, len(tables))
        names = self._names(bases, labels)
        content = bytearray(bases[_RW] + len(self._image.parts[_RW]))
        for access, part in self._image.parts.items():
            content[bases[access]:bases[access] + len(part)] = part
        rest = self._tables(self._exported(bases)) + b"".join(
            _RELOCATION.pack(bases[_RW] + place, symbol << 32 | kind, addend)
            for place, kind, symbol, addend in self._image.dynamic)
        content[head:head + len(rest)] = rest
        content += bytes(-len(content) % 8)
        text = range(bases[_RX], bases[_RX] + len(self._image.parts[_RX]))
        symbols = symbol_tables(names, text, len(content))
        content[:head] = self._head(bases, dynamic, symbols.headers, self._exported(bases)[0])
        return bytes(content) + symbols.content

    def _names(self, bases: dict[int, int], labels: Mapping[str, str]) -> list[Symbol]:
        """The functions, as tools are to call them."""
        return [Symbol(labels.get(each.name, each.name), self._address(number, bases), each.size)
                for number, each in enumerate(self._source.symbols)
                if each.kind == FUNCTION and each.section in self._places]

    def _bases(self, begin: int) -> dict[int, int]:
        """Where each segment begins, in the file and in memory alike; the first one follows the tables."""
        executable = -(-(begin + len(self._image.parts[_R])) // _PAGE) * _PAGE
        writable = -(-(executable + len(self._image.parts[_RX])) // _PAGE) * _PAGE
        return {_R: begin, _RX: executable, _RW: writable}

    def _count_dynamic(self) -> int:
        """How many relocations are left to the loader."""
        return len(self._slots) + sum(kind == _ABSOLUTE for _, _, kind, _, _ in self._fixups)

    def _address(self, symbol: int, bases: dict[int, int]) -> int:
        """Where a symbol lies, counted from where the object is loaded."""
        found = self._source.symbols[symbol]
        if found.section not in self._places:
            raise UnknownObject(f"symbol {found.name!r} lies in no section that is loaded")
        access, place = self._places[found.section]
        return bases[access] + place + found.value

    def _resolve(self, bases: dict[int, int]) -> None:
        """Fills in slots and stubs, and applies all relocations."""
        for symbol, slot in self._slots.items():
            if symbol in self._imports:
                self._image.dynamic.append((slot, _GLOBAL_DATA, self._imports[symbol], 0))
            else:
                self._image.dynamic.append((slot, _RELATIVE, 0, self._address(symbol, bases)))
        for symbol, stub in self._stubs.items():
            distance = bases[_RW] + self._slots[symbol] - (bases[_RX] + stub + 6)
            pack_into("<2si", self._image.parts[_RX], stub, _STUB, distance)
        for fixup in self._fixups:
            self._apply(*fixup, bases)

    def _apply(self, number: int, offset: int, kind: int, symbol: int, addend: int, bases: dict[int, int]) -> None:
        """Applies a relocation, or leaves it to the loader, by the formulas of the AMD64 supplement (S + A, S + A - P,
        G + GOT + A - P)."""
        access, start = self._places[number]
        place = start + offset
        here = bases[access] + place
        if kind == _ABSOLUTE and access == _RW:
            if symbol in self._imports:
                self._image.dynamic.append((place, _ABSOLUTE, self._imports[symbol], addend))
            else:
                self._image.dynamic.append((place, _RELATIVE, 0, self._address(symbol, bases) + addend))
            return
        if kind in (_GOT, _GOT_X, _REX_GOT_X):
            target = bases[_RW] + self._slots[symbol]
        elif kind == _PLT and symbol in self._imports:
            target = bases[_RX] + self._stubs[symbol]
        elif kind in (_PC, _PLT) and symbol not in self._imports:
            target = self._address(symbol, bases)
        else:
            raise UnknownObject(f"relocation of type {kind} in {self._source.section(number).name}")
        pack_into("<i", self._image.parts[access], place, target + addend - here)

    def _exported(self, bases: dict[int, int]) -> list[int]:
        """Where the functions lie that the object exports."""
        return [self._address(self._source.named[each], bases) for each in self._exports]

    def _tables(self, addresses: Sequence[int]) -> bytes:
        """Names, symbols and their hash table, as the loader reads them, given the addresses of what is exported."""
        names = bytearray(1)
        symbols = [SYMBOL.pack(0, 0, 0, 0, 0, 0)]
        for symbol in self._imports:
            symbols.append(SYMBOL.pack(len(names), 0x10, 0, _UNDEFINED, 0, 0))
            names += self._source.symbols[symbol].name.encode() + b"\0"
        for name, address in zip(self._exports, addresses, strict=True):
            symbols.append(SYMBOL.pack(len(names), 0x12, 0, 1, address, 0))
            names += name.encode() + b"\0"
        total = len(symbols)
        chain = [0, *(k + 1 if k + 1 < total else 0 for k in range(1, total))]
        hashes = pack(f"<{3 + total}I", 1, total, min(1, total - 1), *chain)
        names += bytes(-len(names) % 8)
        hashes += bytes(-len(hashes) % 8)
        self._sizes = (len(hashes), total * SYMBOL.size, len(names))
        return hashes + b"".join(symbols) + bytes(names)

    def _describe(self, dynamic: int, head: int, size: int) -> None:
        """Fills in the dynamic section."""
        hashes, symbols, names = self._sizes
        entries = [
            (4, head), (5, head + hashes + symbols), (6, head + hashes), (10, names), (11, SYMBOL.size),
            (7, head + size), (8, len(self._image.dynamic) * _RELOCATION.size), (9, _RELOCATION.size), (30, 8), (0, 0),
        ]
        for number, (tag, value) in enumerate(entries):
            pack_into("<QQ", self._image.parts[_RW], dynamic + 16 * number, tag, value)

    def _head(self, bases: dict[int, int], dynamic: int, sections: int, entry: int) -> bytes:
        """The ELF header and the segments' descriptions; those of sections begin where `sections` says, and the first
        function that is exported at `entry`. `load/library.py` reads it, too."""
        parts = self._image.parts
        first = bases[_R] + len(parts[_R])
        segments = [
            (1, _R, 0, first, _PAGE),
            (1, _RX, bases[_RX], len(parts[_RX]), _PAGE),
            (1, _RW, bases[_RW], len(parts[_RW]), _PAGE),
            (2, _RW, bases[_RW] + dynamic, 16 * 11, 16),
            (_STACK, _RW, 0, 0, 16),
        ]
        header = _HEADER.pack(_IDENTITY, _SHARED, _X86_64, 1, entry, _HEADER.size, sections, 0, _HEADER.size,
                              _SEGMENT.size, len(segments), SECTION.size, SECTIONS, SECTIONS - 1)
        return header + b"".join(_SEGMENT.pack(kind, access, place, place, place, size, size, alignment)
                                 for kind, access, place, size, alignment in segments)
