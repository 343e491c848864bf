"""Where the greatest element under a window lies, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from functools import reduce as fold
from itertools import product

import numpy as np

from circlet.runtime.ops import comparison, shape
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.margins import margins
from circlet.schema.onnx.windows import Windows


def places_of_greatest(graph: Graph, x: Value, taps: Sequence[Value], found: Windows) -> Value:
    """Of a tensor with channels last, and of the elements under a window, one after the other, each for all positions:
    which of the tensor's elements is the greatest, the first of several, counted as they lie with channels first.
    Margins are not counted, and none of their elements is the greatest."""
    sizes = [c.dimension(graph, x, axis) for axis in range(2 + found.rank)]
    place = c.add(graph, c.multiply(graph, _numbers(graph, sizes[0], 0, found), sizes[-1]),
                  _numbers(graph, sizes[-1], 1 + found.rank, found))
    firsts = []
    for axis, (before, _, _) in enumerate(margins(graph, x, found), 1):
        steps = _numbers(graph, c.dimension(graph, taps[0], axis), axis, found)
        firsts.append(c.subtract(graph, c.multiply(graph, steps, c.integers([found.stride[axis - 1]])), before))
        place = c.add(graph, c.multiply(graph, place, sizes[axis]), firsts[-1])
    best, where = taps[0], place
    for number, (tap, element) in enumerate(zip(taps, product(*map(range, found.size)), strict=True)):
        reach = [c.integers([k * step]) for k, step in zip(element, found.dilation, strict=True)]
        ahead = reach[0]
        for size, further in zip(sizes[2:], reach[1:], strict=False):
            ahead = c.add(graph, c.multiply(graph, ahead, size), further)
        here = c.add(graph, place, ahead)
        inside = _inside(graph, firsts, reach, sizes[1:]) if found.is_padded else None
        if number == 0:
            where = here if inside is None else c.select(graph, inside, here, constant(np.int64(-1)))
            continue
        takes = graph.apply(comparison.Greater(), tap, best)
        if inside is not None:
            is_first = graph.apply(comparison.Less(), where, constant(np.int64(0)))
            takes = graph.apply(comparison.LogicalAnd(), inside,
                                graph.apply(comparison.LogicalOr(), takes, is_first))
        best, where = c.select(graph, takes, tap, best), c.select(graph, takes, here, where)
    return where


def _numbers(graph: Graph, count: Value, axis: int, found: Windows) -> Value:
    """0, 1, ... along one axis."""
    along = [-1 if k == axis else 1 for k in range(2 + found.rank)]
    if count.data is not None:
        return constant(np.arange(int(count.data.item())).reshape(along))
    every = graph.apply(shape.Range(), constant(np.int64(0)), c.squeeze(graph, count, [0]), constant(np.int64(1)))
    return c.reshape(graph, every, along)


def _inside(graph: Graph, firsts: Sequence[Value], reach: Sequence[Value], sizes: Sequence[Value]) -> Value:
    """At which positions an element of the window is none of a margin."""
    both = partial(graph.apply, comparison.LogicalAnd())
    at = [c.add(graph, *pair) for pair in zip(firsts, reach, strict=True)]
    return fold(both, (both(graph.apply(comparison.GreaterEqual(), each, constant(np.int64(0))),
                            graph.apply(comparison.Less(), each, size))
                       for each, size in zip(at, sizes, strict=False)))
