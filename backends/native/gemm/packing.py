"""Copies of right factors that lie in memory, in the layout that register tiles read."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, POINTER, Emitter
from circlet.backends.native.emit.loops import rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.microkernel import FLOAT32, lanes
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.vectors import WORD, Vectors

FLOAT = FLOAT32.word
"""The type of the factors."""
_ROWS = 16
"""Rows that are packed at a time. Not critical on the processor it was tried on: any from 1 to 1024 takes the same time
within 2 % for 128, 512 and 1024 columns, AVX2 and AVX-512. On another one, 16 took 1024 x 1024 from 0.53 to 0.43 ms."""


def copy_panels(e: Emitter, plan: Plan, source: ir.Value, target: ir.Value) -> None:
    """Packs a float32 matrix (depth, columns) into panels (panels, depth, columns of a panel), as in GotoBLAS (Goto and
    van de Geijn 2008): loops over blocks of rows, shared out, and over panels copy a block's rows of a panel.

    Some rows at a time: column by column, every row would be in another page, and no page in use for long.
    """
    blocks = -(-plan.depth // _ROWS)
    for group in plan.groups:
        function = _copy(e, plan, group.is_partial(plan.panel))
        with parallel(e, blocks, 2 * plan.panels * plan.panel_bytes) as block, rolled(e, group.count) as number:
            row = e.builder.mul(block, e.number(_ROWS))
            rows = e.intrinsic("smin", e.builder.sub(e.number(plan.depth), row), e.number(_ROWS))
            panel = e.builder.add(number, e.number(group.first))
            column = e.builder.mul(panel, e.number(plan.panel))
            given = e.address(source, FLOAT, e.builder.add(e.builder.mul(row, e.number(plan.columns)), column))
            packed = e.builder.add(e.builder.mul(panel, e.number(plan.depth)), row)
            made = e.address(target, FLOAT, e.builder.mul(packed, e.number(plan.panel)))
            e.builder.call(function, [given, e.number(plan.columns * WORD), made, rows, e.number(group.columns)])


def _copy(e: Emitter, plan: Plan, is_partial: bool) -> ir.Function:
    """The function that packs rows of a panel: given them, their distance in bytes, where they go, how many there are,
    and how many columns of them, the others being zeros, where a panel may have fewer."""
    name = f"copy_panel_{plan.panel}{'_in_part' * is_partial}"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, e.index, POINTER, e.index, e.index], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    b, (source, step, target, rows, columns), vectors = inner.builder, function.args, Vectors(inner, FLOAT, plan.lanes)
    offsets = range(0, plan.panel, plan.lanes)
    there = [vectors.first(b.sub(columns, inner.number(offset))) for offset in offsets if is_partial]
    with rolled(inner, rows) as row:
        given = vectors.address(source, b.mul(row, step))
        made = vectors.address(target, b.mul(row, inner.number(plan.panel * WORD)))
        for number, offset in enumerate(offsets):
            place = vectors.address(given, offset * WORD)
            value = vectors.load_where(place, there[number]) if is_partial else vectors.load(place)
            vectors.store(value, vectors.address(made, offset * WORD))
    b.ret_void()
    return function


def transpose_panels(e: Emitter, plan: Plan, source: ir.Value, target: ir.Value) -> None:
    """Packs a float32 matrix (columns, depth) into panels (panels, depth, columns of a panel): a loop over strips of as
    many rows as a vector has lanes, shared out, transposes each. Vectors of the last panel that hold no columns are
    zeros."""
    def place(strip: ir.Value) -> ir.Value:
        panel, vector = (divide(strip, e.number(plan.vectors)) for divide in (e.builder.udiv, e.builder.urem))
        begin = e.builder.mul(panel, e.number(plan.depth * plan.vectors))
        return e.address(target, FLOAT, e.builder.mul(e.builder.add(begin, vector), e.number(plan.lanes)))

    _transpose(e, source, (plan.columns, plan.depth), plan.panels * plan.vectors, place, plan.panel)


def transposed_step(e: Emitter, rows: int) -> int:
    """The distance of the rows of a transposed matrix: what had `rows` rows, filled up to whole vectors."""
    return -(-rows // lanes(e.target)) * lanes(e.target) * WORD


def transpose(e: Emitter, source: ir.Value, shape: tuple[int, int], target: ir.Value) -> None:
    """Transposes a float32 matrix of a shape, (rows, columns) to (columns, rows filled up to whole vectors); the rows
    of the result are `transposed_step` apart."""
    width = lanes(e.target)
    _transpose(e, source, shape, -(-shape[0] // width),
               lambda strip: e.address(target, FLOAT, e.builder.mul(strip, e.number(width))),
               transposed_step(e, shape[0]) // WORD)


def _transpose(e: Emitter, source: ir.Value, shape: tuple[int, int], strips: int,
               place: Callable[[ir.Value], ir.Value], step: int) -> None:
    """Transposes strips of as many rows as a vector has lanes; rows behind the last repeat it in its strip, and are
    zeros in others: what was left there may be numbers below the least normal one, with which tiles take ten times as
    long.

    Args:
        e: writes the code.
        source: a matrix.
        shape: of it.
        strips: how many.
        place: where a strip goes.
        step: elements from one column of the source to the next in the result.
    """
    rows, columns = shape
    width = lanes(e.target)
    function = _strip(e, width)
    with parallel(e, strips, 4 * rows * columns * WORD) as strip:
        first = e.builder.mul(strip, e.number(width))
        arguments = [source, first, e.number(rows - 1), e.number(columns), place(strip), e.number(step)]
        e.builder.call(function, arguments)


def _strip(e: Emitter, width: int) -> ir.Function:
    """The function that transposes a strip: of a matrix, from a row on, the last row, columns; to where, step."""
    name = f"transpose_strip_{width}"
    found = e.module.globals.get(name)
    if found is not None:
        return found
    function = internal_function(e, name, [POINTER, e.index, e.index, e.index, POINTER, e.index], VectorLoop)
    _StripBody(Emitter(e.module, function, e.target), width).emit()
    return function


class _StripBody:
    def __init__(self, e: Emitter, width: int) -> None:
        self._e = e
        self._width = width
        self._vectors = Vectors(e, FLOAT, width)
        self._source, first, last, self._columns, self._target, self._step = e.function.args
        self._is_behind = e.builder.icmp_signed(">", first, last)
        self._rows = [e.builder.mul(e.intrinsic("smin", e.builder.add(first, e.number(k)), last), self._columns)
                      for k in range(width)]

    def emit(self) -> None:
        """Zeros behind the last row; else whole vectors of columns, the last of which overlaps the one before, or
        single columns if they are few."""
        e, b = self._e, self._e.builder
        width = e.number(self._width)
        with b.if_then(self._is_behind):
            with rolled(e, self._columns) as column:
                self._vectors.store(self._vectors.splat(0), self._place(column, 0))
            b.ret_void()
        with b.if_else(b.icmp_signed("<", self._columns, width)) as (then, otherwise):
            with then, rolled(e, self._columns) as column:
                for row, begin in enumerate(self._rows):
                    value = b.load(e.address(self._source, FLOAT, b.add(begin, column)), typ=FLOAT)
                    b.store(value, self._place(column, row))
            with otherwise, rolled(e, b.udiv(b.add(self._columns, e.number(self._width - 1)), width)) as k:
                self._square(e.intrinsic("smin", b.mul(k, width), b.sub(self._columns, width)))
        b.ret_void()

    def _place(self, column: ir.Value, row: int) -> ir.Value:
        """Where the element of a column and a row of the strip goes."""
        e = self._e
        return e.address(self._target, FLOAT, e.builder.add(e.builder.mul(column, self._step), e.number(row)))

    def _square(self, column: ir.Value) -> None:
        """As many columns as rows: interleaving the halves of a list of vectors rotates the bits of all indices."""
        e, half = self._e, self._width // 2
        values = [self._vectors.load(e.address(self._source, FLOAT, e.builder.add(begin, column)))
                  for begin in self._rows]
        orders = [[each + k for k in range(begin, begin + half) for each in (0, self._width)]
                  for begin in ((0, half) if half else ())]
        masks = [ir.Constant(ir.VectorType(I32, self._width), order) for order in orders]
        for _ in range(self._width.bit_length() - 1):
            values = [e.builder.shuffle_vector(one, other, mask)
                      for one, other in zip(values[:half], values[half:], strict=True) for mask in masks]
        for k, value in enumerate(values):
            self._vectors.store(value, self._place(e.builder.add(column, e.number(k)), 0))
