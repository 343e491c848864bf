"""Loops that the data flow delimits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet import LoopOutput, Network
from tests.network.runs import Array, ran, run, run_all

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def power(net: Network) -> None:
    """A count, a recurrence and an invariant that is used inside."""
    x = net.input("x", np.float32)
    loop = net.loop()
    loop.trip_limit(net.input("n", np.int32))
    r = loop.recurrence(1.0)
    r.set_next(r * (x + 1))
    net.output(loop.output(r), "out")


def countdown(net: Network) -> None:
    """A condition is looked at before each iteration."""
    loop = net.loop()
    r, steps = loop.recurrence(net.input("x", np.int32)), loop.recurrence(0)
    loop.trip_limit(r > 10)
    r.set_next(r // 2)
    steps.set_next(steps + 1)
    net.output(net.stack([loop.output(r), loop.output(steps)]), "out")


def both_limits(net: Network) -> None:
    loop = net.loop()
    r = loop.recurrence(net.input("x", np.int32))
    loop.trip_limit(net.input("n", np.int64))
    loop.trip_limit(r < 100)
    r.set_next(r * 2)
    net.output(loop.output(r), "out")


def swap(net: Network) -> None:
    loop = net.loop()
    loop.trip_limit(net.input("n", np.int32))
    a, b = loop.recurrence(1), loop.recurrence(2)
    a.set_next(b)
    b.set_next(a)
    net.output(net.stack([loop.output(a), loop.output(b), loop.output(a)]), "out")


def iterate(axis: int, reverse: bool) -> Callable[[Network], None]:
    def program(net: Network) -> None:
        rows = net.input("rows", np.float32, (4, 3))
        loop = net.loop()
        loop.trip_limit(net.input("n", np.int32))
        total = loop.recurrence(np.zeros(3 if axis == 0 else 4, np.float32))
        total.set_next(total * 2 + loop.iterator(rows, axis, reverse))
        net.output(loop.output(total), "out")

    program.__name__ = f"iterate_{axis}{'_reverse' * reverse}"
    return program


def iterate_by_hand(axis: int, reverse: bool, n: int) -> list[float]:
    total = np.zeros(3 if axis == 0 else 4, np.float32)
    for k in range(n):
        total = total * 2 + ROWS.take(n - 1 - k if reverse else k, axis)
    found: list[float] = total.tolist()
    return found


def collect(kind: LoopOutput, axis: int, length: int | None) -> Callable[[Network], None]:
    """A map: no recurrence at all."""
    def program(net: Network) -> None:
        rows = net.input("rows", np.float32, (4, 3))
        loop = net.loop()
        loop.trip_limit(net.input("n", np.int32))
        net.output(loop.output(loop.iterator(rows) * 10, kind, axis, length), "out")

    program.__name__ = f"{kind.value}_{axis}{'' if length is None else f'_{length}'}"
    return program


def collect_by_hand(kind: LoopOutput, axis: int, length: int | None, n: int) -> list[list[float]]:
    rows = ROWS[:n][::-1 if kind is LoopOutput.REVERSE else 1] * 10
    padded = np.concatenate([rows, np.zeros((0 if length is None else length - n, 3), np.float32)])
    found: list[list[float]] = np.moveaxis(padded, 0, axis).tolist()
    return found


def growing(net: Network) -> None:
    loop = net.loop()
    loop.trip_limit(net.input("n", np.int32))
    r = loop.recurrence(np.array([1, 2], np.float32), shape=(-1,))
    r.set_next(net.concat([r, r[:1] + 1]))
    assert loop.output(r).shape == (-1,)
    net.output(loop.output(r), "out")


def growing_rows(net: Network) -> None:
    loop = net.loop()
    loop.trip_limit(net.input("n", np.int32))
    r = loop.recurrence(np.array([1, 2], np.float32), shape=(-1,))
    r.set_next(net.concat([r, r]))
    net.output(loop.output(r, LoopOutput.CONCATENATE), "out")


def nested(net: Network) -> None:
    """The inner loop takes the outer one's iteration as an invariant alone: the data flow nests it all the same."""
    n, rows = net.input("n", np.int32), net.input("rows", np.float32, (4, 3))
    outer = net.loop()
    outer.trip_limit(n)
    row = outer.iterator(rows)
    total = outer.recurrence(0.0)
    inner = net.loop()
    inner.trip_limit(3)
    part = inner.recurrence(1.0)
    part.set_next(part * 2 + row[0] + inner.iterator(row))
    total.set_next(total + inner.output(part))
    net.output(outer.output(total), "out")


