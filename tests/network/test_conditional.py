"""Conditionals that the data flow delimits: what runs, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import circlet
from circlet import Network
from circlet.network import Tensor
from tests.network.runs import ran, run_all, saved, typed

TABLE = np.array([10, 20, 30], np.float32)


def test_the_example_of_the_documentation() -> None:
    """`x + y` or `x - y`, with a condition that is a constant cast to bool."""
    for predicate, expected in ((1, [6, 8, 10, 12, 14]), (0, [-4, -4, -4, -4, -4])):
        net = Network()
        x, y = net.input("x", np.float32, (5,)), net.input("y", np.float32, (5,))
        conditional = net.conditional(net.constant(predicate).astype(bool))
        a, b = conditional.input(x), conditional.input(y)
        net.output(conditional.output(a + b, a - b), "output")
        for found in run_all(net, {"x": [1, 2, 3, 4, 5], "y": [5, 6, 7, 8, 9]}, native=True):
            assert found["output"].tolist() == expected


def lookup(x: Tensor, index: Tensor) -> Tensor:
    """Layers that depend on `x`, and end the run with an error when they are evaluated on an index out of range."""
    return x.graph.tensor(TABLE)[index + (x * 0).astype(np.int32)] + x


@dataclass(frozen=True)
class Diagram:
    """A true branch of T1, T2 and T3 in a row, each of which looks up an index of its own."""

    name: str
    lazy: tuple[bool, bool, bool]
    """Which of T1, T2 and T3 belong to the branch."""


DIAGRAMS = [
    Diagram("A", (True, True, True)),
    Diagram("B", (False, True, True)),
    Diagram("C", (False, False, False)),
]


def diagram(which: str) -> Network:
    """T3 works on what T1 and T2 give; in A the conditional's inputs are before T1 and T2, in B one is behind T1; in C
    there is none for the true branch."""
    net = Network()
    x, flag = net.input("x", np.float32), net.input("flag", bool)
    indices = [net.input(name, np.int32) for name in ("i1", "i2", "i3")]
    conditional = net.conditional(flag)
    enter = conditional.input if which == "A" else lambda each: each
    t1 = lookup(enter(x), indices[0])
    if which == "B":
        t1 = conditional.input(t1)
    t2 = lookup(conditional.input(x) if which != "C" else x, indices[1])
    t3 = lookup(t1 + t2, indices[2])
    otherwise = conditional.input(x) * 2
    net.output(conditional.output(t3, otherwise), "out")
    return net


@pytest.mark.parametrize("case", DIAGRAMS, ids=lambda case: case.name)
def test_where_the_inputs_stand_decides_what_is_lazy(case: Diagram) -> None:
    net = diagram(case.name)
    good = {"x": 1.0, "i1": 0, "i2": 1, "i3": 2}
    for found in run_all(net, good | {"flag": True}, native=True):
        assert found["out"] == (1 + 10) + (1 + 20) + 30
    for found in run_all(net, good | {"flag": False}):
        assert found["out"] == 2
    for name, lazy in zip(("i1", "i2", "i3"), case.lazy, strict=True):
        broken = good | {name: 7, "flag": False}
        if lazy:
            assert all(found["out"] == 2 for found in run_all(net, broken, native=True))
        else:
            with pytest.raises(circlet.ExecutionError, match=r"subgraph 0 .*GATHER"):
                list(run_all(net, broken))


def test_one_branch_runs() -> None:
    model = diagram("A").build()
    inputs = {"x": 1.0, "i1": 0, "i2": 1, "i3": 2}
    for flag, counts in ((True, [1, 1, 0]), (False, [1, 0, 1])):
        assert list(ran(model, inputs | {"flag": flag}).values()) == counts


def test_without_inputs_both_sides_are_computed_before() -> None:
    net = Network()
    x, flag = net.input("x", np.float32), net.input("flag", bool)
    conditional = net.conditional(flag)
    net.output(conditional.output(x + 1, x * 2), "out")
    model = net.build()
    assert [len(each.operators) for each in model.subgraphs] == [3, 0, 0]
    assert [found["out"].item() for found in run_all(net, {"x": 5, "flag": False})] == [10, 10]


def two_outputs(net: Network, flag: Tensor, x: Tensor) -> None:
    conditional = net.conditional(flag)
    a = conditional.input(x)
    shared = a * 3
    net.output(conditional.output(shared, a), "first")
    net.output(conditional.output(shared + 1, 7.0), "second")


def nested(net: Network, flag: Tensor, x: Tensor) -> None:
    outer = net.conditional(flag)
    a = outer.input(x)
    inner = net.conditional(a > 3)
    b = inner.input(a)
    net.output(outer.output(inner.output(b * 10, b * 100), a), "first")
    net.output(x, "second")


def nested_by_predicate(net: Network, flag: Tensor, x: Tensor) -> None:
    """The inner one takes nothing else from the outer."""
    outer = net.conditional(flag)
    inner = net.conditional(outer.input(x) > 3)
    b = inner.input(x)
    net.output(outer.output(inner.output(b * 10, b * 100), 1.0), "first")
    net.output(x, "second")


def chained(net: Network, flag: Tensor, x: Tensor) -> None:
    first = net.conditional(flag)
    a = first.output(first.input(x) + 1, first.input(x) - 1)
    second = net.conditional(a > 4)
    net.output(second.output(second.input(a) * 2, second.input(a)), "first")
    net.output(a, "second")


PROGRAMS: list[tuple[Callable[[Network, Tensor, Tensor], None], dict[tuple[bool, float], tuple[float, float]]]] = [
    (two_outputs, {(True, 4): (12, 13), (False, 4): (4, 7)}),
    (nested, {(True, 4): (40, 4), (True, 2): (200, 2), (False, 4): (4, 4)}),
    (nested_by_predicate, {(True, 4): (40, 4), (True, 2): (200, 2), (False, 4): (1, 4)}),
    (chained, {(True, 4): (10, 5), (False, 4): (3, 3), (False, 7): (12, 6)}),
]


@pytest.mark.parametrize(("program", "expected"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_program(program: Callable[[Network, Tensor, Tensor], None],
                 expected: dict[tuple[bool, float], tuple[float, float]]) -> None:
    net = Network()
    program(net, net.input("flag", bool), net.input("x", np.float32))
    for (flag, x), outputs in expected.items():
        for found in run_all(net, {"flag": flag, "x": x}):
            assert (found["first"].item(), found["second"].item()) == outputs


def test_an_inner_conditional_is_lazy_too() -> None:
    net = Network()
    nested_by_predicate(net, net.input("flag", bool), net.input("x", np.float32))
    counts = ran(net.build(), {"flag": False, "x": 4})
    assert sorted(counts.values()) == [0, 0, 0, 1, 1]


def test_branches_of_different_shapes() -> None:
    net = Network()
    x, flag = net.input("x", np.float32, (3,)), net.input("flag", bool)
    conditional = net.conditional(flag)
    a = conditional.input(x)
    longer = conditional.output(net.concat([a, a]), a)
    assert longer.shape == (-1,)
    net.output(longer * 2, "out")
    for flag_value, expected in ((True, [2, 4, 6, 2, 4, 6]), (False, [2, 4, 6])):
        for found in run_all(net, {"x": [1, 2, 3], "flag": flag_value}):
            assert found["out"].tolist() == expected


def test_unused_conditionals_disappear() -> None:
    net = Network()
    x = net.input("x", np.float32)
    conditional = net.conditional(x > 0)
    conditional.output(conditional.input(x) + 1, x)
    net.output(x * 2, "out")
    assert len(net.build().subgraphs) == 1


def test_names_survive_the_file(tmp_path: object) -> None:
    net = diagram("B")
    model = saved(net, tmp_path)  # type: ignore[arg-type]
    inputs = {"x": 1.0, "i1": 0, "i2": 1, "i3": 2, "flag": True}
    session = circlet.Session(model, backend="cpu")
    assert session.run(typed(model, inputs))["out"] == 62
    assert model.signatures[0].key == "serving_default"
    assert session.signature("serving_default")(**typed(model, inputs))["out"] == 62
