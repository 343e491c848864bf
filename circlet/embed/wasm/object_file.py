"""WebAssembly object files as LLVM writes them (WebAssembly tool conventions, Linking)."""

from __future__ import annotations

from circlet.embed.contents import Contents
from circlet.embed.wasm.encoding import Reader
from circlet.runtime.records import dataclass, field

HEADER = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT = range(8)
ELEMENT, CODE, DATA, DATA_COUNT = range(9, 13)
"""The numbers of sections."""
_SEGMENT_INFO, _SYMBOL_TABLE = 5, 8
"""Parts of the section `linking`."""
FUNCTION_SYMBOL, DATA_SYMBOL, GLOBAL_SYMBOL, SECTION_SYMBOL, TAG_SYMBOL, TABLE_SYMBOL = range(6)
"""What symbols stand for."""
_LOCAL, _UNDEFINED, _EXPLICIT_NAME = 0x02, 0x10, 0x40
"""Flags of symbols."""
_WITH_ADDEND = frozenset({3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25})
"""The types of relocations that have an addend."""


@dataclass(frozen=True)
class Import:
    """What another module has: its name, its kind (0 function, 1 table, 2 memory, 3 global), its description."""

    module: str
    name: str
    kind: int
    description: bytes


@dataclass(frozen=True)
class Segment:
    """Memory that the module begins with, and what its address is a multiple of."""

    content: bytes
    alignment: int


@dataclass(frozen=True)
class Symbol:
    """A name, and what it stands for: a function or a global by its number, or a place in a segment."""

    kind: int
    name: str
    is_defined: bool
    number: int = 0
    offset: int = 0
    is_local: bool = False


@dataclass(frozen=True)
class Relocation:
    """A number in a section that hangs on where a symbol comes to lie."""

    kind: int
    offset: int
    symbol: int
    addend: int


@dataclass
class ObjectFile:
    """An object file, read."""

    sections: dict[int, bytes] = field(default_factory=dict)
    imports: list[Import] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Where in the section of data the content of each segment begins."""
    symbols: list[Symbol] = field(default_factory=list)
    relocations: dict[int, list[Relocation]] = field(default_factory=dict)
    """By the number of their section."""


def read(content: bytes) -> ObjectFile:
    """An object file."""
    found, customs, order = ObjectFile(), list[tuple[str, Reader]](), list[int]()
    reader = Reader(content, len(HEADER))
    while not reader.is_done:
        number, size = reader.byte(), reader.unsigned()
        part = reader.take(size)
        order.append(number)
        if number == CUSTOM:
            custom = Reader(part)
            customs.append((custom.text(), custom))
        else:
            found.sections[number] = part
    _read_imports(found)
    alignments: list[int] = []
    for name, custom in customs:
        if name == "linking":
            alignments = _read_linking(found, custom)
        elif name.startswith("reloc."):
            number = order[custom.unsigned()]
            found.relocations[number] = [_relocation(custom) for _ in range(custom.unsigned())]
    _read_segments(found, alignments)
    return found


def _read_imports(found: ObjectFile) -> None:
    reader = Reader(found.sections.get(IMPORT, b"\0"))
    for _ in range(reader.unsigned()):
        module, name, kind, begin = reader.text(), reader.text(), reader.byte(), reader.at
        if kind == 0:
            reader.unsigned()
        elif kind == 3:
            reader.take(2)
        else:
            if kind == 1:
                reader.byte()
            has_most = reader.byte() & 1
            for _ in range(1 + has_most):
                reader.unsigned()
        found.imports.append(Import(module, name, kind, reader.content[begin:reader.at]))


def _read_segments(found: ObjectFile, alignments: list[int]) -> None:
    reader = Reader(found.sections.get(DATA, b"\0"))
    for number in range(reader.unsigned()):
        reader.unsigned()
        while reader.byte() != 0x0B:
            reader.signed()
        size = reader.unsigned()
        found.places.append(reader.at)
        found.segments.append(Segment(reader.take(size), 1 << alignments[number]))


def _read_linking(found: ObjectFile, reader: Reader) -> list[int]:
    """The symbols; gives the alignment of each segment, as a power of two."""
    alignments: list[int] = []
    reader.unsigned()
    while not reader.is_done:
        kind, size = reader.byte(), reader.unsigned()
        part = Reader(reader.take(size))
        if kind == _SYMBOL_TABLE:
            found.symbols = [_symbol(found, part) for _ in range(part.unsigned())]
        elif kind == _SEGMENT_INFO:
            for _ in range(part.unsigned()):
                part.text()
                alignments.append(part.unsigned())
                part.unsigned()
    return alignments


def _symbol(found: ObjectFile, reader: Reader) -> Symbol:
    kind, flags = reader.byte(), reader.unsigned()
    is_defined = not flags & _UNDEFINED
    if kind == DATA_SYMBOL:
        name = reader.text()
        if not is_defined:
            return Symbol(kind, name, False)
        number, offset = reader.unsigned(), reader.unsigned()
        reader.unsigned()
        return Symbol(kind, name, True, number, offset)
    number = reader.unsigned()
    if kind == SECTION_SYMBOL:
        return Symbol(kind, "", True, number)
    if is_defined or flags & _EXPLICIT_NAME:
        return Symbol(kind, reader.text(), is_defined, number, is_local=bool(flags & _LOCAL))
    wanted = {FUNCTION_SYMBOL: 0, TABLE_SYMBOL: 1, GLOBAL_SYMBOL: 3}[kind]
    return Symbol(kind, [each.name for each in found.imports if each.kind == wanted][number], False, number)


def _relocation(reader: Reader) -> Relocation:
    kind, offset, symbol = reader.byte(), reader.unsigned(), reader.unsigned()
    return Relocation(kind, offset, symbol, reader.signed() if kind in _WITH_ADDEND else 0)


def contents(content: bytes) -> Contents:
    """What an object file holds."""
    found = read(content)
    functions = [each for each in found.symbols if each.kind == FUNCTION_SYMBOL]
    return Contents(len(found.sections.get(CODE, b"")), sum(len(each.content) for each in found.segments),
                    tuple(sorted(each.name for each in functions if each.is_defined and not each.is_local)),
                    tuple(sorted(each.name for each in functions if not each.is_defined)))