def nested_by_hand(n: int) -> float:
    total = 0.0
    for row in ROWS[:n]:
        part = 1.0
        for element in row:
            part = part * 2 + row[0] + element
        total += part
    return float(total)


def inner_twice(net: Network) -> None:
    """One loop after another in the body of a third, and a collected value that is collected again."""
    outer = net.loop()
    outer.trip_limit(net.input("n", np.int32))
    i = outer.recurrence(0)
    i.set_next(i + 1)
    first, second = net.loop(), net.loop()
    first.trip_limit(2)
    a = first.recurrence(i)
    a.set_next(a * 3 + 1)
    listed = first.output(a, LoopOutput.CONCATENATE, length=2)
    second.trip_limit(2)
    b = second.iterator(listed)
    net.output(outer.output(second.output(b + i, LoopOutput.REVERSE, length=2), LoopOutput.CONCATENATE), "out")


def branch_in_loop(net: Network) -> None:
    """Adds the even elements, as the sum_even of the documentation does."""
    items = net.input("items", np.int32, (-1,))
    loop = net.loop()
    loop.trip_limit(net.shape(items)[0])
    total, item = loop.recurrence(0), loop.iterator(items)
    conditional = net.conditional(item % 2 == 0)
    s = conditional.input(total)
    total.set_next(conditional.output(s + item, s))
    net.output(loop.output(total), "out")


def loop_in_branch(net: Network) -> None:
    x, n = net.input("x", np.int32), net.input("n", np.int32)
    conditional = net.conditional(x > 10)
    loop = net.loop()
    loop.trip_limit(n)
    r = loop.recurrence(1)
    r.set_next(r + conditional.input(x))
    net.output(conditional.output(loop.output(r), conditional.input(x) * 100), "out")


def condition_with_constructs(net: Network) -> None:
    """The condition, which the body uses too, takes a branch and a loop of their own."""
    x = net.input("x", np.int32)
    loop = net.loop()
    r = loop.recurrence(x)
    conditional = net.conditional(r % 2 == 0)
    inner = net.loop()
    inner.trip_limit(2)
    s = inner.recurrence(r)
    s.set_next(s + 3)
    bound = conditional.output(conditional.input(r) + 1, inner.output(s))
    loop.trip_limit(bound < 40)
    r.set_next(bound + 2)
    net.output(loop.output(r), "out")


def condition_with_constructs_by_hand(x: int) -> int:
    def bound(x: int) -> int:
        return x + 1 if x % 2 == 0 else x + 6

    while bound(x) < 40:
        x = bound(x) + 2
    return x


def cell(net: Network) -> None:
    """An LSTM cell over the rows of a sequence, last first, whose states are collected along axis 1."""
    rows, weights = net.input("rows", np.float32, (4, 3)), net.constant(WEIGHTS)
    loop = net.loop()
    loop.trip_limit(net.shape(rows)[0])
    row = loop.iterator(rows, reverse=True)
    hidden, memory = loop.recurrence(np.zeros(2, np.float32)), loop.recurrence(np.zeros(2, np.float32))
    i, f, g, o = net.split(net.concat([row, hidden]) @ weights, 4)
    memory_next = net.sigmoid(f) * memory + net.sigmoid(i) * net.tanh(g)
    hidden_next = net.sigmoid(o) * net.tanh(memory_next)
    hidden.set_next(hidden_next)
    memory.set_next(memory_next)
    net.output(loop.output(hidden_next, LoopOutput.REVERSE, axis=1, length=4), "out")


WEIGHTS = np.cos(np.arange(40, dtype=np.float32)).reshape(5, 8)


