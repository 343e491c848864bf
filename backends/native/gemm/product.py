"""The loops around register tiles: a whole product of a left factor of rows and a packed right factor of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I64, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import length, portion
from circlet.backends.native.gemm.microkernel import (
    WORD,
    Arithmetic,
    Call,
    Finish,
    Split,
    Tile,
    call_tile,
    lanes,
    most_rows,
    panel_vectors,
)
from circlet.backends.native.targets.target import Target
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array, Shape

CACHE = 1 << 18
"""Bytes of rows that are multiplied by one panel after the other, so that they stay in the second-level cache."""
CHUNK = 3 << 17
"""Bytes of a panel that several tiles read one after the other."""
DEPTH = 1 << 10
"""Steps that are summed up one after the other."""
LARGE = 1 << 16
"""Bytes of a right factor that is not expected to be in the cache when a product begins."""
FEWEST_ROWS = 48
"""Rows that share the reading of a panel even if they exceed the cache."""

_MANY_TILES = 16
"""Tiles of rows that can be shared out evenly enough."""

Allocate: TypeAlias = Callable[[Shape, np.dtype[np.generic]], Array]
Put: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value], None]
"""Takes a result: its row, its column, the value."""
Range: TypeAlias = "tuple[ir.Value, ir.Value]"
"""The first and the end of some numbers."""


def table(e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """A short table of i64 as part of the code."""
    name = f"table_{'_'.join(map(str, numbers))}"
    found = e.module.globals.get(name)
    if found is None:
        kind = ir.ArrayType(I64, len(numbers))
        found = ir.GlobalVariable(e.module, kind, name)
        found.linkage, found.global_constant, found.initializer = "internal", True, ir.Constant(kind, list(numbers))
    return found


@dataclass(frozen=True, eq=False)
class Left:
    """Rows in memory; distances in bytes.

    Attributes:
        memory: what the offsets of rows count from.
        rows: a table of where rows begin, i64.
        step: the distance of two rows if all distances are equal; the table is then as long as a tile.
        run: the length of a row, or of each tap.
        taps: a table of where each tap begins in a row, i64, and how many there are.
    """

    memory: ir.Value
    rows: ir.Value
    step: int | None
    run: int
    taps: tuple[ir.Value, int] | None = None

    @classmethod
    def even(cls, e: Emitter, plan: Plan, memory: ir.Value, step: int, run: int) -> Left:
        """Rows at equal distances."""
        return cls(memory, table(e, [k * step for k in range(max(plan.split.sizes, default=0))]), step, run)


@dataclass(frozen=True, eq=False)
class Panels:
    """The right factor; distances in bytes.

    Attributes:
        memory: the first panel.
        distance: the distance of two panels.
        step: the distance of two steps of the depth in a panel.
        is_packed: whether the last panel is filled up.
    """

    memory: ir.Value
    distance: int
    step: int
    is_packed: bool = True


@dataclass(frozen=True, eq=False)
class Direct:
    """Results are written to memory.

    Attributes:
        memory: where they begin.
        step: the distance of two rows in bytes.
        limits: the interval that they are limited to.
        adds: whether they are added to what is there.
    """

    memory: ir.Value
    step: int
    limits: tuple[ir.Value, ir.Value] | None = None
    adds: bool = False


@dataclass(frozen=True, eq=False)
class Block:
    """The results of a tile in scratch memory, row by row.

    Attributes:
        memory: where they begin.
        step: the distance of two rows in columns.
        row: the first row.
        rows: how many there are.
        column: the first column.
        columns: how many there are.
    """

    memory: ir.Value
    step: int
    row: ir.Value
    rows: ir.Value
    column: ir.Value
    columns: int


@dataclass(frozen=True, eq=False)
class Collected:
    """Results are passed on tile by tile; `scratch`, of `Plan.tile_bytes` for each thread, holds them."""

    scratch: ir.Value
    take: Callable[[Emitter, Block], None]


@dataclass(frozen=True, eq=False)
class Filtered:
    """Results are passed on one by one; `scratch`, of `Plan.tile_bytes` for each thread, holds those of a tile."""

    scratch: ir.Value
    put: Put


@dataclass(frozen=True, eq=False)
class Finished:
    """Bytes are made of the sums in the tiles. The depth is not cut.

    Attributes:
        memory: where results begin.
        step: the distance of two rows in bytes.
        terms: a table, `terms_step` bytes for each panel.
        finish: makes results of the sums of so many columns.
    """

    memory: ir.Value
    step: int
    terms: ir.Value
    terms_step: int
    finish: Callable[[int], Finish]


Result: TypeAlias = "Direct | Collected | Filtered | Finished"


@dataclass(frozen=True)
class Group:
    """Panels of which equally many columns count."""

    first: int
    count: int
    columns: int


@dataclass(frozen=True)
class Plan:
    """How a product is cut into tiles.

    Attributes:
        arithmetic: what it computes with.
        rows: of the left factor.
        columns: of the right factor.
        depth: steps: words of a row, all taps together.
        lanes: words in a vector.
        vectors: the width of panels.
        split: the rows in tiles.
    """

    arithmetic: Arithmetic
    rows: int
    columns: int
    depth: int
    lanes: int
    vectors: int
    split: Split

    @classmethod
    def of(cls, target: Target, arithmetic: Arithmetic, rows: int, columns: int, depth: int) -> Plan:
        """What is fastest."""
        vectors = panel_vectors(target, rows, columns, arithmetic.spare)
        return cls(arithmetic, rows, columns, depth, lanes(target), vectors,
                   Split.of(rows, most_rows(target, vectors, arithmetic.spare)))

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        return -(-self.columns // self.panel)

    @property
    def panel_bytes(self) -> int:
        """Of a packed panel."""
        return self.depth * self.panel * WORD

    @property
    def tile_bytes(self) -> int:
        """Of the scratch memory for results: those of a tile, or, if the depth is cut, of a block of tiles."""
        is_cut = self.chunks(self.depth).parts > 1
        return max(self.split.sizes, default=0) * self.panel * WORD * (self.block if is_cut else 1)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The full panels, and the last one if it is not full."""
        full, rest = divmod(self.columns, self.panel)
        return tuple(each for each in (Group(0, full, self.panel), Group(full, min(rest, 1), rest)) if each.count)

    @property
    def block(self) -> int:
        """Tiles of rows that one panel after the other is applied to."""
        depth = self.depth // max(self.chunks(self.depth).parts, 1)
        rows = max(CACHE // max((depth + self.columns) * WORD, 1), FEWEST_ROWS)
        blocks = -(-self.rows // rows)
        return -(-self.split.parts // max(blocks, 1))

    def chunks(self, units: int) -> Split:
        """The depth, given in units, in parts: what several tiles read of a panel stays in the cache, and no sum is so
        long that much is lost."""
        parts = max(-(-self.depth // DEPTH), -(-self.panel_bytes // CHUNK) if self.split.parts > 1 else 1, 1)
        return Split.of(units, max(-(-units // parts), 1))

    @property
    def fetches(self) -> bool:
        """Whether tiles fetch the next panel, since the right factor is too large to stay in the cache."""
        return self.split.parts > 1 and self.panels > 1 and self.panels * self.panel_bytes >= LARGE

    def pack(self, matrix: Array, allocate: Allocate = allocate) -> Array:
        """A right factor of shape (columns, depth), of words, as (panels, depth, columns of a panel)."""
        packed = allocate((self.panels, self.depth, self.panel), matrix.dtype)
        full = self.columns // self.panel
        packed[:full] = matrix[:full * self.panel].reshape(full, self.panel, self.depth).transpose(0, 2, 1)
        if full < self.panels:
            rest = matrix[full * self.panel:]
            packed[full, :, :len(rest)] = rest.T
            packed[full, :, len(rest):] = 0
        return packed

    def pack_row(self, row: Array | None, dtype: np.dtype[np.generic]) -> Array:
        """An element for each column, zeros if there are none, filled up to whole panels."""
        packed = allocate((self.panels * self.panel,), dtype)
        packed[:] = 0
        if row is not None:
            packed[:self.columns] = row.reshape(-1)
        return packed

    def packed(self, memory: ir.Value) -> Panels:
        """Where the panels of a packed factor are."""
        return Panels(memory, self.panel_bytes, self.panel * WORD)


def multiply(e: Emitter, plan: Plan, left: Left, right: Panels, start: ir.Value, result: Result) -> None:
    """Emits a product.

    Args:
        e: writes the code.
        plan: how it is cut.
        left: the rows.
        right: the panels.
        start: what the sums of each column begin with, for whole panels.
        result: where the results go.
    """
    if plan.rows and plan.columns:
        _Nest(e, plan, left, right, start, result).emit()


@dataclass(frozen=True, eq=False)
class _Chunk:
    """A part of the depth: words of each row or, if rows have taps, taps.

    Attributes:
        first: the first one.
        count: how many there are.
        begins: an i1: whether it is the first part.
        ends: whether it is the last one.
    """

    first: ir.Value
    count: ir.Value
    begins: ir.Value
    ends: bool


class _Nest:
    def __init__(self, e: Emitter, plan: Plan, left: Left, right: Panels, start: ir.Value,
                 result: Result) -> None:
        self._e = e
        self._plan = plan
        self._left = left
        self._right = right
        self._start = start
        self._result = result
        self._words = 1 if left.taps is None else left.run // WORD
        """Of the depth, for each unit that chunks consist of."""
        self._chunks = plan.chunks(plan.depth if left.taps is None else left.taps[1])

    def emit(self) -> None:
        """Shares out the tiles of rows if they are many, else the panels. A few rows take no less time than it takes
        to read the panels."""
        e, plan = self._e, self._plan
        tiles, panels = plan.split.parts, plan.panels
        work = max(plan.rows, WORD) * plan.columns * plan.depth
        if tiles >= min(panels, _MANY_TILES):
            with portion(e, tiles, work) as rows:
                self._emit(rows, (e.number(0), e.number(panels)))
        else:
            with portion(e, panels, work) as columns:
                self._emit((e.number(0), e.number(tiles)), columns)

    def _emit(self, tiles: Range, panels: Range) -> None:
        e = self._e
        for group in self._plan.groups:
            begin, end = (self._within(each, group) for each in panels)
            with self._blocks(*tiles) as (first, count), rolled(e, length(e, begin, end)) as number:
                panel = e.builder.add(number, begin)
                if self._chunks.parts > 1:
                    with rolled(e, self._chunks.parts - 1) as part, rolled(e, count) as k:
                        self._tile(group, panel, first, k, self._chunk(part, ends=False))
                with rolled(e, count) as k:
                    self._tile(group, panel, first, k, self._chunk(e.number(max(self._chunks.parts - 1, 0)), ends=True))

    def _within(self, panel: ir.Value, group: Group) -> ir.Value:
        """The border of panels in a group that is nearest to one."""
        e, last = self._e, group.first + group.count
        if isinstance(panel, ir.Constant):
            return e.number(min(max(panel.constant, group.first), last))
        return e.intrinsic("smin", e.intrinsic("smax", panel, e.number(group.first)),
                           e.number(last))

    @contextmanager
    def _blocks(self, begin: ir.Value, end: ir.Value) -> Iterator[tuple[ir.Value, ir.Value | int]]:
        """A loop over blocks of tiles; gives the first tile and how many there are."""
        e, b, block = self._e, self._e.builder, self._plan.block
        if block >= self._plan.split.parts:
            yield begin, length(e, begin, end)
            return
        blocks = b.sdiv(b.add(b.sub(end, begin), e.number(block - 1)), e.number(block))
        with rolled(e, blocks) as number:
            first = b.add(begin, b.mul(number, e.number(block)))
            yield first, e.intrinsic("smin", b.sub(end, first), e.number(block))

    def _chunk(self, number: ir.Value, ends: bool) -> _Chunk:
        e, split = self._e, self._chunks
        count = e.select(e.builder.icmp_signed("<", number, e.number(split.larger)), e.number(split.size + 1),
                         e.number(split.size))
        return _Chunk(self._begin(split, number), count, e.builder.icmp_signed("==", number, e.number(0)), ends)

    def _begin(self, split: Split, number: ir.Value) -> ir.Value:
        """Where a part begins."""
        begin = self._e.builder.mul(number, self._e.number(split.size))
        larger = self._e.intrinsic("smin", number, self._e.number(split.larger))
        return self._e.builder.add(begin, larger) if split.larger else begin

    def _tile(self, group: Group, panel: ir.Value, first: ir.Value, k: ir.Value, chunk: _Chunk) -> None:
        """Tile `k` of a block; after the last chunk its results are passed on."""
        e, plan, result = self._e, self._plan, self._result
        number = e.builder.add(first, k)
        row, column = self._begin(plan.split, number), e.builder.mul(panel, e.number(plan.panel))
        if isinstance(result, Direct):
            out, step = self._at(self._at(result.memory, row, result.step), column, WORD), result.step
        elif isinstance(result, Finished):
            out, step = self._at(self._at(result.memory, row, result.step), column, 1), result.step
        else:
            kept = k if self._chunks.parts > 1 else e.number(0)
            out, step = self._at(result.scratch, kept, plan.split.sizes[0] * plan.panel * WORD), plan.panel * WORD
        start, start_step = self._sums(column, out, step, chunk)
        is_partial = isinstance(result, Direct) and group.columns < plan.panel
        limits = result.limits if isinstance(result, Direct) and chunk.ends else None
        right = self._right
        reads_partial = group.columns < plan.panel and not right.is_packed
        begin = e.builder.mul(chunk.first, e.number(self._words))
        call = Call(
            *self._rows(row, chunk),
            right=self._at(self._at(right.memory, panel, right.distance), begin, right.step),
            right_step=e.number(right.step),
            start=start,
            start_step=start_step,
            out=out,
            out_step=e.number(step),
            taps=None if self._left.taps is None else (self._at(self._left.taps[0], chunk.first, 8), chunk.count),
            limits=limits,
            columns=e.number(group.columns) if is_partial or reads_partial else None,
            ahead=self._ahead(number, right, chunk) if plan.fetches else None,
            terms=self._at(result.terms, panel, result.terms_step) if isinstance(result, Finished) else None,
        )
        tile = Tile(plan.arithmetic, plan.split.sizes[0], plan.vectors, plan.lanes, call.taps is not None,
                    limits is not None, is_partial, reads_partial, plan.fetches,
                    result.finish(group.columns) if isinstance(result, Finished) else None)
        rows = self._call(tile, call, number)
        if chunk.ends and isinstance(result, (Collected, Filtered)):
            self._pass_on(result, Block(out, plan.panel, row, rows, column, group.columns))

    def _rows(self, row: ir.Value, chunk: _Chunk) -> tuple[ir.Value, ir.Value, ir.Value]:
        """What the offsets of a tile's rows count from, their table, and the length of a run."""
        e, left = self._e, self._left
        memory, rows = left.memory, left.rows
        if left.step is None:
            rows = self._at(rows, row, 8)
        else:
            memory = self._at(memory, row, left.step)
        if left.taps is not None:
            return memory, rows, e.number(left.run)
        return self._at(memory, chunk.first, WORD), rows, e.builder.mul(chunk.count, e.number(WORD))

    def _sums(self, column: ir.Value, out: ir.Value, step: int, chunk: _Chunk) -> tuple[ir.Value, ir.Value]:
        """What sums begin with, and the distance of two rows there."""
        e, begin = self._e, self._at(self._start, column, WORD)
        if isinstance(self._result, Direct) and self._result.adds:
            return out, e.number(step)
        if self._chunks.parts <= 1:
            return begin, e.number(0)
        return e.select(chunk.begins, begin, out), e.select(chunk.begins, e.number(0), e.number(step))

    def _ahead(self, number: ir.Value, right: Panels, chunk: _Chunk) -> ir.Value:
        """The distance to what a tile fetches of the chunk or panel that follows: one of its vectors, each step."""
        e, plan = self._e, self._plan
        line = e.builder.mul(e.builder.urem(number, e.number(plan.vectors)), e.number(plan.lanes * WORD))
        if self._chunks.parts <= 1:
            return e.builder.add(line, e.number(right.distance))
        return e.builder.add(line, e.builder.mul(chunk.count, e.number(self._words * right.step)))

    def _call(self, tile: Tile, call: Call, number: ir.Value) -> ir.Value:
        """Calls the tile of the size that a number has; gives the size."""
        e, split = self._e, self._plan.split
        if len(split.sizes) == 1:
            call_tile(e, tile, call)
            return e.number(split.sizes[0])
        larger, smaller = split.sizes
        is_larger = e.builder.icmp_signed("<", number, e.number(split.larger))
        with e.builder.if_else(is_larger) as (then, otherwise):
            with then:
                call_tile(e, tile, call)
            with otherwise:
                call_tile(e, replace(tile, rows=smaller), call)
        return e.select(is_larger, e.number(larger), e.number(smaller))

    def _at(self, base: ir.Value, index: ir.Value, distance: int) -> ir.Value:
        return self._e.address(base, I8, self._e.builder.mul(index, self._e.number(distance)))

    def _pass_on(self, result: Collected | Filtered, block: Block) -> None:
        e, kind = self._e, self._plan.arithmetic.total
        if isinstance(result, Collected):
            result.take(e, block)
            return
        with rolled(e, block.rows) as k:
            begin = self._at(block.memory, k, block.step * WORD)
            row = e.builder.add(block.row, k)
            with independent(e, block.columns, self._plan.lanes) as column:
                value = e.builder.load(e.address(begin, kind, column), typ=kind)
                result.put(e, row, e.builder.add(block.column, column), value)
