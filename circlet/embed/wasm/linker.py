"""Makes a WebAssembly module of one object file, without another program.

The module has a memory of its own: the stack first, so that what grows beyond it traps, then data; from the exported
global `__heap_base` on it is the program's. Numbers of types, functions and globals stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlet.embed.wasm.encoding import PADDED, padded, section, signed, text, unsigned, vector
from circlet.embed.wasm.object_file import (
    CODE,
    DATA,
    DATA_COUNT,
    DATA_SYMBOL,
    ELEMENT,
    EXPORT,
    FUNCTION,
    FUNCTION_SYMBOL,
    GLOBAL,
    GLOBAL_SYMBOL,
    HEADER,
    MEMORY,
    TABLE,
    TABLE_SYMBOL,
    TYPE,
    ObjectFile,
    Relocation,
    read,
)
from circlet.runtime.errors import UnsupportedError

STACK_BYTES = 1 << 16
"""Of the stack, which holds no tensors: as other linkers have it."""
_PAGE = 1 << 16
"""Bytes that memory grows by."""
_MEMORY, _STACK_POINTER, _TABLE, _BASE = "memory", "__stack_pointer", "__indirect_function_table", "__heap_base"
_FUNCTION_INDEX, _TABLE_SLEB, _TABLE_I32, _MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32, _TYPE_INDEX, _GLOBAL_INDEX = range(8)
_TABLE_NUMBER = 20
"""Types of relocations, as object files number them."""
_I32, _CONST, _END, _FUNCREF = b"\x7f", b"\x41", b"\x0b", b"\x70"


def link(content: bytes, exports: Sequence[str]) -> bytes:
    """The module of an object file.

    Args:
        content: the object file.
        exports: the functions that programs call.

    Raises:
        UnsupportedError: it needs what the module does not have.
    """
    return _Linker(read(content), exports).link()


class _Linker:
    def __init__(self, source: ObjectFile, exports: Sequence[str]) -> None:
        self._source = source
        self._exports = exports
        self._elements: dict[int, int] = {}
        """The place in the table of each function whose address is taken."""
        self._addresses: list[int] = []
        """Of the segments."""
        self._heap = STACK_BYTES
        for each in source.segments:
            begin = -(-self._heap // each.alignment) * each.alignment
            self._addresses.append(begin)
            self._heap = begin + len(each.content)
        self._heap = -(-self._heap // 64) * 64

    def link(self) -> bytes:
        """The file. A relocation that this does not know is refused, as is an import that is no function."""
        source = self._source
        code, data = self._relocated(CODE), self._relocated(DATA)
        found = {number: content for number, content in source.sections.items() if number in (TYPE, FUNCTION)}
        functions = [each for each in source.imports if each.kind == 0]
        if functions:
            raise UnsupportedError(f"the module needs {', '.join(each.name for each in functions)}")
        if self._elements:
            size = unsigned(len(self._elements) + 1)
            found[TABLE] = vector([_FUNCREF + b"\1" + size + size])
            order = sorted(self._elements, key=self._elements.__getitem__)
            found[ELEMENT] = vector([b"\0" + _CONST + signed(1) + _END + vector(map(unsigned, order))])
        found[MEMORY] = vector([b"\0" + unsigned(-(-self._heap // _PAGE))])
        found[GLOBAL] = vector(self._globals())
        found[EXPORT] = vector(self._exported())
        if code is not None:
            found[CODE] = code
        if source.segments and data is not None:
            found[DATA_COUNT] = unsigned(len(source.segments))
            found[DATA] = vector(self._data(data))
        order = [TYPE, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, DATA_COUNT, CODE, DATA]
        return HEADER + b"".join(section(number, found[number]) for number in order if number in found)

    def _globals(self) -> Iterator[bytes]:
        """The stack's top, where the object file asks for it, and where the program's memory begins."""
        names = [each.name for each in self._source.imports if each.kind == 3]
        for each in names:
            if each != _STACK_POINTER:
                raise UnsupportedError(f"the module needs a global {each!r}")
            yield _I32 + b"\1" + _CONST + signed(STACK_BYTES) + _END
        yield _I32 + b"\0" + _CONST + signed(self._heap) + _END

    def _exported(self) -> Iterator[bytes]:
        numbers = {each.name: each.number for each in self._source.symbols
                   if each.kind == FUNCTION_SYMBOL and each.is_defined}
        for each in self._exports:
            yield text(each) + b"\0" + unsigned(numbers[each])
        yield text(_MEMORY) + b"\2" + unsigned(0)
        yield text(_BASE) + b"\3" + unsigned(sum(each.kind == 3 for each in self._source.imports))

    def _data(self, content: bytes) -> Iterator[bytes]:
        for begin, address, each in zip(self._source.places, self._addresses, self._source.segments, strict=True):
            size = len(each.content)
            yield b"\0" + _CONST + signed(address) + _END + unsigned(size) + content[begin:begin + size]

    def _relocated(self, number: int) -> bytes | None:
        """A section with all its numbers."""
        content = self._source.sections.get(number)
        if content is None:
            return None
        found = bytearray(content)
        for each in self._source.relocations.get(number, ()):
            value = self._value(each)
            if value is None:
                continue
            is_word = each.kind in (_TABLE_I32, _MEMORY_I32)
            new = (value & 0xFFFFFFFF).to_bytes(4, "little") if is_word else padded(value)
            found[each.offset:each.offset + (4 if is_word else PADDED)] = new
        return bytes(found)

    def _value(self, relocation: Relocation) -> int | None:
        """The number that belongs at a place; None where it stays."""
        kind = relocation.kind
        if kind == _TYPE_INDEX:
            return None
        symbol = self._source.symbols[relocation.symbol]
        if kind in (_FUNCTION_INDEX, _GLOBAL_INDEX, _TABLE_NUMBER) and symbol.kind in (
                FUNCTION_SYMBOL, GLOBAL_SYMBOL, TABLE_SYMBOL):
            return None
        if kind in (_TABLE_SLEB, _TABLE_I32) and symbol.kind == FUNCTION_SYMBOL:
            return self._elements.setdefault(symbol.number, len(self._elements) + 1)
        if kind in (_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_I32) and symbol.kind == DATA_SYMBOL and symbol.is_defined:
            return self._addresses[symbol.number] + symbol.offset + relocation.addend
        raise UnsupportedError(f"relocation of type {kind} of {symbol.name!r} in a WebAssembly object file")

