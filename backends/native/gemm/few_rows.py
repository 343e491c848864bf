"""Products of a few rows with a right factor that is read where it lies.

Stored column by column it gives sums along two runs of memory, stored row by row a sum of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, POINTER, Emitter
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.operands import Put
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.vectors import WORD, Vectors, broadcast
from circlet.runtime.ir.length import is_length, may_differ

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


def multiply_row(e: Emitter, plan: Plan, left: ir.Value, right: ir.Value, sums: ir.Value,
                 put: Put | None = None) -> None:
    """Emits a product of float32 matrices (1, depth) and (depth, columns), which gives (1, columns), with memory for
    the sums of all columns.

    A loop over strips of columns, shared out: the rows of the right factor are added to the strip's sums, which lie in
    the first-level cache; then `put`, if there is one, gets each of them. So the right factor is read in the order in
    which it lies.
    """
    columns = plan.columns
    with parallel(e, -(-columns // _STRIP), 2 * columns * plan.depth * WORD) as number:
        begin = e.builder.mul(number, e.number(_STRIP))
        width = columns if not is_length(columns) and columns <= _STRIP else e.intrinsic(
            "smin", e.builder.sub(e.number(columns), begin), e.number(_STRIP))
        strip = e.address(sums, FLOAT, begin)
        e.builder.call(_add_rows(e, plan.lanes), [
            left, e.address(right, FLOAT, begin), e.number(columns * WORD), strip, e.register(width),
            e.number(plan.depth)])
        if put is not None:
            with independent(e, width, plan.lanes) as k:
                value = e.builder.load(e.address(strip, FLOAT, k), typ=FLOAT)
                put(e, e.number(0), e.builder.add(begin, k), value)


def _add_rows(e: Emitter, lanes: int) -> ir.Function:
    """The function that sums up the rows of a strip, each times an element of the left factor: given these, the rows,
    their distance in bytes, where the sums go, how many columns and rows there are.

    A loop over `_ROWS` rows at a time, their factors in registers, and within it one over the vectors of the strip. The
    rows that are left come first, one by one.
    """
    name = f"add_rows_{lanes}"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, POINTER, e.index, POINTER, e.index, e.index], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    b, (left, right, step, sums, width, depth), vectors = inner.builder, function.args, Vectors(inner, FLOAT, lanes)

    def add(row: ir.Value, rows: int) -> None:
        factors = [broadcast(inner, b.load(inner.address(left, FLOAT, b.add(row, inner.number(k))), typ=FLOAT), lanes)
                   for k in range(rows)]
        given = [vectors.address(right, b.mul(b.add(row, inner.number(k)), step)) for k in range(rows)]

        def strip(place: ir.Value, load: Load, store: Store) -> None:
            total = vectors.address(sums, place)
            value = load(total)
            for factor, each in zip(factors, given, strict=True):
                value = inner.intrinsic("fmuladd", factor, load(vectors.address(each, place)), value)
            store(value, total)

        _strips(inner, vectors, width, strip)

    first = b.urem(depth, inner.number(_ROWS))
    _strips(inner, vectors, width, lambda place, load, store: store(vectors.splat(0), vectors.address(sums, place)))
    with rolled(inner, first) as row:
        add(row, 1)
    with rolled(inner, b.udiv(depth, inner.number(_ROWS))) as number:
        add(b.add(b.mul(number, inner.number(_ROWS)), first), _ROWS)
    b.ret_void()
    return function


def _strips(e: Emitter, vectors: Vectors, width: ir.Value, strip: Callable[[ir.Value, Load, Store], None]) -> None:
    """Calls `strip` for each vector of a strip, with the distance from the beginning, and what loads and stores the
    vector's elements; then for those that are no whole vector."""
    b, lanes = e.builder, e.number(vectors.kind.count)
    whole, rest = b.udiv(width, lanes), b.urem(width, lanes)
    with rolled(e, whole) as number:
        strip(b.mul(number, e.number(vectors.kind.count * WORD)), vectors.load, vectors.store)
    with b.if_then(b.icmp_signed("!=", rest, e.number(0))):
        there = vectors.first(rest)
        strip(b.mul(whole, e.number(vectors.kind.count * WORD)), lambda place: vectors.load_where(place, there),
              lambda value, place: vectors.store_where(value, place, there))


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
                 lambda number, sums: step(b.mul(number, e.number(size)), sums, size), is_settled=True)
    sums = step(e.number(whole * size), sums, rest)
    return [_sum_of_lanes(e, each, lanes) for each in sums]


def _sum_of_lanes(e: Emitter, total: ir.Value, lanes: int) -> ir.Value:
    """By halves, as nothing but the number of lanes decides."""
    while lanes > 1:
        lanes //= 2
        low, high = (ir.Constant(ir.VectorType(I32, lanes), list(range(k, k + lanes))) for k in (0, lanes))
        total = e.builder.fadd(*(e.builder.shuffle_vector(total, total, each) for each in (low, high)))
    return e.builder.extract_element(total, I32(0))
