"""The rule for rotary positions as ONNX Runtime has them, by tables of cosines and sines."""

from __future__ import annotations

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import layout
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import rule


@dataclass(frozen=True, eq=False)
class Angles:
    """Cosines and sines (b or 1, 1, s, r / 2) by which pairs of numbers are turned, r of each head."""

    cosine: Value
    sine: Value
    pairs: int

    @classmethod
    def of(cls, graph: Graph, cosines: Value, sines: Value, places: Value) -> Angles:
        """Those of tables (positions, r / 2) for places (b, s)."""
        pairs = (cosines.shape or (-1,))[-1]
        if c.rank_of(cosines) != 2 or cosines.shape != sines.shape or pairs < 1:
            raise ModelError(f"expected tables of cosines and sines, found shapes {cosines.shape} and {sines.shape}")
        cosine, sine = (c.unsqueeze(graph, c.gather(graph, each, places, 0), [1]) for each in (cosines, sines))
        return cls(cosine, sine, pairs)


def rotated(graph: Graph, x: Value, angles: Angles, interleaved: bool) -> Value:
    """Heads (b, n, s, h) whose first r numbers are turned in pairs: neighbours, or one of each half."""
    depth, half = (x.shape or (-1,))[-1], angles.pairs
    if c.rank_of(x) != 4 or depth < 2 * half:
        raise ModelError(f"expected heads of at least {2 * half} numbers, found shape {x.shape}")
    a, b = (_every_second(graph, x, k, 2 * half) if interleaved else c.part(graph, x, 4, 3, k * half, (k + 1) * half)
            for k in range(2))
    real = c.subtract(graph, c.multiply(graph, a, angles.cosine), c.multiply(graph, b, angles.sine))
    imaginary = c.add(graph, c.multiply(graph, b, angles.cosine), c.multiply(graph, a, angles.sine))
    if interleaved:
        pairs = c.concatenate(graph, [c.unsqueeze(graph, each, [4]) for each in (real, imaginary)], 4)
        parts = [c.reshape_to(graph, pairs, c.concatenate(graph, [c.dims(graph, pairs, 0, 3), c.integers([2 * half])]))]
    else:
        parts = [real, imaginary]
    if depth > 2 * half:
        parts.append(c.part(graph, x, 4, 3, 2 * half, depth))
    return graph.declare(c.concatenate(graph, parts, 3), shape=x.shape)


def _every_second(graph: Graph, x: Value, first: int, last: int) -> Value:
    """Every second of the numbers `first` up to but without `last` of heads."""
    begin, end = c.integers([0, 0, 0, first]), c.integers([0, 0, 0, last])
    return graph.apply(layout.StridedSlice(begin_mask=7, end_mask=7), x, begin, end, c.integers([1, 1, 1, 2]))


@rule("com.microsoft.RotaryEmbedding")
def rotary_embedding(node: Node) -> Value:
    """Of x (b, s, n h) or (b, n, s, h), and places (b, s), or the first one's, which others follow."""
    graph, rank, count = node.graph, node.rank(), node.integer("rotary_embedding_dim", 0)
    if node.integer("is_packed_batching", 0) or node.number("scale", 1.0) != 1.0:
        node.unsupported("is_packed_batching or a scale")
    places = c.cast(graph, node[1], DType.INT64)
    if node.rank(1) == 1:
        rows = counted(graph, c.reshape(graph, c.dimension(graph, node[0], rank - 2 if rank == 4 else 1), []))
        places = c.unsqueeze(graph, c.add(graph, places, rows), [0])
    angles, interleaved = Angles.of(graph, node[2], node[3], places), bool(node.integer("interleaved", 0))
    if rank == 4:
        return rotated(graph, node[0], angles, interleaved)
    heads, width = node.integer("num_heads", 0) if count else 0, node.shape()[-1]
    depth = width // heads if heads else 2 * angles.pairs
    if rank != 3 or width < 1 or width % depth:
        raise ModelError(f"input 0: expected rows of heads of {depth} numbers, found shape {node.shape()}")
    rows = c.concatenate(graph, [c.dims(graph, node[0], 0, 2), c.integers([width // depth, depth])])
    turned = c.transpose(graph, c.reshape_to(graph, node[0], rows), (0, 2, 1, 3))
    found = c.transpose(graph, rotated(graph, turned, angles, interleaved), (0, 2, 1, 3))
    return c.reshape_to(graph, found, c.shape_of(graph, node[0]))
