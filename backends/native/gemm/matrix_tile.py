"""Register tiles of processors that have registers of matrices.

An instruction adds to a matrix of 16 x 16 i32 the product of 16 rows of 64 bytes with a part of a panel: 16 vectors of
16 words, as panels have them for instructions that multiply a vector. So panels are the same, and sums have the same
bits. A tile for fewer rows takes as long, so that one is for all numbers of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I8, I32, Emitter
from circlet.backends.native.emit.loops import carry, rolled
from circlet.backends.native.gemm.finish import WriteRow
from circlet.backends.native.gemm.microkernel import Arithmetic, Tile, TileBody
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.targets.target import (
    LAST_LEFT,
    LAST_RIGHT,
    LEFT,
    MATRIX_BYTES,
    MATRIX_ROWS,
    RIGHT,
    Matrices,
)
from circlet.runtime.records import dataclass, replace

_LINE = ir.VectorType(I32, MATRIX_BYTES // WORD)
"""The type of a row."""
_NEVER, _ALWAYS = ir.Constant(I1, 0), ir.Constant(I1, 1)


def _of(e: Emitter) -> Matrices:
    """The registers of the processor."""
    found = e.target.matrices()
    assert found is not None, "what chooses the arithmetic asks the target first"
    return found


@contextmanager
def _shaped(e: Emitter, run: int) -> Iterator[None]:
    """Has registers be shaped for products of rows whose runs have so many bytes, once for many tiles."""
    _of(e).shape(e, run // WORD % _LINE.count or _LINE.count)
    yield
    _of(e).release(e)


def _emit(e: Emitter, tile: Tile) -> None:
    """Writes the code of a tile whose panels are packed words."""
    assert tile.vectors <= LEFT
    assert tile.lanes == _LINE.count
    assert tile.stored is None
    assert tile.held is None
    assert not tile.reads_partial
    assert not tile.clamps
    _MatrixTile(e, tile).emit()


def by_matrices(few: Arithmetic) -> Arithmetic:
    """Words of four unsigned bytes times words of four signed ones, many at a time.

    Args:
        few: multiplies the same words otherwise.
    """
    return replace(few, name=f"{few.name}m", rows=MATRIX_ROWS, body=_emit, around=_shaped, few=few)


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of the depth: the registers for it, and how many words of a row it takes; None: all."""

    left: int
    right: int
    words: ir.Value | None = None


