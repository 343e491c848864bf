"""Convolutions of each channel with a filter of its own: vectors of channels, a few positions at a time.

A tile is a few neighbouring positions of the window in a row of the result. Its function goes through the channels;
for each vector of them it keeps a vector of sums for each position, and loads each column of a row of the image once
for all positions that it counts for. Columns of the padding are left out when the function is made or, if the width is
open, when it is called; rows of it when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import float_range
from circlet.backends.native.emit.emitter import I8, POINTER, Emitter
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.tiling import Split
from circlet.backends.native.gemm.vectors import Vectors, limited
from circlet.backends.native.rules.image import BYTES, FLOAT, Image
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.product import CLAMPS
from circlet.backends.native.rules.rule import Node, Sink
from circlet.runtime.ir.length import is_length, may_differ
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.window import Window
from circlet.runtime.records import dataclass

POSITIONS = 8
"""The most positions of a tile, each of which has a vector of sums in a register. Of 1, 2, 4, 6, 8, 12 and 16 for four
layers (3 x 3 and 5 x 5, 96 to 960 channels), 8 and 12 are within 9 % of the best on AVX2, where 16 spills and takes up
to half longer; on AVX-512 16 gains up to a quarter with images 14 wide, and 1 takes 1.4 to 2.7 times as long as 8."""
_SIZES = (1, 2, 3, 4, 7, POSITIONS)
"""The positions of the tiles of rows of open length: what is between is tiles that overlap, so that there are fewer
functions. 7 is how wide the last images of many networks are."""
_CALLED = 2
"""How many positions calling a tile takes as long as, where a row can be cut in tiles of several sizes. A choice."""
_INSIDE = POSITIONS + 1
"""The kind of a tile of `POSITIONS` without padding, beside kinds that are numbers of positions."""
WORK = 2
"""How much longer a multiply-add takes here than in a product, since it needs a load or more: an estimate, which
decides what is shared out."""


@dataclass(frozen=True)
class Tile:
    """Some neighbouring positions of a window in a row.

    Attributes:
        positions: how many.
        size: columns of the window.
        stride: columns from one position to the next.
        dilation: columns from one element of the window to the next.
        first: the first column inside the image, counted from that under the first element of the first position.
        last: the last one.
        clamps: the results are limited to an interval.
        is_partial: the channels may be no multiple of a vector.
        margin: so many columns at either end may be outside the image, which is known when the tile's function is
            called.
    """

    positions: int
    size: int
    stride: int
    dilation: int
    first: int
    last: int
    clamps: bool
    is_partial: bool
    margin: int = 0

    @classmethod
    def of(cls, window: Window, begin: int, positions: int, clamps: bool, is_partial: bool) -> Tile:
        """The positions from `begin` on."""
        left = begin * window.stride - window.before
        columns = (positions - 1) * window.stride + window.span
        return cls(positions, window.size, window.stride, window.dilation, max(-left, 0),
                   min(window.length - left, columns) - 1, clamps, is_partial)

    @classmethod
    def anywhere(cls, window: Window, positions: int, clamps: bool, is_partial: bool, margin: int) -> Tile:
        """Positions of which some columns at either end may be outside."""
        last = (positions - 1) * window.stride + window.span - 1
        return cls(positions, window.size, window.stride, window.dilation, 0, last, clamps, is_partial, margin)

    @property
    def name(self) -> str:
        """What tells its function from others of the module."""
        holds = (self.clamps, self.is_partial, self.margin > 0)
        flags = "".join(letter for letter, each in zip("cpi", holds, strict=True) if each)
        return (f"depthwise_{self.positions}x{self.size}_s{self.stride}d{self.dilation}_{self.first}_{self.last}"
                f"{flags}")

    def uses(self) -> dict[int, list[tuple[int, int]]]:
        """For each column inside the image, the positions and the elements of the window that meet there."""
        found: dict[int, list[tuple[int, int]]] = {}
        for position in range(self.positions):
            for element in range(self.size):
                column = position * self.stride + element * self.dilation
                if self.first <= column <= self.last:
                    found.setdefault(column, []).append((position, element))
        return dict(sorted(found.items()))


def tiles(window: Window, clamps: bool, is_partial: bool) -> Iterator[tuple[Tile, int, int]]:
    """The tiles of a row of the result: runs of equal ones, with the first position and how many they are."""
    split = Split.of(window.count, POSITIONS)
    sizes = [split.size + (k < split.larger) for k in range(split.parts)]
    begins = np.cumsum([0, *sizes]).tolist()
    every = [(Tile.of(window, begin, size, clamps, is_partial), begin)
             for begin, size in zip(begins, sizes, strict=False)]
    for tile, run in groupby(every, key=lambda each: each[0]):
        found = [begin for _, begin in run]
        yield tile, found[0], len(found)


def depthwise(node: Node[Any], e: Emitter, image: Image, windows: tuple[Window, ...], sink: Sink) -> None:
    """Emits the convolution of images (n, h, w, c) with a filter (1, kh, kw, c), which gives (n, i, j, c).

    A loop over the rows of all results, shared out; in each the tiles of a row are called, which go through the
    channels.
    """
    _Nest(node, e, image, windows, sink).emit()


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a row of results is made of.

    Attributes:
        line: the first row of the image under the window.
        count: how many rows are inside.
        weights: the filter from the first of them on.
        position: the number of the row's first position among all.
        at: the image and the row of the results.
    """

    line: ir.Value
    count: ir.Value
    weights: ir.Value
    position: ir.Value
    at: tuple[ir.Value, ir.Value]


