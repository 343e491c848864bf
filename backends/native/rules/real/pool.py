"""Native rules of pooling: each position of the window reduces vectors of channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import inf
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.rules.real.elementwise import activate, refuses_activation
from circlet.backends.native.rules.real.reduce import REORDERED, Register, reserve
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.rules.tiles import Tiles
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.length import is_length
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlet.runtime.ops.window import Window
from circlet.runtime.records import dataclass

FLOAT = DType.FLOAT32
"""What the rules compute with."""
_UNROLLED = 4
"""Elements of a window that need no loop: as many loads as a loop for them takes instructions, for any channels."""


@dataclass(frozen=True)
class Pooling:
    """How the elements of a window become one."""

    start: float
    combine: Callable[[Emitter, ir.Value, ir.Value], ir.Value]
    """From the vector so far and the next one."""
    finish: Callable[[Emitter, ir.Value, ir.Value], ir.Value] = lambda e, value, count: value
    """From one element, and how many elements of the image the window covers."""


def covered(e: Emitter, window: Window, position: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The first input that a position of a window covers, padding left out, and how many it covers."""
    start = e.builder.sub(e.builder.mul(position, e.number(window.stride)), e.number(window.before), flags=("nsw",))
    if not window.is_padded:
        return start, e.number(window.size)
    first = e.intrinsic("smax", start, e.number(0))
    end = e.intrinsic("smin", e.builder.add(start, e.number(window.size)), e.number(window.length))
    return first, e.builder.sub(end, first)


def _pool(pooling: Pooling, node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), float32: (n, i, j, c). Loops over n and i, shared out, over j, over parts of the
    channels, and over what of the window lies inside, with a part's result in vector registers, or in memory for open
    numbers of channels; a row (c,) in scratch memory takes it to the sink."""
    x, b = node.input(0), e.builder
    (images, _, _, channels), (tall, wide) = x.shape, node.op.windows(x.shape)
    row, combine = reserve(node, channels, FLOAT), _in_memory if is_length(channels) else _in_registers
    work = 2 * images * tall.count * wide.count * tall.size * wide.size * channels
    with parallel_nest(e, (images, tall.count), work) as (image, i):
        top, height = covered(e, tall, i)
        with e.loop(wide.count) as j:
            left, width = covered(e, wide, j)
            combine(pooling, node, e, _Covered(image, top, left, height, width), row)
            count = b.sitofp(b.mul(height, width), ir.FloatType())
            with independent(e, channels, rereads=True) as channel:
                value = pooling.finish(e, e.load(row, FLOAT, channel), count)
                value = activate(e, value, FLOAT, node.op.fused_activation_function)
                sinks[0](e, [image, i, j, channel], value)


@dataclass(frozen=True, eq=False)
class _Covered:
    """What a window covers of an image, padding left out."""

    image: ir.Value
    top: ir.Value
    left: ir.Value
    height: ir.Value
    width: ir.Value

    def place(self, e: Emitter, shape: Shape, k: ir.Value, m: ir.Value, channel: ir.Value) -> ir.Value:
        """Where in images of a shape a channel lies at a position of the window."""
        return e.linear([self.image, e.builder.add(self.top, k), e.builder.add(self.left, m), channel], shape)


def _is_unrolled(node: Node[Any]) -> bool:
    """Whether a window has so few elements that each is code of its own."""
    tall, wide = node.op.windows(node.input(0).shape)
    return tall.size * wide.size <= _UNROLLED and not (tall.is_padded or wide.is_padded)


def _positions(node: Node[Any], e: Emitter) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Those of a window that is unrolled."""
    tall, wide = node.op.windows(node.input(0).shape)
    return ((e.number(k), e.number(m)) for k, m in product(range(tall.size), range(wide.size)))


def _in_registers(pooling: Pooling, node: Node[Any], e: Emitter, covers: _Covered, row: ir.Value) -> None:
    """Combines what a window covers, parts of the channels in vector registers, which go to the row."""
    x = node.input(0)
    source, tiles = node.function.pointer(x), Tiles.of(e, FLOAT, x.shape[3])
    register = Register(e, tiles.kind)
    with tiles.each(e) as start:
        register.set(tiles.constant(pooling.start))

        def take(k: ir.Value, m: ir.Value) -> None:
            elements = tiles.load(e, source, covers.place(e, x.shape, k, m, start))
            register.set(pooling.combine(e, register.get(), elements))

        if _is_unrolled(node):
            for k, m in _positions(node, e):
                take(k, m)
        else:
            with e.loop(covers.height) as k, e.loop(covers.width) as m:
                take(k, m)
        tiles.store(e, register.get(), row, start)


def _in_memory(pooling: Pooling, node: Node[Any], e: Emitter, covers: _Covered, row: ir.Value) -> None:
    """Combines what a window covers in the row itself, where only a run knows how many channels there are."""
    x, start = node.input(0), e.constant(pooling.start, FLOAT)
    source, channels = node.function.pointer(x), x.shape[3]

    def with_next(value: ir.Value, k: ir.Value, m: ir.Value, channel: ir.Value) -> ir.Value:
        return pooling.combine(e, value, e.load(source, FLOAT, covers.place(e, x.shape, k, m, channel)))

    with independent(e, channels, rereads=True) as channel:
        value = start
        for k, m in _positions(node, e) if _is_unrolled(node) else ():
            value = with_next(value, k, m, channel)
        e.store(value, row, FLOAT, channel)
    if not _is_unrolled(node):
        with (e.loop(covers.height) as k, e.loop(covers.width) as m,
              independent(e, channels, rereads=True) as channel):
            e.store(with_next(e.load(row, FLOAT, channel), k, m, channel), row, FLOAT, channel)


def _add(e: Emitter, so_far: ir.Value, each: ir.Value) -> ir.Value:
    """The sum of vectors."""
    return e.builder.fadd(so_far, each, flags=REORDERED)


def _add_square(e: Emitter, so_far: ir.Value, each: ir.Value) -> ir.Value:
    """The sum of vectors, the second one squared."""
    return _add(e, so_far, e.builder.fmul(each, each, flags=REORDERED))


def _larger(e: Emitter, so_far: ir.Value, each: ir.Value) -> ir.Value:
    """NaN where either is."""
    return e.intrinsic("maximum", so_far, each, flags=("nsz",))


def _quotient(e: Emitter, value: ir.Value, count: ir.Value) -> ir.Value:
    """The mean of what the window covers."""
    return e.builder.fdiv(value, count)


def _root(e: Emitter, value: ir.Value, count: ir.Value) -> ir.Value:
    """The root of the mean of squares."""
    return e.intrinsic("sqrt", _quotient(e, value, count))


for _op, _pooling in {
    AveragePool2D: Pooling(0.0, _add, _quotient),
    MaxPool2D: Pooling(-inf, _larger),
    L2Pool2D: Pooling(0.0, _add_square, _root),
}.items():
    nest(_op, all_of(refuses_activation, only((FLOAT,))), frozenset({0}))(partial(_pool, _pooling))
