"""Copies runs of bytes, as many and as long as it is told: one function does for all copies of a module, and of all
models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, POINTER, Emitter
from circlet.backends.native.emit.loops import branch, rolled
from circlet.backends.native.emit.parallel import length, portion
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.rules.row_vectors import in_every_lane
from circlet.backends.native.targets.constants import lane_numbers
from circlet.backends.native.targets.target import Goal
from circlet.runtime.records import dataclass

_NAME = "copy_runs"
_ENDS = (4, 2, 1)
"""How many registers the first and the last bytes of a run are copied by, which overlap unless they are as long. On
AVX-512, 1000 rows of 128 bytes take half of the time of calls, of 400 and 512 bytes as long."""
Copy: TypeAlias = "Callable[[ir.Value, ir.Value], None]"
"""Emits a copy of a run to one address from another."""


@dataclass(frozen=True, eq=False)
class Lying:
    """Where runs lie: the first one, and how many bytes from one to the next."""

    first: ir.Value
    step: int

    def at(self, e: Emitter, number: ir.Value) -> ir.Value:
        """Where a run of some number lies."""
        return e.address(self.first, I8, e.builder.mul(number, e.number(self.step)))


def copy_runs(e: Emitter, target: Lying, source: Lying, size: int, count: int) -> None:
    """Copies so many runs, of `size` bytes each; they are shared out."""
    function = e.module.globals.get(_NAME) or _function(e)
    with portion(e, count, 2 * size * count) as (begin, end):
        some = e.register(length(e, begin, end, count))
        e.builder.call(function, [target.at(e, begin), source.at(e, begin), e.number(target.step),
                                  e.number(source.step), e.number(size), some])
        e.moved(size * count)


def _function(outer: Emitter) -> ir.Function:
    """`void(target*, source*, step of the target, of the source, size, count)`."""
    function = internal_function(outer, _NAME, [POINTER] * 2 + [outer.index] * 4, VectorLoop)
    e = Emitter(outer.module, function, outer.target)
    target, source, step, further, size, count = function.args

    def runs(copy: Copy) -> None:
        with rolled(e, count) as k:
            copy(e.address(target, I8, e.builder.mul(k, step)), e.address(source, I8, e.builder.mul(k, further)))

    _by_size(e, size, runs)
    e.builder.ret_void()
    return function


def _by_size(e: Emitter, size: ir.Value, write: Callable[[Copy], None]) -> None:
    """Code for runs of so many bytes: `write` emits it for what copies as many as a register or half of one holds with
    a mask, without masks as parts of two hold; as some registers hold; and any number. Of 2000 rows of 32 bytes on
    AVX-512 that takes a third of the time of calls."""
    b, most, has_masks = e.builder, e.target.vector_bytes, e.target.has_masks
    chosen = partial(write, lambda target, source: e.copy(target, source, size))
    if has_masks or (e.target.goal is Goal.HERE and most >= 16):
        parts = [(most, each) for each in _ENDS] + ([] if has_masks else [(most // 2, 1), (most // 4, 1)])
        for lanes, count in parts:
            further = b.sub(size, e.number(lanes * count))
            fits = b.icmp_unsigned("<=", further, e.number(lanes * count))
            ends = partial(_copy_ends, e, further, lanes, count)
            chosen = partial(branch, e, fits, partial(write, ends), chosen)
        for lanes in (most, most // 2) if has_masks else ():
            few = partial(_copy_few, e, size, lanes)
            chosen = partial(branch, e, b.icmp_signed("<=", size, e.number(lanes)), partial(write, few), chosen)
    chosen()


def _copy_ends(e: Emitter, further: ir.Value, lanes: int, count: int, target: ir.Value, source: ir.Value) -> None:
    """Copies the first `lanes * count` bytes, and as many from `further` on."""
    b, kind = e.builder, ir.VectorType(I8, lanes)
    places = [b.add(begin, e.number(k * lanes)) for begin in (e.number(0), further) for k in range(count)]
    values = [b.load(e.address(source, I8, each), typ=kind, align=1) for each in places]
    for value, each in zip(values, places, strict=True):
        b.store(value, e.address(target, I8, each), align=1)


def _copy_few(e: Emitter, size: ir.Value, lanes: int, target: ir.Value, source: ir.Value) -> None:
    """Copies no more bytes than there are lanes."""
    kind, numbers = ir.VectorType(I8, lanes), lane_numbers(lanes)
    every = in_every_lane(e, e.builder.trunc(size, numbers.type.element), numbers.type)
    mask = e.builder.icmp_unsigned("<", numbers, every)
    e.store_masked(e.load_masked(source, mask, ir.Constant(kind, None), 1), target, mask, 1)
