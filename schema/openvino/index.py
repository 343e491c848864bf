"""Layers that read or write where data says."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import elements, index, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.layout import slice_8
from circlet.schema.openvino.rules import Node, layer

_COMBINED = {"none": elements.Combine.REPLACE, "sum": elements.Combine.ADD, "prod": elements.Combine.MULTIPLY,
             "max": elements.Combine.MAXIMUM, "min": elements.Combine.MINIMUM}


def from_front(g: Graph, indices: Value, x: Value, axis: int) -> Value:
    """Indices into an axis with those that count from its end counted from its front."""
    if indices.dtype.numpy.kind == "u" or (indices.data is not None and indices.data.min(initial=0) >= 0):
        return indices
    size = x.shape[axis] if x.shape is not None else -1
    if size < 0:
        length = c.cast(g, c.gather(g, c.shape_of(g, x), c.number(axis, DType.INT64), 0), indices.dtype)
    else:
        length = c.like(size, indices)
        if indices.data is not None:
            return constant(np.where(indices.data < 0, indices.data + size, indices.data).astype(indices.data.dtype))
    return c.select(g, c.less(g, indices, c.like(0, indices)), c.add(g, indices, length), indices)


@layer("Gather")
def gather(node: Node) -> Value:
    """The slices of input 0 along the axis in input 2 that the indices in input 1 name."""
    return _gather(node, node[1])


@layer("Gather", since=8)
def gather_8(node: Node) -> Value:
    """As before; negative indices count from the end."""
    axis = node.axis(node.value(2, "axis"), node.rank(0))
    return _gather(node, from_front(node.graph, node[1], node[0], axis))


def _gather(node: Node, indices: Value) -> Value:
    axis, batch = node.value(2, "axis"), node.integer("batch_dims", 0)
    if indices.dtype is DType.UINT64:  # as converters write those of boxes that are selected
        indices = c.cast(node.graph, indices, DType.INT64)
    if node[0].rank is not None:
        axis = node.axis(axis, node.rank(0))
    if not batch and node[0].data is not None and indices.data is not None and indices.data.size <= 64:
        if indices.data.size and not 0 <= indices.data.min() <= indices.data.max() < node[0].data.shape[axis]:
            raise node.error(f"expected indices into an axis of size {node[0].data.shape[axis]}, found "
                             f"{indices.data.tolist()}")
        return c.gather(node.graph, node[0], indices, axis)
    return node.graph.apply(index.Gather(axis=axis, batch_dims=batch), node[0], indices)


@layer("GatherElements", since=6)
def gather_elements(node: Node) -> Value:
    """Element (i, j, ...) of the result is that of input 0 whose index along the axis is element (i, j, ...) of input
    1."""
    axis = node.axis(node.integer("axis"), node.rank(0))
    shape = node[1].shape
    if shape is not None and len(shape) == node.rank(0) and -1 in shape:
        return node.graph.apply(elements.GatherElements(axis), node[0], node[1])
    return node.graph.apply(index.GatherNd(), node[0], _coordinates(node, node[1], axis))


def _coordinates(node: Node, indices: Value, axis: int) -> Value:
    """For each index into an axis the coordinates of the element in input 0 that lies there."""
    g, shape = node.graph, indices.shape
    if shape is None or any(dim < 0 for dim in shape):
        raise node.refusal(f"the shape of the indices, {shape}, is not known before the model runs")
    if len(shape) != node.rank(0):
        raise node.error(f"expected indices of rank {node.rank(0)} as input 0 has, found shape {shape}")
    node.bounded(len(shape) * prod(shape))
    places = np.indices(shape, indices.dtype.numpy)
    parts = [constant(places[k][..., None].copy()) for k in range(len(shape))]
    parts[axis] = c.unsqueeze(g, from_front(g, indices, node[0], axis), [-1])
    return c.concatenate(g, parts, -1)


@layer("GatherND", since=5)
def gather_nd(node: Node) -> Value:
    """The slices of input 0 that the rows of input 1 name; the batch axes become one."""
    batch = node.integer("batch_dims", 0)
    result = _gather_nd(node, batch)
    if batch < 2:
        return result
    rest = (result.rank or 0) - batch
    tail = c.dims(node.graph, result, batch, batch + rest)
    return c.reshape_to(node.graph, result, c.concatenate(node.graph, [c.integers([-1]), tail]))


@layer("GatherND", since=8)
def gather_nd_8(node: Node) -> Value:
    """The slices of input 0 that the rows of input 1 name."""
    return _gather_nd(node, node.integer("batch_dims", 0))


def _gather_nd(node: Node, batch: int) -> Value:
    indices = node[1]
    if batch:
        places = node.shape(1)[:-1]
        if -1 in places:
            lead = [c.along(node.graph, indices, axis) for axis in range(batch)]
        else:
            node.bounded(len(places) * prod(places))
            grid = np.moveaxis(np.indices(places, indices.dtype.numpy)[:batch], 0, -1)
            lead = [constant(np.ascontiguousarray(grid))]
        indices = c.concatenate(node.graph, [*lead, indices], -1)
    return node.graph.apply(index.GatherNd(), node[0], indices)


def _overwritten(g: Graph, x: Value, places: Value, updates: Value) -> Value:
    """The value with updates where the rows of `places` say, of one place the last one."""
    return g.apply(elements.ScatterSlices(), x, places, updates)


@layer("ScatterNDUpdate", since=3)
def scatter_nd_update(node: Node) -> Value:
    """Input 0 with the slices in input 2 where the rows of input 1 say."""
    return _overwritten(node.graph, *node.exactly(3))


@layer("ScatterNDUpdate", since=15)
def scatter_nd_update_15(node: Node) -> Value:
    """As before; or with the slices combined with what is there."""
    combine = node.choice("reduction", {**_COMBINED, "sub": elements.Combine.ADD}, "none")
    if combine is elements.Combine.REPLACE:
        return scatter_nd_update(node)
    g, (x, places, updates) = node.graph, node.exactly(3)
    if node.text("reduction") == "sub":
        updates = c.negative(g, updates)
    return g.apply(elements.ScatterSlices(combine), x, places, updates)


@layer("SliceScatter", since=15)
def slice_scatter(node: Node) -> Value:
    """Input 0 with the elements of input 1 where a Slice with inputs 2 to 5 would take others."""
    g, x = node.graph, node[0]
    count = g.apply(reduce.ReduceProd(), c.shape_of(g, x), c.axes_of([0]))
    places = c.reshape_to(g, c.counted(g, c.cast(g, count, DType.INT32)), c.shape_of(g, x))
    taken = slice_8(node.fed(places, *node.inputs[2:]))
    flat = (c.reshape(g, each, [-1]) for each in (x, taken, node[1]))
    return c.reshape_to(g, g.apply(elements.ScatterElements(0), *flat), c.shape_of(g, x))


@layer("ScatterUpdate", since=3)
def scatter_update(node: Node) -> Value:
    """Input 0 with the slices in input 2 along the axis in input 3 where the indices in input 1 say."""
    g, (x, indices, updates) = node.graph, (node[0], node[1], node[2])
    rank, count = node.rank(0), node.rank(1)
    axis = node.axis(node.value(3, "axis"), rank)
    order = [axis, *(each for each in range(rank) if each != axis)]
    new = range(axis, axis + count)
    spread = [*new, *(each for each in range(rank + count - 1) if each not in new)]
    places = c.unsqueeze(g, from_front(g, indices, x, axis), [-1])
    result = _overwritten(g, c.transpose(g, x, order), places, c.transpose(g, updates, spread))
    return c.transpose(g, result, np.argsort(order).tolist())


@layer("ScatterElementsUpdate", since=3)
def scatter_elements_update(node: Node) -> Value:
    """Input 0 with the elements in input 2 at the indices in input 1 along the axis in input 3."""
    return _scattered(node, elements.Combine.REPLACE)


@layer("ScatterElementsUpdate", since=12)
def scatter_elements_update_12(node: Node) -> Value:
    """As before; or with the elements combined with what is there, or among each other alone."""
    combine = node.choice("reduction", {**_COMBINED, "mean": elements.Combine.ADD}, "none")
    if combine is elements.Combine.REPLACE:
        return _scattered(node, combine)
    g, (x, indices, updates, axis) = node.graph, node.exactly(4)
    is_mean, counts_first = node.text("reduction") == "mean", node.flag("use_init_val", True)
    if is_mean and x.dtype.numpy.kind != "f":
        raise node.refusal(f"means of {x.dtype.value}")
    first = x
    if not counts_first:
        neutral = c.broadcast_to(g, _neutral(x.dtype, combine), c.shape_of(g, indices))
        first = _scattered(node.fed(x, indices, neutral, axis), elements.Combine.REPLACE)
    found = _scattered(node.fed(first, indices, updates, axis), combine)
    if not is_mean:
        return found
    none = c.fill(g, c.shape_of(g, x), c.like(int(counts_first), x))
    ones = c.fill(g, c.shape_of(g, indices), c.like(1, x))
    count = _scattered(node.fed(none, indices, ones, axis), combine)
    return c.divide(g, found, c.maximum(g, count, c.like(1, x)))


def _neutral(dtype: DType, combine: elements.Combine) -> Value:
    """What changes no element that it is combined with."""
    if combine in (elements.Combine.ADD, elements.Combine.MULTIPLY):
        return c.number(int(combine is elements.Combine.MULTIPLY), dtype)
    kind = dtype.numpy
    least, most = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return constant(np.array(least if combine is elements.Combine.MAXIMUM else most, kind))


def _scattered(node: Node, combine: elements.Combine) -> Value:
    axis = node.axis(node.value(3, "axis"), node.rank(0))
    return node.graph.apply(elements.ScatterElements(axis, combine), *node.exactly(4)[:3])
