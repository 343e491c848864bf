"""The rule for Einsum: operands are multiplied two by two, as matrices where that can be."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ops import comparison, matmul, shape
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.matmul import PRODUCTS
from circlet.schema.onnx.ops.reduce import total
from circlet.schema.onnx.ops.shape import counted, product
from circlet.schema.onnx.rules import rule

Term = tuple[Value, str]
"""A tensor and the letters of its axes."""


@rule("Einsum")
def einsum(node: Node) -> Value:
    graph = node.graph
    letters, wanted = _letters(node)
    terms = [_diagonal(graph, each, names) for each, names in zip(node.given, letters, strict=True)]
    found = terms[0]
    for k, other in enumerate(terms[1:], 1):
        later = set(wanted).union(*(names for _, names in terms[k + 1:]))
        found = _pair(graph, _summed(graph, found, later | set(other[1])), _summed(graph, other, later | set(found[1])),
                      later)
    x, names = _summed(graph, found, set(wanted))
    result = c.transpose(graph, x, [names.index(each) for each in wanted])
    return node.copy(result) if result == node[0] else result


def _letters(node: Node) -> tuple[list[str], str]:
    """The letters of the axes of each input and of the result; those that `...` stands for are others."""
    equation = node.string("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(node.inputs):
        raise ModelError(f"equation {equation!r}: expected {len(node.inputs)} terms, found {len(parts)}")
    spare = [each for each in reversed(ascii_letters) if each not in equation]
    counts = [node.rank(k) - len(part.replace("...", "")) if "..." in part else 0 for k, part in enumerate(parts)]
    most = max(counts)
    names = [part.replace("...", "".join(spare[most - count:most])) for part, count in zip(parts, counts, strict=True)]
    if any(len(each) != node.rank(k) for k, each in enumerate(names)):
        raise ModelError(f"equation {equation!r} does not fit inputs of ranks "
                         f"{[node.rank(k) for k in range(len(names))]}")
    if not arrow:
        once = sorted(each for each in set(left) - set(",.") if left.count(each) == 1)
        right = "..." * ("..." in left) + "".join(once)
    wanted = right.replace("...", "".join(spare[:most]))
    if set(wanted) - set("".join(names)) or len(set(wanted)) != len(wanted):
        raise ModelError(f"equation {equation!r}: expected axes of the inputs, each once, in the result")
    return names, wanted


def _diagonal(graph: Graph, x: Value, names: str) -> Term:
    """A tensor without axes of the same letter, of which only the diagonal counts."""
    for letter in set(names):
        while names.count(letter) > 1:
            first, second = names.index(letter), names.rindex(letter)
            places = counted(graph, product(graph, c.dimension(graph, x, first)))
            one, two = (c.unsqueeze(graph, places, [k for k in range(len(names)) if k != axis])
                        for axis in (first, second))
            x = c.select(graph, graph.apply(comparison.Equal(), one, two), x, c.like(0, x))
            x = total(graph, x, [second], keep=False)
            names = names[:second] + names[second + 1:]
    return x, names


def _summed(graph: Graph, term: Term, needed: set[str]) -> Term:
    """A term without the axes that nothing else has."""
    x, names = term
    gone = [k for k, each in enumerate(names) if each not in needed]
    return (total(graph, x, gone, keep=False) if gone else x), "".join(each for each in names if each in needed)


def _pair(graph: Graph, a: Term, b: Term, later: set[str]) -> Term:
    """The product of two terms, summed over what they share and nothing else has."""
    both = [each for each in a[1] if each in b[1]]
    batch = [each for each in both if each in later]
    inner = [each for each in both if each not in later]
    rows, columns = ([each for each in one if each not in other] for one, other in ((a[1], b[1]), (b[1], a[1])))
    names = "".join([*batch, *rows, *columns])
    if a[0].dtype not in PRODUCTS or not inner or not (rows or columns):
        order = [*batch, *rows, *columns, *inner]
        x = c.multiply(graph, _spread(graph, a, order), _spread(graph, b, order))
        return (total(graph, x, list(range(len(names), len(order))), keep=False) if inner else x), names
    loose = [each for each in both if not _fits(a, b, each)]
    a, b = _repeated(graph, a, b, loose), _repeated(graph, b, a, loose)
    left, right = (_matrices(graph, term, batch, free, inner) for term, free in ((a, rows), (b, columns)))
    found = graph.apply(matmul.BatchMatMul(adj_y=True), left, right)
    sizes = [*_sizes(graph, a, batch), *_sizes(graph, a, rows), *_sizes(graph, b, columns)]
    target = c.concatenate(graph, sizes) if sizes else constant(np.zeros(0, np.int64))
    return c.reshape_to(graph, found, target), names


def _fits(a: Term, b: Term, letter: str) -> bool:
    """Whether an axis is known to have one size in both terms, so that neither is repeated along it."""
    sizes = {(x.shape or ())[names.index(letter)] for x, names in (a, b)}
    return len(sizes) == 1 and -1 not in sizes


def _repeated(graph: Graph, term: Term, other: Term, letters: Sequence[str]) -> Term:
    """A term repeated along axes of size 1 that another one has longer; letters say which may be."""
    if not letters:
        return term
    x, names = term
    sizes = [graph.apply(shape.BroadcastArgs(), each, *_sizes(graph, other, letter)) if letter in letters else each
             for letter, each in zip(names, _sizes(graph, term, names), strict=True)]
    return c.broadcast_to(graph, x, c.concatenate(graph, sizes)), names


def _spread(graph: Graph, term: Term, order: Sequence[str]) -> Value:
    """A tensor with axes in an order, of size 1 where it has none."""
    x, names = term
    x = c.transpose(graph, x, [names.index(each) for each in order if each in names])
    return c.unsqueeze(graph, x, [k for k, each in enumerate(order) if each not in names])


def _matrices(graph: Graph, term: Term, batch: Sequence[str], free: Sequence[str], inner: Sequence[str]) -> Value:
    """A tensor as matrices (batch, free, inner)."""
    x = _spread(graph, term, [*batch, *free, *inner])
    sizes = [c.concatenate(graph, part) if (part := _sizes(graph, term, group)) else constant(np.ones(1, np.int64))
             for group in (batch, free, inner)]
    flat = [c.unsqueeze(graph, product(graph, each), [0]) for each in sizes]
    return c.reshape_to(graph, x, c.concatenate(graph, flat))


def _sizes(graph: Graph, term: Term, letters: Sequence[str]) -> list[Value]:
    return [c.dimension(graph, term[0], term[1].index(each)) for each in letters]
