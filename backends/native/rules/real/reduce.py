"""Native rules of the operators that combine elements along axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf, nan, prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import UNSIGNED, Emitter, is_real, register_type
from circlet.backends.native.emit.loops import branch, cut_for, folded, independent, narrowest, rolled
from circlet.backends.native.emit.loops import fold as combine
from circlet.backends.native.emit.whole import Truth, Whole, either
from circlet.backends.native.rules.moving.move import expect
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.elementwise import compare
from circlet.backends.native.rules.real.traversal import Taken, Traversal
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.row_vectors import RowVectors, in_every_lane
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.rules.tiles import Tiles
from circlet.backends.native.targets.constants import Uniform
from circlet.runtime.ir.length import certain, is_known, is_length, larger, may_be_none
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import reduce as ops
from circlet.runtime.records import dataclass

BLOCK = 1024
"""How many results are made side by side where the reduced axes are outer ones: 4 KB of floats, which stay in the
first-level cache with what is read. Of 128 to 16384, 512 to 2048 are within 8 % of each other for rows of 16384; 128
takes up to 40 % longer, 16384 55 %. Rows of 64 and 512 take the same time with any, rows of 4096 a tenth less with
4096."""
LEAST_BLOCK = 512
"""The shortest of these where a row is cut in blocks of one length: a choice by the same measurement."""
RUN = 4096
"""How many elements of a row are combined before the outcome joins that of the others, so that errors grow with the
number of runs and not of elements, as in numpy's pairwise summation, but in two levels. From 256 to 65536 all are
within 7 %; 64 takes nearly six times as long."""
SHORT = 256
"""The longest row of results that is accumulated in vector registers rather than in memory. Of 200 rows of 16 to 64
floats the sum takes 16 to 67 % less time so, of 128 up to 15 % less, of 256 up to 23 % more, of 512 some 30 % more,
AVX2 and AVX-512."""
_SIDES, _NARROW = (1, 2, 4), (1, 2, 4)
"""How many vector registers a part of such a row has where only a run knows its length, and what part of a register a
shorter row has: a choice, with which sums of rows of 4 to 256 floats take the time of code for one length, within
6 %."""
_FEW = 8
"""The most elements that are combined without a loop where that is all that there is to do: a choice. A function all of
whose other loops call others needs fewer passes then."""
AXES = frozenset({1})
"""The parameter of these operators."""
REORDERED = ("reassoc", "contract")
"""The liberties that sums of floats take."""

Combine: TypeAlias = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
"""Emits what was accumulated so far and the next element combined."""


@dataclass(frozen=True)
class Fold:
    """How elements become one: `finish(combine(combine(start, x), y)...)`."""

    dtype: DType
    """What is accumulated."""
    start: float | int
    combine: Combine
    finish: Callable[[Emitter, ir.Value], ir.Value] = lambda e, value: value
    widens: bool = False
    """Whether elements of narrower types, and vectors of them, are combined as they are read."""


MakeFold: TypeAlias = Callable[[DType, int], Fold]
"""The fold for elements of a type, of which so many are combined."""


def total(dtype: DType, count: int = 1) -> Fold:
    """The sum; of booleans the disjunction."""
    if dtype is DType.BOOL:
        return Fold(dtype, False, lambda e, a, b: e.builder.or_(a, b))
    if is_real(dtype):
        return Fold(dtype, 0.0, lambda e, a, b: e.builder.fadd(a, b, flags=REORDERED))
    return Fold(dtype, 0, lambda e, a, b: e.builder.add(a, b))


def _product(dtype: DType, count: int) -> Fold:
    """The product; of booleans the conjunction."""
    if dtype is DType.BOOL:
        return Fold(dtype, True, lambda e, a, b: e.builder.and_(a, b))
    if is_real(dtype):
        return Fold(dtype, 1.0, lambda e, a, b: e.builder.fmul(a, b, flags=REORDERED))
    return Fold(dtype, 1, lambda e, a, b: e.builder.mul(a, b))


def _mean(dtype: DType, count: int) -> Fold:
    """The quotient of integers is truncated towards zero."""
    if is_real(dtype):
        fold = total(dtype)
        return Fold(dtype, 0.0, fold.combine, lambda e, value: e.builder.fdiv(value, _counted(e, count, dtype)))
    wide = DType.UINT64 if dtype in UNSIGNED else DType.INT64

    def finish(e: Emitter, value: ir.Value) -> ir.Value:
        divide = e.builder.udiv if dtype in UNSIGNED else e.builder.sdiv
        return convert(e, divide(value, e.constant(larger(count, 1), wide)), wide, dtype)

    return Fold(wide, 0, lambda e, a, b: e.builder.add(a, convert(e, b, dtype, wide)), finish)


def _counted(e: Emitter, count: int, dtype: DType) -> ir.Value:
    """How many elements are combined, as a number of a real type."""
    if is_length(count):
        return e.builder.sitofp(e.number(count), register_type(dtype))
    return e.constant(count, dtype)


def extreme(relation: str, dtype: DType, count: int = 1) -> Fold:
    """The greatest (`>`) or least (`<`) element, NaN only where there is nothing else."""
    greatest = relation == ">"
    if dtype is DType.BOOL:
        return (total if greatest else _product)(dtype, count)
    limits: Any = np.finfo(dtype.numpy) if is_real(dtype) else np.iinfo(dtype.numpy)
    start = limits.min if greatest else limits.max
    if is_real(dtype):
        name = "maximumnum" if greatest else "minimumnum"

        def finish(e: Emitter, value: ir.Value) -> ir.Value:
            if not may_be_none(count):
                return value
            is_empty = e.builder.icmp_signed("==", e.number(count), e.number(0))
            return e.select(is_empty, e.constant(start, dtype), value)

        return Fold(dtype, nan if count else start, lambda e, a, b: e.intrinsic(name, a, b, flags=("nsz",)), finish)
    return Fold(dtype, start, lambda e, a, b: e.select(compare(e, dtype, relation, b, a), b, a))


class Register:
    """A value that loops change; LLVM keeps it in a register. It has none yet where a loop that is shared out begins,
    nor any more where that ends."""

    def __init__(self, e: Emitter, kind: ir.Type) -> None:
        self._e = e
        self._kind = kind
        self._slots: dict[str, ir.Value] = {}
        """By the name of the function."""

    def get(self) -> ir.Value:
        """What it holds: a load from the slot that the function has for it."""
        return self._e.builder.load(self._slots[self._e.function.name], typ=self._kind)

    def set(self, value: ir.Value) -> None:
        """Stores a value in the function's slot, which is made at first use."""
        name = self._e.function.name
        if name not in self._slots:
            self._slots[name] = self._e.slot(self._kind)
        self._e.builder.store(value, self._slots[name])


