"""Native rules of the operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, Emitter, Index
from circlet.backends.native.emit.loops import every
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, expect_inside, extended, filled, overwrite, part, wholes
from circlet.backends.native.rules.real.elementwise import add
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, fused, is_single, nest
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import INTEGERS, DType, Shape
from circlet.runtime.ops.index import (
    DynamicUpdateSlice,
    Gather,
    GatherNd,
    ScatterNd,
    SparseToDense,
    StablehloDynamicSlice,
    StablehloDynamicUpdateSlice,
    UpdateRow,
)
from circlet.runtime.ops.matmul import EmbeddingLookup

FIRST, SECOND = frozenset({0}), frozenset({1})


def _indices(position: int) -> Refusal:
    """Refuses indices that no axis has room for."""
    return all_of(movable, only(INTEGERS - {DType.UINT64}, position))


def _selects_several(call: Call) -> str | None:
    """Refuses to gather by more than one index."""
    assert isinstance(call.op, Gather)
    return None if call.op.batch_dims == 0 and is_single(call.input(1)) else "more than one index"


@fused(Gather, all_of(_indices(1), _selects_several), is_free=True, memory_inputs=SECOND, name="one")
def gather_one(node: Node[Gather]) -> tuple[Value]:
    x, e = node.input(0), node.function.e
    axis, _ = node.op.axes(len(x.shape), len(node.input(1).shape))
    (index,) = wholes(e, node.input(1))
    expect_inside(node, [index], (x.shape[axis],))
    sizes = (*x.shape[:axis], 1, *x.shape[axis + 1:])
    return (part(e, x, [index if each == axis else Whole(e, 0) for each in range(len(sizes))], sizes)
            .reshaped(node.shape),)


@nest(Gather, _indices(1), memory_inputs=FIRST)
def gather(node: Node[Gather], e: Emitter, sinks: tuple[Sink, ...]) -> None:
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
    """Refuses tables of integers that are looked up as the real values they stand for."""
    table, made = call.input(1).dtype, call.outputs[0].dtype
    return None if table is made else f"a table of {table.value} for an output of {made.value}"


@nest(EmbeddingLookup, all_of(_indices(0), _dequantizes), memory_inputs=SECOND)
def embedding_lookup(node: Node[EmbeddingLookup], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    indices, table = node.input(0), node.input(1)
    with e.nest(indices.shape) as place:
        index = extended(e, indices.element(e, place), indices.dtype)
        expect(node, Whole(e, index).is_in(0, table.shape[0] - 1),
               f"index {{}} is outside a table of {table.shape[0]} rows", Whole(e, index))
        with every(e, table.shape[1:]) as inner:
            sinks[0](e, [*place, *inner], table.element(e, [index, *inner]))


def _checked(node: Node[Any], indices: Value, place: Index, size: int) -> ir.Value:
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
    x, indices = node.input(0), node.input(1)
    depth = indices.shape[-1]
    with e.nest(indices.shape[:-1]) as place:
        row = _row(node, indices, place, x.shape[:depth])
        with every(e, x.shape[depth:]) as inner:
            sinks[0](e, [*place, *inner], x.element(e, [*row, *inner]))


def _plus(e: Emitter, dtype: DType, one: ir.Value, other: ir.Value) -> ir.Value:
    return e.builder.or_(one, other) if dtype is DType.BOOL else add(e, dtype, [one, other])


_refuses_scatter = all_of(plain, _indices(0))


def _scatters_several(call: Call) -> str | None:
    """Refuses to scatter more than one slice, or nobody knows how many."""
    indices = call.input(0)
    return None if indices.is_static and prod(indices.shape[:-1]) == 1 else "more than one slice"


@fused(ScatterNd, all_of(_refuses_scatter, _scatters_several), memory_inputs=FIRST, parameters=frozenset({2}),
       name="one")
def scatter_one(node: Node[ScatterNd]) -> tuple[Value]:
    """Each element is that of the slice if its index begins as the row says, else zero."""
    indices, dtype, e = node.input(0), node.call.outputs[0].dtype, node.function.e
    depth = indices.shape[-1]
    update = node.input(1).reshaped(node.shape[depth:])
    row = _row(node, indices, [e.number(0)] * (len(indices.shape) - 1), node.shape[:depth])

    def element(e: Emitter, index: Index) -> ir.Value:
        hits = [e.builder.icmp_signed("==", each, wanted) for each, wanted in zip(index, row, strict=False)]
        hit = reduce(e.builder.and_, hits, ir.Constant(I1, True))
        zero = e.constant(0, dtype)
        return e.select(hit, _plus(e, dtype, zero, update.element(e, index[depth:])), zero)

    return (computed(node.shape, dtype, element),)


@nest(ScatterNd, _refuses_scatter, memory_inputs=frozenset(), parameters=frozenset({2}), is_last=True)
def scatter_nd(node: Node[ScatterNd], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    indices, updates, home, shape = node.input(0), node.input(1), sinks[0].memory, node.shape
    depth, dtype = indices.shape[-1], node.call.outputs[0].dtype
    filled(shape, dtype, e.constant(0, dtype)).write(e, home)
    with e.nest(indices.shape[:-1]) as place:
        row = _row(node, indices, place, shape[:depth])
        with every(e, shape[depth:]) as inner:
            position = e.linear([*row, *inner], shape)
            update = updates.element(e, [*place, *inner])
            e.store(_plus(e, dtype, e.load(home, dtype, position), update), home, dtype, position)


@nest(SparseToDense, _indices(0), memory_inputs=frozenset(), parameters=SECOND,
      is_last=True)
def sparse_to_dense(node: Node[SparseToDense], e: Emitter, sinks: tuple[Sink, ...]) -> None:
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


def _window(starts: Sequence[Whole], shape: Shape, sizes: Shape) -> list[Whole]:
    """The indices moved to where a window fits."""
    return [start.at_least(0).at_most(dim - size) for start, dim, size in zip(starts, shape, sizes, strict=True)]


@nest(DynamicUpdateSlice, _indices(2), memory_inputs=frozenset({2}), is_last=True)
def dynamic_update_slice(node: Node[DynamicUpdateSlice], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    assert sinks[0].memory is not None
    starts = wholes(e, node.input(2))
    _update(node, sinks[0].memory, _window(starts, node.shape, node.input(1).shape))


@nest(StablehloDynamicUpdateSlice, movable, memory_inputs=frozenset(), is_last=True)
def stablehlo_dynamic_update_slice(node: Node[StablehloDynamicUpdateSlice], e: Emitter,
                                   sinks: tuple[Sink, ...]) -> None:
    assert sinks[0].memory is not None
    _update(node, sinks[0].memory, _window(_scalars(node, 2), node.shape, node.input(1).shape))


@nest(UpdateRow, movable, memory_inputs=frozenset({2}), is_last=True)
def update_row(node: Node[UpdateRow], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    assert sinks[0].memory is not None
    (index,) = wholes(e, node.input(2))
    length = node.shape[0]
    expect(node, index.is_in(0, length - 1), f"index {{}} is out of range for {length} rows", index)
    _update(node, sinks[0].memory, [index, *[Whole(e, 0)] * (len(node.shape) - 1)])


def _scalars(node: Node[Any], first: int) -> list[Whole]:
    """The values of the scalar inputs from `first` on."""
    e = node.function.e
    return [each for k in range(first, len(node.inputs)) for each in wholes(e, node.input(k))]


@fused(StablehloDynamicSlice, movable)
def stablehlo_dynamic_slice(node: Node[StablehloDynamicSlice]) -> tuple[Value]:
    x = node.input(0)
    return (part(node.function.e, x, _window(_scalars(node, 1), x.shape, node.shape), node.shape),)
