"""The loops around register tiles: a whole product of a left factor of rows and a packed right factor of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emitter import I8, I64, Emitter
from circlet.backends.native.loops import independent, rolled
from circlet.backends.native.microkernel import (
    WORD,
    Arithmetic,
    Call,
    Split,
    Tile,
    call_tile,
    lanes,
    most_rows,
    panel_vectors,
)
from circlet.backends.native.target import Target
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array

CACHE = 1 << 20
"""Bytes of rows that are multiplied by one panel after the other, so that they stay in the second-level cache."""
FEWEST_ROWS = 128
"""Rows that share the reading of a panel even if they exceed the cache."""

Put: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value], None]
"""Takes a result: its row, its column, the value."""


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
        last: the last panel, if it is not full and lies elsewhere.
    """

    memory: ir.Value
    distance: int
    step: int
    last: Panels | None = None


@dataclass(frozen=True, eq=False)
class Direct:
    """Results are written to memory.

    Attributes:
        memory: where they begin.
        step: the distance of two rows in bytes.
        limits: the interval that they are limited to.
        adds: whether they are added to what is there; then whole panels may be read.
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
    """Results are passed on tile by tile; `scratch`, of `Plan.tile_bytes`, holds them."""

    scratch: ir.Value
    take: Callable[[Emitter, Block], None]


@dataclass(frozen=True, eq=False)
class Filtered:
    """Results are passed on one by one; `scratch`, of `Plan.tile_bytes`, holds those of a tile."""

    scratch: ir.Value
    put: Put


Result: TypeAlias = "Direct | Collected | Filtered"


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
        vectors = panel_vectors(target, rows, columns)
        return cls(arithmetic, rows, columns, depth, lanes(target), vectors,
                   Split.of(rows, most_rows(target, vectors)))

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
        """Of the results of a tile."""
        return max(self.split.sizes, default=0) * self.panel * WORD

    @property
    def groups(self) -> tuple[Group, ...]:
        """The full panels, and the last one if it is not full."""
        full, rest = divmod(self.columns, self.panel)
        return tuple(each for each in (Group(0, full, self.panel), Group(full, min(rest, 1), rest)) if each.count)

    @property
    def block(self) -> int:
        """Tiles of rows that one panel after the other is applied to."""
        rows = max(CACHE // max((self.depth + self.columns) * WORD, 1), FEWEST_ROWS)
        blocks = -(-self.rows // rows)
        return -(-self.split.parts // max(blocks, 1))

    def pack(self, matrix: Array) -> Array:
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
        right: the panels, the last of them filled up.
        start: what the sums of each column begin with, for whole panels.
        result: where the results go.
    """
    if plan.rows and plan.columns:
        _Nest(e, plan, left, right, start, result).emit()


class _Nest:
    def __init__(self, e: Emitter, plan: Plan, left: Left, right: Panels, start: ir.Value,
                 result: Result) -> None:
        self._e = e
        self._plan = plan
        self._left = left
        self._right = right
        self._start = start
        self._result = result

    def emit(self) -> None:
        for group in self._plan.groups:
            with self._blocks() as (first, count), rolled(self._e, group.count) as number:
                panel = self._e.builder.add(number, self._e.number(group.first))
                with rolled(self._e, count) as k:
                    self._tile(group, panel, self._e.builder.add(first, k))

    @contextmanager
    def _blocks(self) -> Iterator[tuple[ir.Value, ir.Value | int]]:
        """A loop over blocks of tiles; gives the first tile and how many there are."""
        e, total, block = self._e, self._plan.split.parts, self._plan.block
        if block >= total:
            yield e.number(0), total
            return
        with rolled(e, -(-total // block)) as number:
            first = e.builder.mul(number, e.number(block))
            left = e.builder.sub(e.number(total), first)
            yield first, e.intrinsic("smin", left, e.number(block))

    def _tile(self, group: Group, panel: ir.Value, number: ir.Value) -> None:
        """One tile and what becomes of its results."""
        e, split = self._e, self._plan.split
        row = e.builder.mul(number, e.number(split.size))
        if split.larger:
            row = e.builder.add(row, e.intrinsic("smin", number, e.number(split.larger)))
        sizes = split.sizes
        is_larger = e.builder.icmp_signed("<", number, e.number(split.larger))
        if len(sizes) == 1:
            self._call(group, panel, row, sizes[0])
        else:
            with e.builder.if_else(is_larger) as (then, otherwise):
                with then:
                    self._call(group, panel, row, sizes[0])
                with otherwise:
                    self._call(group, panel, row, sizes[1])
        if not isinstance(self._result, Direct):
            rows = e.number(sizes[0]) if len(sizes) == 1 else e.select(is_larger, *map(e.number, sizes))
            column = e.builder.mul(panel, e.number(self._plan.panel))
            self._pass_on(self._result, Block(self._result.scratch, self._plan.panel, row, rows, column, group.columns))

    def _call(self, group: Group, panel: ir.Value, row: ir.Value, rows: int) -> None:
        e, plan, left, result = self._e, self._plan, self._left, self._result
        column = e.builder.mul(panel, e.number(plan.panel))
        is_full = group.columns == plan.panel
        right = self._right if is_full or self._right.last is None else self._right.last
        is_partial = isinstance(result, Direct) and not is_full
        limits = result.limits if isinstance(result, Direct) else None
        tile = Tile(plan.arithmetic, rows, plan.vectors, plan.lanes, left.taps is not None, limits is not None,
                    is_partial)
        if isinstance(result, Direct):
            out, out_step = self._at(self._at(result.memory, row, result.step), column, WORD), result.step
            adds = result.adds
        else:
            out, out_step, adds = result.scratch, plan.panel * WORD, False
        call_tile(e, tile, Call(
            left=left.memory if left.step is None else self._at(left.memory, row, left.step),
            rows=self._at(left.rows, row, 8) if left.step is None else left.rows,
            run=e.number(left.run),
            right=self._at(right.memory, panel, right.distance),
            right_step=e.number(right.step),
            start=out if adds else self._at(self._start, column, WORD),
            start_step=e.number(out_step if adds else 0),
            out=out,
            out_step=e.number(out_step),
            taps=None if left.taps is None else (left.taps[0], e.number(left.taps[1])),
            limits=limits,
            columns=e.number(group.columns) if is_partial else None,
        ))

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
