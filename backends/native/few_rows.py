"""Products of a few rows with a right factor that is stored column by column: sums along two runs of memory."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from circlet.backends.native.emitter import Emitter
from circlet.backends.native.loops import carry, rolled
from circlet.backends.native.microkernel import FLOAT32, WORD, Vectors
from circlet.backends.native.parallel import parallel
from circlet.backends.native.product import Plan, Put
from circlet.backends.native.value import Value

_COLUMNS = 4
"""Columns that are summed at a time."""
_UNROLL = 2
"""Vectors of each that are loaded at a time."""
FLOAT = FLOAT32.total


def multiply_few(e: Emitter, plan: Plan, left: ir.Value, right: ir.Value, bias: Value | None, put: Put) -> None:
    """Emits a product of float32 matrices (rows, depth) and (columns, depth)."""
    whole, rest = divmod(plan.columns, _COLUMNS)
    for first, count, width in ((0, whole, _COLUMNS), (whole * _COLUMNS, min(rest, 1), rest)):
        if not count:
            continue
        with parallel(e, count, 2 * plan.rows * plan.columns * plan.depth) as number, rolled(e, plan.rows) as row:
            begin = e.builder.add(e.builder.mul(number, e.number(_COLUMNS)), e.number(first))
            columns = [e.builder.add(begin, e.number(k)) for k in range(width)]
            one, *others = (e.address(memory, FLOAT, e.builder.mul(each, e.number(plan.depth)))
                            for memory, each in ((left, row), *((right, column) for column in columns)))
            for column, value in zip(columns, dots(e, one, others, plan.depth, plan.lanes), strict=True):
                put(e, row, column, value if bias is None else e.builder.fadd(value, bias.linear(e, column)))


def dots(e: Emitter, one: ir.Value, others: Sequence[ir.Value], count: int, lanes: int) -> list[ir.Value]:
    """The sums of the products of the elements of one run of memory with those of each of some others."""
    vectors, b = Vectors(e, FLOAT, lanes), e.builder
    size = lanes * _UNROLL
    whole = count // size

    def load(base: ir.Value, begin: ir.Value, further: int, left: int) -> ir.Value:
        place = vectors.address(e.address(base, FLOAT, begin), further * WORD)
        return vectors.load(place) if left >= lanes else vectors.load_some(place, e.number(left))

    def step(begin: ir.Value, sums: Sequence[ir.Value], left: int) -> list[ir.Value]:
        for further in range(0, left, lanes):
            factor = load(one, begin, further, left - further)
            sums = [e.intrinsic("fmuladd", factor, load(each, begin, further, left - further), value)
                    for each, value in zip(others, sums, strict=True)]
        return list(sums)

    sums = carry(e, e.number(whole), [vectors.splat(0)] * len(others),
                 lambda number, sums: step(b.mul(number, e.number(size)), sums, size))
    sums = step(e.number(whole * size), sums, count - whole * size)
    add = e.declare(f"llvm.vector.reduce.fadd.v{lanes}f32", ir.FunctionType(FLOAT, [FLOAT, vectors.kind]))
    return [b.call(add, [ir.Constant(FLOAT, -0.0), each], fastmath=("reassoc",)) for each in sums]
