"""How a product is cut: register tiles of rows, packed panels of columns, parts of the depth that stay in caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.gemm.microkernel import Arithmetic, lanes
from circlet.backends.native.gemm.operands import Panels
from circlet.backends.native.gemm.storage import Stored
from circlet.backends.native.gemm.tiling import Split, panel_vectors, split_rows
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.targets.target import Target
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.length import is_known, is_late, is_length, is_open, smaller
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.records import dataclass

CACHE = 1 << 18
"""Bytes of rows that are multiplied by one panel after the other, so that they stay in the second-level cache: half of
one of 512 KB. Not critical with one of 1 MB: 32 KB to 4 MB are within 2 % for products of 256 to 1024 rows."""
CHUNK = 3 << 17
"""Bytes of a panel that several tiles read one after the other, 384 KB. Not critical with a second-level cache of 1 MB:
from 32 KB to 1 MB all are within 3 %; 16 KB is 4 % slower for 1024 x 1024 x 1024 on AVX-512."""
DEPTH = 1 << 10
"""Steps that are summed up one after the other, so that long sums lose less. 128 to 4096 are within 3 %."""
LARGE = 1 << 21
"""Bytes of a right factor whose panels tiles fetch; such tiles are functions of their own. With 9.4 MB, it makes 4 rows
25 to 40 % faster, 50 rows 10 to 20 %, one row none, on AVX2 and AVX-512. What fits into the second-level cache, 2 MB at
the most, may be there still: with 1.6 MB a loop that multiplies by it again and again takes up to 40 % longer."""
OPEN_ROWS = 128
"""Rows of a block where a length is open, at most."""
FEWEST_ROWS = 128
"""Rows that share the reading of a panel even beyond the cache. With 9.4 MB of panels and 2 MB of second-level cache,
49 and 196 rows take up to 20 % longer with 48; 128 and 192 are within 1 %."""
SHALLOW = 64
"""Steps up to which blocks of a known number of columns have no more rows than leave their results in the cache. Four
products of 1601 x 8 x 1601 take a third to a fifth of the time then, with 64 steps, too, less than half; one of 512 x
128 x 3072 would take 5 % longer."""

_WAY = 1 << 10
"""Bytes, multiples of which are as far apart as a few sets of a first-level cache: of columns that lie so far apart, a
panel's would put each other out of it."""
_PANELS, _STEPS = 4, 128
"""Panels and steps of their depth that are copied at one time: a choice, what the second-level cache has room for."""

Allocate: TypeAlias = Callable[[Shape, np.dtype[np.generic]], Array]


