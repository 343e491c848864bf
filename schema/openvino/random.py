"""Layers that draw random numbers."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import random
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer

MOST_WHOLE = 1 << 23
"""How many whole numbers can be drawn from, as floats are multiples of its reciprocal."""


@layer("RandomUniform", since=8)
def random_uniform(node: Node) -> Value:
    """Numbers of the shape in input 0 from that in input 1 up to but without that in input 2; other ones than those of
    OpenVINO, the same in each session if there is a seed."""
    g, kind = node.graph, node.dtype("output_type")
    low, high = (c.cast(g, c.reshape(g, node[k], []), kind) for k in (1, 2))
    seeds = (node.integer(name, 0) & 0xFFFFFFFF for name in ("global_seed", "op_seed"))
    drawn = g.apply(random.RandomUniform(*seeds), c.cast(g, node[0], DType.INT32))
    if kind.numpy.kind == "f":
        below, above = (c.cast(g, each, DType.FLOAT32) for each in (low, high))
        scaled = c.add(g, c.multiply(g, drawn, c.subtract(g, above, below)), below)
        found = c.cast(g, scaled, kind)
        return c.select(g, c.less(g, found, high), found, low)
    if low.data is None or high.data is None or not 0 < int(high.data) - int(low.data) <= MOST_WHOLE:
        raise node.refusal(f"whole numbers of a range that is not constant, empty or larger than {MOST_WHOLE}")
    span = int(high.data) - int(low.data)
    whole = c.cast(g, c.floor(g, c.scale(g, drawn, span)), kind)
    return c.add(g, c.minimum(g, whole, c.like(span - 1, whole)), low)
