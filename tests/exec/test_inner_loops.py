"""Loops in the turns of loops: what is copied where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

import circlet
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import If, While
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import ReverseV2
from circlet.runtime.passes.analyses.carry import UNMADE
from circlet.runtime.passes.analyses.course import TOO_FAR
from circlet.runtime.passes.analyses.elide_copies import COPIES_LATER, STARTS_CONSTANT
from circlet.runtime.passes.analyses.transfer import Action
from tests.exec import graphs as g
from tests.exec.graphs import Array, Formula, i32

ENTRIES = 3
SCALAR = (DType.INT32, ())


@dataclass(frozen=True)
class Inner:
    """A loop over a counter and other values that begin as constants, entered anew in each of three turns."""

    body: Formula
    """Of the other values."""
    begin: tuple[Array, ...]
    read: tuple[int, ...]
    """Those of the other values that are read when the loop has ended."""
    branches: tuple[Formula, Formula] | None = None
    """What becomes of what the body makes, in the first turn and in others."""


def added(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(s, each, 2) for each in v]


def swapped(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [v[1], v[0]]


def fibonacci(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [v[1], g.add(s, v[0], v[1])]


def shifted(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [*v[1:], g.plus(s, v[0])]


def same(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return list(v)


def turned(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [s.apply(ReverseV2(), v[0], s.constant([0]))]


def updated(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    return [s.apply(DynamicUpdateSlice(), v[0], s.constant([7]), s.constant([1]))]


def updated_twice(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """One value in two places."""
    return 2 * updated(s, v[1:])


def model_of(inner: Inner, levels: int) -> Model:
    """`for _ in range(3): values, k = begin, 0; while k < n: values, k = body(values), k + 1; totals += values`.

    For more `levels`, the body is a loop of two turns with that body, and so on.
    """
    b = ModelBuilder()
    main = b.subgraph("main")
    rows = [g.kind(each, False) for each in inner.begin]
    kinds = [SCALAR, SCALAR, *rows]
    declared = [g.declared(f"t{k}", *each) for k, each in enumerate(kinds)]

    branch = None if inner.branches is None else If(*(g.define(b, "branch", each, rows) for each in inner.branches))

    def innermost(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        values = inner.body(s, v[2:])
        return values if branch is None else s.op(branch, g.less(s, v[0], s.constant(1)), *values, outputs=declared[2:])

    def loop(level: int) -> While:
        body: Formula = innermost
        if level:
            within = loop(level - 1)

            def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
                return s.op(within, s.constant(0), s.constant(2), *v[2:], outputs=declared)[2:]

        return While(g.define(b, f"cond{level}", lambda s, v: [g.less(s, v[0], v[1])], kinds),
                     g.define(b, f"body{level}", lambda s, v: [g.plus(s, v[0]), v[1], *body(s, v)], kinds))

    entered = loop(levels - 1)

    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        results = s.op(entered, s.constant(0), v[1], *map(s.constant, inner.begin), outputs=declared)[2:]
        totals = [g.add(s, old, results[k]) if k in inner.read else old for k, old in enumerate(v[2:])]
        return [g.plus(s, v[0]), v[1], *totals]

    op = While(g.define(b, "cond", g.below(ENTRIES), kinds), g.define(b, "body", turn, kinds))
    results = main.op(op, main.constant(0), main.input("n", *SCALAR),
                      *(main.input(f"x{k}", *each) for k, each in enumerate(rows)), outputs=declared)
    main.output(*results[2:])
    return b.build()


class Heard(Listener):
    """The copies of all loops but the outermost, by edge, in order."""

    def __init__(self) -> None:
        self.edges: list[str] = []
        self.places: set[tuple[int, int, str]] = set()

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        if (subgraph, operator) != (0, 0):
            self.edges.append(edge)
            self.places.add((subgraph, operator, edge))


ROW = i32([1, 2, 3])
COPIED: dict[str, tuple[Inner, list[list[str]]]] = {
    "counter": (Inner(lambda s, v: [], (), ()), [[], [], []]),
    "scalar": (Inner(added, (i32(5),), (0,)), [["output 2"], [], []]),
    "unread": (Inner(added, (i32(5),), ()), [[], [], []]),
    "rows": (Inner(added, (ROW, ROW), (1,)), [["output 3"], [], []]),
    "alternating": (Inner(turned, (ROW,), (0,)), [["output 2"], ["output 2"], []]),
    "alternating_unread": (Inner(turned, (ROW,), ()), [[], [], []]),
    "moved": (Inner(fibonacci, (i32(0), i32(1)), (0,)), [["output 2"], ["output 2"], []]),
    "swapped": (Inner(swapped, (ROW, 2 * ROW), (0, 1)), [["output 2", "output 3"]] * 3),
    "swapped_unread": (Inner(swapped, (i32(4), i32(5)), ()), [[]] * 3),
    "updated": (Inner(updated, (ROW,), (0,)), [["output 2"], [], []]),
    "updated_twice": (Inner(updated_twice, (ROW, ROW), (0,)),
                      [["input 3", "output 2"], ["input 3", "carry 2"], ["input 3", "carry 2", "carry 2"]]),
    "chosen": (Inner(same, (i32(5),), (0,), (added, added)), [["output 2"], [], []]),
    "chosen_update": (Inner(same, (ROW,), (0,), (updated, added)), [["output 2"], [], []]),
    "kept_by_a_branch": (Inner(same, (i32(5),), (0,), (added, same)), [["input 2"]] * 3),
    "far": (Inner(shifted, tuple(i32(k) for k in range(5)), (0,)),
            [["input 6", "output 2"], ["input 6", "output 2"], ["input 6", "output 2"]]),
}
"""Loops, and what numpy copies each time that they take 0, 1 and 2 turns."""
CASES = [pytest.param(inner, edges, id=name) for name, (inner, edges) in COPIED.items()]


@pytest.mark.parametrize(("inner", "edges"), CASES)
def test_an_inner_loop_copies_only_what_its_first_turns_cannot_read(inner: Inner, edges: list[list[str]]) -> None:
    session = circlet.Session(model_of(inner, 1), "cpu")
    for turns, expected in enumerate(edges):
        heard = Heard()
        session.run([i32(turns), *inner.begin], listener=heard)
        assert heard.edges == ENTRIES * expected


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["counter", "scalar", "unread", "rows", "updated", "chosen"])
def test_loops_in_inner_loops_read_constants_where_they_are(name: str, turns: int) -> None:
    inner, edges = COPIED[name]
    heard = Heard()
    circlet.Session(model_of(inner, 3), "cpu").run([i32(turns), *inner.begin], listener=heard)
    assert heard.edges == (ENTRIES * edges[0] if turns == 0 else [])


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(("inner", "edges"), CASES)
def test_the_copies_of_inner_loops_are_listed(inner: Inner, edges: list[list[str]], levels: int) -> None:
    session, heard = circlet.Session(model_of(inner, levels), "cpu"), Heard()
    listed = {(each.subgraph, each.operator, each.edge) for each in session.copies() if each.action is Action.COPY}
    for turns in range(5):
        session.run([i32(turns), *inner.begin], listener=heard)
    assert heard.places <= listed
    if levels == 1:
        assert {each for each in listed if each[0]} == heard.places


@pytest.mark.parametrize(("name", "reasons"), [
    ("counter", []),
    ("moved", []),
    ("kept_by_a_branch", [COPIES_LATER]),
    ("updated_twice", [UNMADE]),
    ("far", [TOO_FAR]),
])
def test_copies_where_an_inner_loop_begins_say_why(name: str, reasons: list[str]) -> None:
    found = [each.reason for each in circlet.Session(model_of(COPIED[name][0], 1), "cpu").copies()
             if each.action is Action.COPY and each.subgraph and each.edge.startswith("input")]
    assert found == [f"{STARTS_CONSTANT}; {each}" for each in reasons]


@pytest.mark.parametrize("name", ["counter", "scalar", "unread", "moved", "swapped_unread", "chosen",
                                  "kept_by_a_branch", "far"])
def test_native_code_begins_inner_loops_in_registers(name: str) -> None:
    inner, _ = COPIED[name]
    session, counter = circlet.Session(model_of(inner, 2), "native"), circlet.Counter()
    session.run([i32(2), *inner.begin], listener=counter)
    assert counter.copies == 0
    assert {each.action for each in session.copies()} == {Action.REGISTER}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("inner", "edges"), CASES)
def test_inner_loops_begin_with_the_same_values_each_time(inner: Inner, edges: list[list[str]], backend: str) -> None:
    for levels in (1, 2, 3):
        model = model_of(inner, levels)
        textbook, session = (circlet.Session(model, name, copy_elision=elide)
                             for name, elide in (("cpu", False), (backend, True)))
        for turns in (2, 0, 3, 1):
            inputs = [i32(turns), *inner.begin]
            g.assert_equal(g.run(session, inputs), g.run(textbook, inputs))