def test_cell() -> None:
    net = Network()
    cell(net)

    def sigmoid(x: Array) -> Array:
        return 1 / (1 + np.exp(-x))

    hidden = memory = np.zeros(2, np.float32)
    states: list[Array] = []
    for row in ROWS[::-1]:
        i, f, g, o = np.split(np.concatenate([row, hidden]) @ WEIGHTS, 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(memory)
        states.insert(0, hidden)
    for found in run_all(net, {"rows": ROWS}, native=True):
        np.testing.assert_allclose(found["out"], np.stack(states, 1), rtol=1e-5, atol=1e-6)


def invariant_loop(net: Network) -> None:
    """A loop that needs nothing of the one around it runs before it."""
    outer, inner = net.loop("outer"), net.loop("inner")
    outer.trip_limit(net.input("n", np.int32))
    inner.trip_limit(3)
    r = inner.recurrence(1)
    r.set_next(r * 2)
    s = outer.recurrence(0)
    s.set_next(s + inner.output(r))
    net.output(outer.output(s), "out")


Inputs = Mapping[str, npt.ArrayLike]
PROGRAMS: list[tuple[Callable[[Network], None], Sequence[tuple[Inputs, object]]]] = [
    (power, [({"x": 1, "n": 5}, 32), ({"x": 1, "n": 0}, 1), ({"x": 1, "n": -3}, 1)]),
    (countdown, [({"x": 100}, [6, 4]), ({"x": 3}, [3, 0])]),
    (both_limits, [({"x": 3, "n": 4}, 48), ({"x": 3, "n": 40}, 192), ({"x": 300, "n": 4}, 300)]),
    (swap, [({"n": 3}, [2, 1, 2]), ({"n": 0}, [1, 2, 1])]),
    *((iterate(axis, reverse), [({"rows": ROWS, "n": n}, iterate_by_hand(axis, reverse, n)) for n in (3, 2, 0)])
      for axis in (0, 1) for reverse in (False, True)),
    *((collect(kind, axis, length),
       [({"rows": ROWS, "n": n}, collect_by_hand(kind, axis, length, n)) for n in (3, 1, 0)])
      for kind in (LoopOutput.CONCATENATE, LoopOutput.REVERSE) for axis, length in ((0, None), (1, None), (1, 3))),
    (growing, [({"n": 3}, [1, 2, 2, 2, 2]), ({"n": 0}, [1, 2])]),
    (nested, [({"n": n, "rows": ROWS}, nested_by_hand(n)) for n in (0, 1, 4)]),
    (inner_twice, [({"n": 2}, [[1, 0], [5, 2]]), ({"n": 0}, [])]),
    (branch_in_loop, [({"items": [1, 2, 3, 4]}, 6), ({"items": []}, 0), ({"items": [2, -4, 0, 7]}, -2)]),
    (loop_in_branch, [({"x": 11, "n": 3}, 34), ({"x": 2, "n": 3}, 200)]),
    (condition_with_constructs, [({"x": x}, condition_with_constructs_by_hand(x)) for x in (0, 1, 39, 50)]),
    (invariant_loop, [({"n": 4}, 32), ({"n": 0}, 0)]),
]


@pytest.mark.parametrize(("program", "runs"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_program(program: Callable[[Network], None], runs: Sequence[tuple[Inputs, object]]) -> None:
    net = Network()
    program(net)
    for inputs, expected in runs:
        for found in run_all(net, inputs, native=program is nested):
            assert found["out"].tolist() == expected


ENDINGS: list[tuple[str, Callable[[Network], None], Inputs, str]] = [
    ("past_the_axis", iterate(0, False), {"rows": ROWS, "n": 5}, "out of range"),
    ("another_shape", growing_rows, {"n": 2}, r"the element of iteration 1 has shape \(4,\)"),
    ("past_the_length", collect(LoopOutput.CONCATENATE, 0, 3), {"rows": ROWS, "n": 4}, "room for 3"),
]


@pytest.mark.parametrize(("program", "inputs", "message"), [case[1:] for case in ENDINGS],
                         ids=[case[0] for case in ENDINGS])
def test_a_run_ends_with_an_error(program: Callable[[Network], None], inputs: Inputs, message: str) -> None:
    net = Network()
    program(net)
    with pytest.raises(circlet.ExecutionError, match=message):
        run(net, **inputs)


def test_what_no_entry_reaches_runs_once_before() -> None:
    net = Network()
    invariant_loop(net)
    counts = ran(net.build(), {"n": 4})
    assert counts["inner_body"] == 3
    assert counts["outer_body"] == 4


def test_invariants_are_evaluated_even_if_no_iteration_is() -> None:
    net = Network()
    n, index = net.input("n", np.int32), net.input("index", np.int32)
    loop = net.loop()
    loop.trip_limit(n)
    r = loop.recurrence(0)
    r.set_next(r + net.constant([1, 2])[index])
    net.output(loop.output(r), "out")
    assert run(net, n=3, index=1)["out"] == 6
    with pytest.raises(circlet.ExecutionError, match="GATHER"):
        run(net, n=0, index=9)


def test_a_loop_without_outputs_disappears() -> None:
    net = Network()
    x = net.input("x", np.float32)
    loop = net.loop()
    loop.trip_limit(3)
    r = loop.recurrence(x)
    r.set_next(r + 1)
    net.output(x * 2, "out")
    assert len(net.build().subgraphs) == 1
