"""Rules for padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import elementwise, layout, pad
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.layout import cropped, scattered, sliced
from circlet.schema.onnx.rules import rule

_CONTINUATIONS = {each.value: each for each in pad.Continuation}


@rule("Pad", since=11)
def pad_(node: Node) -> Value:
    if node[0].rank is None and node.get(3) is None:
        if node.string("mode", "constant") == "constant":
            return _padded_as_told(node)
        node = _ranked(node)
    axes, rank = list(range(node.rank())), node.rank()
    if node.get(3) is not None and node.known(3) is None:
        halves = c.reshape(node.graph, node[1], [2, -1])
        sides = [scattered(node, node[3], c.reshape(node.graph, c.part_of(node.graph, halves, k, k + 1), [-1]), rank, 0)
                 for k in range(2)]
        return _padded(node, _amounts(node, c.concatenate(node.graph, sides), axes), node.get(2))
    if node.get(3) is not None:
        axes = [c.axis_of(node[0], axis) for axis in node.value(3, "axes").tolist()]
    return _padded(node, _amounts(node, node[1], axes), node.get(2))


def _ranked(node: Node) -> Node:
    """The node, with the rank of its input that it has two amounts for each axis of; all of the input is taken by a
    slice, which is an error in a run that finds another rank."""
    shape = node[1].shape
    if shape is None or len(shape) != 1 or shape[0] < 0 or shape[0] % 2:
        return node
    rank = shape[0] // 2
    whole = node.apply(layout.Slice(), node[0], c.integers([0] * rank), c.integers([-1] * rank))
    ranked = node.graph.declare(whole, shape=(-1,) * rank)
    return replace(node, inputs=(ranked, *node.inputs[1:]))


def _padded_as_told(node: Node) -> Value:
    """A tensor whose rank only a run tells, surrounded by a number; amounts below 0 cut."""
    graph, none = node.graph, node.constant(np.int64(0))
    pads = c.reshape(graph, c.cast(graph, node[1], DType.INT64), [2, -1])
    number = node.like(0) if node.get(2) is None else c.reshape(graph, node[2], [])
    table = c.transpose(graph, node.apply(elementwise.Maximum(), pads, none), [1, 0])
    around = node.apply(pad.PadV2(), node[0], table, number)
    cuts = node.apply(elementwise.Maximum(), c.subtract(graph, none, pads), none)
    begins, ends = (c.reshape(graph, c.part_of(graph, cuts, k, k + 1), [-1]) for k in range(2))
    sizes = c.shape_of(graph, around)
    ones = c.fill(graph, c.shape_of(graph, sizes), node.constant(np.int64(1)))
    return node.apply(sliced(), around, begins, c.subtract(graph, sizes, ends), ones)


@rule("Pad")
def pad_2(node: Node) -> Value:
    pads = node.constant(np.array(node.integers("pads"), np.int64))
    return _padded(node, _amounts(node, pads, range(node.rank())), node.like(node.number("value", 0.0)))


def _amounts(node: Node, pads: Value, axes: Sequence[int]) -> list[tuple[Value, Value]]:
    """How many elements to add before and after each axis, each of shape (1,)."""
    graph, zero = node.graph, node.constant(np.array([0], np.int64))
    if pads.shape not in ((2 * len(axes),), (-1,)):
        raise ModelError(f"pads: expected 2 for each of {len(axes)} axes, found shape {pads.shape}")
    found = [(zero, zero)] * node.rank()
    for k, axis in enumerate(axes):
        found[axis] = (c.part_of(graph, pads, k, k + 1), c.part_of(graph, pads, len(axes) + k, len(axes) + k + 1))
    return found


def _padded(node: Node, amounts: list[tuple[Value, Value]], value: Value | None) -> Value:
    graph, mode = node.graph, node.string("mode", "constant")
    if mode != "constant":
        if mode not in _CONTINUATIONS:
            raise ModelError(f"mode: expected constant, reflect, edge or wrap, found {mode!r}")
        if not any(_may_differ(graph, each) for both in amounts for each in both):
            return node.copy(node[0])
        return node.apply(pad.ContinuedPad(_CONTINUATIONS[mode]), node[0], _table(graph, amounts))
    number = node.like(0) if value is None else c.reshape(graph, value, [])
    return _cut(graph, constant_padded(graph, node[0], amounts, number), amounts)


def _cut(graph: Graph, x: Value, amounts: list[tuple[Value, Value]]) -> Value:
    """A tensor that was surrounded without what amounts below 0 take away, of those that only the run tells."""
    unknown = [any(each.data is None for each in pair) for pair in amounts]
    if not any(unknown):
        return x
    none, begins, ends = c.integers([0]), list[Value](), list[Value]()
    for axis, pair in enumerate(amounts):
        before, after = (none if each.data is not None else graph.apply(
            elementwise.Maximum(), c.subtract(graph, none, c.cast(graph, each, DType.INT64)), none) for each in pair)
        begins.append(before)
        ends.append(c.subtract(graph, c.dimension(graph, x, axis), after) if unknown[axis] else none)
    whole = sum(1 << axis for axis, each in enumerate(unknown) if not each)
    bounds = [c.concatenate(graph, each) for each in (begins, ends)]
    return graph.apply(sliced(begin_mask=whole, end_mask=whole), x, *bounds, c.integers([1] * len(amounts)))


def _may_differ(graph: Graph, amount: Value) -> bool:
    """Whether an amount may be something else than 0."""
    known = amount.data
    return known is None or bool(known.any())


def constant_padded(graph: Graph, x: Value, amounts: list[tuple[Value, Value]], number: Value) -> Value:
    """A tensor surrounded by a number; amounts below 0 cut."""
    known = [[each.data for each in pair] for pair in amounts]
    sizes = [[None if each is None else int(each.item()) for each in pair] for pair in known]
    cuts = [tuple(min(each or 0, 0) for each in pair) for pair in sizes]
    if any(map(any, cuts)):
        x = cropped(graph, x, [(-before, -after) for before, after in cuts])
    least = [[constant(np.array([max(size, 0)], np.int64)) if size is not None
              else graph.apply(elementwise.Maximum(), each, c.like(0, each))
              for size, each in zip(pair, values, strict=True)] for pair, values in zip(sizes, amounts, strict=True)]
    if all(size is not None and size <= 0 for pair in sizes for size in pair):
        return x
    return graph.apply(pad.PadV2(), x, _table(graph, least), number)


def _table(graph: Graph, amounts: Sequence[Sequence[Value]]) -> Value:
    """Amounts (1,) before and after each axis as one value (rank, 2)."""
    sides = c.concatenate(graph, [pair[k] for k in range(2) for pair in amounts])
    return c.transpose(graph, c.reshape(graph, sides, [2, len(amounts)]), [1, 0])