@dataclass(frozen=True)
class Group:
    """Panels of which equally many columns count."""

    first: int
    count: int
    columns: int

    def is_partial(self, panel: int) -> bool:
        """Whether they may be less than a whole panel."""
        return is_length(self.columns) or self.columns < panel


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
        is_far = not is_open((columns, depth)) and columns * depth * WORD >= CACHE
        vectors = panel_vectors(target, rows, columns, arithmetic, is_far)
        return cls(arithmetic, rows, columns, depth, lanes(target), vectors,
                   split_rows(target, rows, vectors, arithmetic))

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """How many panels there are."""
        return -(-self.columns // self.panel)

    @property
    def last_columns(self) -> int:
        """Columns that the last panel needs to have in memory so that each vector of them is loaded by an instruction:
        what is no whole vector is filled up to a power of two."""
        if is_length(self.columns):
            return self.panel
        whole, rest = divmod((self.columns - 1) % self.panel + 1, self.lanes)
        return whole * self.lanes + (1 << (rest - 1).bit_length() if rest else 0)

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
        if is_length(self.columns):
            return Group(0, full, self.panel), Group(full, smaller(rest, 1), rest)
        return tuple(each for each in (Group(0, full, self.panel), Group(full, min(rest, 1), rest)) if each.count)

    @property
    def block(self) -> int:
        """Tiles of rows that one panel after the other is applied to; at most, where the number of columns is open."""
        if is_open((self.rows, self.columns, self.depth)):
            return max(min(OPEN_ROWS, self._lasting_rows) // self.split.size, 1)
        depth = self.depth // max(self.chunks(self.depth).parts, 1)
        rows = max(CACHE // max((depth + self.columns) * WORD, 1), min(FEWEST_ROWS, self._lasting_rows))
        blocks = -(-self.rows // rows)
        return -(-self.split.parts // max(blocks, 1))

    @property
    def _lasting_rows(self) -> int:
        """Rows whose results stay in the second-level cache until the next panel adds to their lines, where panels are
        read again for so few in no time; else more than blocks have."""
        if is_open((self.columns, self.depth)) or self.depth > SHALLOW or self.columns * self.depth * WORD >= LARGE:
            return max(OPEN_ROWS, FEWEST_ROWS)
        return CACHE // max(self.columns * WORD, 1)

    def chunks(self, units: int) -> Split:
        """The depth, given in units, in parts: what several tiles read of a panel stays in the cache, and no sum is so
        long that much is lost."""
        if self.arithmetic.around is not None:
            return Split.whole(units)  # all parts have what is written around tiles in common
        if is_length(self.depth):
            parts = 1 if is_late(self.depth) or self.depth <= DEPTH else -(-self.depth // DEPTH)
            return Split.whole(units) if parts == 1 else Split.of(units, -(-units // parts))
        is_read_again = self.split.is_open or self.split.parts > 1
        parts = max(-(-self.depth // DEPTH), -(-self.panel_bytes // CHUNK) if is_read_again else 1, 1)
        return Split.of(units, max(-(-units // parts), 1))

    @property
    def fetches(self) -> bool:
        """Whether tiles fetch what they read next of the right factor, since it is too large to stay in the cache."""
        if is_open((self.columns, self.depth)) or is_known(self.rows, 1):
            return False
        return self.panels * self.panel_bytes >= LARGE

    def pack(self, matrix: Array, allocate: Allocate = allocate) -> Array:
        """A right factor of shape (columns, depth), of words, as (panels, depth, columns of a panel)."""
        packed = allocate((self.panels, self.depth, self.panel), matrix.dtype)
        full = self.columns // self.panel
        _turn(matrix[:full * self.panel].reshape(full, self.panel, self.depth), packed[:full])
        if full < self.panels:
            rest = matrix[full * self.panel:]
            packed[full, :, :len(rest)] = rest.T
            packed[full, :, len(rest):] = 0
        return packed

    def pack_compact(self, matrix: Array) -> Array:
        """As `pack`, but for the last panel, which has steps of `last_columns`."""
        full = matrix[:self.columns // self.panel * self.panel]
        panels = full.reshape(-1, self.panel, self.depth).transpose(0, 2, 1)
        rest = np.pad(matrix[len(full):], ((0, self.last_columns - (len(matrix) - len(full))), (0, 0)))
        return np.concatenate([panels.reshape(-1), rest.T.reshape(-1)])

    def pack_row(self, row: Array | None, dtype: np.dtype[np.generic]) -> Array:
        """An element for each column, zeros if there are none, filled up to whole panels."""
        packed = allocate((self.panels * self.panel,), dtype)
        packed[:] = 0
        if row is not None:
            packed[:self.columns] = row.reshape(-1)
        return packed

    def packed(self, memory: ir.Value, stored: Stored | None = None, units: ir.Value | None = None,
               units_distance: int = 0) -> Panels:
        """Where the panels of a packed factor are; see `Panels`."""
        step = self.panel * WORD if stored is None else stored.step_bytes(self.panel)
        return Panels(memory, self.depth * step, step, True, stored, units, units_distance)


def _turn(columns: Array, packed: Array) -> None:
    """Copies panels of columns, as (panels, columns, depth), to (panels, depth, columns): three times as fast by way of
    parts that lie together, where what is read for one step lies far apart."""
    if columns.strides[1] % _WAY:
        packed[:] = columns.transpose(0, 2, 1)
        return
    for first in range(0, len(columns), _PANELS):
        for step in range(0, columns.shape[2], _STEPS):
            part = columns[first:first + _PANELS, :, step:step + _STEPS].copy()
            packed[first:first + _PANELS, step:step + _STEPS] = part.transpose(0, 2, 1)
