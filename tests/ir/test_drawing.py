"""Drawings: every line goes down, boxes of a layer do not overlap, and pictures of small graphs are as expected."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.display.drawing import BENDS, BOX_HEIGHT, GAP, PITCH, Drawing, draw
from circlet.runtime.ir.model import Operator, Subgraph
from circlet.runtime.ir.op import Skip
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.unary import Neg


def graph(reads: list[list[int]], outputs: int = 1) -> Subgraph:
    """Operators of which each reads earlier values; value 0 is the input."""
    main = circlet.ModelBuilder().subgraph()
    values = [main.input("x", np.float32, (2,))]
    for each in reads:
        given = [values[k % len(values)] for k in each]
        values.append(main.apply(Neg(), given[0]) if len(given) == 1 else main.apply(Add(), *given[:2]))
    main.output(*values[-outputs:])
    return main.build()


def check(drawing: Drawing) -> None:
    """What holds of every drawing."""
    layers: dict[float, list[tuple[float, float]]] = {}
    for box in drawing.boxes:
        layers.setdefault(box.y, []).append((box.x, box.width))
        assert box.width / 2 - 1e-6 <= box.x <= drawing.width - box.width / 2 + 1e-6
        assert BOX_HEIGHT / 2 <= box.y <= drawing.height - BOX_HEIGHT / 2
    for row in layers.values():
        for (x, width), (other, its_width) in pairwise(sorted(row)):
            assert other - x >= (width + its_width) / 2 + GAP - 0.2
    for line in drawing.lines:
        ys = [drawing.boxes[line.source].y, *(y for _, y in line.bends), drawing.boxes[line.target].y]
        assert all(one < other for one, other in pairwise(ys))


def test_a_chain_is_a_column() -> None:
    drawing = draw(graph([[0], [1], [2]]))
    assert [(each.kind, each.index, each.title) for each in drawing.boxes] == [
        ("input", 0, "x"), ("operator", 0, "NEG"), ("operator", 1, "NEG"), ("operator", 2, "NEG"),
        ("output", 3, "neg_3")]
    assert len({each.x for each in drawing.boxes}) == 1
    assert [each.y for each in drawing.boxes] == [BOX_HEIGHT / 2 + PITCH * k for k in range(5)]
    assert [(each.source, each.target, each.tensor, each.bends) for each in drawing.lines] == [
        (0, 1, 0, ()), (1, 2, 1, ()), (2, 3, 2, ()), (3, 4, 3, ())]
    assert (drawing.boxes[1].subtitle, drawing.height) == ("float32[2]", 4 * PITCH + BOX_HEIGHT)


def test_a_line_makes_its_way_past_boxes() -> None:
    """x is read by the first operator and by the last."""
    drawing = draw(graph([[0], [1], [2], [3, 0]]))
    check(drawing)
    line, = [each for each in drawing.lines if (each.source, each.target) == (0, 4)]
    assert [y for _, y in line.bends] == [each.y for each in drawing.boxes[1:4]]
    for (x, _), box in zip(line.bends, drawing.boxes[1:4], strict=True):
        assert abs(x - box.x) > box.width / 2


def test_branches_do_not_cross() -> None:
    """Two chains from one operator into one other."""
    drawing = draw(graph([[0], [1], [1], [2], [3], [4, 5]]))
    check(drawing)
    x = [each.x for each in drawing.boxes]
    assert (x[2] < x[3]) == (x[4] < x[5])
    assert (x[2], x[3]) == (x[4], x[5])


def test_what_reads_nothing_is_above_its_reader() -> None:
    main = circlet.ModelBuilder().subgraph()
    x, late = main.input("x", np.float32, (2,)), main.input("late", np.float32, (2,))
    for _ in range(3):
        x = main.apply(Neg(), x)
    main.output(main.apply(Add(), x, late))
    boxes = draw(main.build()).boxes
    assert boxes[1].y == boxes[4].y == boxes[5].y - PITCH


@given(st.binary(max_size=120), st.integers(1, 5))
def test_drawings(places: bytes, outputs: int) -> None:
    """Each operator reads two of the values before it, or one of them where both places are even."""
    pairs = zip(places[::2], places[1::2], strict=False)
    check(draw(graph([[one, other] if one % 2 or other % 2 else [one] for one, other in pairs], outputs)))


@pytest.mark.parametrize("operators", [([0], [5]), ([9], [0]), ([0], [0])])
def test_malformed_subgraphs_are_drawn(operators: tuple[list[int], list[int]]) -> None:
    """Operators that read what comes later, what there is not, and themselves."""
    found = graph([[0], [1]])
    reads, writes = operators
    first = replace(found.operators[0], inputs=tuple(reads), outputs=tuple(writes))
    drawing = draw(replace(found, operators=(first, found.operators[1]), outputs=(77,)))
    check(drawing)
    assert drawing.boxes[-1].subtitle == "undeclared"
    assert draw(Subgraph("empty", (), (), (), ())).boxes == ()


def test_many_long_lines_are_straight() -> None:
    """Of lines that would have too many bends, the shortest have theirs."""
    drawing = draw(graph([[0]] + [[k, 0 if k % 2 else k // 2] for k in range(1, 300)]))
    check(drawing)
    assert 0 < len({each.tensor for each in drawing.lines if each.bends}) < 150
    assert len({bend for each in drawing.lines for bend in each.bends}) <= BENDS * len(drawing.boxes)


def test_what_passes_took_away_is_not_drawn() -> None:
    whole = graph([[0], [1], [0, 2]])
    taken = replace(whole, operators=(Operator(Skip(), (), ()), replace(whole.operators[1], inputs=whole.inputs),
                                      whole.operators[2]))
    drawing = draw(taken, names={2: "NEG+ADD"})
    check(drawing)
    assert [(each.index, each.title) for each in drawing.boxes if each.kind == "operator"] == [
        (1, "NEG"), (2, "NEG+ADD")]
    assert [(each.source, each.target) for each in drawing.lines] == [(0, 1), (0, 2), (1, 2), (2, 3)]
