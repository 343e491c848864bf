"""How the rows and columns of a product are cut into register tiles and panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlet.backends.native.gemm.microkernel import Arithmetic, chains, lanes
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.ir.length import certain, divisor, is_length, may_differ
from circlet.runtime.records import dataclass, replace

_SPLIT = 1.05
"""How much longer a product takes if two panels share lines of the result: an estimate, which decides between widths
that are otherwise as good. Of 1.0 to 1.3 all are within 1 % for five shapes, on AVX2 and AVX-512."""
_SIZES = 1.02
"""How much longer a product may take whose tiles are of one size instead of two, each of which is a function: a choice,
little beside what compiling one takes."""
TYPICAL = 64
"""What an open number of rows is taken for, about, where the shape of tiles is chosen: some tiles, none of them by
itself. It is taken for its fixed factor where that is as large."""
_FEWER = 1.1
"""How much longer a tile may take than one with as many rows as there are, where their number is open: a choice, for
which hardly any function less is compiled. Small batches are nothing but the rows that are left: with 1.25 an LSTM of
256 units takes 15 % longer for four."""
_OPEN_VECTORS = 2
"""The width of panels, in vectors, where the number of columns is open; tiles of the last one are narrower where that
is enough. Attention of 50 to 128 rows with a depth of 32 takes up to 6 % longer than with known lengths, on AVX-512, of
7 rows 10 %; with 1 it was up to 17 %; with 4 products of few columns took up to 59 % longer."""


@dataclass(frozen=True)
class Split:
    """A count in parts: `larger` ones of `size + 1`, then parts of `size`. Where they overlap, the last part begins so
    early that it ends with the total; else that of an open count is what is left."""

    parts: int
    size: int
    larger: int
    total: int
    fewer: tuple[int, ...] = ()
    """The sizes that an open count's last part may have, the largest one first, where that is what is left."""
    overlaps: bool = False
    """Whether the last part may have some of what the one before it has."""

    @classmethod
    def of(cls, total: int, largest: int) -> Split:
        """As few parts as possible, none of which exceeds `largest`; their sizes differ by one at most. Parts of an
        open count are of a size that divides it, where that can be."""
        if is_length(total):
            size = largest if is_length(largest) else next((
                each for each in range(largest, largest * 3 // 4, -1) if not divisor(total) % each), largest)
            return cls(-(-total // size), size, 0, total)
        parts = -(-total // largest)
        return cls(parts, total // max(parts, 1), total % max(parts, 1), total)

    @classmethod
    def whole(cls, total: int) -> Split:
        """One part, which may be of nothing."""
        return cls(1, total, 0, total)

    @classmethod
    def even(cls, total: int, size: int) -> Split:
        """Parts of one size, at most the total; the last one begins so early that it ends with the total."""
        parts = -(-total // size)
        return cls(parts, size, 0, total, overlaps=may_differ(parts * size, total))

    @property
    def is_open(self) -> bool:
        """Whether the size of the last part differs from run to run."""
        return is_length(self.total)

    @property
    def sooner(self) -> int:
        """By how much the last part of an open count begins sooner where it would have a size of 1, which takes longer
        than its share: it has to read the panel, which does not fit into the first cache."""
        return 0 if not self.fewer or self.overlaps else self.size - -(-(self.size + 1) // 2)

    @property
    def apart(self) -> Split:
        """The same in parts that do not overlap, none of them larger."""
        if self.overlaps and self.is_open:
            return replace(self, overlaps=False)
        return Split.of(self.total, self.size) if self.overlaps else self

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that tiles have, the larger one first."""
        if self.is_open:
            return (self.size,) if self.overlaps else (self.size, *self.fewer)
        return tuple(size for size, count in self._counted if count)

    @property
    def _counted(self) -> tuple[tuple[int, int], ...]:
        """Sizes of parts, and how many parts have them."""
        return (self.size + 1, self.larger), (self.size, self.parts - self.larger)

    def cost(self, vectors: int, chains: int) -> float:
        """How long tiles of so many rows take, of a width in vectors."""
        steps = sum(count * _step_cost(size, vectors, chains) + count for size, count in self._counted)
        return steps * _SIZES if self.larger else steps


def _step_cost(rows: int, vectors: int, chains: int) -> int:
    """How long a step of a tile takes. By a model of ours, that is as long as its multiplications, its loads or, if the
    tile is small, the time until a sum can be added to again, at two instructions a cycle; less of it where a tile has
    several sums of each element."""
    return max(rows * vectors, rows + vectors, chains)


_FEWER_NARROW = 1.5
"""The same for tiles of the last panel alone, which are called less often: a choice. They take an encoder, compiled in
0.37 s without them, 0.02 s; with 1.1 twice that."""
_READ_ONCE = 8
"""Rows for which, of widths of panels that are otherwise as good, the one is better with which panels are read fewer
times. On AVX2, 4 and 8 rows by 256 x 256 take 0.85 of the time, by 512 x 512 0.73. With less, what follows on a tile
counts, which narrow ones are followed by more often: networks of 32 to 128 GRUs would take 1.1 to 1.2 of it. For more
rows it would decide on other processors alone. On AVX-512, for eight rows, it was not measured."""


def _fewer_rows(target: Target, largest: int, vectors: int, longer: float = _FEWER) -> Iterator[int]:
    """Sizes of tiles for fewer rows than the largest one has: each is for as many as take up to so many times as long,
    and are summed up in the same order."""

    def kind(rows: int) -> tuple[float, int]:
        sums = chains(target, rows, vectors)
        return _step_cost(rows, vectors, -(-target.tiles.chains // sums)), sums

    cost, order = kind(largest)
    for rows in range(largest - 1, 0, -1):
        least, own = kind(rows)
        if rows == largest - 1 or own != order or cost > least * longer:
            cost, order = least, own
            yield rows


def narrow_sizes(target: Target, most: int, vectors: int) -> tuple[int, ...]:
    """The rows of tiles of the last panel that have a width, in vectors, for up to so many rows, the largest first."""
    return tuple(_fewer_rows(target, most + 1, vectors, _FEWER_NARROW))


_FEW = 4
"""Rows up to which tiles of matrices, which take as long for one as for all, take longer than others: 8 by 256 x 256
take 0.9 of the time, 4 1.1 times as long, 1 by 512 x 512 1.5 times."""
_FILLED = 64
"""Columns for each that may be filled up where constants are to be small: a choice, 1.5 % of the weights."""


def _most_rows(target: Target, vectors: int, arithmetic: Arithmetic) -> int:
    """The rows of the largest tile of a width, in vectors, that fits into the registers: sums take `tiles.share` of
    them, the panel's vectors, the broadcast word and what the arithmetic needs the others."""
    if arithmetic.rows is not None:
        return arithmetic.rows
    most, whole = target.tiles.share
    is_real = arithmetic.is_real
    registers = target.real_registers if is_real else target.vector_registers
    rows = (is_real and target.tiles.real_rows) or target.tiles.most_rows
    sums = min(registers * most // whole, registers - vectors - 1 - arithmetic.spare)
    return max(min(sums // vectors, rows), 1)


def split_rows(target: Target, rows: int, vectors: int, arithmetic: Arithmetic) -> Split:
    """So many rows in tiles of a width, in vectors: of one size, so that one function does, where that takes hardly any
    longer than sizes that differ by one. How small tiles sum up stays as it is."""
    most, wanted = _most_rows(target, vectors, arithmetic), target.tiles.chains
    if arithmetic.rows is not None:
        return _split_whole(target, rows, most, vectors)
    found = Split.of(rows, most)
    sizes = range(most, -(-wanted // vectors) - 1, -1)
    if found.is_open:
        return _split_open(target, found, vectors, sizes if certain(rows, ">=", most) else ())
    if not found.larger or found.size * vectors < wanted:
        return found
    return min(found, *(Split.even(rows, each) for each in sizes), key=lambda each: each.cost(vectors, wanted))


def _split_whole(target: Target, rows: int, size: int, vectors: int) -> Split:
    """Rows in tiles that take as long for fewer, but for a few, which are multiplied otherwise."""
    if not is_length(rows):
        return Split.even(rows, min(size, rows))
    if not divisor(rows) % size:
        return Split.even(rows, size)
    fewer = size, *_fewer_rows(target, _FEW + 1, vectors)
    return replace(Split.even(rows, size), overlaps=bool(certain(rows, ">=", size)), fewer=fewer)


def _split_open(target: Target, found: Split, vectors: int, sizes: Sequence[int]) -> Split:
    """An open number of rows: in tiles of one of some sizes, which overlap, where there are always as many rows as the
    largest one has, so that one function does; else as it was found, with tiles for what is left."""
    if not divisor(found.total) % found.size:
        return found
    rows, wanted = _typical(found.total), target.tiles.chains
    size = min(sizes, key=lambda each: Split.even(rows, each).cost(vectors, wanted), default=found.size)
    split = Split.even(found.total, size) if sizes else found
    return replace(split, fewer=tuple(_fewer_rows(target, size, vectors))) if divisor(found.total) % size else split


def _typical(rows: int) -> int:
    """What a number of rows, if it is open, is taken for where the shape of tiles is chosen."""
    least = max(divisor(rows), 1)
    return max(TYPICAL // least, 1) * least if is_length(rows) else rows


def panel_vectors(target: Target, rows: int, columns: int, arithmetic: Arithmetic, is_far: bool = False) -> int:
    """The width of panels, in vectors, that is best for a product of so many rows and columns: up to 4 vectors or, for
    one row, half of the registers. Of widths that are as good, that with which a few rows read panels fewer times, if
    these are far from the processor. Where constants are to be small, hardly any of what the last panel is filled up
    with counts."""
    if is_length(columns):
        return _OPEN_VECTORS
    rows = _typical(rows)
    needed = max(-(-columns // lanes(target)), 1)

    def cost(vectors: int) -> tuple[float, int]:
        panels, split = -(-needed // vectors), split_rows(target, rows, vectors, arithmetic)
        splits_lines = panels > 1 and vectors * target.vector_bytes % target.tiles.line_bytes
        times = split.parts if is_far and rows <= _READ_ONCE else 0
        return panels * split.cost(vectors, target.tiles.chains) * (_SPLIT if splits_lines else 1), times

    widest = min(needed, target.vector_registers // 2 if rows == 1 else 4)
    widths: Sequence[int] = range(widest, 0, -1)
    if target.goal is not Goal.HERE:
        widths = [each for each in widths if -needed % each * _FILLED <= needed]
    return min(widths, key=cost)
