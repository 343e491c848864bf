"""The elements of a tensor in the order in which they are combined along axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import by_length, rolled_nest
from circlet.backends.native.emit.parallel import parallel_nest, parallel_nests
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.row_vectors import RowVectors
from circlet.runtime.ir.length import is_length, may_differ
from circlet.runtime.ir.types import DType, Shape

Taken: TypeAlias = "RowVectors | int | None"
"""How a row is taken: by vectors; or by turns, at most so many if one vector holds all."""


class Traversal:
    """The elements of a tensor in the order in which they are combined along axes.

    The axes are split into outer ones and a row: as many of the last axes as are all reduced, or all kept, and can be
    indexed by one position.
    """

    def __init__(self, x: Value, axes: Sequence[int], keep_dims: bool = False) -> None:
        self._x = x
        self._dropped = frozenset() if keep_dims else frozenset(axes)
        shape = x.shape
        reduced = {axis for axis in axes if may_differ(shape[axis], 1)}
        first = max((axis for axis, size in enumerate(shape) if may_differ(size, 1)), default=0)
        self.reduces_row = first in reduced
        while x.flat and first > 0 and (not may_differ(shape[first - 1], 1)
                                        or ((first - 1) in reduced) is self.reduces_row):
            first -= 1
        self._first = first
        self.length = prod(shape[first:])
        """Elements of a row."""
        self._kept = [axis for axis in range(first) if axis not in reduced]
        self._reduced = [axis for axis in range(first) if axis in reduced]

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self._x.dtype

    @property
    def gives_one(self) -> bool:
        """Whether all elements are of one row, which is combined."""
        return self.reduces_row and not self._kept and not self._reduced

    def count(self, e: Emitter) -> Whole:
        """Elements of a row. What there is but one of is written for any number, so that code of other shapes is the
        same."""
        return Whole(e, e.number(self.length) if self.gives_one and is_length(self.length) else self.length)

    def row_vectors(self, e: Emitter) -> RowVectors | None:
        """What combines a row by vectors; None where that is left to LLVM."""
        return RowVectors.of(e, self._x)

    @contextmanager
    def kept(self, e: Emitter) -> Iterator[dict[int, ir.Value]]:
        """A loop for each outer axis that stays: `{axis: index}`."""
        with parallel_nest(e, self._kept_shape, 2 * self._x.nbytes) as index:
            yield dict(zip(self._kept, index, strict=True))

    def each_kept(self, e: Emitter, vectors: RowVectors | None,
                  turn: Callable[[Taken, dict[int, ir.Value]], None]) -> None:
        """`kept` for each number of elements of a row that there is other code for: a turn is given how a row is taken,
        by `vectors` if there are any, and the index."""
        with parallel_nests(e, self._kept_shape, 2 * self._x.nbytes) as loops:
            def rows(taken: Taken) -> None:
                with loops() as index:
                    turn(taken, dict(zip(self._kept, index, strict=True)))

            if self.gives_one:
                rows(vectors)
            elif vectors is None:
                by_length(e, self.length, rows)
            else:
                vectors.by_length(e, Whole(e, self.length), rows)

    @property
    def _kept_shape(self) -> Shape:
        return tuple(self._x.shape[axis] for axis in self._kept)

    @contextmanager
    def reduced(self, e: Emitter, has_loops: bool = False) -> Iterator[dict[int, ir.Value]]:
        """A loop for each outer axis that is reduced: `{axis: index}`. One with loops inside is not unrolled, as that
        would repeat these."""
        nest = rolled_nest if has_loops else Emitter.nest
        with nest(e, tuple(self._x.shape[axis] for axis in self._reduced)) as index:
            yield dict(zip(self._reduced, index, strict=True))

    def read(self, e: Emitter, outer: dict[int, ir.Value], position: ir.Value) -> ir.Value:
        """The element at a position in the row that the indices of all outer axes choose."""
        if not self._x.flat:
            return self._x.element(e, [*self._index(e, outer), *e.delinear(position, self._x.shape[self._first:])])
        return self._x.linear(e, self.position(e, outer, position))

    def position(self, e: Emitter, outer: dict[int, ir.Value], position: ir.Value) -> ir.Value:
        """Where in the whole tensor, in row-major order, that element is."""
        index = [*self._index(e, outer), *[e.number(0)] * (len(self._x.shape) - self._first)]
        return e.builder.add(e.linear(index, self._x.shape), position, flags=("nsw",))

    def result_index(self, e: Emitter, kept: dict[int, ir.Value], position: ir.Value) -> Index:
        """The index of a result: `position` is where in the row it comes from, if the row is kept."""
        shape = self._x.shape[self._first:]
        row = [e.number(0)] * len(shape) if self.reduces_row else e.delinear(position, shape)
        return [each for axis, each in enumerate([*self._index(e, kept), *row]) if axis not in self._dropped]

    def _index(self, e: Emitter, outer: dict[int, ir.Value]) -> list[ir.Value]:
        """The index along the outer axes: 0 along those that are not given."""
        return [outer.get(axis, e.number(0)) for axis in range(self._first)]
