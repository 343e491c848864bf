"""Native rules of sums and products so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, register_type
from circlet.backends.native.emit.loops import Turn, by_length
from circlet.backends.native.emit.parallel import parallel_nests
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.rules.real.elementwise import add, mul
from circlet.backends.native.rules.real.reduce import AXES, Register, axes_of, reserve
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.runtime.ir.length import may_differ
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.reduce import Cumprod, Cumsum

Combine: TypeAlias = Callable[[Emitter, DType, Sequence[ir.Value]], ir.Value]
"""Emits what was found so far and the next element combined."""


def _accumulate(combine: Combine, start: int, node: Node[Cumsum], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x what the elements so far along an axis combine to, of the same shape: loops over the axes before it, shared
    out, over the axis, and over those behind it, whose results lie side by side in scratch memory; a single one is in a
    register. Each begins with `start`."""
    x, (axis,) = node.input(0), axes_of(node)
    dtype, inner, length = x.dtype, x.shape[axis + 1:], x.shape[axis]
    found = _Found(node, e, prod(inner), dtype)

    def turn(outer: Index, number: ir.Value) -> None:
        with e.nest(inner) as rest:
            place = e.builder.sub(e.number(length - 1), number) if node.op.reverse else number
            index, k = [*outer, place, *rest], e.linear(rest, inner)
            before = found.get(k)
            after = combine(e, dtype, [before, x.element(e, index)])
            found.set(k, after)
            sinks[0](e, index, before if node.op.exclusive else after)

    with parallel_nests(e, x.shape[:axis], 2 * x.nbytes) as loops:
        def rows(most: int | None) -> None:
            with loops() as outer:
                found.fill(start)
                _each(e, length, most, partial(turn, outer))

        if may_differ(prod(inner), 1):
            rows(None)
        else:
            by_length(e, length, rows)


def _each(e: Emitter, length: int, most: int | None, turn: Turn, number: int = 0) -> None:
    """`for k in range(length): turn(k)`, written out where there are at most so many, each behind the look whether it
    is there: 2000 rows of 4 floats take a quarter less time so."""
    if most is None:
        with e.loop(length) as k:
            turn(k)
    elif number < most:
        with e.builder.if_then(e.builder.icmp_signed("<", e.number(number), e.number(length))):
            turn(e.number(number))
            _each(e, length, most, turn, number + 1)


class _Found:
    """Numbers of a type that were found so far, by number."""

    def __init__(self, node: Node[Any], e: Emitter, count: int, dtype: DType) -> None:
        self._e, self._count, self._dtype = e, count, dtype
        is_single = not may_differ(count, 1)
        self._register = Register(e, register_type(dtype)) if is_single else None
        self._memory = None if is_single else reserve(node, count, dtype)

    def fill(self, start: int) -> None:
        """Makes all of them a number."""
        with self._e.loop(self._count) as k:
            self.set(k, self._e.constant(start, self._dtype))

    def get(self, k: ir.Value) -> ir.Value:
        """One of them."""
        return self._register.get() if self._register else self._e.load(self._memory, self._dtype, k)

    def set(self, k: ir.Value, value: ir.Value) -> None:
        """Changes one."""
        if self._register:
            self._register.set(value)
        else:
            self._e.store(value, self._memory, self._dtype, k)


nest(Cumsum, plain, frozenset(), AXES)(partial(_accumulate, add, 0))
nest(Cumprod, plain, frozenset(), AXES)(partial(_accumulate, mul, 1))
