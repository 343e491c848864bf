"""Images in memory (n, h, w, c), as the operators that slide windows over them read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.rules.rule import Node
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.window import Window
from circlet.runtime.records import dataclass

FLOAT = ir.FloatType()
"""LLVM's type of an element."""
BYTES = 4
"""Of an element."""


@dataclass(frozen=True, eq=False)
class Image:
    """Images of float32, one after the other.

    Attributes:
        memory: where they begin.
        count: how many there are.
        height: of each.
        width: of each.
        channels: of each.
    """

    memory: ir.Value
    count: int
    height: int
    width: int
    channels: int

    @property
    def column(self) -> int:
        """The distance of two columns in bytes."""
        return self.channels * BYTES

    @property
    def row(self) -> int:
        """The distance of two rows in bytes."""
        return self.width * self.column

    @property
    def distances(self) -> Shape:
        """Of two elements along each axis, in bytes."""
        return self.row, self.column

    @property
    def size(self) -> int:
        """Bytes of an image."""
        return self.height * self.row

    def at(self, e: Emitter, number: ir.Value, row: ir.Value | None = None) -> ir.Value:
        """Where an image, or a row of it, begins."""
        begin = e.address(self.memory, I8, e.builder.mul(number, e.number(self.size)))
        return begin if row is None else e.address(begin, I8, e.builder.mul(row, e.number(self.row)))


@dataclass(frozen=True, eq=False)
class Volume:
    """Volumes of float32, one after the other.

    Attributes:
        memory: where they begin.
        count: how many there are.
        lengths: depth, height and width of each.
        channels: of each.
    """

    memory: ir.Value
    count: int
    lengths: Shape
    channels: int

    @property
    def distances(self) -> Shape:
        """Of two elements along each axis, in bytes."""
        return tuple(prod(self.lengths[axis + 1:]) * self.channels * BYTES for axis in range(len(self.lengths)))

    @property
    def size(self) -> int:
        """Bytes of a volume."""
        return prod(self.lengths) * self.channels * BYTES

    def at(self, e: Emitter, number: ir.Value, *index: ir.Value) -> ir.Value:
        """Where a volume, or a part of it, begins."""
        place = e.builder.mul(number, e.number(self.size))
        for each, distance in zip(index, self.distances, strict=False):
            place = e.builder.add(place, e.builder.mul(each, e.number(distance)))
        return e.address(self.memory, I8, place)


def image_of(node: Node[Any], value: Value) -> Image:
    """The images that a tensor is."""
    count, height, width, channels = value.shape
    return Image(node.function.pointer(value), count, height, width, channels)


def empty_image(node: Node[Any], count: int, windows: Sequence[Window], channels: int, behind: int = 0) -> Image:
    """Scratch memory for images with the windows' padding around them, and some bytes behind them."""
    height, width = (each.before + each.length + each.after for each in windows)
    memory = node.function.reserve(count * height * width * channels * BYTES + behind)
    return Image(memory, count, height, width, channels)


def with_margins(node: Node[Any], e: Emitter, image: Image, windows: Sequence[Window]) -> Image:
    """The images (n, h, w, c) with the windows' padding around them, zeros; copied to scratch memory, row by row,
    shared out, unless there is none."""
    tall, wide = windows
    if not any(each.is_padded for each in windows):
        return image
    made = empty_image(node, image.count, windows, image.channels)
    left, right = wide.before * made.column, wide.after * made.column
    with rolled(e, image.count) as number:
        e.fill(made.at(e, number), 0, tall.before * made.row)
        e.fill(made.at(e, number, e.number(tall.before + tall.length)), 0, tall.after * made.row)
        with parallel(e, image.height, image.size) as y:
            line = made.at(e, number, e.builder.add(y, e.number(tall.before)))
            e.fill(line, 0, left)
            e.copy(e.address(line, I8, left), image.at(e, number, y), image.row)
            e.fill(e.address(line, I8, left + image.row), 0, right)
    return made


def repeated(node: Node[Any], e: Emitter, image: Image, times: int) -> Image:
    """The images (n, h, w, c) as (n, h, w, c times): a loop over all elements, shared out, writes each `times`
    times."""
    if times == 1:
        return image
    made = Image(node.function.reserve(image.count * image.size * times), image.count, image.height, image.width,
                 image.channels * times)
    size = prod((image.count, image.height, image.width, image.channels))
    with parallel(e, size, 2 * size * times * BYTES) as position:
        value = e.load(image.memory, DType.FLOAT32, position)
        first = e.builder.mul(position, e.number(times))
        with independent(e, times, lanes(e.target)) as k:
            e.store(value, made.memory, DType.FLOAT32, e.builder.add(first, k))
    return made
