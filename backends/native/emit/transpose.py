"""Copies a tensor in memory to memory with its axes in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, Index, memory_type
from circlet.backends.native.emit.loops import branch, independent, leftover, rolled
from circlet.backends.native.emit.parallel import parallel, parallel_nest
from circlet.backends.native.emit.whole import Whole, both
from circlet.backends.native.targets.constants import shuffle_mask
from circlet.runtime.ir.length import is_known, is_length, may_differ, smaller
from circlet.runtime.ir.types import DType, Shape

_SIDES = (4, 8, 16)
"""Rows and columns of the squares that are turned in registers. With float32 on AVX-512, squares of 16 take a matrix of
256 x 256 in 13 microseconds, of 8 in 29, of 4 in 56, of 2 in 107; 1000 x 1000 in 100, 112, 179 and 319. More rows than
registers would spill."""
SHORTEST_COPY = 128
"""Bytes from which on a run is copied by a call of `memmove`. It is not critical: on AVX-512 a transpose of runs from
16 to 256 bytes takes the same time either way within 6 %; the call keeps code small."""


def copy_transposed(e: Emitter, source: ir.Value, target: ir.Value, shape: Shape, axes: Sequence[int],
                    dtype: DType) -> None:
    """Writes an array of `shape` so that axis k of the result is axis `axes[k]`."""
    shape, axes = _merged(shape, axes)
    strides = [prod(shape[axis + 1:]) for axis in axes]
    sizes = tuple(shape[axis] for axis in axes)
    if axes[-1] == len(axes) - 1:
        _copy_runs(e, source, target, sizes, strides, dtype)
    else:
        _Turning(e, source, target, sizes, strides, dtype).emit(axes.index(len(axes) - 1))


def _merged(shape: Shape, axes: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """The same with axes of size 1 left out, and axes that stay neighbours made one."""
    kept = [axis for axis in axes if not is_known(shape[axis], 1)]
    runs: list[list[int]] = []
    for axis in kept:
        follows = runs and runs[-1][-1] < axis and not set(range(runs[-1][-1] + 1, axis)).intersection(kept)
        if follows:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    order = sorted(runs)
    return tuple(prod(shape[axis] for axis in run) for run in order), tuple(order.index(run) for run in runs)


def _position(e: Emitter, index: Index, strides: Sequence[int]) -> ir.Value:
    """The sum of the products of an index and strides, in elements: a position in the source."""
    position: ir.Value = e.number(0)
    for each, stride in zip(index, strides, strict=True):
        position = e.builder.add(position, e.builder.mul(each, e.number(stride)))
    return position


def _copy_runs(e: Emitter, source: ir.Value, target: ir.Value, sizes: Shape, strides: Sequence[int],
               dtype: DType) -> None:
    """The innermost axis stays where it is: a loop over the others, shared out, copies a run of `sizes[-1]` elements in
    each turn, by `memmove` or by vectors."""
    kind, run = memory_type(dtype), sizes[-1]
    with parallel_nest(e, sizes[:-1], 4 * prod(sizes) * dtype.numpy.itemsize) as outer:
        first, place = _position(e, outer, strides[:-1]), e.linear([*outer, e.number(0)], sizes)
        if is_length(run) or run * dtype.numpy.itemsize >= SHORTEST_COPY:
            e.copy(e.address(target, kind, place), e.address(source, kind, first), run * dtype.numpy.itemsize)
            return
        with independent(e, run) as k:
            value = e.builder.load(e.address(source, kind, e.builder.add(first, k)), typ=kind)
            e.builder.store(value, e.address(target, kind, e.builder.add(place, k)))


class _Turning:
    """The innermost axis becomes another one: squares of the two axes are turned in registers."""

    def __init__(self, e: Emitter, source: ir.Value, target: ir.Value, sizes: Shape, strides: Sequence[int],
                 dtype: DType) -> None:
        self._e = e
        self._source = source
        self._target = target
        self._sizes = sizes
        self._strides = strides
        self._kind = memory_type(dtype)
        self._bits = 8 * dtype.numpy.itemsize

    def emit(self, axis: int) -> None:
        """Loops over all other axes, and over the squares of the largest size that fits, or over elements where none
        does. `axis` of the result is the innermost one of the source."""
        e, sizes, last = self._e, self._sizes, len(self._sizes) - 1
        others = [each for each in range(last) if each != axis]
        work = prod(sizes) * self._bits // 2
        with parallel_nest(e, tuple(sizes[each] for each in others), work) as outer:
            def index(column: ir.Value, row: ir.Value) -> list[ir.Value]:
                found = dict(zip((*others, axis, last), (*outer, column, row), strict=True))
                return [found[each] for each in range(last + 1)]

            chosen = partial(self._copy, index, (0, sizes[axis]), (0, sizes[last]))
            for side in _SIDES:
                if side <= e.target.vector_bytes // (self._bits // 8):
                    fits = (Whole(e, sizes[each]).compare(">=", side) for each in (axis, last))
                    chosen = partial(branch, e, both(e, *fits), partial(self._squares, index, axis, side), chosen)
            chosen()

    def _squares(self, index: Callable[[ir.Value, ir.Value], Index], axis: int, side: int) -> None:
        """Loops over the rows of squares and the squares in a row. The last one of either overlaps the one before where
        it is at least half of one; less is copied element by element."""
        e, columns, rows = self._e, self._sizes[axis], self._sizes[-1]
        (some, covered), (many, deep) = ((count, smaller(count * side, size)) for size in (columns, rows)
                                         for count in [(size + side // 2) // side])
        with parallel(e, many, prod(self._sizes) * self._bits // 2) as row, rolled(e, some) as column:
            corner = index(*((Whole(e, each) * side).at_most(size - side).register
                             for each, size in ((column, columns), (row, rows))))
            self._turn(corner, axis, side)
        self._copy(index, (0, covered), (deep, rows))
        self._copy(index, (covered, columns), (0, rows))

    def _turn(self, corner: Index, axis: int, side: int) -> None:
        """Loads the vectors of a square, whose `side` rows are as long, turns it in registers, and stores the columns
        as rows."""
        e, last, kind = self._e, len(self._sizes) - 1, ir.VectorType(self._kind, side)
        source, target = self._from(corner), e.linear(corner, self._sizes)
        vectors = [e.builder.load(self._address(self._source, source, k * self._strides[last]), align=1, typ=kind)
                   for k in range(side)]
        step = prod(self._sizes[axis + 1:])
        for k, vector in enumerate(_turned(e, vectors)):
            e.builder.store(vector, self._address(self._target, target, k * step), align=1)

    def _copy(self, index: Callable[[ir.Value, ir.Value], Index], columns: tuple[int, int],
              rows: tuple[int, int]) -> None:
        """Element by element, what is left of a square."""
        e, b = self._e, self._e.builder
        if not may_differ(*columns) or not may_differ(*rows):
            return
        many, long = columns[1] - columns[0], rows[1] - rows[0]
        with rolled(e, many) as column, (leftover if is_length(long) else independent)(e, long) as row:
            place = index(b.add(column, e.number(columns[0])), b.add(row, e.number(rows[0])))
            value = b.load(self._address(self._source, self._from(place), 0), typ=self._kind)
            b.store(value, self._address(self._target, e.linear(place, self._sizes), 0))

    def _from(self, index: Index) -> ir.Value:
        """The position in the source of an element of the result, given by its index."""
        return _position(self._e, index, self._strides)

    def _address(self, base: ir.Value, position: ir.Value, offset: int) -> ir.Value:
        """The address `offset` elements behind a position."""
        return self._e.address(base, self._kind, self._e.builder.add(position, self._e.number(offset)))


def _turned(e: Emitter, rows: Sequence[ir.Value]) -> Sequence[ir.Value]:
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