@contextmanager
def parts(e: Emitter, length: int, size: int = BLOCK) -> Iterator[tuple[ir.Value, ir.Value | int]]:
    """A loop over the parts of a row, each of `size` elements or what is left: where it begins, and how long it is."""
    if certain(length, "<=", size):
        yield e.number(0), length
        return
    with rolled(e, -(-length // size)) as number:
        start = e.builder.mul(number, e.number(size), flags=("nsw",))
        yield start, e.intrinsic("smin", e.builder.sub(e.number(length), start), e.number(size))


@contextmanager
def blocks(e: Emitter, length: int) -> Iterator[tuple[ir.Value, ir.Value | int]]:
    """`parts` of a row of results that are made side by side; all of one length where a row can be cut so, for which
    there is half as much code."""
    known = () if is_length(length) else range(max(-(-length // BLOCK), 1), length // LEAST_BLOCK + 1)
    count = next((count for count in known if length % count == 0), 1)
    if count == 1:
        with parts(e, length) as part:
            yield part
        return
    with rolled(e, count) as number:
        yield e.builder.mul(number, e.number(length // count), flags=("nsw",)), length // count


def axes_of(node: Node[Any]) -> tuple[int, ...]:
    """The axes in input 1."""
    known = node.input(1).known
    assert known is not None, "parameters are known"
    return ops.reduced_axes(known, len(node.input(0).shape))


def fold_along(make: MakeFold, node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Combines the elements along the axes in input 1 by the fold that `make` gives: in a register where the last axis
    is reduced, else side by side in vector registers or in memory."""
    x, axes = node.input(0), axes_of(node)
    fold = make(x.dtype, prod(x.shape[axis] for axis in axes))
    traversal = Traversal(x, axes, node.op.keep_dims)
    if traversal.reduces_row or is_known(traversal.length, 1):
        _reduce_row(e, traversal, fold, sinks[0])
    else:
        in_vectors = x.memory is not None and (fold.widens or fold.dtype is x.dtype is not DType.BOOL)
        _reduce_columns(node, e, traversal, fold, sinks[0], in_vectors)


def _reduce_row(e: Emitter, traversal: Traversal, fold: Fold, sink: Sink) -> None:
    """Accumulates each result in a register: loops over the kept axes, shared out, over the reduced outer ones, and
    over the row, of which LLVM makes vectors. Floats are combined `RUN` at a time."""
    whole, part = (Register(e, register_type(fold.dtype)) for _ in range(2))
    start = e.constant(fold.start, fold.dtype)

    def turn(taken: Taken, kept: dict[int, ir.Value]) -> None:
        whole.set(start)
        with traversal.reduced(e) as reduced:
            if isinstance(taken, RowVectors):
                begin = traversal.position(e, {**kept, **reduced}, e.number(0))
                row = taken.combined(e, fold.combine, fold.start, begin, traversal.count(e))
                whole.set(fold.combine(e, whole.get(), row))
            elif taken is not None or not is_real(fold.dtype) or certain(traversal.length, "<=", RUN):
                _combine_row(e, traversal, fold, whole, {**kept, **reduced}, e.number(0), traversal.length, taken)
            else:
                with parts(e, traversal.length, RUN) as (begin, count):
                    part.set(start)
                    _combine_row(e, traversal, fold, part, {**kept, **reduced}, begin, count)
                    whole.set(fold.combine(e, whole.get(), part.get()))
        sink(e, traversal.result_index(e, kept, e.number(0)), fold.finish(e, whole.get()))

    traversal.each_kept(e, traversal.row_vectors(e) if fold.dtype is traversal.dtype else None, turn)


def _combine_row(e: Emitter, traversal: Traversal, fold: Fold, register: Register, outer: dict[int, ir.Value],
                 begin: ir.Value, count: ir.Value | int, most: int | None = None) -> None:
    """A loop over `count` elements of a row from `begin` on, `most` of them if one vector holds all: combines each with
    what the register holds. Few that become one number, as the lengths of a shape do, are written out."""

    def turn(k: ir.Value) -> None:
        element = traversal.read(e, outer, e.builder.add(begin, k))
        register.set(fold.combine(e, register.get(), element))

    if isinstance(count, int) and count <= _FEW and traversal.gives_one:
        for k in range(count):
            turn(e.number(k))
        return
    if isinstance(count, int) and (fold.dtype is DType.BOOL or not e.target.has_masks):
        loop = e.loop(count)
    else:
        loop = folded(e, *cut_for(e, count, narrowest(e, count) if isinstance(count, int) else most))
    with loop as index:
        turn(index)


def _reduce_columns(node: Node[Any], e: Emitter, traversal: Traversal, fold: Fold, sink: Sink,
                    in_vectors: bool) -> None:
    """Accumulates the results of a row side by side, where they are few in vector registers, else in memory: loops over
    the kept outer axes, shared out, and what of `_reduce_tiles` and `_reduce_beside` the length asks for."""
    length = traversal.length
    memory = reserve(node, _beside(length), fold.dtype)
    source = node.function.pointer(node.input(0)) if in_vectors else memory
    with traversal.kept(e) as kept:
        def beside() -> None:
            _reduce_beside(e, traversal, fold, sink, kept, memory)

        def tiled() -> None:
            _each_tiles(e, fold.dtype, length, lambda tiles: _reduce_tiles(
                e, traversal, fold, kept, tiles, source, memory))
            with independent(e, length, rereads=True) as k:
                sink(e, traversal.result_index(e, kept, k), fold.finish(e, e.load(memory, fold.dtype, k)))

        if not in_vectors:
            beside()
            return
        count, lanes = Whole(e, length), e.target.vector_bytes // fold.dtype.numpy.itemsize
        branch(e, either(e, count.compare(">", SHORT), _has_no_tiles(e, count, lanes)), beside, tiled)


def _has_no_tiles(e: Emitter, count: Whole, lanes: int) -> Truth:
    """Whether a row of so many elements is shorter than any part that is not masked, though it may not be."""
    known = not is_length(count.value)
    return False if known or e.target.has_masks else count.compare("<", lanes)


def _each_tiles(e: Emitter, dtype: DType, length: int, write: Callable[[Tiles], None]) -> None:
    """Code for parts of a row that vector registers hold: where only a run knows its length, for parts of some sizes
    and, where the processor has masks, for the parts of a register that hold a whole row."""
    if not is_length(length):
        write(Tiles.of(e, dtype, length))
        return
    lanes, count = e.target.vector_bytes // dtype.numpy.itemsize, Whole(e, length)
    narrow, chosen = [lanes // parts for parts in _NARROW if e.target.has_masks], None
    for size in narrow:
        few = partial(write, Tiles(dtype, length, size, is_masked=True))
        chosen = few if chosen is None else partial(branch, e, count.compare("<=", size), few, chosen)
    for size in (each * lanes for each in _SIDES):
        many = partial(write, Tiles(dtype, length, size))
        chosen = many if chosen is None else partial(branch, e, count.compare(">=", size), many, chosen)
    assert chosen is not None, "there are sizes"
    chosen()


def _reduce_tiles(e: Emitter, traversal: Traversal, fold: Fold, kept: dict[int, ir.Value], tiles: Tiles,
                  source: ir.Value, memory: ir.Value) -> None:
    """Accumulates the results of a row in vector registers, which go to scratch memory of the row's length: loops over
    the parts of the row, and over the reduced axes."""
    register, read = Register(e, tiles.kind), replace(tiles, dtype=traversal.dtype)
    with tiles.each(e) as start:
        register.set(tiles.constant(fold.start))
        with traversal.reduced(e) as reduced:
            elements = read.load(e, source, traversal.position(e, {**kept, **reduced}, start))
            register.set(fold.combine(e, register.get(), elements))
        tiles.store(e, register.get(), memory, start)


def _reduce_beside(e: Emitter, traversal: Traversal, fold: Fold, sink: Sink, kept: dict[int, ir.Value],
                   memory: ir.Value) -> None:
    """Accumulates the results of a part of a row in memory: loops over parts of up to `BLOCK` results, over the reduced
    axes, and over the part."""
    with blocks(e, traversal.length) as (start, count):
        with independent(e, count, rereads=True) as k:
            e.store(e.constant(fold.start, fold.dtype), memory, fold.dtype, k)
        with traversal.reduced(e, has_loops=True) as reduced, independent(e, count, rereads=True) as k:
            element = traversal.read(e, {**kept, **reduced}, e.builder.add(start, k))
            e.store(fold.combine(e, e.load(memory, fold.dtype, k), element), memory, fold.dtype, k)
        with independent(e, count, rereads=True) as k:
            sink(e, traversal.result_index(e, kept, e.builder.add(start, k)),
                 fold.finish(e, e.load(memory, fold.dtype, k)))


def _beside(length: int) -> int:
    """How many results of a row are made side by side."""
    return BLOCK if is_length(length) else min(length, BLOCK)


def reserve(node: Node[Any], count: int, dtype: DType) -> ir.Value:
    """Scratch memory for so many elements, other for each thread."""
    return node.function.scratch(count * dtype.numpy.itemsize)


def reserve_row(node: Node[Any], length: int, dtype: DType) -> ir.Value:
    """As `reserve`; where only a run knows how many elements there are, and all that reads and writes them are whole
    vectors, with room for one behind the last element."""
    e = node.function.e
    if not is_length(length):
        return reserve(node, length, dtype)
    memory = node.function.scratch(length * dtype.numpy.itemsize + e.target.vector_bytes)
    e.roomy.add(memory)
    return memory


_FOLDS: dict[type[ops.Reduction], MakeFold] = {
    ops.Sum: total,
    ops.Mean: _mean,
    ops.ReduceProd: _product,
    ops.ReduceMax: partial(extreme, ">"),
    ops.ReduceMin: partial(extreme, "<"),
    ops.ReduceAny: total,
    ops.ReduceAll: _product,
}
"""How each operator's elements become one."""
for _op, _make in _FOLDS.items():
    nest(_op, plain, frozenset(), AXES)(partial(fold_along, _make))


def _arg(relation: str, node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Emits ARG_MAX (`>`) or ARG_MIN (`<`): of x the places (i32 or i64) of the first extreme element along an axis."""
    x, axes = node.input(0), axes_of(node)
    length, traversal = prod(x.shape[axis] for axis in axes), Traversal(x, axes)
    if may_be_none(length):
        expect(node, Whole(e, length).compare(">=", Whole(e, prod(node.shape)).at_most(1)),
               f"axis {axes[0]} of input 0 is empty: expected at least one element")
    find = _find_in_row if traversal.reduces_row or is_known(traversal.length, 1) else _find_beside
    find(relation, node, e, traversal, sinks[0])


def _worst(relation: str, dtype: DType) -> float | int:
    """What no element is less extreme than, and what NaN counts as."""
    if is_real(dtype):
        return -inf if relation == ">" else inf
    return extreme(relation, dtype).start


def _ranked(e: Emitter, relation: str, dtype: DType, value: ir.Value) -> ir.Value:
    """An element, with NaN as what no element is less extreme than."""
    if not is_real(dtype):
        return value
    is_nan = e.builder.fcmp_unordered("uno", value, value)
    return e.select(is_nan, e.constant(_worst(relation, dtype), dtype), value)


def _find_in_row(relation: str, node: Node[Any], e: Emitter, traversal: Traversal, sink: Sink) -> None:
    """Reads each row twice, in loops of which LLVM makes vectors: for the extreme, and for the least place at which it
    is. Both are in registers."""
    dtype, made = node.input(0).dtype, node.call.outputs[0].dtype
    fold, worst = extreme(relation, dtype), _worst(relation, dtype)

    def turn(taken: Taken, kept: dict[int, ir.Value]) -> None:
        if isinstance(taken, RowVectors):
            begin, count = traversal.position(e, kept, e.number(0)), Whole(e, traversal.length)
            most = _ranked(e, relation, dtype, taken.combined(e, fold.combine, worst, begin, count))
            place = taken.place_of(e, partial(is_extreme, relation, dtype, most), begin, count)
            found = convert(e, place, e.index_dtype, made)
        else:
            found = _found_by_turns(relation, e, traversal, kept, dtype, made, taken)
        sink(e, traversal.result_index(e, kept, e.number(0)), found)

    traversal.each_kept(e, traversal.row_vectors(e), turn)


def is_extreme(relation: str, dtype: DType, extreme: ir.Value, e: Emitter, elements: ir.Value) -> ir.Value:
    """An i1 for each lane of a vector: whether the element is the extreme one."""
    b, every = e.builder, in_every_lane(e, extreme, elements.type)
    if not is_real(dtype):
        return b.icmp_signed("==", elements, every)
    ranked = b.select(b.fcmp_unordered("uno", elements, elements), Uniform(elements.type, _worst(relation, dtype)),
                      elements)
    return b.fcmp_ordered("==", ranked, every)


def _found_by_turns(relation: str, e: Emitter, traversal: Traversal, kept: dict[int, ir.Value], dtype: DType,
                    made: DType, most: int | None) -> ir.Value:
    """The least place in a row at which the extreme is, by loops over its elements."""
    best, first, length = Register(e, register_type(dtype)), Register(e, register_type(made)), traversal.length
    best.set(e.constant(_worst(relation, dtype), dtype))
    _combine_row(e, traversal, extreme(relation, dtype), best, kept, e.number(0), length, most)
    first.set(e.constant(length, made))

    def look(position: ir.Value) -> None:
        value = _ranked(e, relation, dtype, traversal.read(e, kept, position))
        found = e.select(compare(e, dtype, "==", value, best.get()), convert(e, position, e.index_dtype, made),
                         e.constant(length, made))
        first.set(e.intrinsic("smin", first.get(), found))

    combine(e, length, look, most=most)
    return first.get()


def _find_beside(relation: str, node: Node[Any], e: Emitter, traversal: Traversal, sink: Sink) -> None:
    """Keeps the extremes of a part of up to `BLOCK` elements of a row, and where they are along the axis, side by side
    in scratch memory: loops over the kept outer axes, over parts, over the axis, and over the part."""
    dtype, made = node.input(0).dtype, node.call.outputs[0].dtype
    size = _beside(traversal.length)
    best, first = reserve(node, size, dtype), reserve(node, size, made)
    with traversal.kept(e) as kept, blocks(e, traversal.length) as (start, count):
        with e.loop(count) as k:
            e.store(e.constant(_worst(relation, dtype), dtype), best, dtype, k)
            e.store(e.constant(0, made), first, made, k)
        with traversal.reduced(e, has_loops=True) as reduced, e.loop(count) as k:
            value = _ranked(e, relation, dtype, traversal.read(e, {**kept, **reduced}, e.builder.add(start, k)))
            so_far = e.load(best, dtype, k)
            better = compare(e, dtype, relation, value, so_far)
            here = next((convert(e, each, e.index_dtype, made) for each in reduced.values()), e.constant(0, made))
            e.store(e.select(better, value, so_far), best, dtype, k)
            e.store(e.select(better, here, e.load(first, made, k)), first, made, k)
        with e.loop(count) as k:
            sink(e, traversal.result_index(e, kept, e.builder.add(start, k)), e.load(first, made, k))


nest(ops.ArgMax, movable, frozenset({0}), AXES)(partial(_arg, ">"))
nest(ops.ArgMin, movable, frozenset({0}), AXES)(partial(_arg, "<"))
