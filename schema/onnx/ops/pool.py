"""Rules for pooling: circlet's has channels last, so operands and results are transposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from functools import reduce as fold
from itertools import product
from math import inf, prod

import numpy as np

from circlet.runtime.ir.types import FLOATS, Padding
from circlet.runtime.ops import elementwise, pool, shape, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.columns import MOST_TAPS
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.margins import margins
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.conv import padded, surrounded
from circlet.schema.onnx.ops.layout import sliced
from circlet.schema.onnx.ops.reduce import greatest, mean, total
from circlet.schema.onnx.places import places_of_greatest
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import Windows, windows

_END = np.iinfo(np.int64).max
"""Where an axis ends, however long it is."""


@rule("MaxPool")
def max_pool(node: Node) -> Sequence[Value | None]:
    if node.wants(1) and node.integer("storage_order", 0):
        node.unsupported("indices in column-major order")
    graph, found, dtype = node.graph, windows(node, node.integers("kernel_shape")), node.dtype()
    least = -inf if dtype in FLOATS else np.iinfo(dtype.numpy).min
    image = c.channels_last(graph, node[0])
    if not node.wants(1) and _is_large(found):
        for axis in range(2):
            alone = found.along(axis)
            image = slid(graph, pool.MaxPool2D, padded(graph, image, replace(alone, same=False), least), alone)
        return c.channels_first(graph, image), None
    x = padded(graph, image, replace(found, same=False), least)
    taps = _taps(node, x, found) if max(found.dilation) > 1 or node.wants(1) else []
    places = c.channels_first(graph, places_of_greatest(graph, image, taps, found)) if node.wants(1) else None
    if max(found.dilation) > 1:
        return c.channels_first(graph, fold(lambda a, b: graph.apply(elementwise.Maximum(), a, b), taps)), places
    return c.channels_first(graph, slid(graph, pool.MaxPool2D, x, found)), places


def _is_large(found: Windows) -> bool:
    """Whether the greatest of windows over images is that of their columns' greatest in far fewer steps, which go over
    each column once more where windows are apart."""
    if found.rank != 2 or max(found.dilation) > 1:
        return False
    return 2 * (found.size[0] * found.stride[1] + found.size[1]) <= prod(found.size)


def _taps(node: Node, x: Value, found: Windows) -> list[Value]:
    """The elements that windows with gaps cover, as many tensors as a window has elements."""
    count, taken = prod(found.size), list[Value]()
    if count > MOST_TAPS:
        node.unsupported(f"windows of {count} elements one by one (at most {MOST_TAPS})")
    for place in product(*map(range, found.size)):
        begin = [0, *(k * step for k, step in zip(place, found.dilation, strict=True)), 0]
        left = [span - 1 - first for span, first in zip(found.span, begin[1:], strict=False)]
        end = [_END, *(-each or _END for each in left), _END]
        bounds = (constant(np.array(each, np.int64)) for each in (begin, end, [1, *found.stride, 1]))
        taken.append(node.graph.apply(sliced(), x, *bounds))
    return taken


def _means(node: Node, x: Value, found: Windows) -> Value:
    """The mean over each window of a padded tensor."""
    if max(found.dilation) == 1:
        return slid(node.graph, pool.AveragePool2D, x, found)
    sums = fold(lambda a, b: c.add(node.graph, a, b), _taps(node, x, found))
    return c.divide(node.graph, sums, node.like(prod(found.size)))


def slid(graph: Graph, op: type[pool.Pool], x: Value, found: Windows) -> Value:
    """Pools a padded tensor (n, ..., c) over one, two or three axes."""
    if found.rank == 1:
        image = slid_over_image(graph, op, c.unsqueeze(graph, x, [1]), (1, *found.size), (1, *found.stride))
        return graph.apply(shape.Squeeze((1,)), image)
    if found.rank == 2:
        return slid_over_image(graph, op, x, found.size, found.stride)
    return _slid_over_volume(graph, op, x, found)


def slid_over_image(graph: Graph, op: type[pool.Pool], x: Value, size: Sequence[int], stride: Sequence[int]) -> Value:
    made = op(Padding.VALID, stride[1], stride[0], filter_width=size[1], filter_height=size[0])
    return graph.apply(made, x)


def _slid_over_volume(graph: Graph, op: type[pool.Pool], x: Value, found: Windows) -> Value:
    """Pools each image of a volume (n, d, h, w, c), then across the images."""
    n, d, *image, channels = (c.dimension(graph, x, axis) for axis in range(5))
    flat = slid_over_image(graph, op, _shaped(graph, x, [_product(graph, n, d), *image, channels]), found.size[1:],
                           found.stride[1:])
    high, wide = (c.dimension(graph, flat, axis) for axis in (1, 2))
    stacked = _shaped(graph, flat, [n, d, _product(graph, high, wide), channels])
    deep = slid_over_image(graph, op, stacked, (found.size[0], 1), (found.stride[0], 1))
    return _shaped(graph, deep, [n, c.dimension(graph, deep, 1), high, wide, channels])


def _product(graph: Graph, a: Value, b: Value) -> Value:
    if a.data is not None and b.data is not None:
        return constant(a.data * b.data)
    return c.multiply(graph, a, b)


def _shaped(graph: Graph, x: Value, sizes: Sequence[Value]) -> Value:
    """The elements in a shape of vectors with one size each."""
    known = [-1 if each.data is None else int(each.data.item()) for each in sizes]
    return c.reshape(graph, x, known) if known.count(-1) <= 1 else c.reshape_to(graph, x, c.concatenate(graph, sizes))


@rule("AveragePool")
def average_pool(node: Node) -> Value:
    graph, found = node.graph, windows(node, node.integers("kernel_shape"))
    x = c.channels_last(graph, node[0])
    plain = replace(found, same=False)
    means = _means(node, padded(graph, x, plain), found)
    if found.is_padded and (any(found.more) or found.rounds_up or not node.integer("count_include_pad", 0)):
        means = c.divide(graph, means, _shares(node, x, plain))
    return c.channels_first(graph, means)


def _shares(node: Node, x: Value, found: Windows) -> Value:
    """Which part of each window counts: (1, ..., 1)."""
    graph, around = node.graph, margins(node.graph, x, found)
    lengths = [c.dimension(graph, x, 1 + axis) for axis in range(found.rank)]
    if node.integer("count_include_pad", 0):
        lengths = [fold(partial(c.add, graph), (before, length, after))
                   for length, (before, after, _) in zip(lengths, around, strict=True)]
        around = [(c.integers([0]), c.integers([0]), more) for _, _, more in around]
    known = [int(each.data.item()) for each in lengths if each.data is not None]
    one = c.integers([1])
    ones = (c.like(1, x, (1, *known, 1)) if len(known) == len(lengths) else
            c.fill(graph, c.concatenate(graph, [one, *lengths, one]), c.like(1, x)))
    sizes = [(before, c.add(graph, after, more)) for before, after, more in around]
    return _means(node, surrounded(graph, ones, sizes), found)


@rule("LpPool")
def lp_pool(node: Node) -> Value:
    graph, found, order = node.graph, windows(node, node.integers("kernel_shape")), node.integer("p", 2)
    power = node.apply(elementwise.Pow(), node.apply(unary.Abs(), node[0]), node.like(order))
    x = padded(graph, c.channels_last(graph, power), replace(found, same=False))
    sums = c.multiply(graph, _means(node, x, found), node.like(prod(found.size)))
    return c.channels_first(graph, node.apply(elementwise.Pow(), sums, node.like(1 / order)))


def _spatial(node: Node) -> list[int]:
    return list(range(2, node.rank()))


@rule("GlobalAveragePool")
def global_average_pool(node: Node) -> Value:
    return mean(node.graph, node[0], _spatial(node))


@rule("GlobalMaxPool")
def global_max_pool(node: Node) -> Value:
    return greatest(node.graph, node[0], _spatial(node))


@rule("GlobalLpPool")
def global_lp_pool(node: Node) -> Value:
    order = node.integer("p", 2)
    power = node.apply(elementwise.Pow(), node.apply(unary.Abs(), node[0]), node.like(order))
    return node.apply(elementwise.Pow(), total(node.graph, power, _spatial(node)), node.like(1 / order))
