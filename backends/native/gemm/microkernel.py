"""Register tiles: functions that multiply a few rows by a panel of columns, the innermost part of every product.

A product has a left factor of rows and a right factor of columns, both summed over their *depth*. The right factor is
*packed*: panels of a few vectors side by side, within a panel one step of the depth after the other, the last panel
filled up with zeros. A tile keeps `rows * vectors` vectors of sums in registers; for each step of the depth it loads
the vectors of the panel and broadcasts a word of four bytes from each row. What a word is and how it is multiplied is
an `Arithmetic`: one float32, or four int8 for instructions that sum up four products.

The rows are memory at equal distances, or, for images, wherever a table of offsets says; there the depth is several
*taps*: runs of contiguous memory, each at its own offset from the beginning of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, POINTER, Emitter
from circlet.backends.native.emit.loops import carry
from circlet.backends.native.gemm.finish import Finish
from circlet.backends.native.gemm.functions import Microkernel, internal_function
from circlet.backends.native.gemm.storage import Stored, Units
from circlet.backends.native.gemm.vectors import WORD, Vectors, broadcast, fetch, limited
from circlet.backends.native.targets.target import Target
from circlet.runtime.records import dataclass

AHEAD = 1 << 13
"""Bytes of a panel from a step to the one that is fetched with it. Not critical: of 4 to 16 KB all are within 5 % for 4
to 196 rows and 9.4 MB of panels, on AVX-512; 1 KB takes up to a third longer."""

MultiplyAdd: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value], ir.Value]
"""Emits `total + left * right` on vectors, given left, right and total."""


@dataclass(frozen=True)
class Arithmetic:
    """What a tile computes with.

    Attributes:
        name: unique; becomes part of the names of functions.
        word: the type of a word of the factors, four bytes wide.
        total: the type of a sum, four bytes wide.
        multiply_add: one step for one vector.
        align: of the words of the left factor, in bytes.
        spare: registers that a step takes beside its operands.
        rows: of the largest tile, if its sums are in registers of their own.
        body: writes the code of a tile, if it is not that of `TileBody`.
        around: what is written around many tiles, given how many bytes a run has.
        few: what a few rows are multiplied by sooner, if it is something else.
    """

    name: str
    word: ir.Type
    total: ir.Type
    multiply_add: MultiplyAdd
    align: int = WORD
    spare: int = 0
    rows: int | None = None
    body: Callable[[Emitter, Tile], None] | None = None
    around: Callable[[Emitter, int], AbstractContextManager[None]] | None = None
    few: Arithmetic | None = None

    @property
    def is_real(self) -> bool:
        """Whether sums are real numbers."""
        return isinstance(self.total, ir.FloatType)


FLOAT32 = Arithmetic("f32", ir.FloatType(), ir.FloatType(),
                     lambda e, left, right, total: e.intrinsic("fmuladd", left, right, total))
"""One float32: products and sums fused where the processor can."""


def lanes(target: Target) -> int:
    """Words in a vector."""
    return target.vector_bytes // WORD


@dataclass(frozen=True)
class Tile:
    """A register tile and what its function takes.

    Attributes:
        arithmetic: what it computes with.
        rows: how many rows of the left factor.
        vectors: the width of a panel in vectors.
        lanes: words in a vector.
        has_taps: the depth is several runs of each row.
        clamps: the results are limited to an interval.
        is_partial: only so many columns of the panel are written as a call says.
        reads_partial: only so many are read, too.
        fetches: what is needed soon of the panel, or of the one that follows, is brought into the cache.
        adds: what the sums are added to may differ from row to row.
        finish: what is written instead of the sums.
        stored: how the panel is kept, if not as words.
        least: the fewest rows that there may be where a call says how many; those that are not there are computed, and
            written, as the first one is. None where there are always as many as the tile has.
        held: columns of the panel that are in memory, if not all; the others are zeros.
        leaves_words: what is read of a panel that is kept otherwise is written as words, for other tiles.
        is_even: the rows are at equal distances, where that makes a difference.
        apart: vectors of each of the panels that it reads side by side, as wide as it is together; 0 if it reads one.
    """

    arithmetic: Arithmetic
    rows: int
    vectors: int
    lanes: int
    has_taps: bool = False
    clamps: bool = False
    is_partial: bool = False
    reads_partial: bool = False
    fetches: bool = False
    adds: bool = False
    finish: Finish | None = None
    stored: Stored | None = None
    least: int | None = None
    held: int | None = None
    leaves_words: bool = False
    is_even: bool = False
    apart: int = 0

    @property
    def name(self) -> str:
        """What tells its function from others of the module."""
        holds = (self.has_taps, self.clamps, self.is_partial, self.reads_partial, self.fetches,
                 self.adds and self.rows > 1, self.leaves_words, self.is_even)
        flags = "".join(letter for letter, each in zip("tcprfawe", holds, strict=True) if each)
        flags += "" if self.held is None else f"h{self.held}"
        flags += f"s{self.apart}" if self.apart else ""
        further = (each.name for each in (self.stored, self.finish) if each is not None)
        rows = str(self.rows) if self.least is None else f"{self.least}to{self.rows}"
        return "_".join(("tile", self.arithmetic.name, f"{rows}x{self.vectors}{flags}", *further))

    @property
    def is_grouped(self) -> bool:
        """Whether what belongs to columns differs from group to group of the steps."""
        return self.stored is not None and self.stored.group > 0

    @property
    def columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def step_bytes(self) -> int:
        """Of a step of the depth in a panel."""
        return self.columns * WORD if self.stored is None else self.stored.step_bytes(self.columns)

    def kinds(self, index: ir.IntType) -> list[ir.Type]:
        """The types of its function's parameters, in the order of `Call`."""
        found = [POINTER, POINTER, index, POINTER, index, POINTER, index, POINTER, index]
        found += [POINTER, index] if self.has_taps else []
        found += [self.arithmetic.total] * 2 if self.clamps else []
        found += [index] * (self.is_partial or self.reads_partial)
        found += [POINTER] * (self.stored is not None) + [index] * self.is_grouped + [POINTER] * self.leaves_words
        found += [POINTER] * (self.finish is not None)
        return found + [index] * (self.least is not None)