class _MatrixTile(TileBody):
    """The code of a tile."""

    def emit(self) -> None:
        """Adds up products over all taps, from what the sums of each column begin with, the same in all rows, and
        finishes or stores them."""
        e, tile, registers = self._e, self._tile, _of(self._e)
        words = e.builder.lshr(self._run, e.number(2))
        self._full, self._rest = e.builder.lshr(words, e.number(4)), e.builder.and_(words, e.number(MATRIX_ROWS - 1))
        self._copied = e.slot(_LINE, 2 * MATRIX_ROWS)
        for number in range(tile.vectors):
            registers.load(e, number, e.address(self._start, I8, number * MATRIX_BYTES), self._start_step)
        self._find_rows()
        if tile.has_taps:
            table, count = self._taps
            carry(e, count, [self._right], lambda number, carried: [
                self._run_of(e.builder.load(e.address(table, e.index, number), typ=e.index), carried[0])])
        else:
            self._run_of(e.number(0), self._right)
        if tile.finish is None and tile.rows == MATRIX_ROWS and tile.least is None and not tile.is_partial:
            self._store(self._out, self._out_step)
        else:
            sums = e.slot(_LINE, MATRIX_ROWS * tile.vectors)
            self._store(sums, e.number(tile.columns * WORD))
            self._write(sums)

    def _store(self, memory: ir.Value, step: ir.Value) -> None:
        """Stores the sums as rows that are so many bytes apart."""
        for number in range(self._tile.vectors):
            _of(self._e).store(self._e, number, self._e.address(memory, I8, number * MATRIX_BYTES), step)

    def _find_rows(self) -> None:
        """Finds out whether a register is loaded with the rows, as it is if all of its own are there, at equal
        distances."""
        e, b, tile = self._e, self._e.builder, self._tile
        self._top, self._distance, self._is_even = self._begin(e.number(0)), e.number(0), _NEVER
        if tile.least is not None or tile.rows < MATRIX_ROWS:
            return
        first, second = (b.load(e.address(self._rows, e.index, k), typ=e.index) for k in range(2))
        self._distance, self._is_even = b.sub(second, first), _ALWAYS
        if not tile.is_even:
            differences = e.number(0)
            for number in range(2, MATRIX_ROWS):
                place = b.load(e.address(self._rows, e.index, number), typ=e.index)
                expected = b.add(first, b.mul(e.number(number), self._distance))
                differences = b.or_(differences, b.xor(place, expected))
            self._is_even = b.icmp_signed("==", differences, e.number(0))

    def _begin(self, number: ir.Value) -> ir.Value:
        """Where the row of a number begins."""
        e = self._e
        return self._words.address(self._left, e.builder.load(e.address(self._rows, e.index, number), typ=e.index))

    def _run_of(self, begin: ir.Value, right: ir.Value) -> ir.Value:
        """Adds up the products of a run that begins at so many bytes of the rows; gives where the panel goes on."""
        e, b = self._e, self._e.builder

        def turn(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            offset, panel = carried
            self._multiply(_Part(LEFT, RIGHT), offset, panel, number)
            return [b.add(offset, e.number(MATRIX_BYTES)), self._further(panel, e.number(MATRIX_ROWS))]

        offset, panel = carry(e, self._full, [begin, right], turn)
        with b.if_then(b.icmp_signed("!=", self._rest, e.number(0))):
            self._multiply(_Part(LAST_LEFT, LAST_RIGHT, self._rest), offset, panel, self._full)
        return self._further(panel, self._rest)

    def _further(self, panel: ir.Value, steps: ir.Value) -> ir.Value:
        """Where a panel is so many steps later."""
        return self._words.address(panel, self._e.builder.mul(self._right_step, steps))

    def _multiply(self, part: _Part, offset: ir.Value, panel: ir.Value, number: ir.Value) -> None:
        """Adds up the products of a part of the rows and of the panel."""
        e, registers = self._e, _of(self._e)
        registers.load(e, part.left, *self._rows_of(part, offset, number), part.words)
        if self._tile.fetches and part.words is None:
            self._fetch_part(panel)
        for each in range(self._tile.vectors):
            registers.load(e, part.right, e.address(panel, I8, each * MATRIX_BYTES), self._right_step, part.words)
            registers.multiply(e, each, part.left, part.right)

    def _rows_of(self, part: _Part, offset: ir.Value, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where a part of the rows is, and how far apart they are: they are copied where distances differ."""
        e, b = self._e, self._e.builder
        place = self._words.address(self._top, offset)
        if self._is_even is _ALWAYS:
            return place, self._distance
        half = b.and_(number, e.number(1))
        copied = e.address(self._copied, _LINE, b.mul(half, e.number(MATRIX_ROWS)))
        with b.if_then(b.not_(self._is_even)):
            self._copy(part, offset, copied)
        return (b.select(self._is_even, place, copied),
                b.select(self._is_even, self._distance, e.number(MATRIX_BYTES)))

    def _copy(self, part: _Part, offset: ir.Value, copied: ir.Value) -> None:
        """Copies a part of each row that is there."""
        e, words = self._e, self._words
        mask = None if part.words is None else words.first(part.words)
        with rolled(e, self._count_of_rows) as row:
            place = words.address(self._begin(row), offset)
            value = words.load(place, 1) if mask is None else words.load_where(place, mask, 1)
            words.store(value, e.address(copied, _LINE, row))

    @property
    def _count_of_rows(self) -> ir.Value:
        """How many rows there are."""
        return self._e.number(self._tile.rows) if self._tile.least is None else self._count

    def _fetch_part(self, panel: ir.Value) -> None:
        """Fetches what of the panel is needed some parts later."""
        with rolled(self._e, MATRIX_ROWS) as step:
            self._fetch(self._further(panel, step))

    def _write(self, sums: ir.Value) -> None:
        """Finishes rows of sums, or stores as much of them as is wanted."""
        e, b, tile = self._e, self._e.builder, self._tile
        masks = self._masks(tile.is_partial)

        def store(vectors: Sequence[ir.Value], place: ir.Value) -> None:
            for number, each in enumerate(vectors):
                at = self._totals.address(place, number * MATRIX_BYTES)
                if masks:
                    self._totals.store_where(each, at, masks[number])
                else:
                    self._totals.store(each, at)

        write: WriteRow = store if tile.finish is None else tile.finish.begin(e, self._terms)
        with rolled(e, self._count_of_rows) as row:
            first = b.mul(row, e.number(tile.vectors))
            found = [self._totals.load(e.address(sums, _LINE, b.add(first, e.number(number))))
                     for number in range(tile.vectors)]
            write(found, self._totals.address(self._out, b.mul(self._out_step, row)))
