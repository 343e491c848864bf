"""Numpy rules of the operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.move import INDICES, copy, moving
from circlet.backends.cpu.quantized import NUMBERS
from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.cpu.steps import chain, guarded
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import UNBOUNDED
from circlet.runtime.ir.types import Array, DType, Shape
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
from circlet.runtime.ops.layout import Index

Positions: TypeAlias = npt.NDArray[np.int64]
_PLAIN = NUMBERS | {DType.BOOL}
_LONG_ROW = 64
"""From this length on adding rows one by one is faster than adding their elements one by one."""


def _check(indices: Array, size: int) -> Step:
    """A step that raises ExecutionError where one of the indices is outside an axis."""
    unsigned = indices.reshape(-1).view(f"u{indices.itemsize}")
    largest = partial(np.maximum.reduce, unsigned, initial=0)

    def step() -> None:
        if largest() >= size and len(unsigned):
            _fail(indices.reshape(-1, 1), (size,))

    return step


def _fail(rows: Array, shape: Shape) -> None:
    row = rows[((rows < 0) | (rows >= np.array(shape))).any(axis=-1)][0].tolist()
    found, sizes = (row[0], f"of size {shape[0]}") if len(row) == 1 else (row, f"of sizes {shape}")
    raise ExecutionError(f"index {found} is out of range for an axis {sizes}")


@rule(Gather, accepts=moving(parameters=(1,), integers=INDICES))
def gather(node: Node[Gather]) -> Step:
    x, indices, out = node.input(0), node.input(1), node.out
    axis, batch = node.op.axes(x.ndim, indices.ndim)
    if indices.size == 1 and not batch:
        row = out.reshape(x.shape[:axis] + x.shape[axis + 1:])
        return _gather_one(np.moveaxis(x, axis, 0), indices, row, node.constant(1) is not None)
    take = _take_batched(x, indices, out, axis, batch) if batch else partial(x.take, indices, axis, out, "clip")
    return chain(_check(indices, x.shape[axis]), take)


def _take_batched(x: Array, indices: Array, out: Array, axis: int, batch: int) -> Step:
    """Takes rows of all batches at once, by their positions in `x` seen as one list of rows."""
    count, outer, size = prod(x.shape[:batch]), prod(x.shape[batch:axis]), x.shape[axis]
    rows = x.reshape(count * outer * size, prod(x.shape[axis + 1:]))
    first = (np.arange(count * outer) * size).reshape(count, outer, 1)
    within = indices.reshape(count, 1, prod(indices.shape[batch:]))
    positions = np.empty((count, outer, within.shape[-1]), np.int64)
    target = out.reshape(*positions.shape, rows.shape[1])
    return chain(partial(np.add, first, within, positions), partial(rows.take, positions, 0, target, "clip"))


def _gather_one(rows: Array, index: Array, out: Array, constant: bool) -> Step:
    """Copies the one row that an index of one element names."""
    size, item = len(rows), index.item
    if constant and 0 <= item() < size:
        return copy(out, rows[item(), ...])

    def step() -> None:
        position = item()
        if not 0 <= position < size:
            _fail(index.reshape(1, 1), (size,))
        out[...] = rows[position]

    return step


def _places(indices: Array, shape: Shape) -> Callable[[], Positions]:
    """A function that gives the row-major positions in `shape` that the rows of `indices` name.

    It raises ExecutionError where one is outside.
    """
    depth = len(shape)
    rows = indices.reshape(prod(indices.shape[:-1]), depth)
    unsigned, limits = rows.view(f"u{rows.itemsize}"), np.array(shape, np.uint64)
    steps = np.array([prod(shape[k + 1:]) for k in range(depth)], np.int64)
    outside = np.empty(rows.shape, np.bool_)

    def places() -> Positions:
        np.greater_equal(unsigned, limits, outside)
        if outside.any():
            _fail(rows, shape)
        found: Positions = np.matmul(rows, steps, dtype=np.int64)
        return found

    return places


@rule(GatherNd, accepts=moving(parameters=(1,), integers=INDICES))
def gather_nd(node: Node[GatherNd]) -> Step:
    x, indices = node.input(0), node.input(1)
    depth = indices.shape[-1]
    places = _places(indices, x.shape[:depth])
    rows = x.reshape(prod(x.shape[:depth]), prod(x.shape[depth:]))
    out = node.out.reshape(prod(indices.shape[:-1]), rows.shape[1])

    def step() -> None:
        rows.take(places(), 0, out, "clip")

    return step


@rule(ScatterNd, accepts=moving(parameters=(0, 2), types=_PLAIN, integers=INDICES))
def scatter_nd(node: Node[ScatterNd]) -> Step:
    indices, out = node.input(0), node.out
    depth = indices.shape[-1]
    places = _places(indices, out.shape[:depth])
    rows = out.reshape(prod(out.shape[:depth]), prod(out.shape[depth:]))
    length = rows.shape[1]
    updates = node.input(1).reshape(prod(indices.shape[:-1]), length)
    within = np.arange(length)

    def by_row() -> None:
        out.fill(0)
        for place, update in zip(places().tolist(), updates, strict=True):
            row = rows[place]
            np.add(row, update, row)

    def by_element() -> None:
        out.fill(0)
        np.add.at(rows.reshape(-1), (places()[:, None] * length + within).reshape(-1), updates.reshape(-1))

    return guarded(node, (2,), by_row if length >= _LONG_ROW or len(updates) == 1 else by_element)


@rule(SparseToDense, accepts=moving(parameters=(0, 1), integers=INDICES))
def sparse_to_dense(node: Node[SparseToDense]) -> Step:
    indices, values, out = node.input(0), node.input(2), node.out
    places = _places(indices.reshape(indices.shape[0] if indices.ndim else 1, out.ndim), out.shape)
    flat = out.reshape(-1)
    values = values.reshape(-1) if values.ndim else values

    def step() -> None:
        flat[places()] = values

    return guarded(node, (1,), copy(out, node.input(3).reshape(())), step)


@rule(Where, accepts=_PLAIN)
def where(node: Node[Where]) -> Step:
    x, out = node.input(0), node.out
    return lambda: store(out, np.argwhere(x))


def window_at(shape: Shape, window: Shape, starts: Callable[[], Sequence[int]]) -> Callable[[], Index]:
    """A function that gives the index of a window in a tensor of `shape`, where `starts` says or, if it does not fit
    there, next to it."""
    index = [slice(None)] * len(shape)
    movable = [(axis, size - length, length) for axis, (size, length) in enumerate(zip(shape, window, strict=True))
               if length < size]

    def find() -> Index:
        found = starts()
        for axis, last, length in movable:
            first = min(max(found[axis], 0), last)
            index[axis] = slice(first, first + length)
        return (*index, ...)

    return find


def _update(node: Node[DynamicUpdateSlice] | Node[StablehloDynamicUpdateSlice],
            starts: Callable[[], Sequence[int]]) -> Step:
    """Writes input 1 into the output where `starts` says; the rest comes from input 0, unless it lies there already."""
    x, update, out = node.input(0), node.input(1), node.out
    window = window_at(x.shape, update.shape, starts)

    def step() -> None:
        out[window()] = update

    return step if np.may_share_memory(x, out) else chain(copy(out, x), step)


@rule(DynamicUpdateSlice, accepts=moving(parameters=(2,)))
def dynamic_update_slice(node: Node[DynamicUpdateSlice]) -> Step:
    return _update(node, node.input(2).tolist)


@rule(UpdateRow, accepts=moving(parameters=(2,)))
def update_row(node: Node[UpdateRow]) -> Step:
    x, row, out = node.input(0), node.input(1).reshape(node.out.shape[1:]), node.out
    index, length = node.input(2).item, len(x)

    def step() -> None:
        place = index()
        if not 0 <= place < length:
            raise ExecutionError(f"index {place} is out of range for {length} rows")
        out[place] = row

    return step if np.may_share_memory(x, out) else chain(copy(out, x), step)


def scalars(node: Node[StablehloDynamicUpdateSlice] | Node[StablehloDynamicSlice],
             first: int) -> Callable[[], Sequence[int]]:
    """A function that gives the values of the scalar inputs from `first` on."""
    items = [node.input(k).item for k in range(first, len(node.arrays))]
    return lambda: [item() for item in items]


@rule(StablehloDynamicUpdateSlice, accepts=moving(parameters=range(2, UNBOUNDED)))
def stablehlo_dynamic_update_slice(node: Node[StablehloDynamicUpdateSlice]) -> Step:
    return _update(node, scalars(node, 2))


@rule(StablehloDynamicSlice, accepts=moving(parameters=range(1, UNBOUNDED)))
def stablehlo_dynamic_slice(node: Node[StablehloDynamicSlice]) -> Step:
    x, out = node.input(0), node.out
    window = window_at(x.shape, out.shape, scalars(node, 1))

    def step() -> None:
        out[...] = x[window()]

    return step


@rule(StablehloGather, accepts=moving(parameters=(1,), integers=INDICES))
def stablehlo_gather(node: Node[StablehloGather]) -> Step:
    op, x, indices = node.op, node.input(0), node.input(1)
    if op.index_vector_dim == indices.ndim:
        indices = indices[..., None]
    starts, kept = np.moveaxis(indices, op.index_vector_dim, -1), op.kept(x.ndim)
    batch = starts.ndim - 1
    offsets = [np.arange(size).reshape(-1, *[1] * sum(other > axis for other in kept)) if axis in kept else 0
               for axis, size in enumerate(op.slice_sizes)]
    out = np.moveaxis(node.out, op.offset_dims, range(batch, batch + len(kept)))

    def step() -> None:
        places: list[Any] = [*offsets]
        for j, axis in enumerate(op.start_index_map):
            start = np.clip(starts[..., j].astype(np.int64), 0, x.shape[axis] - op.slice_sizes[axis])
            places[axis] = start.reshape(*start.shape, *[1] * len(kept)) + offsets[axis]
        out[...] = x[tuple(places)]

    return step
