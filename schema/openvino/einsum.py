"""Sums of products by Einstein's convention."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from circlet.runtime.ir.types import DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.matmul import matrix_product
from circlet.schema.openvino.rules import Node, layer


@layer("Einsum", since=7)
def einsum(node: Node) -> Value:
    """The sum over all labels that the result lacks of the product of operands, one after the other; no label twice in
    one. What `...` stands for is of one size in each of them."""
    terms, result = _labels(node)

    def combine(first: Value, *others: Value) -> Value:
        found, names = first, terms[0]
        for k, other in enumerate(others, 1):
            later = {*result}.union(*terms[k + 1:])
            kept = result if k == len(others) else "".join(
                each for each in dict.fromkeys(names + terms[k]) if each in later)
            found, names = _product(node.graph, (found, other), (names, terms[k]), kept), kept
        return found if others else _arranged(node.graph, found, names, result)

    return c.in_float32(node.graph, combine, *node.required)


def _labels(node: Node) -> tuple[list[str], str]:
    """The labels of the axes of each operand, and of the result; those that `...` stands for are others."""
    equation = node.text("equation").replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    parts, ranks = inputs.split(","), [node.rank(k) for k in range(len(node))]
    spare = [each for each in reversed(ascii_letters) if each not in equation]
    counts = [rank - len(part) + 3 if "..." in part else 0 for part, rank in zip(parts, ranks, strict=False)]
    most = max(counts, default=0)
    terms = [part.replace("...", "".join(spare[most - count:most])) for part, count in zip(parts, counts, strict=False)]
    result = result.replace("...", "".join(spare[:most]))
    if not arrow or any(len(set(each)) != len(each) for each in (*terms, result)):
        raise node.refusal(f"equation {node.text('equation')!r}")
    if len(parts) != len(ranks) or min(counts) < 0 or [len(each) for each in terms] != ranks:
        raise node.error(f"equation: expected a label for each axis of the inputs, found {node.text('equation')!r}")
    if any(label not in "".join(terms) for label in result):
        raise node.error(f"equation: expected labels of the inputs in the result, found {result!r}")
    sizes = {each: {node.shape(k)[names.index(each)] for k, names in enumerate(terms) if each in names} - {-1}
             for each in spare[:most]}
    if any(len(found) > 1 for found in sizes.values()):
        raise node.refusal(f"equation {node.text('equation')!r} of shapes {[node.shape(k) for k in range(len(node))]}")
    return terms, result


def _arranged(g: Graph, x: Value, labels: str, wanted: str) -> Value:
    """The sum over labels that are not wanted, with the axes in the order wanted."""
    summed = [k for k, label in enumerate(labels) if label not in wanted]
    kept = [label for label in labels if label in wanted]
    if summed:
        x = c.total(g, x, summed, keep=False)
    return c.transpose(g, x, [kept.index(label) for label in wanted if label in kept])


def _product(g: Graph, values: Sequence[Value], terms: Sequence[str], result: str) -> Value:
    """The product of two operands as one of matrices: batch, rows, columns and what is summed."""
    one, two = terms
    batch = [label for label in one if label in two and label in result]
    summed = [label for label in one if label in two and label not in result]
    rows, columns = ([label for label in mine if label not in other and label in result]
                     for mine, other in ((one, two), (two, one)))
    orders = ("".join(batch + rows + summed), "".join(batch + summed + columns))
    a, b = (_arranged(g, value, labels, order)
            for value, labels, order in zip(values, terms, orders, strict=True))
    sizes = {label: c.dims(g, value, k, k + 1) for value, order in ((a, orders[0]), (b, orders[1]))
             for k, label in enumerate(order)}
    count = {"b": batch, "r": rows, "s": summed, "c": columns}
    left, right = (_grouped(g, value, [sizes[label] for label in batch], [[sizes[each] for each in count[part]]
                                                                        for part in parts])
                   for value, parts in ((a, "rs"), (b, "sc")))
    product = matrix_product(g, left, right)
    whole = batch + rows + columns
    shaped = c.reshape_to(g, product, c.concatenate(g, [sizes[each] for each in whole]) if whole else c.integers([]))
    return c.transpose(g, shaped, [whole.index(label) for label in result])


def _grouped(g: Graph, x: Value, batch: Sequence[Value], groups: Sequence[Sequence[Value]]) -> Value:
    """The value with each group of axes as one axis."""
    merged = [_multiplied(g, each) for each in groups]
    return c.reshape_to(g, x, c.concatenate(g, [*batch, *merged]))


def _multiplied(g: Graph, sizes: Sequence[Value]) -> Value:
    total = c.integers([1])
    for each in sizes:
        if total.data is not None and each.data is not None:
            total = c.integers([int(total.data[0] * each.data[0])], DType.INT64)
        else:
            total = c.multiply(g, total, each)
    return total
