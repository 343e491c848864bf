"""Native rules of the operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I64, Emitter, is_real
from circlet.backends.native.emit.loops import Carried, carry, every
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, expect_inside, extended, filled, overwrite, part, wholes
from circlet.backends.native.rules.real.elementwise import plus
from circlet.backends.native.rules.refusals import movable, plain, summable
from circlet.backends.native.rules.rule import Node, Sink, fused, is_single, nest, nothing
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.types import INTEGERS, DType, Shape
from circlet.runtime.ops.index import (
    DynamicUpdateSlice,
    Gather,
    GatherNd,
    ScatterNd,
    SparseToDense,
    StablehloDynamicSlice,
    StablehloDynamicUpdateSlice,
    StablehloGather,
    UpdateRow,
    Where,
)
from circlet.runtime.ops.matmul import BlockEmbeddingLookup, EmbeddingLookup

FIRST, SECOND = frozenset({0}), frozenset({1})
"""Inputs by position, as `memory_inputs` and `parameters` name them."""


def _indices(position: int) -> Refusal:
    """Refuses indices that no axis has room for."""
    return all_of(movable, only(INTEGERS - {DType.UINT64}, position))


def _selects_several(call: Call) -> str | None:
    """Refuses to gather by more than one index."""
    assert isinstance(call.op, Gather)
    return None if call.op.batch_dims == 0 and is_single(call.input(1)) else "more than one index"


def counts(call: Call) -> str | None:
    """Refuses a number of indices that is known before."""
    return None if call.outputs[0].declared is None or not call.outputs[0].is_static or is_open(
        call.outputs[0].shape) else "a number of results that the model declares"


@nest(Where, all_of(plain, counts), is_last=True)
def where(node: Node[Where], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (d0, ..., dk): the indices (n, k + 1), i64, where it is not zero, in row-major order. A loop over the rows,
    so that only these are divided to tell the other indices, and one over the elements of each, with n in a register:
    each writes its index at n, which only those that count make larger."""
    x, home = node.input(0), sinks[0].memory
    outer, length = x.shape[:-1], x.shape[-1]
    zero, b = e.constant(0, x.dtype), e.builder
    assert home is not None, "what is last has its memory"

    def row(number: ir.Value, carried: Carried) -> Carried:
        before, begin = e.delinear(number, outer), b.mul(number, e.number(length))
        return carry(e, e.number(length), carried, lambda k, found: count([*before, k], b.add(begin, k), found))

    def count(index: Index, position: ir.Value, carried: Carried) -> Carried:
        place = b.mul(carried[0], e.number(len(index)))
        for axis, each in enumerate(index):
            e.store(b.sext(each, I64), home, DType.INT64, b.add(place, e.number(axis)))
        value = x.linear(e, position)
        if x.dtype is DType.BOOL:
            counts = value
        elif is_real(x.dtype):
            counts = b.fcmp_unordered("!=", value, zero)
        else:
            counts = b.icmp_unsigned("!=", value, zero)
        return [b.add(carried[0], b.zext(counts, e.index))]

    (found,) = carry(e, e.number(prod(outer)), [e.number(0)], row) if outer else row(e.number(0), [e.number(0)])
    e.define_once(node.shape[0], found)


@fused(Gather, all_of(_indices(1), _selects_several), is_free=True, memory_inputs=SECOND, name="one",
       quantized_as=nothing)
def gather_one(node: Node[Gather]) -> tuple[Value]:
    """Of x and one index: the slice there, which is a view of x where it lies in memory; no loop."""
    x, e = node.input(0), node.function.e
    axis, _ = node.op.axes(len(x.shape), len(node.input(1).shape))
    (index,) = wholes(e, node.input(1))
    expect_inside(node, [index], (x.shape[axis],))
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1:])
    return (part(e, x, [index if each == axis else Whole(e, 0) for each in range(len(sizes))], sizes)
            .reshaped(node.shape),)


