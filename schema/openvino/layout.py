"""Layers that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops import comparison, elementwise, layout, pad, spatial
from circlet.runtime.ops import shape as ops
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("Transpose")
def transpose(node: Node) -> Value:
    """Axis k of the result is axis `input 1 [k]`; without any, the axes are reversed."""
    if node[1].data is None:
        return node.graph.apply(layout.Transpose(), node[0], node[1])
    order = node.values(1, "order") or tuple(reversed(range(node.rank(0))))
    if node[0].rank is not None and sorted(order) != list(range(node.rank(0))):
        raise node.error(f"order: expected each axis of rank {node.rank(0)} once, found {order}")
    return c.transpose(node.graph, node[0], order)


@layer("Concat")
def concat(node: Node) -> Value:
    """The inputs joined along an axis."""
    if not len(node):
        raise node.error("expected at least one input, found none")
    axis = node.integer("axis")
    if node[0].rank is not None:
        node.axis(axis, node.rank(0))
    if len({each.dtype for each in node.required}) > 1:
        raise node.error(f"expected inputs of one element type, found {[each.dtype.value for each in node.required]}")
    if node[0].rank == 1 and node[0].dtype in INTEGERS:  # a shape, as a rule
        return c.concatenate(node.graph, node.required)
    return node.graph.apply(layout.Concatenation(axis=axis), *node.required)


@layer("Split")
def split(node: Node) -> tuple[Value, ...]:
    """Input 0 cut along an axis into equal pieces."""
    count = node.integer("num_splits")
    if count != len(node.layer.outputs):
        raise node.error(f"num_splits: expected the number of outputs, {len(node.layer.outputs)}, found {count}")
    return node.graph.op(layout.Split(num_splits=count), node[1], node[0], types=[None] * count)


@layer("VariadicSplit")
def variadic_split(node: Node) -> tuple[Value, ...]:
    """Input 0 cut along an axis into pieces of given lengths."""
    count = len(node.layer.outputs)
    if node[2].is_static and node[2].shape != (count,):
        raise node.error(f"input 2: expected a length for each of {count} outputs, found shape {node[2].shape}")
    return node.graph.op(layout.SplitV(num_splits=count), node[0], node[2], node[1], types=[None] * count)


def _bits(mask: Sequence[int]) -> int:
    return sum(1 << k for k, bit in enumerate(mask) if bit)


@layer("StridedSlice")
def strided_slice(node: Node) -> Value:
    """Input 0 from `begin` to `end` by `strides`; entries for the first axes, with masks."""
    g, begin, end = node.graph, node[1], node[2]
    strides = node.get(3)
    if strides is None:
        if begin.shape is None or begin.shape[0] < 0:
            raise node.refusal("the number of entries is not known before the model runs")
        strides = c.integers([1] * begin.shape[0])
    begins, ends, ellipsis, new, shrunk = (
        _bits(node.integers(f"{name}_mask", ())) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))
    return g.apply(layout.StridedSlice(begins, ends, ellipsis, new, shrunk), node[0], begin, end, strides)


@layer("Slice", since=8)
def slice_8(node: Node) -> Value:
    """Input 0 from `start` to `stop` by `step` along axes."""
    rank = node.rank(0)
    count = node.shape(1)[0]
    if node.get(4) is None and count < 0:
        raise node.refusal("the number of axes is not known before the model runs")
    axes = tuple(range(count)) if node.get(4) is None else node.values(4, "axes")
    if count not in (-1, len(axes)):
        raise node.error(f"axes: expected one for each of {count} starts, found {axes}")
    axes = tuple(node.axis(axis, rank, "axes") for axis in axes)
    if len(set(axes)) != len(axes):
        raise node.error(f"axes: expected each axis once, found {axes}")
    whole = (1 << rank) - 1 & ~_bits([axis in axes for axis in range(rank)])
    bounds = [_spread(node, k, axes, rank, fill) for k, fill in ((1, 0), (2, 0), (3, 1))]
    return node.graph.apply(layout.StridedSlice(begin_mask=whole, end_mask=whole), node[0], *bounds)


def _spread(node: Node, index: int, axes: Sequence[int], rank: int, fill: int) -> Value:
    """A parameter for some axes as one for all."""
    value = node[index]
    if value.is_static and value.shape != (len(axes),):
        raise node.error(f"input {index}: expected one element for each of the axes {axes}, found shape {value.shape}")
    places = [axes.index(axis) if axis in axes else len(axes) for axis in range(rank)]
    if places == list(range(len(axes))):
        return value
    filler = constant(np.array([fill], value.dtype.numpy))
    return c.gather(node.graph, c.concatenate(node.graph, [value, filler]), c.integers(places), 0)


@layer("Pad")
def pad_1(node: Node) -> Value:
    """Input 0 with elements before and behind each axis."""
    g, x, begin, end = node.graph, node[0], node[1], node[2]
    mode = node.choice("pad_mode", {each: each for each in ("constant", "edge", "reflect", "symmetric")})
    if mode in ("reflect", "symmetric") and (begin.data is None or end.data is None):
        return _surrounded(node, mode)
    amounts = c.concatenate(g, [c.unsqueeze(g, begin, [-1]), c.unsqueeze(g, end, [-1])], 1)
    if mode == "edge":
        return g.apply(pad.ContinuedPad(pad.Continuation.EDGE), x, amounts)
    if mode == "constant":
        value = c.like(0, x) if node.get(3) is None else node[3]
        return g.apply(pad.PadV2(), x, amounts, value)
    kind = pad.MirrorPadMode.REFLECT if mode == "reflect" else pad.MirrorPadMode.SYMMETRIC
    return g.apply(pad.MirrorPad(mode=kind), x, amounts)


def _surrounded(node: Node, mode: str) -> Value:
    """Padding by mirrored elements, by so much as only the run tells; negative numbers cut elements off."""
    g, x = node.graph, node[0]
    sides = [c.cast(g, node[k], DType.INT64) for k in (1, 2)]
    for axis in range(node.rank(0)):
        before, after = (c.reshape(g, c.part_of(g, each, axis, axis + 1), []) for each in sides)
        if any(each.data is None or each.data != 0 for each in (before, after)):
            length, start = _length(g, x, axis), c.subtract(g, c.like(0, before), before)
            places = g.apply(ops.Range(), start, c.add(g, length, after), c.like(1, start))
            x = c.gather(g, x, _inside(g, places, length, mode), axis)
    return x


def _inside(g: Graph, places: Value, length: Value, mode: str) -> Value:
    """Which elements of an axis stand for places around it; those that are mirrored once do not lie on it for places
    that are too far away, which is an error of what gathers them."""
    again = int(mode == "symmetric")
    before = c.subtract(g, c.like(-again, places), places)
    behind = c.subtract(g, c.shift(g, c.add(g, length, length), again - 2), places)
    is_before = g.apply(comparison.Less(), places, c.like(0, places))
    is_behind = g.apply(comparison.GreaterEqual(), places, length)
    return c.select(g, is_before, before, c.select(g, is_behind, behind, places))


def _length(g: Graph, x: Value, axis: int) -> Value:
    """How long an axis is, a scalar."""
    return c.reshape(g, c.dimension(g, x, axis), [])


def _counted(g: Graph, start: int, stop: Value) -> Value:
    """The numbers from one up to but without another."""
    return g.apply(ops.Range(), c.like(start, stop), stop, c.like(1, stop))


@layer("Pad", since=12)
def pad_12(node: Node) -> Value:
    """As before; negative numbers cut elements off."""
    g, begin, end = node.graph, node[1], node[2]
    if begin.data is None or end.data is None:
        return _pad_told(node) if node.text("pad_mode") == "constant" else pad_1(node)
    if min(0, *begin.data.tolist(), *end.data.tolist()) == 0:
        return pad_1(node)
    x, rank = node[0], node.rank(0)
    for axis, (before, after) in enumerate(zip(begin.data.tolist(), end.data.tolist(), strict=True)):
        if before < 0 or after < 0:
            x = c.cut(g, x, rank, axis, max(-before, 0), max(-after, 0))
    amounts = [constant(np.maximum(each.data, 0)) for each in (begin, end) if each.data is not None]
    return pad_1(node.fed(x, *amounts, *node.inputs[3:]))


def _pad_told(node: Node) -> Value:
    """Input 0 surrounded by so much as only the run tells, then without what numbers below 0 cut off."""
    g, sides = node.graph, [c.cast(node.graph, node[k], DType.INT64) for k in (1, 2)]
    around = pad_1(node.fed(node[0], *(c.maximum(g, each, c.like(0, each)) for each in sides), *node.inputs[3:]))
    begins, cuts = (c.maximum(g, c.subtract(g, c.like(0, each), each), c.like(0, each)) for each in sides)
    sizes = c.shape_of(g, around)
    return g.apply(layout.StridedSlice(), around, begins, c.subtract(g, sizes, cuts), c.fill(
        g, c.shape_of(g, sizes), c.like(1, sizes)))


@layer("Tile")
def tile(node: Node) -> Value:
    """Input 0 repeated along each axis."""
    g, x, repeats = node.graph, node[0], node[1]
    missing = node.shape(1)[0] - node.rank(0)
    if missing > 0:
        x = c.unsqueeze(g, x, range(missing))
    elif missing < 0:
        repeats = c.concatenate(g, [constant(np.ones(-missing, repeats.dtype.numpy)), repeats])
    return g.apply(pad.Tile(), x, repeats)


@layer("ReverseSequence")
def reverse_sequence(node: Node) -> Value:
    """The first `input 1 [b]` elements of sequence b in reverse order."""
    op = layout.ReverseSequence(node.integer("seq_axis", 1), node.integer("batch_axis", 0))
    return node.graph.apply(op, node[0], node[1])


@layer("Reverse")
def reverse(node: Node) -> Value:
    """The order along axes reversed."""
    node.choice("mode", {"index": None})
    return node.graph.apply(layout.ReverseV2(), node[0], node[1])


def _channels(node: Node) -> int:
    """How many channels an image has, which are axis 1."""
    found = node.shape(0)[1]
    if found < 0:
        raise node.refusal("an unknown number of channels")
    return found


@layer("DepthToSpace")
def depth_to_space(node: Node) -> Value:
    """Channels to blocks of positions; (n, c, h, w)."""
    g, block = node.graph, node.integer("block_size", 1)
    is_blocks = node.choice("mode", {"blocks_first": True, "depth_first": False})
    if node.rank(0) != 4:
        raise node.refusal("an input of another rank than 4")
    x = c.transpose(g, node[0], (0, 2, 3, 1))
    if not is_blocks:
        channels = _channels(node)
        node.bounded(channels * block * block)
        order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
        x = c.gather(g, x, constant(order), 3)
    return c.transpose(g, g.apply(spatial.DepthToSpace(block_size=block), x), (0, 3, 1, 2))


@layer("SpaceToDepth")
def space_to_depth(node: Node) -> Value:
    """Blocks of positions to channels; (n, c, h, w)."""
    g, block = node.graph, node.integer("block_size", 1)
    is_blocks = node.choice("mode", {"blocks_first": True, "depth_first": False})
    if node.rank(0) != 4:
        raise node.refusal("an input of another rank than 4")
    x = g.apply(spatial.SpaceToDepth(block_size=block), c.transpose(g, node[0], (0, 2, 3, 1)))
    if not is_blocks:
        channels = _channels(node)
        node.bounded(channels * block * block)
        x = c.gather(g, x, constant(np.arange(channels * block * block).reshape(-1, channels).T.reshape(-1)), 3)
    return c.transpose(g, x, (0, 3, 1, 2))


@layer("BatchToSpace", "SpaceToBatch", since=2)
def batch_blocks(node: Node) -> Value:
    """Between the batch and blocks of positions, with crops or paddings; parameters for all axes."""
    g, block = node.graph, node.values(1, "block_shape")
    if block[0] != 1:
        raise node.refusal(f"blocks {block} of the batch")
    is_merged = node.layer.type == "BatchToSpace"
    op = spatial.BatchToSpaceND() if is_merged else spatial.SpaceToBatchND()
    if any(node[k].data is None for k in (2, 3)):
        return _with_margins(g, op, node[0], block, *(c.cast(g, node[k], DType.INT32) for k in (2, 3)))
    before, after = (node.values(k, name) for k, name in ((2, "begin"), (3, "end")))
    if before[0] or after[0]:
        raise node.refusal(f"margins {before}, {after} of the batch")
    margins = np.array([before[1:], after[1:]], np.int32).T.copy()
    return g.apply(op, node[0], c.axes_of(block[1:]), constant(margins))


def _with_margins(g: Graph, op: Op, x: Value, block: Sequence[int], before: Value, after: Value) -> Value:
    """The same with margins of all axes that the run tells, as operators of their own."""
    none = constant(np.zeros((len(block) - 1, 2), np.int32))
    if isinstance(op, spatial.SpaceToBatchND):
        sides = c.concatenate(g, [c.unsqueeze(g, each, [1]) for each in (before, after)], 1)
        return g.apply(op, g.apply(pad.Pad(), x, sides), c.axes_of(block[1:]), none)
    whole = g.apply(op, x, c.axes_of(block[1:]), none)
    size = c.subtract(g, c.subtract(g, c.shape_of(g, whole, DType.INT32), before), after)
    return g.apply(layout.Slice(), whole, before, size)


@layer("ShuffleChannels", since=3)
def shuffle_channels(node: Node) -> Value:
    """The groups of an axis interleaved."""
    shape, group = node.shape(0), node.integer("group", 1)
    axis = node.axis(node.integer("axis", 1), len(shape))
    if shape[axis] < 0:
        raise node.refusal("an unknown number of channels")
    if group < 1 or shape[axis] % group:
        raise node.error(f"group: expected one that divides {shape[axis]}, found {group}")
    node.bounded(shape[axis])
    order = np.arange(shape[axis]).reshape(group, -1).T.reshape(-1)
    return c.gather(node.graph, node[0], constant(order), axis)


@layer("Roll", since=7)
def roll(node: Node) -> Value:
    """Elements moved along axes; what leaves at one end comes back at the other."""
    g, shape, x = node.graph, node.shape(0), node[0]
    amounts, axes = node.values(1, "shift"), node.values(2, "axes")
    if len(amounts) == 1:
        amounts *= len(axes)
    for amount, each in zip(amounts, axes, strict=True):
        axis = node.axis(each, len(shape), "axes")
        if shape[axis] >= 0:
            node.bounded(shape[axis])
            x = c.gather(g, x, constant(np.roll(np.arange(shape[axis]), amount)), axis)
        else:
            length = _length(g, x, axis)
            places = c.shift(g, _counted(g, 0, length), -amount)
            x = c.gather(g, x, g.apply(elementwise.FloorMod(), places, length), axis)
    return x
