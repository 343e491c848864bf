"""What a product reads and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.gemm.microkernel import Finish
from circlet.backends.native.gemm.tiling import Split
from circlet.runtime.ir.length import is_open
from circlet.runtime.records import dataclass

Put: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value], None]
"""Takes a result: its row, its column, the value."""


def table(e: Emitter, numbers: Sequence[int]) -> ir.Value:
    """A short table of indices as part of the code."""
    name = f"table_{'_'.join(map(str, numbers))}"
    found = e.module.globals.get(name)
    if found is None:
        kind = ir.ArrayType(e.index, len(numbers))
        found = ir.GlobalVariable(e.module, kind, name)
        found.linkage, found.global_constant, found.initializer = "internal", True, ir.Constant(kind, list(numbers))
    return found


@dataclass(frozen=True, eq=False)
class Left:
    """Rows in memory; distances in bytes.

    Attributes:
        memory: what the offsets of rows count from.
        rows: a table of where rows begin, indices; None where that follows from `step` in this run.
        step: the distance of two rows if all distances are equal; the table is then as long as a tile.
        run: the length of a row, or of each tap.
        taps: a table of where each tap begins in a row, indices, and how many there are.
    """

    memory: ir.Value
    rows: ir.Value | None
    step: int | None
    run: int
    taps: tuple[ir.Value, int] | None = None

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
"""Where the results of a product go."""
