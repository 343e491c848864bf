"""Layers that find texts or paths in what a network says of each step."""

from __future__ import annotations

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elements, reduce, unary
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Base, Carried, Order, Position, ScanInput, ScanOutput
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer


@layer("CTCGreedyDecoder")
def greedy_decoder(node: Node) -> Value:
    """Of probabilities (t, n, classes), and which steps count (t, n): the classes that follow each other, as numbers of
    their type in (n, t, 1, 1), -1 behind them. The last class is a blank."""
    g, (x, mask) = node.graph, node.exactly(2)
    best = c.transpose(g, _best(g, x), (1, 0))
    is_on = c.transpose(g, g.apply(comparison.NotEqual(), mask, c.like(0, mask)), (1, 0))
    counted = c.cast(g, g.apply(unary.LogicalNot(), is_on), DType.INT32)
    is_valid = c.equal(g, g.apply(reduce.Cumsum(), counted, c.number(1, DType.INT32)), c.like(0, counted))
    blank = c.shift(g, c.cast(g, c.dimension(g, x, 2), DType.INT32), -1)
    found, _ = _followed(g, best, is_valid, blank, node.flag("ctc_merge_repeated", True))
    return c.trailing(g, c.cast(g, found, x.dtype), 2)


@layer("CTCGreedyDecoderSeqLen", since=6)
def greedy_decoder_of_lengths(node: Node) -> tuple[Value, Value]:
    """Of probabilities (n, t, classes), and how many steps count (n,): the classes in (n, t), and how many they are;
    input 2 says which one is a blank, by default the last one."""
    g, x, lengths, blank = node.graph, node[0], c.cast(node.graph, node[1], DType.INT32), node.get(2)
    steps = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, x, 1), []), DType.INT32))
    is_valid = c.less(g, steps, c.unsqueeze(g, lengths, [-1]))
    none = c.shift(g, c.dimension(g, x, 2), -1) if blank is None else c.reshape(g, blank, [1])
    found, count = _followed(g, _best(g, x), is_valid, c.cast(g, none, DType.INT32),
                             node.flag("merge_repeated", True))
    return (c.cast(g, found, node.dtype("classes_index_type", "i32")),
            c.cast(g, count, node.dtype("sequence_length_type", "i32")))


def _best(g: Graph, x: Value) -> Value:
    return g.apply(reduce.ArgMax(DType.INT32), x, c.axes_of([2]), type=DType.INT32)


def _followed(g: Graph, best: Value, is_valid: Value, blank: Value, merges: bool) -> tuple[Value, Value]:
    """Of classes (n, t) those that are valid and not blank, without repetitions if it `merges`, one behind another and
    filled up with -1, and how many they are."""
    both = c.binary(comparison.LogicalAnd)
    keeps = both(g, is_valid, g.apply(comparison.NotEqual(), best, blank))
    if merges:
        before = c.concatenate(g, [c.fill(g, c.concatenate(g, [c.dimension(g, best, 0), c.integers([1])]),
                                          c.number(-1, DType.INT32)), best], 1)
        keeps = both(g, keeps, g.apply(comparison.NotEqual(), best, c.cut(g, before, 2, 1, 0, 1)))
    ones = c.cast(g, keeps, DType.INT32)
    behind = c.cast(g, c.reshape(g, c.dimension(g, best, 1), []), DType.INT32)
    place = c.select(g, keeps, c.shift(g, g.apply(reduce.Cumsum(), ones, c.number(1, DType.INT32)), -1), behind)
    width = c.shift(g, c.dimension(g, best, 1), 1)
    blanks = c.fill(g, c.concatenate(g, [c.dimension(g, best, 0), width]), c.number(-1, DType.INT32))
    written = g.apply(elements.ScatterElements(1), blanks, place, best)
    return c.cut(g, written, 2, 1, 0, 1), c.total(g, ones, (1,), keep=False)


@layer("GatherTree")
def gather_tree(node: Node) -> Value:
    """The beams (t, n, k) of tokens and of the beams that each comes from, followed back from the last step of each of
    n sequences; what is behind the end, or behind the token of the end, becomes that."""
    g, (tokens, parents, lengths, end) = node.graph, node.exactly(4)
    kind = tokens.dtype
    tokens, parents, lengths, end = (c.cast(g, each, DType.INT32) for each in (tokens, parents, lengths, end))
    end = c.reshape(g, end, [])
    steps = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, tokens, 0), []), DType.INT32))
    is_in = c.trailing(g, c.less(g, c.unsqueeze(g, steps, [-1]), lengths), 1)
    own = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, tokens, 2), []), DType.INT32))
    own = c.broadcast_to(g, own, c.shape_of(g, tokens))
    path = _path(node, c.select(g, is_in, tokens, end), c.select(g, is_in, parents, own))
    is_end = c.cast(g, c.equal(g, path, end), DType.INT32)
    ended = g.apply(reduce.Cumsum(exclusive=True), is_end, c.number(0, DType.INT32))
    return c.cast(g, c.select(g, c.greater(g, ended, c.like(0, ended)), end, path), kind)


def _path(node: Node, tokens: Value, parents: Value) -> Value:
    """The tokens (t, n, k) of paths that end in each beam, in int32 as parents are."""
    g = node.graph
    body = node.unit.program.graph(f"{node.layer.name}/step", g)
    shape = (tokens.shape or (-1, -1, -1))[1:]
    beam, token, parent = (body.input(DType.INT32, shape, name) for name in ("beam", "token", "parent"))
    taken = elements.GatherElements(1)
    body.output(body.apply(taken, parent, beam), body.apply(taken, token, beam))
    last = Position(-1, Base.END)
    op = Loop(body_subgraph_index=body.index, carried=(Carried(0, 0),), count_from_scan=True,
              scan_inputs=(ScanInput(1, 0, last, -1), ScanInput(2, 0, last, -1)),
              scan_outputs=(ScanOutput(1, 0, order=Order.PREPEND),))
    beams = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, tokens, 2), []), DType.INT32))
    first = c.broadcast_to(g, beams, c.dims(g, tokens, 1, 3))
    _, found = g.op(op, None, None, first, tokens, parents, types=[DType.INT32] * 2, shapes=[shape, tokens.shape])
    return found
