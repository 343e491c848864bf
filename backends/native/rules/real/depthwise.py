"""Convolutions of each channel with a filter of its own: vectors of channels, a few positions at a time.

A tile is a few neighbouring positions of the window in a row of the result. Its function goes through the channels;
for each vector of them it keeps a vector of sums for each position, and loads each column of a row of the image once
for all positions that it counts for. Columns of the padding are left out when the function is made, rows of it when it
is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import float_range
from circlet.backends.native.emit.emitter import I8, I64, POINTER, Emitter
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.gemm.microkernel import Split, Vectors, internal_function, lanes, limited
from circlet.backends.native.rules.image import BYTES, FLOAT, Image
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.real.product import CLAMPS
from circlet.backends.native.rules.rule import Node, Sink
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.window import Window

POSITIONS = 8
"""The most positions of a tile."""
WORK = 2
"""How much longer a multiply-add takes here than in a product."""


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
        is_partial: the channels are no multiple of a vector.
    """

    positions: int
    size: int
    stride: int
    dilation: int
    first: int
    last: int
    clamps: bool
    is_partial: bool

    @classmethod
    def of(cls, window: Window, begin: int, positions: int, clamps: bool, is_partial: bool) -> Tile:
        """The positions from `begin` on."""
        left = begin * window.stride - window.before
        columns = (positions - 1) * window.stride + window.span
        return cls(positions, window.size, window.stride, window.dilation, max(-left, 0),
                   min(window.length - left, columns) - 1, clamps, is_partial)

    @property
    def name(self) -> str:
        flags = "".join(letter for letter, holds in (("c", self.clamps), ("p", self.is_partial)) if holds)
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
    """Emits the convolution of images with a filter (1, h, w, c), whose channels are those of the images."""
    _Nest(node, e, image, windows, sink).emit()


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
        if value.known is None:
            memory = function.reserve(value.nbytes + self._lanes * BYTES)
            function.write(value, memory)
            return memory
        known = value.known
        return function.external(function.derived(known, "longer", lambda: np.pad(known.reshape(-1), (0, self._lanes))))

    def emit(self) -> None:
        e, image, tall, wide = self._e, self._image, self._tall, self._wide
        runs = list(tiles(wide, self._scratch is None and self._activation is not Activation.NONE,
                          image.channels % self._lanes != 0))
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
            for tile, start, repeats in runs:
                with rolled(e, repeats) as k:
                    x = e.builder.add(e.number(start), e.builder.mul(k, e.number(tile.positions)))
                    self._tile(tile, line, count, weights, x, e.builder.add(position, x), (number, y))

    def _rows(self, top: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first row of the window that is inside the image, and how many are."""
        e, tall = self._e, self._tall
        if not tall.before and not tall.after:
            return e.number(0), e.number(tall.size)
        b, zero, gap = e.builder, e.number(0), e.number(tall.dilation - 1)
        dilation = e.number(tall.dilation)
        first = b.sdiv(b.add(e.intrinsic("smax", b.neg(top), zero), gap), dilation)
        inside = b.sdiv(b.add(e.intrinsic("smax", b.sub(e.number(tall.length), top), zero), gap), dilation)
        end = e.intrinsic("smin", inside, e.number(tall.size))
        return first, e.intrinsic("smax", b.sub(end, first), zero)

    def _tile(self, tile: Tile, line: ir.Value, count: ir.Value, weights: ir.Value, x: ir.Value, position: ir.Value,
              at: tuple[ir.Value, ir.Value]) -> None:
        e, b, image = self._e, self._e.builder, self._image
        column = b.sub(b.mul(x, e.number(self._wide.stride)), e.number(self._wide.before))
        source = e.address(line, I8, b.mul(column, e.number(image.column)))
        if self._scratch is None:
            out, step = e.address(self._sink.memory, I8, b.mul(position, e.number(image.column))), image.column
        else:
            out, step = self._scratch, self._step * BYTES
        limits = [ir.Constant(FLOAT, each) for each in float_range(self._activation)] if tile.clamps else []
        call(e, tile, [source, e.number(self._tall.dilation * image.row), e.number(image.column), count, weights,
                       self._start, out, e.number(step), e.number(image.channels), *limits])
        if self._scratch is not None:
            self._pass_on(tile, x, at)

    def _pass_on(self, tile: Tile, x: ir.Value, at: tuple[ir.Value, ir.Value]) -> None:
        e = self._e
        with rolled(e, tile.positions) as k:
            begin = e.builder.mul(k, e.number(self._step))
            with independent(e, self._image.channels, self._lanes) as channel:
                value = e.load(self._scratch, DType.FLOAT32, e.builder.add(begin, channel))
                value = activate(e, value, DType.FLOAT32, self._activation)
                self._sink(e, [*at, e.builder.add(x, k), channel], value)


def call(e: Emitter, tile: Tile, arguments: list[ir.Value]) -> None:
    """Calls a tile's function, which is made when it is first called.

    Its arguments: where the column under the first element of the first position begins, the distance of the image's
    rows and columns, how many rows, the filter from the first of them on, what sums begin with, where the results go,
    the distance of two positions there, how many channels, and the interval, if results are limited.
    """
    function = e.module.globals.get(tile.name)
    if function is None:
        kinds = [POINTER, I64, I64, I64, POINTER, POINTER, POINTER, I64, I64]
        function = internal_function(e, tile.name, kinds + [FLOAT] * 2 * tile.clamps)
        _TileBody(Emitter(e.module, function, e.target), tile).emit()
    e.builder.call(function, arguments)


class _TileBody:
    """The code of a tile."""

    def __init__(self, e: Emitter, tile: Tile) -> None:
        self._e = e
        self._tile = tile
        (self._source, self._row, self._column, self._rows, self._filter, self._start, self._out, self._out_step,
         self._channels, *self._limits) = e.function.args
        self._lanes = lanes(e.target)
        self._vectors = Vectors(e, FLOAT, self._lanes)
        self._uses = tile.uses()

    def emit(self) -> None:
        e, b, width = self._e, self._e.builder, self._e.number(self._lanes)
        with rolled(e, b.udiv(self._channels, width)) as k:
            self._vector(b.mul(k, e.number(self._lanes * BYTES)), None)
        if self._tile.is_partial:
            rest = b.urem(self._channels, width)
            self._vector(b.mul(b.sub(self._channels, rest), e.number(BYTES)), rest)
        b.ret_void()

    def _vector(self, offset: ir.Value, count: ir.Value | None) -> None:
        """One vector of channels, of which only some count."""
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
        for position, value in enumerate(sums):
            self._store(limited(e, value, self._limits), self._beside(out, position, self._out_step), count)

    def _summed(self, line: ir.Value, weights: ir.Value, sums: list[ir.Value], count: ir.Value | None
                ) -> list[ir.Value]:
        """The sums with the products of a row of the window added."""
        filter = {element: self._vectors.load(self._beside(weights, element, self._column))
                  for element in sorted({element for met in self._uses.values() for _, element in met})}
        found = list(sums)
        for column, met in self._uses.items():
            place = self._beside(line, column, self._column)
            value = self._vectors.load(place) if count is None else self._vectors.load_some(place, count)
            for position, element in met:
                found[position] = self._e.intrinsic("fmuladd", value, filter[element], found[position])
        return found

    def _beside(self, base: ir.Value, number: int, distance: ir.Value) -> ir.Value:
        return self._e.address(base, I8, self._e.builder.mul(distance, self._e.number(number)))

    def _store(self, value: ir.Value, place: ir.Value, count: ir.Value | None) -> None:
        if count is None:
            self._vectors.store(value, place)
        else:
            self._vectors.store_some(value, place, count)