@nest(Gather, _indices(1), memory_inputs=FIRST, quantized_as=nothing)
def gather(node: Node[Gather], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (a..., n, b...) and indices (p...): (a..., p..., b...); `batch_dims` axes are shared. Loops over a and p
    check an index once, and copy a slice (b...) each."""
    x, indices = node.input(0), node.input(1)
    axis, batch = node.op.axes(len(x.shape), len(indices.shape))
    if 0 in x.shape[batch:axis]:
        with e.nest(indices.shape) as place:
            _checked(node, indices, place, x.shape[axis])
    with e.nest(x.shape[:axis]) as outer, e.nest(indices.shape[batch:]) as place:
        index = _checked(node, indices, [*outer[:batch], *place], x.shape[axis])
        with every(e, x.shape[axis + 1:]) as inner:
            sinks[0](e, [*outer, *place, *inner], x.element(e, [*outer, index, *inner]))


def _dequantizes(call: Call) -> str | None:
    """Refuses tables of integers that are looked up as the real values they stand for, unless they are int8 with one
    scale, or one for each row."""
    table, made = call.input(1), call.outputs[0].dtype
    scales = () if table.quantization is None else table.quantization.scales
    if table.dtype is made or ((table.dtype, made) == (DType.INT8, DType.FLOAT32) and scales):
        return None
    return f"a table of {table.dtype.value} for an output of {made.value}"


@nest(EmbeddingLookup, all_of(_indices(0), _dequantizes), memory_inputs=SECOND)
def embedding_lookup(node: Node[EmbeddingLookup], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of indices (p...) and a table (n, b...): (p..., b...). A loop over the indices checks each, and copies its row,
    or what that stands for."""
    indices, table, kind = node.input(0), node.input(1), node.call.outputs[0].dtype
    quantized = None if table.dtype is kind else node.call.input(1).quantization
    scales = None if quantized is None else node.function.external(np.array(quantized.scales, np.float32))
    has_one = quantized is not None and len(quantized.scales) == 1
    with e.nest(indices.shape) as place:
        index = _named(node, indices, place, table)
        scale = None if scales is None else e.load(scales, DType.FLOAT32, e.number(0) if has_one else index)
        with every(e, table.shape[1:]) as inner:
            value = table.element(e, [index, *inner])
            sinks[0](e, [*place, *inner], value if scale is None else _real(e, value, scale))


@nest(BlockEmbeddingLookup, _indices(0), memory_inputs=frozenset({1, 2}))
def block_embedding_lookup(node: Node[BlockEmbeddingLookup], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of indices (p,), a table (n, k), int8, and scales (n, b): (p, k), float32. A loop over the indices checks each,
    and one over blocks gives what a row stands for."""
    indices, table, scales = node.input(0), node.input(1), node.input(2)
    blocks, size = scales.shape[1], table.shape[1] // scales.shape[1]
    with e.nest(indices.shape) as place:
        index = _named(node, indices, place, table)
        with e.nest((blocks,)) as (block,):
            scale, begin = scales.element(e, [index, block]), e.builder.mul(block, e.number(size))
            with every(e, (size,)) as (k,):
                column = e.builder.add(begin, k)
                sinks[0](e, [*place, column], _real(e, table.element(e, [index, column]), scale))


def _named(node: Node[Any], indices: Value, place: Index, table: Value) -> ir.Value:
    """The number of a row, which leaves the function unless the table has it."""
    e = node.function.e
    index = extended(e, indices.element(e, place), indices.dtype)
    expect(node, Whole(e, index).is_in(0, table.shape[0] - 1),
           f"index {{}} is outside a table of {table.shape[0]} rows", Whole(e, index))
    return index


def _real(e: Emitter, stored: ir.Value, scale: ir.Value) -> ir.Value:
    """What an int8 stands for."""
    return e.builder.fmul(e.builder.sitofp(stored, scale.type), scale)


def _checked(node: Node[Any], indices: Value, place: Index, size: int) -> ir.Value:
    """An index, which leaves the function unless it is inside an axis of `size`."""
    e = node.function.e
    index = extended(e, indices.element(e, place), indices.dtype)
    expect_inside(node, [Whole(e, index)], (size,))
    return index


def _row(node: Node[Any], indices: Value, place: Index, sizes: Shape) -> list[ir.Value]:
    """The indices in a row of a tensor, each checked to be inside its axis."""
    e = node.function.e
    row = [Whole(e, extended(e, indices.element(e, [*place, e.number(k)]), indices.dtype)) for k in range(len(sizes))]
    expect_inside(node, row, sizes)
    return [each.register for each in row]


@nest(GatherNd, _indices(1), memory_inputs=FIRST)
def gather_nd(node: Node[GatherNd], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n1, ... nk, b...) and indices (p..., k): (p..., b...). A loop over p checks the k indices, and copies a
    slice."""
    x, indices = node.input(0), node.input(1)
    depth = indices.shape[-1]
    with e.nest(indices.shape[:-1]) as place:
        row = _row(node, indices, place, x.shape[:depth])
        with every(e, x.shape[depth:]) as inner:
            sinks[0](e, [*place, *inner], x.element(e, [*row, *inner]))


_refuses_scatter = all_of(summable, _indices(0))
"""Refuses what `summable` does, and indices that no axis has room for."""


def _scatters_several(call: Call) -> str | None:
    """Refuses to scatter more than one slice, or nobody knows how many."""
    indices = call.input(0)
    return None if indices.is_static and prod(indices.shape[:-1]) == 1 else "more than one slice"


@fused(ScatterNd, all_of(_refuses_scatter, _scatters_several), memory_inputs=FIRST, parameters=frozenset({2}),
       name="one")
def scatter_one(node: Node[ScatterNd]) -> tuple[Value]:
    """Of one row of indices and a slice: an array in which each element is that of the slice if its index begins as the
    row says, else zero. Nothing is stored by itself."""
    indices, dtype, e = node.input(0), node.call.outputs[0].dtype, node.function.e
    depth = indices.shape[-1]
    update = node.input(1).reshaped(node.shape[depth:])
    row = _row(node, indices, [e.number(0)] * (len(indices.shape) - 1), node.shape[:depth])

    def element(e: Emitter, index: Index) -> ir.Value:
        hits = [e.builder.icmp_signed("==", each, wanted) for each, wanted in zip(index, row, strict=False)]
        hit = reduce(e.builder.and_, hits, ir.Constant(I1, True))
        zero = e.constant(0, dtype)
        return e.select(hit, plus(e, dtype, [zero, update.element(e, index[depth:])]), zero)

    return (computed(node.shape, dtype, element),)


@nest(ScatterNd, _refuses_scatter, memory_inputs=frozenset(), parameters=frozenset({2}), is_last=True)
def scatter_nd(node: Node[ScatterNd], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of indices (p..., k) and updates (p..., b...): an array (n1, ... nk, b...). It is filled with zeros; then a loop
    over p checks the k indices and adds a slice to what is there."""
    indices, updates, home, shape = node.input(0), node.input(1), sinks[0].memory, node.shape
    depth, dtype = indices.shape[-1], node.call.outputs[0].dtype
    filled(shape, dtype, e.constant(0, dtype)).write(e, home)
    with e.nest(indices.shape[:-1]) as place:
        row = _row(node, indices, place, shape[:depth])
        with every(e, shape[depth:]) as inner:
            position = e.linear([*row, *inner], shape)
            update = updates.element(e, [*place, *inner])
            e.store(plus(e, dtype, [e.load(home, dtype, position), update]), home, dtype, position)


@nest(SparseToDense, _indices(0), memory_inputs=frozenset(), parameters=SECOND,
      is_last=True)
def sparse_to_dense(node: Node[SparseToDense], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of indices (count, k), values (count,) or one, and a default: an array (n1, ... nk). It is filled with the
    default; then a loop over the rows checks the indices and stores an element."""
    shape, dtype, home = node.shape, node.call.outputs[0].dtype, sinks[0].memory
    indices, values = node.input(0), node.input(2)
    count = indices.shape[0] if indices.shape else 1
    rows = indices.reshaped((count, len(shape)))
    filled(shape, dtype, node.input(3).reshaped(()).scalar(e)).write(e, home)
    with e.loop(count) as k:
        row = _row(node, rows, [k], shape)
        e.store(values.element(e, [k] if values.shape else []), home, dtype, e.linear(row, shape))


def _update(node: Node[Any], home: ir.Value, starts: Sequence[Whole]) -> None:
    """Writes input 1 where `starts` says; the rest comes from input 0, unless it lies there already."""
    e, x = node.function.e, node.input(0)
    if x.memory is not home:
        x.write(e, home)
    if node.input(1).size:
        overwrite(e, home, x.shape, node.input(1), starts)


def window_at(starts: Sequence[Whole], shape: Shape, sizes: Shape) -> list[Whole]:
    """The indices moved to where a window fits."""
    return [start if start.is_zero else start.at_least(0).at_most(dim - size)
            for start, dim, size in zip(starts, shape, sizes, strict=True)]


@nest(DynamicUpdateSlice, _indices(2), memory_inputs=frozenset({2}), is_last=True)
def dynamic_update_slice(node: Node[DynamicUpdateSlice], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and a window of its rank: x, with the window written where the starts, moved to where it fits, say."""
    assert sinks[0].memory is not None
    starts = wholes(e, node.input(2))
    _update(node, sinks[0].memory, window_at(starts, node.shape, node.input(1).shape))


@nest(StablehloDynamicUpdateSlice, movable, memory_inputs=frozenset(), is_last=True)
def stablehlo_dynamic_update_slice(node: Node[StablehloDynamicUpdateSlice], e: Emitter,
                                   sinks: tuple[Sink, ...]) -> None:
    """As `dynamic_update_slice`, with a scalar for each start."""
    assert sinks[0].memory is not None
    _update(node, sinks[0].memory, window_at(scalars(node, 2), node.shape, node.input(1).shape))


@nest(UpdateRow, movable, memory_inputs=frozenset({2}), is_last=True)
def update_row(node: Node[UpdateRow], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n, b...), a row (1, b...) and an index: x, with the row written there; the index is checked."""
    assert sinks[0].memory is not None
    (index,) = wholes(e, node.input(2))
    length = node.shape[0]
    expect(node, index.is_in(0, length - 1), f"index {{}} is out of range for {length} rows", index)
    _update(node, sinks[0].memory, [index, *[Whole(e, 0)] * (len(node.shape) - 1)])


def scalars(node: Node[Any], first: int) -> list[Whole]:
    """The values of the scalar inputs from `first` on."""
    e = node.function.e
    return [each for k in range(first, len(node.inputs)) for each in wholes(e, node.input(k))]


@fused(StablehloDynamicSlice, movable)
def stablehlo_dynamic_slice(node: Node[StablehloDynamicSlice]) -> tuple[Value]:
    """Of x and a scalar for each start: a window of the declared shape, moved to where it fits."""
    x = node.input(0)
    return (part(node.function.e, x, window_at(scalars(node, 1), x.shape, node.shape), node.shape),)


@nest(StablehloGather, _indices(1), memory_inputs=FIRST)
def stablehlo_gather(node: Node[StablehloGather], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and indices: the slices of x that begin there. A loop over them moves each to where it fits, and copies
    it."""
    op, x, indices = node.op, node.input(0), node.input(1)
    axis, kept = op.index_vector_dim, op.kept(len(x.shape))
    with e.nest(op.batch(indices.shape)) as place:
        starts = [Whole(e, 0)] * len(x.shape)
        for j, each in enumerate(op.start_index_map):
            index = [*place[:axis], e.number(j), *place[axis:]][:len(indices.shape)]
            starts[each] = Whole(e, extended(e, indices.element(e, index), indices.dtype))
        begin = window_at(starts, x.shape, op.slice_sizes)
        with every(e, tuple(op.slice_sizes[each] for each in kept)) as inner:
            offsets, rest = dict(zip(kept, inner, strict=True)), iter(place)
            source = [(start + Whole(e, offsets[k])).register if k in offsets else start.register
                      for k, start in enumerate(begin)]
            places = dict(zip(op.offset_dims, inner, strict=True))
            sinks[0](e, [places[k] if k in places else next(rest) for k in range(len(node.shape))],
                     x.element(e, source))
