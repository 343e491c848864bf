"""Intel AMX: registers of matrices (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter
18)."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.targets.target import (
    LAST_LEFT,
    LAST_RIGHT,
    MATRIX_BYTES,
    MATRIX_ROWS,
    MatrixAccess,
    Writer,
)
from circlet.runtime.records import dataclass

_I8, _INDEX, _POINTER = ir.IntType(8), ir.IntType(64), ir.PointerType()
_REGISTERS = 8
_WIDTHS, _HEIGHTS = 16, 48
"""Where the description of registers has the bytes of the rows of each, i16, and how many there are, i8."""
_WORD = 4


@dataclass(frozen=True)
class Amx:
    """TMM0 to TMM7. Registers 0 to 3 are for sums."""

    def shape(self, w: Writer, words: int) -> None:
        """LDTILECFG, of a description that is part of the code."""
        name = f"shapes_of_matrices_{words}"
        table = w.builder.module.globals.get(name)
        if table is None:
            kind = ir.ArrayType(_I8, MATRIX_BYTES)
            table = ir.GlobalVariable(w.builder.module, kind, name)
            table.linkage, table.global_constant, table.align = "internal", True, MATRIX_BYTES
            table.initializer = ir.Constant(kind, _shapes(words))
        _access(w, "ldtilecfg", [table], (_INDEX(1), _INDEX(MATRIX_BYTES)), is_apart=False)

    def load(self, w: Writer, register: int, place: ir.Value, distance: ir.Value,
             words: ir.Value | None = None) -> None:
        """TILELOADD."""
        _access(w, "tileloadd64", [_I8(register), place, distance], _touched(w, register, words))

    def store(self, w: Writer, register: int, place: ir.Value, distance: ir.Value) -> None:
        """TILESTORED."""
        _access(w, "tilestored64", [_I8(register), place, distance], _touched(w, register, None))

    def multiply(self, w: Writer, total: int, left: int, right: int) -> None:
        """TDPBUSD."""
        kind = ir.FunctionType(ir.VoidType(), [_I8] * 3)
        w.builder.call(w.declare("llvm.x86.tdpbusd", kind), [_I8(each) for each in (total, left, right)])

    def release(self, w: Writer) -> None:
        """TILERELEASE."""
        w.builder.call(w.declare("llvm.x86.tilerelease", ir.FunctionType(ir.VoidType(), [])), [])


def _shapes(words: int) -> bytearray:
    """The description of registers, where so many words are left at the end of a depth."""
    found = bytearray(MATRIX_BYTES)
    found[0] = 1  # the palette
    for register in range(_REGISTERS):
        found[_WIDTHS + 2 * register] = words * _WORD if register == LAST_LEFT else MATRIX_BYTES
        found[_HEIGHTS + register] = words if register == LAST_RIGHT else MATRIX_ROWS
    return found


def _touched(w: Writer, register: int, words: ir.Value | None) -> tuple[ir.Value, ir.Value]:
    """How many rows a register has, and bytes of each, where some words are left at the end of a depth."""
    rows, width = _INDEX(MATRIX_ROWS), _INDEX(MATRIX_BYTES)
    if words is None:
        return rows, width
    return (words, width) if register == LAST_RIGHT else (rows, w.builder.mul(words, _INDEX(_WORD)))


def _access(w: Writer, name: str, operands: list[ir.Value], touched: tuple[ir.Value, ir.Value],
            is_apart: bool = True) -> None:
    """An instruction that touches rows in memory."""
    kinds = [_POINTER if isinstance(each.type, ir.PointerType) else each.type for each in operands]
    function = w.declare(f"llvm.x86.{name}", ir.FunctionType(ir.VoidType(), kinds))
    w.builder._insert(MatrixAccess(w.builder.block, function, operands, *touched, is_apart))
