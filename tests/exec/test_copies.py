"""Copy elision: what it decides for each edge, that listeners see exactly the copies that are left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Padding
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.pool import MaxPool2D
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.passes.analyses.transfer import Action
from tests.exec import graphs as g
from tests.exec.graphs import Array, Formula, f32, i32

MODELS = Path(__file__).parents[1] / "models"


class Copies(Listener):
    """The edges that were copied, in order."""

    def __init__(self) -> None:
        self.edges: list[str] = []

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self.edges.append(edge)


def carries(body: Formula, *state: Array) -> dict[str, str]:
    model = g.while_model(g.at_most(2), body, [i32(0), *state])
    return {each.edge: each.action.value for each in circlet.Session(model).copies() if each.edge.startswith("carry")}


def swap(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), v[2], v[1]]


def append_row(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    row = b.apply(Mul(), b.constant(f32([[1, 1]])), b.constant(f32(2)))
    start = b.apply(Reshape(), v[0], b.constant([1]))
    where = b.apply(Concatenation(), start, b.constant([0]))
    return [g.plus(b, v[0]), b.apply(DynamicUpdateSlice(), v[1], row, where)]


def read_after_update(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    updated = append_row(b, v)[1]
    return [g.plus(b, v[0]), g.add(b, updated, v[1])]


def invariant_read(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(b, v[0]), g.add(b, v[1], v[2]), v[2]]


def viewed(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """A pass-through spelt with two reshapes."""
    return [g.plus(b, v[0]), b.apply(Reshape(), b.apply(Reshape(), v[1], b.constant([2, 1])), b.constant([2]))]


ROWS, PAIR = np.zeros((3, 2), np.float32), f32([1, 2])


@pytest.mark.parametrize(("body", "state", "actions"), [
    (g.counter, [], ["in_place"]),
    (g.accumulate, [i32(1)], ["in_place", "in_place"]),
    (swap, [PAIR, PAIR], ["in_place", "rotate", "rotate"]),
    (append_row, [ROWS], ["in_place", "in_place"]),
    (read_after_update, [ROWS], ["in_place", "in_place"]),
    (invariant_read, [PAIR, PAIR], ["in_place", "in_place", "invariant"]),
    (viewed, [PAIR], ["in_place", "invariant"]),
    (lambda b, v: [g.plus(b, v[0]), g.add(b, v[2], v[2]), b.apply(Mul(), v[1], v[2])], [PAIR, PAIR],
     ["in_place", "alternate", "in_place"]),
    (lambda b, v: [g.plus(b, v[0]), b.constant(PAIR)], [PAIR], ["in_place", "copy"]),
], ids=["counter", "accumulate", "swap", "append_row", "read_after_update", "invariant", "viewed", "alternate",
        "constant"])
def test_action_of_each_carried_value(body: Formula, state: list[Array], actions: list[str]) -> None:
    assert list(carries(body, *state).values()) == actions


def test_textbook_copies_are_counted() -> None:
    model = g.while_model(g.at_most(2), g.accumulate, [i32(0), f32([1, 2]).astype(np.int32)])
    counter = circlet.Counter()
    circlet.Session(model, "cpu", copy_elision=False).run([i32(0), i32([1, 2])], listener=counter)
    turns, slots, size = 3, 2, 4 + 8
    assert counter.invocations == {0: 1, 1: turns + 1, 2: turns}
    assert counter.copies == slots * (1 + (turns + 1) + turns + turns)
    assert counter.copied_bytes == size * (1 + (turns + 1) + turns + turns)


def test_an_elided_loop_copies_nothing_but_results_of_odd_turns() -> None:
    def body(b: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(b, v[0]), g.add(b, v[2], v[2]), b.apply(Mul(), v[1], v[2])]

    session = circlet.Session(g.while_model(g.at_most(2), body, [i32(0), PAIR, PAIR]))
    for start, edges in ((0, ["output 1"]), (1, []), (3, [])):
        copies = Copies()
        session.run([i32(start), PAIR, PAIR], listener=copies)
        assert copies.edges == edges


@pytest.mark.parametrize("name", [
    "collatz", "nested_while", "lstm_sequence", "bit_count", "newton_sqrt", "mandelbrot", "cumulate", "scan_rows",
    "list_write", "matmul_loop", "game_of_life",
])
def test_converter_written_loops_need_no_copy_in_a_turn(name: str) -> None:
    """As numpy runs them; compiled loops keep scalars in registers, wherever their operators are grouped."""
    model = circlet.load(MODELS / f"{name}.tflite")
    copies = circlet.Session(model, "cpu").copies()
    assert not [each for each in copies if each.per_iteration and each.action is Action.COPY]


def report(model: Model, elide: bool) -> set[tuple[int, int, str]]:
    session = circlet.Session(model, copy_elision=elide)
    return {(each.subgraph, each.operator, each.edge) for each in session.copies() if each.action is Action.COPY}


@pytest.mark.parametrize("elide", g.ELISION)
@pytest.mark.parametrize("name", ["collatz", "nested_while", "swap", "rotate", "cond_duplicate", "scan_rows"])
def test_every_copy_seen_is_one_that_the_plan_names(name: str, elide: bool) -> None:
    seen: set[tuple[int, int, str]] = set()

    class Edges(Listener):
        def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
            seen.add((subgraph, operator, edge))

    model = circlet.load(MODELS / f"{name}.tflite")
    session = circlet.Session(model, copy_elision=elide)
    tensors = model.subgraphs[0].tensors
    session.run([np.full(tensors[each].shape, 3, tensors[each].dtype.numpy) for each in model.subgraphs[0].inputs],
                listener=Edges())
    assert seen <= report(model, elide)


def test_appending_a_row_costs_the_row() -> None:
    """A turn writes two floats of a buffer of 16 MB; copying it each turn would move 16 GB."""
    rows = np.zeros((1 << 21, 2), np.float32)
    counter = circlet.Counter()
    session = circlet.Session(g.while_model(g.at_most(999), append_row, [i32(0), rows]))
    result = list(session.run([i32(0), rows], listener=counter).values())[1]
    assert counter.copied_bytes == 0
    np.testing.assert_array_equal(result[:1000], np.full((1000, 2), 2, np.float32))
    assert not result[1000:].any()


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_lengths_that_are_left_open_are_long_enough(backend: str) -> None:
    """For a window that does not fit one element; a profile asks for the shapes of its runs."""
    b = circlet.ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (1, -1, 8, 3))
    main.output(main.apply(MaxPool2D(Padding.VALID, 1, 1, filter_width=2, filter_height=5), x))
    session = circlet.Session(b.build(), backend)
    assert session.copies() == []
    with circlet.profile(session) as profile:
        session.invoke(0, [np.zeros((1, 9, 8, 3), np.float32)])
    assert "MAX_POOL_2D" in str(profile)
