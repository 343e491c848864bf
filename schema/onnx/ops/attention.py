"""Rules for attention as ONNX Runtime has it: its optimiser and its tools for decoders write these in place of many of
ONNX's operators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import index, matmul, normalize
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.matmul import product
from circlet.schema.onnx.ops.rotary import Angles, rotated
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import rule

DOMAIN = "com.microsoft"
LEAST = float(np.finfo(np.float32).min)
"""Added to the logits of what is out of sight."""


@dataclass(frozen=True, eq=False)
class Heads:
    """Queries (b, n, s, h), keys (b, m, t, h) and values (b, m, t, v); each head of keys serves n / m of queries."""

    query: Value
    key: Value
    value: Value

    def after(self, graph: Graph, past: Sequence[Value | None]) -> Heads:
        """With keys and values behind earlier ones, where there are any."""
        key, value = (new if old is None else c.concatenate(graph, [old, new], 2)
                      for old, new in zip(past, (self.key, self.value), strict=True))
        return Heads(self.query, key, value)


@rule(f"{DOMAIN}.Attention")
def attention(node: Node) -> Sequence[Value | None]:
    """Of x (b, s, d), weights (d, 3 n h) and a bias: every head of queries attends to the keys of its own."""
    if node.integer("do_rotary", 0):
        node.unsupported("do_rotary")
    bias = node.get(2)
    if node.known(1) is not None and (bias is None or bias.is_constant):
        made = node.apply(matmul.FullyConnected(keep_num_dims=True), node[0], c.transpose(node.graph, node[1], (1, 0)),
                          bias)
    else:
        made = product(node.graph, node[0], node[1])
        made = made if bias is None else c.add(node.graph, made, bias)
    return projected(node, made, node.get(3), node.get(4), node.get(5))


def projected(node: Node, made: Value, mask: Value | None, past: Value | None, bias: Value | None,
              dtype: DType | None = None) -> Sequence[Value | None]:
    """Attention to queries, keys and values that lie side by side.

    Args:
        node: says how.
        made: (b, s, 2 n h + n v).
        mask: what may be seen; see `_masked`.
        past: (2, b, n, p, h), earlier keys and values.
        bias: added to the logits, (b or 1, n or 1, s, p + s).
        dtype: of the result, if not that of the first input.

    Returns:
        (b, s, n v), and all keys and values as `past` has them.
    """
    graph, heads = node.graph, node.integer("num_heads")
    if node.integer("past_present_share_buffer", 0):
        node.unsupported("past_present_share_buffer")
    width = c.rank_of(made) and (made.shape or ())[-1]
    sizes = node.integers("qkv_hidden_sizes", (width // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != width or heads < 1 or any(each % heads for each in sizes):
        raise ModelError(f"input 1: expected queries, keys and values of {heads} heads, found {width} columns for "
                         f"qkv_hidden_sizes {sizes}")
    ends = np.cumsum((0, *sizes)).tolist()
    found = Heads(*(_split(graph, c.part(graph, made, 3, 2, first, last), heads)
                    for first, last in pairwise(ends)))
    if past is not None:
        found = found.after(graph, [c.gather(graph, past, constant(np.array(k)), 0) for k in range(2)])
    present = c.concatenate(graph, [c.unsqueeze(graph, each, [0]) for each in (found.key, found.value)]) \
        if node.wants(1) else None
    return _joined(node, attended(node, found, _biases(node, found, mask, bias)), dtype), present


@rule(f"{DOMAIN}.MultiHeadAttention")
def multi_head_attention(node: Node) -> Sequence[Value | None]:
    """Of queries (b, s, n h), keys (b, t, n h) and values (b, t, n v), or the latter two by head: (b, s, n v)."""
    graph, heads, bias = node.graph, node.integer("num_heads"), node.get(3)
    if node.rank() != 3 or node.get(1) is None or any(node.rank(k) not in (3, 4) for k in (1, 2)):
        node.unsupported("queries, keys and values in one tensor")
    if node.get(8) is not None or node.get(9) is not None or node.wants(3):
        node.unsupported("keys and values in a buffer, or the product of queries and keys as a result")
    given, first = [node[k] for k in range(3)], 0
    if bias is not None:
        for k, each in enumerate(given):
            width = node.shape(k)[-1] * (heads if node.rank(k) == 4 else 1)
            if node.rank(k) == 3:
                given[k] = c.add(graph, each, c.part(graph, bias, 1, 0, first, first + width))
            first += width
    found = Heads(*(each if c.rank_of(each) == 4 else _split(graph, each, heads) for each in given))
    found = found.after(graph, (node.get(6), node.get(7)))
    return _joined(node, attended(node, found, _biases(node, found, node.get(4), node.get(5)))), found.key, found.value


@rule(f"{DOMAIN}.GroupQueryAttention")
def grouped_attention(node: Node) -> Sequence[Value | None]:
    """Attention of decoders to keys and values so far, which new ones are written behind: at the place that
    `seqlens_k` gives for each sequence, so that there may be room behind them."""
    graph = node.graph
    for position, what in ((11, "head_sink"), (12, "k_scale"), (14, "q_norm_weight"), (16, "query_seqlens")):
        if node.get(position) is not None:
            node.unsupported(what)
    for name in ("smooth_softmax", "sliding_window_cache", "qk_output"):
        if node.integer(name, 0) > 0:
            node.unsupported(name)
    new = _new_heads(node)
    rows, lengths = c.dimension(graph, node[0], 1), c.shift(graph, c.cast(graph, node[5], DType.INT64), 1)
    begin = c.maximum(graph, c.subtract(graph, lengths, rows), c.integers([0]))
    own = c.add(graph, c.unsqueeze(graph, begin, [1]), counted(graph, c.reshape(graph, rows, [])))
    if node.integer("do_rotary", 0):
        given = node.get(9)
        angles = Angles.of(graph, node[7], node[8], own if given is None else given)
        interleaved = bool(node.integer("rotary_interleaved", 0))
        query, key = (rotated(graph, each, angles, interleaved) for each in (new.query, new.key))
        new = Heads(query, key, new.value)
    total = c.cast(graph, c.reshape(graph, node[6], [1]), DType.INT64)
    key, value = (_written(graph, node.get(3 + k), each, begin, total) for k, each in enumerate((new.key, new.value)))
    seen = counted(graph, c.reshape(graph, c.dimension(graph, key, 2), []))
    bias = _hidden(node, c.unsqueeze(graph, own, [2]), seen, lengths)
    added = node.get(10)
    if added is not None:
        bias = c.add(graph, bias, added)
    return _joined(node, attended(node, Heads(new.query, key, value), bias)), key, value


def _new_heads(node: Node) -> Heads:
    """Queries, keys and values that lie side by side or in three tensors."""
    graph, counts = node.graph, (node.integer("num_heads"), *[node.integer("kv_num_heads")] * 2)
    given = [node.get(k) for k in range(3)]
    if given[1] is None:
        width = node.shape()[-1]
        if min(counts) < 1 or width < 0 or width % sum(counts):
            raise ModelError(f"input 0: expected rows of {sum(counts)} heads, found shape {node.shape()}")
        ends = np.cumsum((0, *counts)) * (width // sum(counts))
        given = [c.part(graph, node[0], 3, 2, first, last)
                 for first, last in pairwise(ends.tolist())]
    return Heads(*(_split(graph, node[k] if each is None else each, count)
                   for k, (each, count) in enumerate(zip(given, counts, strict=True))))


def _written(graph: Graph, past: Value | None, new: Value, begin: Value, total: Value) -> Value:
    """Earlier rows (b, m, p, h) up to but without row `begin` (b,) of each sequence, and new ones behind: as many rows
    as there were or, if that is more, are in the longest sequence."""
    if past is None:
        return new
    rows, count = c.dimension(graph, past, 2), c.dimension(graph, new, 2)
    place = counted(graph, c.reshape(graph, c.maximum(graph, rows, total), []))
    behind = c.subtract(graph, place, c.unsqueeze(graph, begin, [1]))
    inside = c.minimum(graph, behind, c.shift(graph, count, -1))
    source = c.select(graph, c.less(graph, behind, c.like(0, behind)), place, c.add(graph, rows, inside))
    made = graph.apply(index.Gather(axis=2, batch_dims=1), c.concatenate(graph, [past, new], 2), source)
    batch, heads, _, depth = new.shape or (-1,) * 4
    return graph.declare(made, shape=(batch, heads, -1, depth))


def _hidden(node: Node, own: Value, seen: Value, lengths: Value) -> Value:
    """What is added to logits (b, 1, s, t) of a decoder: queries at the places `own` (b, s, 1) see what is before
    them, at the places `seen` (t,), and in a window as far back as it reaches."""
    graph, window = node.graph, node.integer("local_window_size", -1)
    behind = c.subtract(graph, own, seen)
    if node.integer("causal", 1):
        hidden = c.less(graph, behind, c.like(0, behind))
    else:
        hidden = c.greater(graph, c.unsqueeze(graph, c.shift(graph, seen, 1), [0, 1]),
                           c.unsqueeze(graph, lengths, [1, 2]))
    found = _added(node, hidden, LEAST)
    if window > 0:
        found = c.minimum(graph, found, _added(node, c.greater(graph, behind, c.like(window - 1, behind)), LEAST))
    return c.unsqueeze(graph, found, [1])


def _biases(node: Node, heads: Heads, mask: Value | None, bias: Value | None) -> Value | None:
    """All that is added to the logits (b, n, s, t)."""
    graph = node.graph
    found = [] if bias is None else [bias]
    if mask is not None:
        found.append(_masked(node, heads, mask))
    if node.integer("unidirectional", 0):
        rows, columns = (c.dimension(graph, each, 2) for each in (heads.query, heads.key))
        place, seen = (counted(graph, c.reshape(graph, each, [])) for each in (rows, columns))
        own = c.unsqueeze(graph, c.add(graph, place, c.subtract(graph, columns, rows)), [1])
        found.append(_added(node, c.greater(graph, seen, own), LEAST))
    total = None
    for each in found:
        total = each if total is None else c.add(graph, total, each)
    return total


def _masked(node: Node, heads: Heads, mask: Value) -> Value:
    """What is added to logits for a mask: how many keys of each sequence count (b,), whether a key does (b, t) or, for
    each query, (b, s, t)."""
    graph, rank, low = node.graph, c.rank_of(mask), node.number("mask_filter_value", -10000.0)
    if rank == 1:
        batch, count = (heads.query.shape or (-1,))[0], (mask.shape or (-1,))[0]
        if -1 not in (batch, count) and batch != count:
            node.unsupported(f"a mask of shape {mask.shape}")
        seen = counted(graph, c.reshape(graph, c.dimension(graph, heads.key, 2), []))
        hidden = c.greater(graph, c.shift(graph, seen, 1), c.unsqueeze(graph, c.cast(graph, mask, DType.INT64), [1]))
        return c.unsqueeze(graph, _added(node, hidden, low), [1, 2])
    if rank not in (2, 3):
        node.unsupported(f"a mask of shape {mask.shape}")
    hidden = c.less(graph, mask, c.like(1, mask))
    return c.unsqueeze(graph, _added(node, hidden, low), [1, 2] if rank == 2 else [1])


def _added(node: Node, hidden: Value, low: float) -> Value:
    return c.select(node.graph, hidden, constant(np.float32(low)), constant(np.float32(0)))


def attended(node: Node, heads: Heads, bias: Value | None) -> Value:
    """What every head of queries gets: (b, n, s, v), float32."""
    graph, cap = node.graph, node.number("softcap", 0.0)
    query, key, value = (c.cast(graph, each, DType.FLOAT32) for each in (heads.query, heads.key, heads.value))
    (_, n, _, depth), m = query.shape or (0,) * 4, (key.shape or (0, 0))[1]
    if min(n, m) < 1 or n % m or depth < 1:
        node.unsupported(f"queries of shape {query.shape} and keys of shape {key.shape}")
    factor = node.number("scale", 0.0) or 1 / sqrt(depth)
    logits = graph.apply(matmul.BatchMatMul(adj_y=True), _grouped(graph, query, n, m), key)
    logits = _ungrouped(graph, c.scale(graph, logits, factor), query, c.dims(graph, key, 2, 3), n, m)
    if cap:
        logits = c.scale(graph, c.tanh(graph, c.scale(graph, logits, 1 / cap)), cap)
    if bias is not None:
        logits = c.add(graph, logits, c.cast(graph, bias, DType.FLOAT32))
    shares = _grouped(graph, graph.apply(normalize.Softmax(1.0), logits), n, m)
    found = graph.apply(matmul.BatchMatMul(), shares, value)
    return _ungrouped(graph, found, query, c.dims(graph, value, 3, 4), n, m)


def _grouped(graph: Graph, x: Value, n: int, m: int) -> Value:
    """(b, n, s, k) as (b, m, n / m s, k)."""
    if n == m:
        return x
    first, last = c.dims(graph, x, 0, 1), c.dims(graph, x, 3, 4)
    return c.reshape_to(graph, x, c.concatenate(graph, [first, c.integers([m, -1]), last]))


def _ungrouped(graph: Graph, x: Value, query: Value, last: Value, n: int, m: int) -> Value:
    """(b, m, n / m s, k) as (b, n, s, k)."""
    return x if n == m else c.reshape_to(graph, x, c.concatenate(graph, [c.dims(graph, query, 0, 3), last]))


def _split(graph: Graph, x: Value, heads: int) -> Value:
    """(b, s, n h) as (b, n, s, h)."""
    if c.rank_of(x) != 3:
        raise ModelError(f"expected rank 3 of what attends and is attended to, found shape {x.shape}")
    width = (x.shape or (-1,))[-1]
    if heads < 1 or (width > 0 and width % heads):
        raise ModelError(f"expected rows of {heads} heads, found shape {x.shape}")
    sizes = [c.dims(graph, x, 0, 2), c.integers([heads, width // heads if width > 0 else -1])]
    return c.transpose(graph, c.reshape_to(graph, x, c.concatenate(graph, sizes)), (0, 2, 1, 3))


def _joined(node: Node, x: Value, dtype: DType | None = None) -> Value:
    """(b, n, s, v), float32, as (b, s, n v), in the type of the first input or another one."""
    graph, (_, n, _, depth) = node.graph, x.shape or (-1,) * 4
    turned = c.transpose(graph, x, (0, 2, 1, 3))
    sizes = [c.dims(graph, turned, 0, 2), c.integers([n * depth if min(n, depth) > 0 else -1])]
    return c.cast(graph, c.reshape_to(graph, turned, c.concatenate(graph, sizes)), dtype or node.dtype())