def chains(target: Target, rows: int, vectors: int) -> int:
    """Sums that a tile has of each element, which it adds up in the end: so many that enough are under way."""
    sums, wanted = rows * vectors, target.tiles.chains
    return min(-(-wanted // sums), 4) if sums < wanted else 1


@dataclass(frozen=True, eq=False)
class Call:
    """What a tile is called with; distances are in bytes.

    Attributes:
        left: what the offsets of rows count from.
        rows: a table of where each row of the tile begins, indices.
        taps: a table of where each tap begins in a row, indices, and how many there are.
        run: bytes of a row, or of each tap.
        right: the panel.
        right_step: the distance of two steps of the depth in the panel.
        start: what the sums are added to, as wide as what is written.
        start_step: the distance of two rows there; 0 where all rows begin with the same.
        out: where the results go.
        out_step: the distance of two rows there.
        limits: the interval that results are limited to.
        columns: how many columns are written, or read.
        terms: the table that the tile finishes its sums by.
        units: the scales of a panel that is stored as it was quantised.
        before: bytes of rows that belong to steps before the first one, where scales differ from group to group.
        words: where what is read of the panel is left as words.
        count: how many rows there are.
    """

    left: ir.Value
    rows: ir.Value
    run: ir.Value
    right: ir.Value
    right_step: ir.Value
    start: ir.Value
    start_step: ir.Value
    out: ir.Value
    out_step: ir.Value
    taps: tuple[ir.Value, ir.Value] | None = None
    limits: tuple[ir.Value, ir.Value] | None = None
    columns: ir.Value | None = None
    terms: ir.Value | None = None
    units: ir.Value | None = None
    before: ir.Value | None = None
    words: ir.Value | None = None
    count: ir.Value | None = None

    def arguments(self) -> list[ir.Value]:
        """In the order of the function's parameters; see `Tile.kinds`."""
        further = self.columns, self.units, self.before, self.words, self.terms, self.count
        return [self.left, self.rows, self.run, self.right, self.right_step, self.start, self.start_step, self.out,
                self.out_step, *(self.taps or ()), *(self.limits or ()),
                *(each for each in further if each is not None)]


def call_tile(e: Emitter, tile: Tile, call: Call) -> None:
    """Calls a tile's function."""
    e.builder.call(function_of(e, tile), call.arguments())


def function_of(e: Emitter, tile: Tile) -> ir.Function:
    """A tile's function, which is made when it is first asked for."""
    return e.module.globals.get(tile.name) or _make(e, tile)


def _make(e: Emitter, tile: Tile) -> ir.Function:
    """The function of a tile. Nothing is returned; the results are in memory."""
    function = internal_function(e, tile.name, tile.kinds(e.index), Microkernel)
    inner = Emitter(e.module, function, e.target)
    if tile.arithmetic.body is None:
        TileBody(inner, tile).emit()
    else:
        tile.arithmetic.body(inner, tile)
    inner.builder.ret_void()
    return function


Sums: TypeAlias = "list[ir.Value]"
"""The vectors of a tile: chain by chain, row by row."""


class TileBody:
    """The code of a tile."""

    def __init__(self, e: Emitter, tile: Tile) -> None:
        self._e = e
        self._tile = tile
        arguments = list(e.function.args)
        (self._left, self._rows, self._run, self._right, self._right_step, self._start, self._start_step, self._out,
         self._out_step), rest = arguments[:9], arguments[9:]
        self._taps, rest = (rest[:2], rest[2:]) if tile.has_taps else ([], rest)
        self._limits, rest = (rest[:2], rest[2:]) if tile.clamps else ([], rest)
        self._columns: ir.Value | None
        self._columns, rest = (rest[0], rest[1:]) if tile.is_partial or tile.reads_partial else (None, rest)
        self._ahead = e.builder.mul(self._right_step, e.number(AHEAD // tile.step_bytes)) if tile.fetches else None
        self._panels = self._panels_apart()
        self._given = rest
        self._units = () if tile.stored is None or tile.is_grouped else tile.stored.units(
            e, rest[0], tile.vectors, tile.lanes)
        self._terms = arguments[-1 if tile.least is None else -2]
        self._count = arguments[-1]
        self._words = Vectors(e, tile.arithmetic.word, tile.lanes)
        self._totals = Vectors(e, tile.arithmetic.total, tile.lanes)
        self._chains = chains(e.target, tile.rows, tile.vectors)

    def emit(self) -> None:
        """The code of a tile: loads the addresses of its rows, keeps rows x vectors x chains vectors of sums in
        registers over all taps and steps of the depth, adds up the chains, and finishes or stores the sums (rows,
        columns)."""
        rows = self._row_addresses()
        self._read = self._masks(self._tile.reads_partial)
        sums = [self._totals.splat(0)] * (self._tile.rows * self._tile.vectors * self._chains)
        if self._tile.has_taps:
            sums = self._tapped(rows, sums)
        else:
            sums, _ = self._depth(rows, self._e.number(0), self._right, sums)
        self._numbers = self._row_numbers()
        self._add_and_finish(self._joined(sums))

    def _row_addresses(self) -> list[ir.Value]:
        """Where each row of the tile begins, loaded from the table."""
        e = self._e
        return [self._words.address(self._left, e.builder.load(e.address(self._rows, e.index, each), typ=e.index))
                for each in self._row_numbers()]

    def _row_numbers(self) -> list[ir.Value]:
        """The number of each row of the tile, that of the first one where there is no such row."""
        e, least = self._e, self._tile.least
        numbers = [e.number(each) for each in range(self._tile.rows)]
        return [each if least is None or number < least else
                e.select(e.builder.icmp_signed("<", each, self._count), each, e.number(0))
                for number, each in enumerate(numbers)]

    def _places(self, base: ir.Value, step: ir.Value, rows: int) -> Iterator[tuple[int, ir.Value]]:
        """The address of each vector of a block of so many rows and the tile's columns, and its number in a row."""
        for begin in self._lines(base, step, rows):
            for number in range(self._tile.vectors):
                yield number, self._totals.address(begin, number * self._tile.lanes * WORD)

    def _lines(self, base: ir.Value, step: ir.Value, rows: int) -> Iterator[ir.Value]:
        """Where so many rows begin that are a step apart."""
        for row in self._numbers[:rows]:
            yield self._totals.address(base, self._e.builder.mul(step, row))

    def _masks(self, is_partial: bool) -> list[ir.Value]:
        """Which lanes of each vector of the panel count, if not all do."""
        e = self._e
        return [self._words.first(e.builder.sub(self._columns, e.number(number * self._tile.lanes)))
                for number in range(self._tile.vectors * is_partial)]

    @staticmethod
    def _load(vectors: Vectors, place: ir.Value, number: int, masks: list[ir.Value]) -> ir.Value:
        """The vector of a number in the panel, at a place."""
        return vectors.load_where(place, masks[number]) if masks else vectors.load(place)

    def _tapped(self, rows: Sequence[ir.Value], sums: Sums) -> Sums:
        """The sums over all taps: a loop over the table of taps, which carries the panel's address and all sums in
        registers."""
        e = self._e
        table, count = self._taps

        def tap(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            begin = e.builder.load(e.address(table, e.index, number), typ=e.index)
            inner, right = self._depth(rows, begin, carried[0], carried[1:])
            return [right, *inner]

        return carry(e, count, [self._right, *sums], tap)[1:]

    def _depth(self, rows: Sequence[ir.Value], begin: ir.Value, right: ir.Value,
               sums: Sums) -> tuple[Sums, ir.Value]:
        """The sums over a run of the depth, and where the panel continues after it: a loop over `unroll` steps a turn,
        and one over the steps that are left. Steps take turns among the chains."""
        b = self._e.builder
        words = b.lshr(self._run, self._e.number(2))
        unroll = self._chains if self._chains > 1 else -(-self._e.target.turn // len(sums))
        often = b.udiv(words, self._e.number(unroll))
        offset, right, sums = self._steps(often, unroll, rows, begin, right, sums)
        if unroll > 1:
            _, right, sums = self._steps(b.urem(words, self._e.number(unroll)), 1, rows, offset, right, sums)
        return sums, right

    def _steps(self, count: ir.Value, unroll: int, rows: Sequence[ir.Value], begin: ir.Value, right: ir.Value,
               sums: Sums) -> tuple[ir.Value, ir.Value, Sums]:
        """Repeats some steps of the depth; gives the offset and the panel after them, and the sums."""
        e = self._e
        size = len(sums) // self._chains

        def turn(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            offset, panel, *inner = carried
            for k in range(unroll):
                chain = slice(k % self._chains * size, (k % self._chains + 1) * size)
                inner[chain] = self._step(rows, offset, k * WORD, panel, inner[chain])
                panel = self._words.address(panel, self._right_step)
            return [e.builder.add(offset, e.number(unroll * WORD)), panel, *inner]

        offset, panel, *inner = carry(e, count, [begin, right, *sums], turn)
        return offset, panel, inner

    def _step(self, rows: Sequence[ir.Value], offset: ir.Value, further: int, panel: ir.Value, sums: Sums) -> Sums:
        """One step of the depth for one chain of sums, an outer product: loads a vector for each of the panel's,
        broadcasts a word of each row, and adds rows x vectors products."""
        e, tile = self._e, self._tile
        if tile.fetches:
            self._fetch(panel)
        if tile.held is not None:
            right = [self._words.load_first(self._words.address(panel, column * WORD), tile.held - column)
                     for column in range(0, tile.columns, tile.lanes)]
        elif tile.stored is None:
            right = [self._load(self._words, self._vector(panel, k), k, self._read) for k in range(tile.vectors)]
        else:
            units = self._units_at(tile.stored, offset, further) if tile.is_grouped else self._units
            right = tile.stored.words(e, panel, tile.vectors, tile.lanes, units)
            self._leave(right, panel)
        found: Sums = []
        for row, address in enumerate(rows):
            word = e.builder.load(self._words.address(address, offset, further), typ=tile.arithmetic.word,
                                  align=tile.arithmetic.align)
            left = broadcast(e, word, tile.lanes)
            found += [tile.arithmetic.multiply_add(e, left, each, sums[row * tile.vectors + k])
                      for k, each in enumerate(right)]
        return found

    def _panels_apart(self) -> list[ir.Value]:
        """How far each panel is from the first one, if there are several, which follow each other in memory."""
        e, tile = self._e, self._tile
        size = e.builder.mul(e.builder.lshr(self._run, e.number(2)), self._right_step) if tile.apart else None
        return [] if size is None else [e.builder.mul(size, e.number(k)) for k in range(tile.vectors // tile.apart)]

    def _vector(self, panel: ir.Value, number: int) -> ir.Value:
        """Where the vector of a number is in a step of the panel, or of one of those that follow it."""
        which, within = divmod(number, self._tile.apart or self._tile.vectors)
        return self._words.address(panel, *self._panels[which:which + 1], within * self._tile.lanes * WORD)

    def _units_at(self, stored: Stored, offset: ir.Value, further: int) -> Units:
        """What belongs to the columns in the step at so many bytes of the rows."""
        e, (memory, before) = self._e, self._given[:2]
        at = e.builder.add(e.builder.add(before, offset), e.number(further))
        group = e.builder.udiv(at, e.number(stored.group * WORD))
        units = e.address(memory, I8, e.builder.mul(group, e.number(stored.unit_bytes(self._tile.columns))))
        return stored.units(e, units, self._tile.vectors, self._tile.lanes)

    def _leave(self, right: Sequence[ir.Value], panel: ir.Value) -> None:
        """Writes what was read of the step at a place in the panel, where that is wanted."""
        e, tile = self._e, self._tile
        if tile.leaves_words and tile.stored is not None:
            b = e.builder
            read = b.sub(b.ptrtoint(panel, e.index), b.ptrtoint(self._right, e.index))
            size, stored = tile.columns * WORD, tile.stored.step_bytes(tile.columns)
            step = b.mul(read, e.number(size // stored)) if size % stored == 0 else b.mul(
                b.udiv(read, e.number(stored)), e.number(size))
            for number, each in enumerate(right):
                self._words.store(each, self._words.address(self._given[1 + tile.is_grouped], step,
                                                            number * tile.lanes * WORD))

    def _fetch(self, panel: ir.Value) -> None:
        """Fetches the lines of the step that is `AHEAD` bytes of a panel after one."""
        for line in range(0, self._tile.step_bytes, self._e.target.tiles.line_bytes):
            fetch(self._e, self._words.address(panel, self._ahead, line))

    def _joined(self, sums: Sums) -> Sums:
        """The sums of all chains."""
        size = len(sums) // self._chains
        total = sums[:size]
        for chain in range(1, self._chains):
            total = self._added(total, sums[chain * size:(chain + 1) * size])
        return total

    def _add_and_finish(self, sums: Sums) -> None:
        """Adds the sums to what they are to be added to, and finishes or stores them. Where a part of a vector takes
        longer to store than a whole one, tiles that are for other columns, too, look whether all of them count."""
        e, tile = self._e, self._tile
        if not tile.is_partial or tile.least is None or e.target.has_masks:
            self._add_and_store(sums, tile.is_partial)
            return
        is_whole = e.builder.icmp_signed(">=", self._columns, e.number(tile.columns))
        with e.builder.if_else(is_whole, likely=True) as (then, otherwise):
            with then:
                self._add_and_store(sums, False)
            with otherwise:
                self._add_and_store(sums, True)

    def _add_and_store(self, sums: Sums, is_partial: bool) -> None:
        """The same, for all columns or for some."""
        self._written = self._masks(is_partial)
        self._finish(self._added(self._first(), sums))

    def _first(self) -> Sums:
        """What the sums are added to."""
        tile = self._tile
        loaded = [self._load(self._totals, place, number, self._written)
                  for number, place in self._places(self._start, self._start_step, tile.rows if tile.adds else 1)]
        return loaded if tile.adds else loaded * tile.rows

    def _added(self, some: Sums, others: Sums) -> Sums:
        """Two lists of vectors added, one by one."""
        add = self._e.builder.fadd if isinstance(self._tile.arithmetic.total, ir.FloatType) else self._e.builder.add
        return [add(one, other) for one, other in zip(some, others, strict=True)]

    def _finish(self, sums: Sums) -> None:
        """Passes the sums to what finishes them, or stores each vector, limited to the interval."""
        tile = self._tile
        if tile.finish is not None:
            rows = [sums[k * tile.vectors:(k + 1) * tile.vectors] for k in range(tile.rows)]
            count = tile.rows if tile.least is None else self._count
            tile.finish.write_rows(self._e, rows, count, self._terms, self._out, self._out_step)
            return
        results = limited(self._e, sums, self._limits)
        places = list(self._places(self._out, self._out_step, tile.rows))
        if tile.is_partial and tile.least is None and not self._e.target.has_masks:
            self._store_partial(results, [place for _, place in places])
            return
        for value, (number, place) in zip(results, places, strict=True):
            if self._written:
                self._totals.store_where(value, place, self._written[number])
            else:
                self._totals.store(value, place)

    def _store_partial(self, results: Sums, places: Sequence[ir.Value]) -> None:
        """Stores the columns that count of each row, without masks; tiles for fewer rows have these nevertheless, as
        they are called less often, and are many."""
        e, vectors = self._e, self._tile.vectors
        for number in range(vectors):
            count = e.builder.sub(self._columns, e.number(number * self._tile.lanes))
            self._totals.store_first(results[number::vectors], places[number::vectors], count)
