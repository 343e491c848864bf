"""The loops around register tiles: a whole product of a left factor of rows and a packed right factor of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.outlined import taken_out
from circlet.backends.native.emit.parallel import length, portion
from circlet.backends.native.gemm.microkernel import FLOAT32, Call, Tile, call_tile
from circlet.backends.native.gemm.operands import (
    Block,
    Collected,
    Direct,
    Filtered,
    Finished,
    Left,
    Panels,
    Result,
)
from circlet.backends.native.gemm.plan import CACHE, LARGE, SHALLOW, Group, Plan
from circlet.backends.native.gemm.tails import call_smallest, call_tiles
from circlet.backends.native.gemm.tiling import Split, narrow_sizes
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.length import is_length, is_open, larger, may_differ
from circlet.runtime.records import dataclass

_MANY_TILES = 16
"""Tiles of rows that can be shared out evenly enough: a choice; with fewer, panels may be more."""
_DEEP = 256
"""Steps of the depth from which on a tile may take what sums are added to from row to row: a choice, by which it takes
some 1 % longer."""
_FEW = 1, 2
"""Rows that are multiplied by several panels at a time, so that as many sums are under way as the processor can have:
with one row and 32 steps, tiles of two vectors take half as long again as ones of eight."""
_LONG = 56
"""Instructions that follow on a tile from which on they are a function of their own: a choice, between what a call
takes for each tile and what LLVM takes for each layer."""

Range: TypeAlias = "tuple[ir.Value, ir.Value]"
"""The first and the end of some numbers."""
Wanted: TypeAlias = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
"""Whether the products of so many rows, from one on, are to be computed, an i1; these are added to something."""


def multiply(e: Emitter, plan: Plan, left: Left, right: Panels, start: ir.Value, result: Result,
             wanted: Wanted | None = None) -> None:
    """Emits a product of (rows, depth) and (depth, columns) words, which gives (rows, columns).

    Loops over blocks of rows, panels, parts of the depth, and tiles, as in GotoBLAS (Goto and van de Geijn 2008) and
    BLIS (Van Zee and van de Geijn 2015), which have the depth outside; `_Nest.emit` shares out tiles or panels.

    Args:
        e: writes the code.
        plan: how it is cut.
        left: the rows.
        right: the panels.
        start: what the sums of each column begin with, for whole panels.
        result: where the results go.
        wanted: which tiles are computed; None: all.
    """
    if may_differ(plan.rows, 0) and may_differ(plan.columns, 0):
        _Nest(e, plan, left, right, start, result, wanted).emit()


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


@dataclass(frozen=True)
class _Strip:
    """What a tile takes at a time.

    Attributes:
        panels: how many, side by side.
        rows: how many; None where these follow from the number of the tile.
    """

    panels: int = 1
    rows: int | None = None


_ONE = _Strip()


class _Nest:
    def __init__(self, e: Emitter, plan: Plan, left: Left, right: Panels, start: ir.Value,
                 result: Result, wanted: Wanted | None) -> None:
        self._e = e
        self._wanted = wanted
        self._left = left
        self._right = right
        self._start = start
        self._result = result
        self._words = 1 if left.taps is None else left.run // WORD
        """Of the depth, for each unit that chunks consist of."""
        self._distances = left.rows
        self._chunks = plan.chunks(plan.depth if left.taps is None else left.taps[1])
        self._is_even = plan.arithmetic.around is not None and left.step is not None and left.grid is None
        self._adds = self._chunks.parts > 1 or (isinstance(result, Direct) and result.adds)
        self._plan = replace(plan, split=plan.split.apart) if self._adds else plan

    def emit(self) -> None:
        """Shares out the tiles of rows if they are many, else the panels. A few rows take no less time than it takes
        to read the panels."""
        e, plan = self._e, self._plan
        tiles, panels = plan.split.parts, plan.panels
        work = larger(plan.rows, WORD) * plan.columns * plan.depth
        if plan.split.is_open or (tiles >= _MANY_TILES if is_length(panels) else
                                  tiles >= min(panels, _MANY_TILES)):
            with portion(e, tiles, work) as rows:
                self._emit(rows, (e.number(0), e.number(panels)))
        else:
            with portion(e, panels, work) as columns:
                self._emit((e.number(0), e.number(tiles)), columns)

    def _emit(self, tiles: Range, panels: Range) -> None:
        """Loops over the panels of a group, within blocks of tiles, over the parts of the depth, and over a block's
        tiles."""
        e, around = self._e, self._plan.arithmetic.around
        self._distances = self._left.rows or self._stored_distances()
        with nullcontext() if around is None else around(e, self._left.run):
            self._loop(tiles, panels)

    def _loop(self, tiles: Range, panels: Range) -> None:
        e = self._e
        for group in self._groups:
            begin, end = (self._within(each, group) for each in panels)
            begin = self._strips(group, tiles, begin, end)
            with self._blocks(*tiles) as (first, count), rolled(e, length(e, begin, end, group.count)) as number:
                panel = e.builder.add(number, begin)
                if self._chunks.parts > 1:
                    with rolled(e, self._chunks.parts - 1) as part:
                        self._tiles(group, panel, first, count, self._chunk(part, ends=False))
                last = e.number(max(self._chunks.parts - 1, 0))
                self._tiles(group, panel, first, count, self._chunk(last, ends=True))

    def _strips(self, group: Group, tiles: Range, begin: ir.Value, end: ir.Value) -> ir.Value:
        """Takes several panels at a time if an open number of rows is so small that one leaves most sums empty, and no
        panel is so long that it makes up for that; gives the first panel that is left."""
        e, plan = self._e, self._plan
        if not self._may_be_few or group.is_partial(plan.panel):
            return begin
        for rows in _FEW:
            panels = min(e.target.tiles.chains // plan.vectors, plan.split.sizes[0]) // rows
            if panels > 1:
                b = e.builder
                is_so = b.and_(b.icmp_signed("==", e.number(plan.rows), e.number(rows)), b.icmp_signed("<", *tiles))
                count = e.select(is_so, b.sdiv(b.sub(end, begin), e.number(panels)), e.number(0))
                with rolled(e, count) as k:
                    panel = b.add(begin, b.mul(k, e.number(panels)))
                    self._compute(group, panel, self._right, tiles[0], k, self._chunk(e.number(0), ends=True),
                                  _Strip(panels, rows))
                begin = b.add(begin, b.mul(count, e.number(panels)))
        return begin

    @property
    def _may_be_few(self) -> bool:
        """Whether tiles for a few rows of several panels are worth it."""
        plan, right = self._plan, self._right
        is_plain = plan.arithmetic is FLOAT32 and right.stored is None and self._left.taps is None
        return (is_plain and plan.split.is_open and self._e.target.goal is Goal.HERE and self._wanted is None
                and right.is_packed and not is_open((plan.columns, plan.depth)) and plan.depth <= SHALLOW)

    def _tiles(self, group: Group, panel: ir.Value, first: ir.Value, count: ir.Value | int, chunk: _Chunk) -> None:
        """The tiles of a block. Of a panel that is kept otherwise than as words, the first one may leave these to the
        others, if it is of the largest size."""
        e, right, split = self._e, self._right, self._plan.split
        if right.words is None:
            with rolled(e, count) as k:
                self._tile(group, panel, right, first, k, chunk)
            return
        begin, step = e.builder.mul(chunk.first, e.number(self._words)), self._plan.panel * WORD
        words = Panels(self._at(right.words, e.builder.neg(begin), step), 0, step, is_near=True)
        self._tile(group, panel, right, first, e.number(0), chunk)

        def tile_others(given: Panels) -> None:
            with rolled(e, e.builder.sub(e.register(count), e.number(1))) as k:
                self._tile(group, panel, given, first, e.builder.add(k, e.number(1)), chunk)

        if not split.sooner:
            tile_others(words)
            return
        leaves_words = e.builder.icmp_signed("==", self._tile_rows(first), e.number(split.size))
        with e.builder.if_else(leaves_words, likely=True) as (then, otherwise):
            with then:
                tile_others(words)
            with otherwise:
                tile_others(right)

    @property
    def _groups(self) -> Sequence[Group]:
        """Panels of which equally many columns count; all, where only a run knows how many these are, if results are
        passed on one by one: what is done to them then is written once."""
        plan = self._plan
        if isinstance(self._result, Filtered) and self._right.is_packed and is_length(plan.columns):
            return (Group(0, plan.panels, plan.panel),)
        return plan.groups

    def _columns(self, group: Group, column: ir.Value) -> int | ir.Value:
        """How many columns count of a panel that begins at one."""
        if not isinstance(self._result, Filtered) or not is_length(self._plan.columns):
            return group.columns
        left = self._e.builder.sub(self._e.number(self._plan.columns), column)
        return self._e.intrinsic("smin", left, self._e.number(group.columns))

    def _stored_distances(self) -> ir.Value:
        """A table of where the rows of a tile begin, indices, in this function's own memory."""
        e, step = self._e, self._left.step
        found = e.slot(e.index, max(self._plan.split.sizes))
        if self._left.grid is not None:
            return found
        assert step is not None, "rows at any distances come with their table"
        for k in range(max(self._plan.split.sizes)):
            e.store(e.number(k * step), found, e.index_dtype, k)
        return found

    def _within(self, panel: ir.Value, group: Group) -> ir.Value:
        """The border of panels in a group that is nearest to one."""
        e, last = self._e, group.first + group.count
        if isinstance(panel, ir.Constant) and not is_open((group.first, last)):
            return e.number(min(max(panel.constant, group.first), last))
        return e.intrinsic("smin", e.intrinsic("smax", panel, e.number(group.first)),
                           e.number(last))

    @contextmanager
    def _blocks(self, begin: ir.Value, end: ir.Value) -> Iterator[tuple[ir.Value, ir.Value | int]]:
        """A loop over blocks of tiles; gives the first tile and how many there are."""
        e, b, plan = self._e, self._e.builder, self._plan
        if not is_open((plan.split.total, plan.columns)) and plan.block >= plan.split.parts:
            yield begin, length(e, begin, end, self._plan.split.parts)
            return
        def parts(count: ir.Value, size: ir.Value) -> ir.Value:
            return b.sdiv(b.add(count, b.sub(size, e.number(1))), size)

        count = b.sub(end, begin)
        blocks = parts(count, self._block())
        size = parts(count, e.intrinsic("smax", blocks, e.number(1)))
        with rolled(e, blocks) as number:
            first = b.add(begin, b.mul(number, size))
            yield first, e.intrinsic("smin", b.sub(end, first), size)

    def _block(self) -> ir.Value:
        """How many tiles a block has at most: of an open number of columns no more than leave their results in the
        cache."""
        e, b, plan = self._e, self._e.builder, self._plan
        most = e.number(plan.block)
        if not is_length(plan.columns) or self._chunks.parts > 1 or plan.block <= 1:
            return most
        columns = e.number(plan.columns)
        rows = b.sdiv(e.number(CACHE // WORD), e.intrinsic("smax", columns, e.number(1)))
        lasting = e.intrinsic("smax", b.sdiv(rows, e.number(plan.split.size)), e.number(1))
        is_small = b.icmp_signed("<", b.mul(columns, e.number(plan.depth)), e.number(LARGE // WORD))
        return e.select(is_small, e.intrinsic("smin", lasting, most), most)

    def _chunk(self, number: ir.Value, ends: bool) -> _Chunk:
        """The part of the depth of a number."""
        e, split = self._e, self._chunks
        if split.is_open:
            begin = e.builder.mul(number, e.number(split.size))
            count = e.intrinsic("smin", e.number(split.size), e.builder.sub(e.number(split.total), begin))
            return _Chunk(begin, count, e.builder.icmp_signed("==", number, e.number(0)), ends)
        if split.parts <= 1:
            return _Chunk(number, e.number(split.total), ir.Constant(I1, 1), ends)
        count = e.select(e.builder.icmp_signed("<", number, e.number(split.larger)), e.number(split.size + 1),
                         e.number(split.size))
        return _Chunk(self._begin(split, number), count, e.builder.icmp_signed("==", number, e.number(0)), ends)

    def _begin(self, split: Split, number: ir.Value) -> ir.Value:
        """Where a part begins."""
        begin = self._e.builder.mul(number, self._e.number(split.size))
        if split.sooner:
            return self._sooner(begin)
        if split.overlaps:
            return self._e.intrinsic("smin", begin, self._e.number(split.total - split.size))
        larger = self._e.intrinsic("smin", number, self._e.number(split.larger))
        return self._e.builder.add(begin, larger) if split.larger else begin

    def _sooner(self, begin: ir.Value) -> ir.Value:
        """Where a part of an open count begins, or sooner by what it then has more, if it would have one row and others
        come before."""
        e, b, split = self._e, self._e.builder, self._plan.split
        leaves_one = b.icmp_signed("==", begin, e.number(split.total - 1))
        is_first = b.icmp_signed("==", begin, e.number(0))
        return e.select(b.and_(leaves_one, b.not_(is_first)), b.sub(begin, e.number(split.sooner)), begin)

    def _tile(self, group: Group, panel: ir.Value, right: Panels, first: ir.Value, k: ir.Value, chunk: _Chunk) -> None:
        """Tile `k` of a block, if it is wanted."""
        number = self._e.builder.add(first, k)
        row = self._begin(self._plan.split, number)
        wanted = None if self._wanted is None else self._wanted(self._e, row, self._tile_rows(number))
        with nullcontext() if wanted is None else self._e.builder.if_then(wanted):
            self._compute(group, panel, right, number, k, chunk)

    def _compute(self, group: Group, panel: ir.Value, right: Panels, number: ir.Value, k: ir.Value,
                 chunk: _Chunk, strip: _Strip = _ONE) -> None:
        """A tile of a number; after the last chunk its results are passed on."""
        e, plan, result = self._e, self._plan, self._result
        width = plan.panel * strip.panels
        row, column = self._begin(plan.split, number), e.builder.mul(panel, e.number(plan.panel))
        if isinstance(result, Direct):
            out, step = self._at(self._at(result.memory, row, result.step), column, WORD), result.step
        elif isinstance(result, Finished):
            out, step = self._at(self._at(result.memory, row, result.step), column, 1), result.step
        else:
            kept = k if self._chunks.parts > 1 else e.number(0)
            out, step = self._at(result.scratch, kept, plan.split.sizes[0] * plan.panel * WORD), width * WORD
        start, start_step = self._sums(column, out, step, chunk)
        is_partial = isinstance(result, Direct) and group.is_partial(plan.panel)
        limits = result.limits if isinstance(result, Direct) and chunk.ends else None
        reads_partial = group.is_partial(plan.panel) and not right.is_packed
        begin = e.builder.mul(chunk.first, e.number(self._words))
        held = plan.last_columns if right.is_compact and group.is_partial(plan.panel) else None
        right_step = right.step if held is None else held * WORD
        call = Call(
            *self._rows(row, chunk),
            right=self._at(self._at(right.memory, panel, right.distance), begin, right_step),
            right_step=e.number(right_step),
            start=start,
            start_step=start_step,
            out=out,
            out_step=e.number(step),
            taps=None if self._left.taps is None else (self._at_index(self._left.taps[0], chunk.first), chunk.count),
            limits=limits,
            columns=e.number(group.columns) if is_partial or reads_partial else None,
            terms=self._at(result.terms, panel, result.terms_step) if isinstance(result, Finished) else None,
            units=self._units(right, panel),
            before=e.builder.mul(begin, e.number(WORD)) if right.stored is not None and right.stored.group else None,
            words=right.words,
        )
        tile = Tile(plan.arithmetic, plan.split.sizes[0], plan.vectors, plan.lanes, call.taps is not None,
                    limits is not None, is_partial, reads_partial, plan.fetches and not right.is_near,
                    self._adds, result.finish(group.columns) if isinstance(result, Finished) else None, right.stored,
                    held=held, leaves_words=right.words is not None, is_even=self._is_even)
        if strip.rows is None:
            rows, columns = self._tile_rows(number), self._columns(group, column)
            self._call(self._shared(tile), call, number, rows)
        else:
            rows, columns = e.number(strip.rows), width
            call_tile(e, replace(tile, rows=strip.rows, vectors=plan.vectors * strip.panels, apart=plan.vectors), call)
        if chunk.ends and isinstance(result, (Collected, Filtered)):
            block = Block(out, width, row, rows, column, columns)
            self._pass_on(result, self._fresh(block, number))

    def _shared(self, tile: Tile) -> Tile:
        """A tile, or one that other products have already and that takes what sums are added to from row to row, if it
        takes hardly longer: these rows may be the same."""
        depth = self._plan.depth
        general = replace(tile, adds=True)
        is_deep = not is_length(depth) and depth >= _DEEP
        return general if is_deep and general.name in self._e.module.globals else tile

    def _units(self, right: Panels, panel: ir.Value) -> ir.Value | None:
        """Where a panel has its scales, if it is stored otherwise than as words."""
        if right.stored is None:
            return None
        return right.memory if right.units is None else self._at(right.units, panel, right.units_distance)

    def _rows(self, row: ir.Value, chunk: _Chunk) -> tuple[ir.Value, ir.Value, ir.Value]:
        """What the offsets of a tile's rows count from, their table, and the length of a run."""
        e, left = self._e, self._left
        memory, rows = left.memory, self._distances
        if left.grid is not None:
            for k, place in enumerate(left.grid.places(e, row, max(self._plan.split.sizes))):
                e.store(place, rows, e.index_dtype, k)
        elif left.step is None:
            rows = self._at_index(rows, row)
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

    def _tile_rows(self, number: ir.Value) -> ir.Value:
        """How many rows the tile of a number has."""
        e, split = self._e, self._plan.split
        if len(split.sizes) == 1:
            return e.number(split.sizes[0])
        if split.is_open:
            begin, end = (e.builder.mul(each, e.number(split.size))
                          for each in (number, e.builder.add(number, e.number(1))))
            if split.sooner:
                begin, end = self._sooner(begin), self._sooner(end)
            return e.builder.sub(e.intrinsic("smin", end, e.number(split.total)), begin)
        larger, smaller = split.sizes
        return e.select(self._is_larger(number), e.number(larger), e.number(smaller))

    def _is_larger(self, number: ir.Value) -> ir.Value:
        return self._e.builder.icmp_signed("<", number, self._e.number(self._plan.split.larger))

    def _call(self, tile: Tile, call: Call, number: ir.Value, rows: ir.Value) -> None:
        """Calls the tile of the size that a number has; where the columns of the last panel are open, and a vector less
        holds them, one that is narrower by that."""
        e = self._e
        if not tile.is_partial or not is_length(self._plan.columns):
            self._call_whole(tile, call, number, rows)
            return
        narrow = replace(tile, vectors=tile.vectors - 1)
        is_narrow = e.builder.icmp_signed("<=", call.columns, e.number(narrow.columns))
        with e.builder.if_else(is_narrow) as (then, otherwise):
            with then:
                self._call_narrow(narrow, call, number, rows)
            with otherwise:
                self._call_whole(tile, call, number, rows)

    def _call_whole(self, tile: Tile, call: Call, number: ir.Value, rows: ir.Value) -> None:
        e, split = self._e, self._plan.split
        if len(split.sizes) == 1:
            call_tile(e, tile, call)
        elif split.is_open:
            call_tiles(e, tile, split.fewer, replace(call, count=rows))
        else:
            with e.builder.if_else(self._is_larger(number)) as (then, otherwise):
                with then:
                    call_tile(e, tile, call)
                with otherwise:
                    call_tile(e, replace(tile, rows=split.sizes[1]), call)

    def _call_narrow(self, tile: Tile, call: Call, number: ir.Value, rows: ir.Value) -> None:
        """As `_call_whole`, with tiles for what is left alone where the number of rows is open."""
        split = self._plan.split
        if split.is_open:
            sizes = narrow_sizes(self._e.target, split.size, tile.vectors)
            call_smallest(self._e, tile, sizes, replace(call, count=rows))
        else:
            self._call_whole(tile, call, number, rows)

    def _at(self, base: ir.Value, index: ir.Value, distance: int) -> ir.Value:
        """The address `index` times `distance` bytes behind another."""
        return self._e.address(base, I8, self._e.builder.mul(index, self._e.number(distance)))

    def _at_index(self, table: ir.Value, number: ir.Value) -> ir.Value:
        """The address of an index in a table."""
        return self._at(table, number, self._e.index_dtype.numpy.itemsize)

    def _fresh(self, block: Block, number: ir.Value) -> Block:
        """What the tile of a number has beyond the one before it: results are passed on once."""
        e, b, split = self._e, self._e.builder, self._plan.split
        if not split.overlaps:
            return block
        again = b.sub(b.mul(number, e.number(split.size)), block.row)
        rows = e.register(e.bounded(b.sub(block.rows, again), split.size))
        return replace(block, memory=self._at(block.memory, again, block.step * WORD), row=b.add(block.row, again),
                       rows=rows)

    @property
    def _epilogue(self) -> AbstractContextManager[None]:
        """Where what follows on a tile is written: apart, if it is long and the number of rows is open, so that layers
        differ in little but what they are given."""
        return taken_out(self._e, "epilogue", _LONG) if self._plan.split.is_open else nullcontext()

    def _pass_on(self, result: Collected | Filtered, block: Block) -> None:
        """Passes the results of a tile, which lie in scratch memory, on as a block, or row by row and one by one."""
        e, kind = self._e, self._plan.arithmetic.total
        if isinstance(result, Collected):
            result.take(e, block)
            return
        with self._epilogue, rolled(e, block.rows) as k:
            begin = self._at(block.memory, k, block.step * WORD)
            row = e.builder.add(block.row, k)
            with independent(e, block.columns, self._plan.lanes) as column:
                value = e.builder.load(e.address(begin, kind, column), typ=kind)
                result.put(e, row, e.builder.add(block.column, column), value)
