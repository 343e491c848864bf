"""Products of a few rows with a right factor that is read where it lies.

Stored column by column it gives sums along two runs of memory, stored row by row a sum of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import FLOAT32, WORD, Vectors, broadcast
from circlet.backends.native.gemm.operands import Put
from circlet.backends.native.gemm.plan import Plan
from circlet.runtime.ir.length import is_length, may_differ, smaller

_COLUMNS = 4
"""Columns that are summed at a time, so that each vector of the row is loaded once for all of them. Of 1, 2, 4, 6 and 8
for 512 x 512: one row takes 12 to 18 microseconds with 1, 11 to 14 with 4, and four rows take 31 and 26 on AVX-512, 62
and 39 on AVX2; 6 and 8 gain 2 to 8 % more."""
_UNROLL = 2
"""Vectors of each that are loaded at a time. Of 1, 2 and 4 it is not critical on AVX2 (8 %); 4 is up to 10 % faster on
AVX-512."""
_STRIP = 1024
"""Columns whose sums are kept in the first-level cache, 4 KB of it, while rows are added to them. Of 128 to 4096 the
best for 512 x 4096 on AVX2 and within 1 % of it on AVX-512; with 128 it takes a third and a half longer."""
_ROWS = 8
"""Rows that are added at a time, so that sums are loaded and stored once for all. Of 1, 2, 4, 8 and 16 the best or
within 2 % of it for large matrices: 512 x 4096 takes a third to a half longer with 16, 18 to 54 % with 1."""
FLOAT = FLOAT32.total
"""The type of the sums."""
Load: TypeAlias = "Callable[[ir.Value], ir.Value]"
"""Loads elements side by side, given their address."""
Store: TypeAlias = "Callable[[ir.Value, ir.Value], None]"
"""Writes elements side by side, given them and their address."""


def multiply_few(e: Emitter, plan: Plan, left: ir.Value, right: ir.Value, bias: Value | None, put: Put) -> None:
    """Emits a product of float32 matrices (rows, depth) and (columns, depth), which gives (rows, columns).

    A loop over groups of `_COLUMNS` columns, shared out, and one over rows: `dots` sums in registers, the bias is
    added, and `put` gets each result. What is left of an open number of columns is summed column by column.
    """
    whole, rest = divmod(plan.columns, _COLUMNS)
    last = (whole * _COLUMNS, rest, 1) if is_length(rest) else (whole * _COLUMNS, min(rest, 1), rest)
    for first, count, width in ((0, whole, _COLUMNS), last):
        if not may_differ(count, 0):
            continue
        with parallel(e, count, 2 * plan.rows * plan.columns * plan.depth) as number, rolled(e, plan.rows) as row:
            begin = e.builder.add(e.builder.mul(number, e.number(width)), e.number(first))
            columns = [e.builder.add(begin, e.number(k)) for k in range(width)]
            one, *others = (e.address(memory, FLOAT, e.builder.mul(each, e.number(plan.depth)))
                            for memory, each in ((left, row), *((right, column) for column in columns)))
            for column, value in zip(columns, dots(e, one, others, plan.depth, plan.lanes), strict=True):
                put(e, row, column, value if bias is None else e.builder.fadd(value, bias.linear(e, column)))


def multiply_row(e: Emitter, plan: Plan, left: ir.Value, right: ir.Value, sums: ir.Value, put: Put) -> None:
    """Emits a product of float32 matrices (1, depth) and (depth, columns), which gives (1, columns), with memory for
    the sums of all columns.

    A loop over strips of columns, shared out: the rows of the right factor are added to the strip's sums, which lie in
    the first-level cache; then `put` gets each of them. So the right factor is read in the order in which it lies.
    """
    whole, rest = divmod(plan.columns, _STRIP)
    for first, count, width in ((0, whole, _STRIP), (whole, smaller(rest, 1), rest)):
        if not may_differ(count, 0):
            continue
        with parallel(e, count, 2 * plan.columns * plan.depth * WORD) as number:
            begin = e.builder.mul(e.builder.add(number, e.number(first)), e.number(_STRIP))
            strip = e.address(sums, FLOAT, begin)
            _add_rows(e, plan, left, e.address(right, FLOAT, begin), strip, width)
            with independent(e, width, plan.lanes) as k:
                value = e.builder.load(e.address(strip, FLOAT, k), typ=FLOAT)
                put(e, e.number(0), e.builder.add(begin, k), value)


def _add_rows(e: Emitter, plan: Plan, left: ir.Value, right: ir.Value, sums: ir.Value, width: int) -> None:
    """Sums up the rows of a strip (depth, width) of a matrix, each times an element of the left factor, into `sums`
    (width,).

    A loop over `_ROWS` rows at a time, their factors in registers, and within it one over the vectors of the strip. The
    rows that are left come first; one by one, where their number is open.
    """
    b, vectors, step = e.builder, Vectors(e, FLOAT, plan.lanes), plan.columns

    def add(row: ir.Value, rows: int, is_first: bool = False) -> None:
        factors = [broadcast(e, b.load(e.address(left, FLOAT, b.add(row, e.number(k))), typ=FLOAT), plan.lanes)
                   for k in range(rows)]
        given = e.address(right, FLOAT, b.mul(row, e.number(step)))

        def strip(place: ir.Value, load: Load, store: Store) -> None:
            total = vectors.address(sums, place)
            value = vectors.splat(0) if is_first else load(total)
            for k, factor in enumerate(factors):
                value = e.intrinsic("fmuladd", factor, load(vectors.address(given, place, k * step * WORD)), value)
            store(value, total)

        _strips(e, vectors, width, strip)

    whole, first = divmod(plan.depth, _ROWS)
    if is_length(first):
        _strips(e, vectors, width, lambda place, load, store: store(vectors.splat(0), vectors.address(sums, place)))
        with rolled(e, first) as row:
            add(row, 1)
    else:
        whole, first = (whole, first) if first else (whole - 1, _ROWS)
        add(e.number(0), first, is_first=True)
    with rolled(e, whole) as number:
        add(b.add(b.mul(number, e.number(_ROWS)), e.number(first)), _ROWS)


def _strips(e: Emitter, vectors: Vectors, width: int, strip: Callable[[ir.Value, Load, Store], None]) -> None:
    """Calls `strip` for each vector of a strip, with the distance from the beginning, and what loads and stores the
    vector's elements; then for those that are no whole vector, if there may be any."""
    lanes = vectors.kind.count
    whole, rest = divmod(width, lanes)
    with rolled(e, whole) as number:
        strip(e.builder.mul(number, e.number(lanes * WORD)), vectors.load, vectors.store)
    if may_differ(rest, 0):
        count = e.number(rest)
        strip(e.number(whole * lanes * WORD), lambda place: vectors.load_some(place, count),
              lambda value, place: vectors.store_some(value, place, count))


