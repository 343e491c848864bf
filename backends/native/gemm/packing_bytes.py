"""Packs a right factor of bytes that only a run knows, by functions that serve matrices of any size: products which
differ in that alone have them in common."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, POINTER, Emitter
from circlet.backends.native.emit.layout.transpose import turned
from circlet.backends.native.emit.loops import carry, folded, independent, rolled
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.vectors import WORD, Vectors, broadcast
from circlet.runtime.records import dataclass

_ONES = 0x01010101
"""A word of bytes that are 1."""
_SIDE = 4
"""Rows and columns of the squares of words that are turned in registers: those of short rows, too."""


def pack_bytes(e: Emitter, plan: Plan, source: ir.Value, depth: int, is_transposed: bool,
               target: tuple[ir.Value, ir.Value], factor: int) -> None:
    """Packs a matrix of bytes (depth, columns) or, transposed, (columns, depth). `target` is where the words of its
    panels begin, and the sums of its columns, times a factor."""
    b, long, columns = e.builder, e.number(depth), e.number(plan.columns)
    pack, (words, sums) = _packing(e, plan, is_transposed), target
    with rolled(e, plan.panels) as panel:
        first = b.mul(panel, e.number(plan.panel))
        begin, pitch = (b.mul(first, long), long) if is_transposed else (first, columns)
        some = e.intrinsic("smin", e.number(plan.panel), b.sub(columns, first))
        words_begin = e.address(words, I8, b.mul(panel, e.number(plan.panel_bytes)))
        b.call(pack, [e.address(source, I8, begin), words_begin, e.address(sums, I32, first), long, some, pitch,
                      ir.Constant(I32, factor)])


def add_up_rows(e: Emitter, memory: ir.Value, shape: tuple[int, int], totals: ir.Value) -> None:
    """The sum of the bytes of each row of `memory`, of a shape (rows, depth): (rows,) i32."""
    rows, depth = shape
    with rolled(e, rows) as row:
        begin = e.address(memory, I8, e.builder.mul(row, e.number(depth)))
        e.builder.call(_total(e), [begin, e.number(depth), e.address(totals, I32, row)])


def _total(outer: Emitter) -> ir.Function:
    """`void(source, count, total*)`: adds up bytes."""
    name = "add_up_bytes"
    if name in outer.module.globals:
        return outer.module.globals[name]
    function = internal_function(outer, name, [POINTER, outer.index, POINTER], VectorLoop)
    e, (source, count, target) = Emitter(outer.module, function, outer.target), function.args
    total = e.slot(I32)
    e.builder.store(ir.Constant(I32, 0), total)
    with folded(e, count) as k:
        byte = e.builder.load(e.address(source, I8, k), typ=I8)
        e.builder.store(e.builder.add(e.builder.load(total, typ=I32), e.builder.zext(byte, I32)), total)
    e.builder.store(e.builder.load(total, typ=I32), target, align=WORD)
    e.builder.ret_void()
    return function


def _packing(outer: Emitter, plan: Plan, is_transposed: bool) -> ir.Function:
    """`void(source, words, sums, depth, columns, pitch, factor)`: packs a panel, and adds up its columns."""
    name = f"pack_{'columns' if is_transposed else 'rows'}_{plan.panel}"
    if name in outer.module.globals:
        return outer.module.globals[name]
    kinds = [POINTER] * 3 + [outer.index] * 3 + [I32]
    function = internal_function(outer, name, kinds, VectorLoop)
    e = Emitter(outer.module, function, outer.target)
    source, words, sums, depth, columns, pitch, factor = function.args
    panel = _Panel(e, plan, is_transposed, source, words, columns, pitch)
    panel.add_up(sums, panel.pack(depth), factor)
    e.builder.ret_void()
    return function


@dataclass(frozen=True, eq=False)
class _Panel:
    """Columns of a matrix, whose rows, or transposed, columns are `pitch` apart, and the words that they become."""

    e: Emitter
    plan: Plan
    is_transposed: bool
    source: ir.Value
    words: ir.Value
    columns: ir.Value
    pitch: ir.Value

    def pack(self, depth: ir.Value) -> ir.Value:
        """Writes the words; gives how many steps there are."""
        e, b = self.e, self.e.builder
        full, rest = self._parts(depth, WORD)
        if self.is_transposed:
            self._turn(full)
        else:
            with rolled(e, full) as step:
                self._step(step, WORD)
        for count in range(1, WORD):
            with b.if_then(b.icmp_signed("==", rest, e.number(count))):
                self._step(full, count)
        return self._parts(b.add(depth, e.number(WORD - 1)), WORD)[0]

    def _parts(self, number: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
        """How many parts of a size, a power of two, a number has, and what is left."""
        b = self.e.builder
        return b.lshr(number, self.e.number(size.bit_length() - 1)), b.and_(number, self.e.number(size - 1))

    def _turn(self, full: ir.Value) -> None:
        """So many steps of columns: squares of words are turned in registers, others are taken one by one."""
        e, b = self.e, self.e.builder
        (across, right), (deep, below) = (self._parts(each, _SIDE) for each in (self.columns, full))
        with rolled(e, deep) as k, rolled(e, across) as m:
            self._square(*(b.mul(each, e.number(_SIDE)) for each in (k, m)))
        covered, first = b.sub(full, below), b.sub(self.columns, right)
        with b.if_then(b.icmp_signed(">", right, e.number(0))), rolled(e, covered) as step:
            self._step(step, WORD, first)
        with rolled(e, below) as k:
            self._step(b.add(covered, k), WORD)

    def _square(self, step: ir.Value, column: ir.Value) -> None:
        """Some steps of as many columns."""
        e, b, kind = self.e, self.e.builder, ir.VectorType(I32, _SIDE)
        along = b.mul(step, e.number(WORD))
        vectors = [b.load(e.address(self.source, I8, b.add(b.mul(b.add(column, e.number(k)), self.pitch), along)),
                          typ=kind, align=1) for k in range(_SIDE)]
        for k, vector in enumerate(turned(e, vectors)):
            target = self._at(self.words, b.add(step, e.number(k)))
            b.store(vector, e.address(target, I32, column), align=WORD)

    def _step(self, step: ir.Value, count: int, first: ir.Value | None = None) -> None:
        """A word of each column, or of each from one on, of so many bytes, the others zero."""
        e, b = self.e, self.e.builder
        row, target = b.mul(step, e.number(WORD)), self._at(self.words, step)
        with independent(e, self.columns if first is None else b.sub(self.columns, first)) as k:
            column = k if first is None else b.add(first, k)
            b.store(self._word(row, column, count), e.address(target, I32, column), align=WORD)

    def _word(self, row: ir.Value, column: ir.Value, count: int) -> ir.Value:
        """`count` bytes of a column: neighbours, loaded at once if they are a word, or bytes of so many rows."""
        e, b = self.e, self.e.builder
        if self.is_transposed and count == WORD:
            return b.load(e.address(self.source, I8, b.add(b.mul(column, self.pitch), row)), typ=I32, align=1)
        word = ir.Constant(I32, 0)
        for byte in range(count):
            along = b.add(row, e.number(byte))
            at = b.add(b.mul(column, self.pitch), along) if self.is_transposed else b.add(
                b.mul(along, self.pitch), column)
            found = b.zext(b.load(e.address(self.source, I8, at), typ=I8), I32)
            word = b.or_(word, b.shl(found, ir.Constant(I32, 8 * byte)))
        return word

    def add_up(self, sums: ir.Value, steps: ir.Value, factor: ir.Value) -> None:
        """Writes the sums of the columns, times a factor: dot products with ones, a vector of sums for each of the
        panel's."""
        e, plan = self.e, self.plan
        vectors = Vectors(e, I32, plan.lanes)
        ones = vectors.splat(_ONES)

        def turn(step: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            place = self._at(self.words, step)
            found = [vectors.load(vectors.address(place, k * e.target.vector_bytes)) for k in range(len(totals))]
            return [plan.arithmetic.multiply_add(e, ones, each, total)
                    for each, total in zip(found, totals, strict=True)]

        for k, total in enumerate(carry(e, steps, [vectors.splat(0)] * plan.vectors, turn)):
            value = e.builder.mul(total, broadcast(e, factor, plan.lanes))
            vectors.store(value, vectors.address(sums, k * e.target.vector_bytes))

    def _at(self, words: ir.Value, step: ir.Value) -> ir.Value:
        """Where a step of the panel lies."""
        return self.e.address(words, I32, self.e.builder.mul(step, self.e.number(self.plan.panel)))
