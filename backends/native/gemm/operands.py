"""What a product reads and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, POINTER, Emitter
from circlet.backends.native.emit.loops import independent, rolled_nest
from circlet.backends.native.gemm.finish import Finish
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.storage import Stored
from circlet.backends.native.gemm.tiling import Split
from circlet.runtime.ir.length import is_known, is_open, may_differ
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass

Put: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value], None]
"""Takes a result: its row, its column, the value."""


def table(e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """A short table of indices as part of the code."""
    return _part_of_code(e, f"table_{'_'.join(map(str, numbers))}", e.index, numbers)


def words(e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """A short table of i32 as part of the code."""
    return _part_of_code(e, f"words_{'_'.join(map(str, numbers))}", I32, numbers)


def _part_of_code(e: Emitter, name: str, each: ir.IntType, numbers: Sequence[int]) -> ir.Value:
    found = e.module.globals.get(name)
    if found is None:
        kind = ir.ArrayType(each, len(numbers))
        found = ir.GlobalVariable(e.module, kind, name)
        found.linkage, found.global_constant, found.initializer = "internal", True, ir.Constant(kind, list(numbers))
    return found


@dataclass(frozen=True)
class Grid:
    """Places in row-major order of a shape, with the distance of two places along each axis, in bytes."""

    shape: Shape
    steps: Shape

    @classmethod
    def of(cls, shape: Shape, steps: Shape) -> Grid:
        """With as few axes as can be: those along which nothing moves are left out, and two are one if no place tells
        them apart."""
        kept: list[tuple[int, int]] = []
        for size, step in zip(shape, steps, strict=True):
            if kept and not may_differ(kept[-1][1], size * step):
                kept[-1] = kept[-1][0] * size, step
            elif not is_known(size, 1):
                kept.append((size, step))
        kept = kept or [(1, 0)]
        return cls(tuple(size for size, _ in kept), tuple(step for _, step in kept))

    def places(self, e: Emitter, first: ir.Value, count: int) -> Iterator[ir.Value]:
        """How far so many places are from that of number 0, from one on: each follows from the one before it, along
        the last two axes; it may be beyond the grid."""
        b, index = e.builder, e.delinear(first, self.shape)
        place = self._place(e, index)
        yield place
        for k in range(1, count):
            if len(self.shape) > 2:
                yield self._place(e, e.delinear(b.add(first, e.number(k)), self.shape))
                continue
            last = b.add(index[-1], e.number(1))
            is_over = b.icmp_signed("==", last, e.number(self.shape[-1]))
            back = self.steps[0] - (self.shape[-1] - 1) * self.steps[-1]
            place = b.add(place, e.select(is_over, e.number(back), e.number(self.steps[-1])))
            index = (*index[:-1], e.select(is_over, e.number(0), last))
            yield place

    def write(self, e: Emitter, memory: ir.Value) -> None:
        """Writes how far each place is from the first one, indices: loops over all axes but the last, along which a
        function goes."""
        function = _run(e)
        with rolled_nest(e, self.shape[:-1]) as index:
            at = e.linear([*index, e.number(0)], self.shape)
            e.builder.call(function, [e.address(memory, e.index, at), e.number(self.shape[-1]),
                                      self._place(e, index), e.number(self.steps[-1])])

    def _place(self, e: Emitter, index: Sequence[ir.Value]) -> ir.Value:
        """How far an index, or the first one that begins so, is from the first one."""
        total: ir.Value = e.number(0)
        for each, step in zip(index, self.steps, strict=False):
            total = e.builder.add(total, e.builder.mul(each, e.number(step)))
        return total


def _run(e: Emitter) -> ir.Function:
    """The function that writes indices at equal distances: given where to, how many, the first one, the distance."""
    name = "write_places"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, e.index, e.index, e.index], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    b, (memory, count, first, step) = inner.builder, function.args
    with independent(inner, count) as k:
        inner.store(b.add(first, b.mul(k, step)), memory, inner.index_dtype, k)
    b.ret_void()
    return function


@dataclass(frozen=True, eq=False)
class Left:
    """Rows in memory; distances in bytes.

    Attributes:
        memory: what the offsets of rows count from.
        rows: a table of where rows begin, indices; None where that follows from `step` in this run, or from `grid`.
        step: the distance of two rows if all distances are equal; the table is then as long as a tile.
        run: the length of a row, or of each tap.
        taps: a table of where each tap begins in a row, indices, and how many there are.
        grid: where rows begin, if that is computed for each tile.
    """

    memory: ir.Value
    rows: ir.Value | None
    step: int | None
    run: int
    taps: tuple[ir.Value, int] | None = None
    grid: Grid | None = None

    @classmethod
    def even(cls, e: Emitter, split: Split, memory: ir.Value, step: int, run: int) -> Left:
        """Rows at equal distances."""
        distances = [k * step for k in range(max(split.sizes, default=0))]
        return cls(memory, None if is_open(distances) else table(e, distances), step, run)


@dataclass(frozen=True, eq=False)
class Panels:
    """The right factor; distances in bytes.

    Attributes:
        memory: the first panel.
        distance: the distance of two panels.
        step: the distance of two steps of the depth in a panel.
        is_packed: whether panels lie one after the other, the last one filled up.
        is_compact: whether the last one is not, but has steps of `Plan.last_columns`.
        words: scratch memory where a tile leaves a part of a panel as words, for others.
        is_near: whether they are in the cache.
        stored: how it is kept, if not as words.
        units: where the scales are of what is stored as it was quantised.
        units_distance: the distance of those of two panels.
    """

    memory: ir.Value
    distance: int
    step: int
    is_packed: bool = True
    stored: Stored | None = None
    units: ir.Value | None = None
    units_distance: int = 0
    is_compact: bool = False
    words: ir.Value | None = None
    is_near: bool = False


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
    columns: int | ir.Value


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
"""Where the results of a product go."""
