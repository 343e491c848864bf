"""Rules for operators that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import MOST_DIMENSIONS, Array, DType
from circlet.runtime.ops import elements as elements_
from circlet.runtime.ops import elementwise, layout
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule


@rule("Transpose")
def transpose(node: Node) -> Value:
    order = node.integers("perm") if node.has("perm") else tuple(reversed(range(node.rank())))
    if sorted(order) != list(range(len(order))) or len(order) > MOST_DIMENSIONS:
        raise ModelError(f"perm: expected each axis once, found {order}")
    found = c.transpose(node.graph, node[0], order)
    return node.copy(found) if found == node[0] else found


@rule("Concat")
def concat(node: Node) -> Value:
    found = c.concatenate(node.graph, node.given, node.integer("axis"))
    return node.copy(found) if found == node[0] else found


@rule("Slice", since=10)
def slice_(node: Node) -> Value:
    count = -1 if node[1].shape is None else node.length(1)
    if node.get(3) is not None and node.known(3) is None:
        return _sliced_along(node)
    axes = node.value(3, "axes").tolist() if node.get(3) is not None else list(range(count))
    if len(axes) != count and count >= 0:
        raise ModelError(f"expected an axis for each of {count} starts, found {len(axes)}")
    starts, ends = node[1], node[2]
    if node.get(3) is None and count < 0:
        if node[0].rank != 1 and not any(
                node[k].shape == (1,) or node.scope.is_single(node.proto.input[k]) for k in (1, 2)):
            node.unsupported("starts of unknown number")
        axes, (starts, ends) = [0], [c.reshape(node.graph, each, [1]) for each in (starts, ends)]
    elif _is_single(node):
        node.scope.note_single(node.proto.output[0])
    return _sliced(node, axes, starts, ends, node.get(4))


def _is_single(node: Node) -> bool:
    """Whether a slice of a vector goes from an index to the next one."""
    (one, begin), (other, end) = map(node.scope.sum_of, node.proto.input[1:3])
    return node[0].rank == 1 and one == other and end == begin + 1 and (node.get(4) is None or node.known(4) == 1)


@rule("Slice")
def slice_1(node: Node) -> Value:
    starts, ends = (np.array(node.integers(name), np.int64) for name in ("starts", "ends"))
    axes = node.integers("axes", range(len(starts)))
    return _sliced(node, axes, node.constant(starts), node.constant(ends), None)


def sliced(begin_mask: int = 0, end_mask: int = 0) -> layout.StridedSlice:
    """The operator that takes slices."""
    return layout.StridedSlice(begin_mask=begin_mask, end_mask=end_mask)


def _sliced(node: Node, axes: Sequence[int], starts: Value, ends: Value, steps: Value | None) -> Value:
    axes = [c.axis_of(node[0], axis) for axis in axes]
    if len(set(axes)) != len(axes):
        raise ModelError(f"axes: expected each axis at most once, found {axes}")
    taken = {axis: k for k, axis in enumerate(axes)}
    length = max(taken, default=-1) + 1
    full = sum(1 << axis for axis in range(length) if axis not in taken)
    if steps is None:
        steps = node.constant(np.ones(len(axes), np.int64))
    if _may_begin_before(starts.data, steps.data):
        starts = _from_inside(node, axes, starts)
    bounds = [_spread(node, each, taken, length, spare) for each, spare in ((starts, 0), (ends, 0), (steps, 1))]
    return node.apply(sliced(full, full), node[0], *bounds)


def _sliced_along(node: Node) -> Value:
    """A slice along axes that only a run tells."""
    graph, rank = node.graph, node.rank()
    axes, steps, most = node[3], node.get(4), np.iinfo(np.int64).max
    starts, ends = (scattered(node, axes, node[1 + k], rank, number) for k, number in enumerate((0, most)))
    strides = node.constant(np.ones(rank, np.int64)) if steps is None else scattered(node, axes, steps, rank, 1)
    sizes = c.concatenate(graph, [c.dimension(graph, node[0], axis) for axis in range(rank)])
    inside = node.apply(elementwise.Maximum(), starts, c.subtract(graph, c.like(0, sizes), sizes))
    return node.apply(sliced(), node[0], inside, ends, strides)


def scattered(node: Node, axes: Value, values: Value, rank: int, spare: int) -> Value:
    """A vector with an entry for each axis, of values for some of them, which only a run tells."""
    rows = c.reshape(node.graph, c.cast(node.graph, axes, DType.INT64), [-1, 1])
    empty = node.constant(np.full(rank, spare, np.int64))
    return node.apply(elements_.ScatterSlices(), empty, rows, c.cast(node.graph, values, DType.INT64))


def _may_begin_before(starts: Array | None, steps: Array | None) -> bool:
    """Whether a slice backwards may begin before the first element; one that begins at the last one does not, as there
    is nothing to take where there is none."""
    return steps is None or bool((steps < 0).any() if starts is None else ((starts < -1) & (steps < 0)).any())


def _from_inside(node: Node, axes: Sequence[int], starts: Value) -> Value:
    """Starts that do not lie before the first element, from which a slice backwards takes one element."""
    graph = node.graph
    sizes = c.cast(graph, c.concatenate(graph, [c.dimension(graph, node[0], axis) for axis in axes]), starts.dtype)
    return node.apply(elementwise.Maximum(), starts, c.subtract(graph, c.like(0, starts), sizes))


def _spread(node: Node, values: Value, taken: dict[int, int], length: int, spare: int) -> Value:
    """A vector with an entry for each of the first axes, of values for some of them."""
    graph, known = node.graph, values.data
    if known is not None:
        return node.constant(np.array([known[taken[axis]] if axis in taken else spare for axis in range(length)],
                                      np.int64))
    if list(taken) == list(range(length)):
        return c.cast(graph, values, DType.INT64)
    parts = [c.cast(graph, c.part_of(graph, values, taken[axis], taken[axis] + 1), DType.INT64) if axis in taken
             else node.constant(np.array([spare], np.int64)) for axis in range(length)]
    return c.concatenate(graph, parts)


def cropped(graph: Graph, x: Value, amounts: Sequence[tuple[int, int]]) -> Value:
    """A tensor without so many elements before and after each axis."""
    if not any(map(any, amounts)):
        return x
    begin = constant(np.array([before for before, _ in amounts], np.int64))
    end = constant(np.array([-after for _, after in amounts], np.int64))
    steps = constant(np.ones(len(amounts), np.int64))
    whole = sum(1 << k for k, (_, after) in enumerate(amounts) if not after)
    return graph.apply(sliced(end_mask=whole), x, begin, end, steps)


@rule("Split", since=13)
def split(node: Node) -> Sequence[Value]:
    return _split(node, node.get(1))


@rule("Split")
def split_2(node: Node) -> Sequence[Value]:
    sizes = node.constant(np.array(node.integers("split"), np.int64)) if node.has("split") else None
    return _split(node, sizes)


def _split(node: Node, sizes: Value | None) -> Sequence[Value]:
    graph, count, axis = node.graph, len(node.wanted), c.axis_of(node[0], node.integer("axis", 0))
    if sizes is None:
        size = c.dimension(graph, node[0], axis)
        most = c.add(graph, size, node.constant(np.array([count - 1], np.int64)))
        known = size.data
        piece = c.divide(graph, most, node.constant(np.array([count], np.int64))) if known is None else \
            node.constant((known + count - 1) // count)
        sizes = c.concatenate(graph, [*[piece] * (count - 1), node.constant(np.array([-1], np.int64))])
    return graph.op(layout.SplitV(count), node[0], sizes, node.constant(np.array(axis, np.int32)), count=count)


def _axes_and_block(node: Node) -> tuple[list[Value], int]:
    """The four sizes of the first input, each as int64 of shape (1,), and the attribute `blocksize`."""
    if node.rank() != 4:
        raise ModelError(f"input 0: expected rank 4, found shape {node.shape()}")
    block = node.integer("blocksize")
    if block < 1:
        raise ModelError(f"blocksize: expected a positive number, found {block}")
    return [c.dims(node.graph, node[0], axis, axis + 1) for axis in range(4)], block


def _reshaped(node: Node, x: Value, sizes: Sequence[Value | int]) -> Value:
    """A value with sizes of which some may be those of a run."""
    return c.reshape_to(node.graph, x, c.concatenate(node.graph, [
        c.integers([each]) if isinstance(each, int) else each for each in sizes]))


def _times(node: Node, size: Value, factor: int) -> Value:
    return c.multiply(node.graph, size, c.integers([factor]))


def _part(node: Node, size: Value, divisor: int) -> Value:
    return c.binary(elementwise.FloorDiv)(node.graph, size, c.integers([divisor]))


@rule("DepthToSpace")
def depth_to_space(node: Node) -> Value:
    (n, depth, h, w), block = _axes_and_block(node)
    left = _part(node, depth, block**2)
    if node.string("mode", "DCR") == "DCR":
        inner = c.transpose(node.graph, _reshaped(node, node[0], [n, block, block, left, h, w]), (0, 3, 4, 1, 5, 2))
    else:
        inner = c.transpose(node.graph, _reshaped(node, node[0], [n, left, block, block, h, w]), (0, 1, 4, 2, 5, 3))
    return _reshaped(node, inner, [n, left, _times(node, h, block), _times(node, w, block)])


@rule("SpaceToDepth")
def space_to_depth(node: Node) -> Value:
    (n, depth, h, w), block = _axes_and_block(node)
    rows, columns = _part(node, h, block), _part(node, w, block)
    inner = _reshaped(node, node[0], [n, depth, rows, block, columns, block])
    order = (0, 3, 5, 1, 2, 4) if node.string("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return _reshaped(node, c.transpose(node.graph, inner, order), [n, _times(node, depth, block**2), rows, columns])


@rule("ReverseSequence")
def reverse_sequence(node: Node) -> Value:
    op = layout.ReverseSequence(node.integer("time_axis", 0), node.integer("batch_axis", 1))
    return node.apply(op, node[0], node[1])
