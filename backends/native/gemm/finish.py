"""What becomes of the sums of a register tile, where they are not stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import rolled
from circlet.runtime.records import dataclass

WriteRow: TypeAlias = "Callable[[Sequence[ir.Value], ir.Value], None]"
"""Writes a row of sums, some vectors, at an address."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory, `step` elements, an index, apart."""

    memory: ir.Value
    step: ir.Value


@dataclass(frozen=True)
class Finish:
    """How sums become results; the name is unique. `begin` loads what all rows need from the table at an address, and
    gives what writes a row. `apart` makes the same results of rows of sums in memory, given the table, where they go,
    and how many rows there are; it is there for the tiles of products alone."""

    name: str
    begin: Callable[[Emitter, ir.Value], WriteRow]
    apart: Callable[[Emitter, Rows, ir.Value, Rows, ir.Value], None] | None = None

    def write_rows(self, e: Emitter, rows: Sequence[Sequence[ir.Value]], count: ir.Value | int, table: ir.Value,
                   out: ir.Value, step: ir.Value) -> None:
        """Writes the first so many rows of sums: from the stack, by a loop, as LLVM takes twice as long to make code
        for a tile that writes each row by code of its own.

        Args:
            e: where to.
            rows: vectors of one type.
            count: of those that are written.
            table: that `begin` loads from.
            out: where the first row goes.
            step: bytes from one row there to the next.
        """
        if len(rows) == 1:
            self.begin(e, table)(rows[0], out)
            return
        kind, width = rows[0][0].type, len(rows[0])
        memory = e.slot(kind, len(rows) * width)
        for number, each in enumerate(each for row in rows for each in row):
            e.builder.store(each, e.address(memory, kind, number))
        write = self.begin(e, table)
        with rolled(e, count) as number:
            begin = e.builder.mul(number, e.number(width))
            vectors = [e.builder.load(e.address(memory, kind, e.builder.add(begin, e.number(k))), typ=kind)
                       for k in range(width)]
            write(vectors, e.address(out, I8, e.builder.mul(number, step)))