class _Nest:
    def __init__(self, node: Node[Any], e: Emitter, image: Image, windows: tuple[Window, ...], sink: Sink) -> None:
        self._node = node
        self._e = e
        self._image = image
        self._tall, self._wide = windows
        self._sink = sink
        self._lanes = lanes(e.target)
        self._activation: Activation = node.op.fused_activation_function
        self._filter = self._whole(1)
        self._start = self._whole(2)
        self._step = -(-image.channels // self._lanes) * self._lanes
        """Channels of the scratch memory."""
        self._scratch = None
        if sink.memory is None or self._activation not in CLAMPS:
            self._scratch = node.function.scratch(POSITIONS * self._step * BYTES)

    def _whole(self, position: int) -> ir.Value:
        """Where the filter or the bias lies, with some memory behind it, since whole vectors are read."""
        function, value = self._node.function, self._node.optional(position)
        if value is None:
            return function.external(np.zeros(self._image.channels + self._lanes, np.float32))
        if value.known is None or function.narrow(value.known) is not None:
            memory = function.reserve(value.nbytes + self._lanes * BYTES)
            function.write(value, memory)
            return memory
        return function.external(function.derived(
            value.known, ("longer", self._lanes), lambda known: np.pad(known.reshape(-1), (0, self._lanes))))

    def emit(self) -> None:
        """A loop over n i rows of results, shared out: finds the rows of the window that lie inside, and calls each run
        of equal tiles."""
        e, image, tall, wide = self._e, self._image, self._tall, self._wide
        kinds = (self._scratch is None and self._activation is not Activation.NONE,
                 may_differ(image.channels % self._lanes, 0))
        runs = [] if is_length(wide.length) else list(tiles(wide, *kinds))
        size = self._positions() if is_length(wide.length) else None
        positions = image.count * tall.count * wide.count
        with parallel(e, image.count * tall.count, WORK * positions * image.channels * tall.size * wide.size) as line:
            number, y = e.delinear(line, (image.count, tall.count))
            begin = image.at(e, number)
            top = e.builder.sub(e.builder.mul(y, e.number(tall.stride)), e.number(tall.before))
            first, count = self._rows(top)
            row = e.builder.add(top, e.builder.mul(first, e.number(tall.dilation)))
            line = e.address(begin, I8, e.builder.mul(row, e.number(image.row)))
            weights = e.address(self._filter, I8, e.builder.mul(first, e.number(wide.size * image.column)))
            position = e.builder.mul(e.builder.add(e.builder.mul(number, e.number(tall.count)), y),
                                     e.number(wide.count))
            rows = _Rows(line, count, weights, position, (number, y))
            if size is not None:
                self._any_row(rows, size, *kinds)
            elif runs and self._scratch is not None:
                self._row_passed_on(rows, runs)
            else:
                for tile, start, repeats in runs:
                    with rolled(e, repeats) as k:
                        x = e.builder.add(e.number(start), e.builder.mul(k, e.number(tile.positions)))
                        self._call(tile, rows, x)

    def _row_passed_on(self, rows: _Rows, runs: Sequence[tuple[Tile, int, int]]) -> None:
        """The tiles of a row whose results are passed on from scratch memory: one loop over all of them, which chooses
        the function of each, so that what passes on is written once."""
        e, b, split = self._e, self._e.builder, Split.of(self._wide.count, POSITIONS)
        most = max(runs, key=lambda run: run[2])
        with rolled(e, split.parts) as k:
            larger = e.number(split.larger)
            x = b.mul(k, e.number(split.size))
            positions: ir.Value | int = split.size
            if split.larger:
                x = b.add(x, e.intrinsic("smin", k, larger))
                positions = e.select(b.icmp_signed("<", k, larger), e.number(split.size + 1), e.number(split.size))
            usual, after = (e.function.append_basic_block(name) for name in ("usual", "called"))
            choice, first = b.switch(k, usual), 0
            for tile, _, repeats in runs:
                block = usual
                if tile is not most[0]:
                    block = e.function.append_basic_block("tile")
                    for number in range(first, first + repeats):
                        choice.add_case(e.number(number), block)
                b.position_at_end(block)
                self._call(tile, rows, x)
                b.branch(after)
                first += repeats
            b.position_at_end(after)
            self._pass_on(e.bounded(positions, POSITIONS), x, rows.at)

    def _any_row(self, rows: _Rows, positions: ir.Value, clamps: bool, is_partial: bool) -> None:
        """The tiles of a row of open length: all are of one size, of which the last begins so early that it ends with
        the row. A loop over them looks which columns of a tile are inside the image."""
        e, b, wide = self._e, self._e.builder, self._wide
        e.bounded(positions, POSITIONS)
        with rolled(e, b.udiv(b.add(e.number(wide.count), b.sub(positions, e.number(1))), positions)) as k:
            x = e.intrinsic("smin", b.mul(k, positions), b.sub(e.number(wide.count), positions))
            left = self._column(x)
            first = e.intrinsic("smax", b.neg(left), e.number(0))
            last = b.sub(b.sub(e.number(wide.length), left), e.number(1))
            margin, kind = wide.most_padded if wide.is_padded else 0, positions
            every = {size: Tile.anywhere(wide, size, clamps, is_partial, margin) for size in _SIZES}
            if margin:
                every[_INSIDE] = Tile.anywhere(wide, POSITIONS, clamps, is_partial, 0)
                is_it = b.and_(b.icmp_signed("==", first, e.number(0)),
                               b.icmp_signed(">=", last, e.number(every[_INSIDE].last)))
                is_it = b.and_(is_it, b.icmp_signed("==", positions, e.number(POSITIONS)))
                kind = e.select(is_it, e.number(_INSIDE), kind)
            after = e.function.append_basic_block("after")
            choice = b.switch(kind, after)
            for number, tile in every.items():
                block = e.function.append_basic_block(f"tile_{number}")
                choice.add_case(e.number(number), block)
                b.position_at_end(block)
                self._call(tile, rows, x, (first, last) if tile.margin else ())
                b.branch(after)
            b.position_at_end(after)
            if self._scratch is not None:
                self._pass_on(positions, x, rows.at)

    def _positions(self) -> ir.Value:
        """How many positions the tiles of a row of open length have, one at least: the size with which they compute the
        fewest, those counted that overlap, and the fewest calls."""
        e, b, count = self._e, self._e.builder, self._wide.count
        found, least = e.number(1), e.number(count * (1 + _CALLED))
        for size in _SIZES[1:]:
            cost = e.number(-(-count // size) * (size + _CALLED))
            is_it = b.and_(b.icmp_signed("<=", cost, least), b.icmp_signed(">=", e.number(count), e.number(size)))
            found, least = e.select(is_it, e.number(size), found), e.select(is_it, cost, least)
        return found

    def _rows(self, top: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first row of the window that is inside the image, and how many are."""
        e, tall = self._e, self._tall
        if not tall.is_padded:
            return e.number(0), e.number(tall.size)
        b, zero, gap = e.builder, e.number(0), e.number(tall.dilation - 1)
        dilation = e.number(tall.dilation)
        first = b.sdiv(b.add(e.intrinsic("smax", b.neg(top), zero), gap), dilation)
        inside = b.sdiv(b.add(e.intrinsic("smax", b.sub(e.number(tall.length), top), zero), gap), dilation)
        end = e.intrinsic("smin", inside, e.number(tall.size))
        return first, e.intrinsic("smax", b.sub(end, first), zero)

    def _column(self, x: ir.Value) -> ir.Value:
        """The column under the first element of a position."""
        b, wide = self._e.builder, self._wide
        return b.sub(b.mul(x, self._e.number(wide.stride)), self._e.number(wide.before))

    def _call(self, tile: Tile, rows: _Rows, x: ir.Value, columns: Sequence[ir.Value] = ()) -> None:
        """Calls the function of a tile for the positions from `x` on; `columns` are the first and the last one inside
        the image, if some of its columns may be outside."""
        e, b, image = self._e, self._e.builder, self._image
        position = b.add(rows.position, x)
        source = e.address(rows.line, I8, b.mul(self._column(x), e.number(image.column)))
        if self._scratch is None:
            out, step = e.address(self._sink.memory, I8, b.mul(position, e.number(image.column))), image.column
        else:
            out, step = self._scratch, self._step * BYTES
        limits = [ir.Constant(FLOAT, each) for each in float_range(self._activation)] if tile.clamps else []
        call(e, tile, [source, e.number(self._tall.dilation * image.row), e.number(image.column), rows.count,
                       rows.weights, self._start, out, e.number(step), e.number(image.channels), *limits, *columns])

    def _pass_on(self, positions: ir.Value | int, x: ir.Value, at: tuple[ir.Value, ir.Value]) -> None:
        """Passes the results of a tile, (positions, c) in scratch memory, to the activation and the sink."""
        e = self._e
        with rolled(e, positions) as k:
            begin = e.builder.mul(k, e.number(self._step))
            with independent(e, self._image.channels, self._lanes) as channel:
                value = e.load(self._scratch, DType.FLOAT32, e.builder.add(begin, channel))
                value = activate(e, value, DType.FLOAT32, self._activation)
                self._sink(e, [*at, e.builder.add(x, k), channel], value)


def call(e: Emitter, tile: Tile, arguments: list[ir.Value]) -> None:
    """Calls a tile's function, which is made when it is first called.

    Its arguments: where the column under the first element of the first position begins, the distance of the image's
    rows and columns, how many rows, the filter from the first of them on, what sums begin with, where the results go,
    the distance of two positions there, how many channels, the interval, if results are limited, and the first and the
    last column inside the image, if some of the tile's may be outside.
    """
    function = e.module.globals.get(tile.name)
    if function is None:
        kinds = [POINTER, *[e.index] * 3, POINTER, POINTER, POINTER, e.index, e.index]
        kinds += [FLOAT] * 2 * tile.clamps + [e.index] * 2 * (tile.margin > 0)
        function = internal_function(e, tile.name, kinds, VectorLoop)
        _TileBody(Emitter(e.module, function, e.target), tile).emit()
    e.builder.call(function, arguments)


class _TileBody:
    """The code of a tile."""

    def __init__(self, e: Emitter, tile: Tile) -> None:
        self._e = e
        self._tile = tile
        (self._source, self._row, self._column, self._rows, self._filter, self._start, self._out, self._out_step,
         self._channels, *rest) = e.function.args
        self._limits, self._inside = rest[:2 * tile.clamps], rest[2 * tile.clamps:]
        self._lanes = lanes(e.target)
        self._vectors = Vectors(e, FLOAT, self._lanes)
        self._uses = tile.uses()

    def emit(self) -> None:
        """Loops over whole vectors of channels; what is left over is loaded and stored by masks."""
        e, b, width = self._e, self._e.builder, self._e.number(self._lanes)
        with rolled(e, b.udiv(self._channels, width)) as k:
            self._vector(b.mul(k, e.number(self._lanes * BYTES)), None)
        if self._tile.is_partial:
            rest = b.urem(self._channels, width)
            self._vector(b.mul(b.sub(self._channels, rest), e.number(BYTES)), rest)
        b.ret_void()

    def _vector(self, offset: ir.Value, count: ir.Value | None) -> None:
        """One vector of channels, of which only some count: a loop over the rows of the window keeps a vector of sums
        for each position in registers, and stores them limited to the interval."""
        e, tile = self._e, self._tile
        source, filter = (e.address(each, I8, offset) for each in (self._source, self._filter))
        first = self._vectors.load(e.address(self._start, I8, offset))
        between = e.builder.mul(self._column, e.number(tile.size))

        def row(number: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            line = e.address(source, I8, e.builder.mul(number, self._row))
            weights = e.address(filter, I8, e.builder.mul(number, between))
            return self._summed(line, weights, sums, count)

        sums = carry(e, self._rows, [first] * tile.positions, row)
        out = e.address(self._out, I8, offset)
        for position, value in enumerate(limited(e, sums, self._limits)):
            self._store(value, self._beside(out, position, self._out_step), count)

    def _summed(self, line: ir.Value, weights: ir.Value, sums: list[ir.Value], count: ir.Value | None
                ) -> list[ir.Value]:
        """The sums, a vector for each position, with the products of a row of the window added: its filter lies in
        registers, and each column of the image is loaded once for all positions that it counts for."""
        filter = {element: self._vectors.load(self._beside(weights, element, self._column))
                  for element in sorted({element for met in self._uses.values() for _, element in met})}
        found = list(sums)
        for column, met in self._uses.items():
            place, is_inside = self._place(line, column)
            value = self._vectors.load(place) if count is None else self._vectors.load_some(place, count)
            for position, element in met:
                more = self._e.intrinsic("fmuladd", value, filter[element], found[position])
                found[position] = more if is_inside is None else self._e.select(is_inside, more, found[position])
        return found

    def _place(self, line: ir.Value, column: int) -> tuple[ir.Value, ir.Value | None]:
        """Where a column of a row of the image lies, and whether it is inside, an i1, if it may not be; if it is not,
        the place is that of the nearest one that is."""
        e, b, tile = self._e, self._e.builder, self._tile
        if tile.margin <= column <= tile.last - tile.margin:
            return self._beside(line, column, self._column), None
        first, last = self._inside
        nearest = e.intrinsic("smin", e.intrinsic("smax", e.number(column), first), last)
        place = e.address(line, I8, b.mul(nearest, self._column))
        return place, b.icmp_signed("==", nearest, e.number(column))

    def _beside(self, base: ir.Value, number: int, distance: ir.Value) -> ir.Value:
        """The address `number` times a distance behind another."""
        return self._e.address(base, I8, self._e.builder.mul(distance, self._e.number(number)))

    def _store(self, value: ir.Value, place: ir.Value, count: ir.Value | None) -> None:
        """Stores a vector, or its first lanes."""
        if count is None:
            self._vectors.store(value, place)
        else:
            self._vectors.store_some(value, place, count)
