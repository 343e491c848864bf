"""Copies a tensor to memory that lies elsewhere in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import POINTER, Emitter, memory_type
from circlet.backends.native.emit.layout import thin
from circlet.backends.native.emit.layout.strided import Axes, Strided, linear_in
from circlet.backends.native.emit.loops import branch, independent, leftover, rolled
from circlet.backends.native.emit.parallel import parallel, parallel_nest
from circlet.backends.native.emit.whole import Whole, both
from circlet.backends.native.targets.constants import shuffle_mask
from circlet.runtime.ir.length import is_known, is_length, larger
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

_SIDES = (4, 8, 16)
"""Rows and columns of the squares that are turned in registers. With float32 on AVX-512, squares of 16 take a matrix of
256 x 256 in 13 microseconds, of 8 in 29, of 4 in 56, of 2 in 107; 1000 x 1000 in 100, 112, 179 and 319. More rows than
registers would spill."""
SHORTEST_COPY = 128
"""Bytes from which on a run is copied by a call of `memmove`. It is not critical: on AVX-512 a transpose of runs from
16 to 256 bytes takes the same time either way within 6 %; the call keeps code small."""
_ROWS = 256
"""Rows of a plane that one thread turns at a time where others may turn the rest: a choice."""


def copy_strided(source: Strided, dtype: DType, e: Emitter, target: ir.Value) -> None:
    """Writes elements in row-major order that lie in memory in another one, where there are runs of neighbours."""
    axes = source.merged()
    if not axes or is_known(axes[-1][1], 1):
        _copy_runs(e, source.memory, target, axes or ((1, 1),), dtype)
    else:
        _turn(e, source.memory, target, axes, dtype)


def _copy_runs(e: Emitter, source: ir.Value, target: ir.Value, axes: Axes, dtype: DType) -> None:
    """The innermost axis stays where it is: a loop over the others, shared out, copies a run in each turn, by `memmove`
    or by vectors."""
    kind, sizes = memory_type(dtype), tuple(size for size, _ in axes)
    run = sizes[-1]
    with parallel_nest(e, sizes[:-1], 4 * prod(sizes) * dtype.numpy.itemsize) as outer:
        index = [*outer, e.number(0)]
        first, place = linear_in(e, index, axes), e.linear(index, sizes)
        if is_length(run) or run * dtype.numpy.itemsize >= SHORTEST_COPY:
            e.copy(e.address(target, kind, place), e.address(source, kind, first), run * dtype.numpy.itemsize)
            return
        with independent(e, run) as k:
            value = e.builder.load(e.address(source, kind, e.builder.add(first, k)), typ=kind)
            e.builder.store(value, e.address(target, kind, e.builder.add(place, k)))


def _turn(e: Emitter, source: ir.Value, target: ir.Value, axes: Axes, dtype: DType) -> None:
    """The innermost axis becomes another one: a loop over the others turns a plane of these two in each turn."""
    sizes, last = tuple(size for size, _ in axes), len(axes) - 1
    axis = next(k for k, (_, stride) in enumerate(axes) if is_known(stride, 1))
    others = [k for k in range(last) if k != axis]
    kind, work = ir.IntType(8 * dtype.numpy.itemsize), 4 * prod(sizes) * dtype.numpy.itemsize
    with parallel_nest(e, tuple(sizes[k] for k in others), work) as outer:
        found = dict(zip(others, outer, strict=True))
        corner = [found.get(k, e.number(0)) for k in range(last + 1)]
        plane = _Plane(e, kind, e.address(source, kind, linear_in(e, corner, axes)),
                       e.address(target, kind, e.linear(corner, sizes)), Whole(e, sizes[axis]), Whole(e, sizes[last]),
                       Whole(e, axes[last][1]), Whole(e, prod(sizes[axis + 1:])))
        if plane.turn_thin(work):
            return
        if not is_length(sizes[axis]) and not is_length(sizes[last]):
            plane.turn(partial(parallel, e, work=work))
            return
        parts = larger((sizes[last] + _ROWS // 2) // _ROWS, 1)
        with parallel(e, parts, work) as k:
            first = Whole(e, k) * _ROWS
            rows = (plane.rows - first).where(Whole(e, k).compare("==", parts - 1), _ROWS)
            plane.from_row(first, rows).call()


Share: TypeAlias = "Callable[[ir.Value | int], AbstractContextManager[ir.Value]]"
"""A loop over so many rows of squares."""


@dataclass(frozen=True, eq=False)
class _Plane:
    """Elements to turn: element (c, r) of the result, whose rows are `step` apart, is element (r, c) of the source,
    whose rows are `pitch` apart."""

    e: Emitter
    kind: ir.IntType
    source: ir.Value
    target: ir.Value
    columns: Whole
    rows: Whole
    pitch: Whole
    step: Whole

    def from_row(self, first: Whole, rows: Whole) -> _Plane:
        """Some of the rows of the source."""
        source = self._address(self.source, first * self.pitch)
        return _Plane(self.e, self.kind, source, self._address(self.target, first), self.columns, rows, self.pitch,
                      self.step)

    def call(self) -> None:
        """Turns all by a function that turns any plane of elements as wide."""
        name = f"transpose_{self.kind.width}"
        function = self.e.module.globals.get(name) or _function(self.e, self.kind, name)
        numbers = (each.register for each in (self.columns, self.rows, self.pitch, self.step))
        self.e.builder.call(function, [self.source, self.target, *numbers])

    def turn_thin(self, work: int) -> bool:
        """Whether all is turned, as it is where one side of the plane is two or three neighbours alone."""
        for write, width, step, count, pitch in ((thin.weave, self.rows, self.step, self.columns, self.pitch),
                                                 (thin.part, self.columns, self.pitch, self.rows, self.step)):
            rows = width.value
            if isinstance(rows, int) and not is_length(rows) and is_known(step.value, rows) and thin.is_thin(
                    self.e, self.kind, rows):
                write(self.e, self.kind, self.source, self.target, rows, count, pitch, work)
                return True
        return False

    def turn(self, share: Share) -> None:
        """By squares of the largest size that fits, or element by element where none does."""
        nothing = Whole(self.e, 0)
        chosen = partial(self._copy, (nothing, self.columns), (nothing, self.rows))
        for side in _SIDES:
            if side <= self.e.target.vector_bytes // (self.kind.width // 8):
                fits = both(self.e, self.columns.compare(">=", side), self.rows.compare(">=", side))
                chosen = partial(branch, self.e, fits, partial(self._squares, side, share), chosen)
        chosen()

    def _squares(self, side: int, share: Share) -> None:
        """Loops over the rows of squares and the squares in a row. The last one of either overlaps the one before where
        it is at least half of one; less is copied element by element."""
        (some, covered), (many, deep) = ((count, (count * side).at_most(size)) for size in (self.columns, self.rows)
                                         for count in [(size + side // 2) // side])
        with share(many.value) as row, rolled(self.e, some.value) as column:
            corner = [(Whole(self.e, each) * side).at_most(size - side)
                      for each, size in ((column, self.columns), (row, self.rows))]
            self._turn_square(side, *corner)
        self._copy((Whole(self.e, 0), covered), (deep, self.rows))
        self._copy((covered, self.columns), (Whole(self.e, 0), self.rows))

    def _turn_square(self, side: int, column: Whole, row: Whole) -> None:
        """Loads the vectors of a square, turns it in registers, and stores the columns as rows."""
        e, kind = self.e, ir.VectorType(self.kind, side)
        vectors = [e.builder.load(self._address(self.source, (row + k) * self.pitch + column), align=1, typ=kind)
                   for k in range(side)]
        for k, vector in enumerate(turned(e, vectors)):
            e.builder.store(vector, self._address(self.target, (column + k) * self.step + row), align=1)

    def _copy(self, columns: tuple[Whole, Whole], rows: tuple[Whole, Whole]) -> None:
        """Element by element, from a column and row up to others."""
        e = self.e
        many, long = (end - begin for begin, end in (columns, rows))
        if many.is_zero or long.is_zero:
            return
        with rolled(e, many.value) as column, (independent if isinstance(long.value, int) else leftover)(
                e, long.value) as row:
            c, r = Whole(e, column) + columns[0], Whole(e, row) + rows[0]
            value = e.builder.load(self._address(self.source, r * self.pitch + c), typ=self.kind)
            e.builder.store(value, self._address(self.target, c * self.step + r))

    def _address(self, base: ir.Value, position: Whole) -> ir.Value:
        return self.e.address(base, self.kind, position.register)


def _function(outer: Emitter, kind: ir.IntType, name: str) -> ir.Function:
    """`void(source*, target*, columns, rows, pitch, step)`, which turns a plane."""
    function = ir.Function(outer.module, ir.FunctionType(ir.VoidType(), [POINTER] * 2 + [outer.index] * 4), name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    for each in function.args[:2]:
        each.add_attribute("noalias")
    e = Emitter(outer.module, function, outer.target)
    _Plane(e, kind, *function.args[:2], *(Whole(e, each) for each in function.args[2:])).turn(partial(rolled, e))
    e.builder.ret_void()
    return function


def turned(e: Emitter, rows: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """The columns of a square matrix given by its rows; their number is a power of two.

    Interleaving the first half of the rows with the second one rotates the bits of the index (row, column) by one
    place; log2(side) times exchange rows and columns.
    """
    side = len(rows)
    low, high = ([each for k in range(first, first + side // 2) for each in (k, side + k)] for first in (0, side // 2))
    for _ in range(side.bit_length() - 1):
        pairs = list(zip(rows[:side // 2], rows[side // 2:], strict=True))
        rows = [e.builder.shuffle_vector(*pair, shuffle_mask(*lanes)) for pair in pairs for lanes in (low, high)]
    return rows