def dots(e: Emitter, one: ir.Value, others: Sequence[ir.Value], count: int, lanes: int) -> list[ir.Value]:
    """The sums of the products of the elements of one run of memory, `count` floats, with those of each of some others.

    A loop loads `_UNROLL` vectors of each run and keeps a vector of sums for each of the others in a register; what is
    left over is loaded by masks.
    """
    vectors, b = Vectors(e, FLOAT, lanes), e.builder
    size = lanes * _UNROLL
    whole, rest = divmod(count, size)

    def load(base: ir.Value, begin: ir.Value, further: int, left: int) -> ir.Value:
        place = vectors.address(e.address(base, FLOAT, begin), further * WORD)
        return vectors.load_some(place, e.number(left)) if is_length(left) or left < lanes else vectors.load(place)

    def step(begin: ir.Value, sums: Sequence[ir.Value], left: int) -> list[ir.Value]:
        for further in range(0, size if is_length(left) else left, lanes):
            factor = load(one, begin, further, left - further)
            sums = [e.intrinsic("fmuladd", factor, load(each, begin, further, left - further), value)
                    for each, value in zip(others, sums, strict=True)]
        return list(sums)

    sums = carry(e, e.number(whole), [vectors.splat(0)] * len(others),
                 lambda number, sums: step(b.mul(number, e.number(size)), sums, size))
    sums = step(e.number(whole * size), sums, rest)
    return [_sum_of_lanes(e, each, lanes) for each in sums]


def _sum_of_lanes(e: Emitter, total: ir.Value, lanes: int) -> ir.Value:
    """By halves, as nothing but the number of lanes decides."""
    while lanes > 1:
        lanes //= 2
        low, high = (ir.Constant(ir.VectorType(I32, lanes), list(range(k, k + lanes))) for k in (0, lanes))
        total = e.builder.fadd(*(e.builder.shuffle_vector(total, total, each) for each in (low, high)))
    return e.builder.extract_element(total, I32(0))
