"""Control flow traced from Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet import Network
from circlet.network import Tensor
from tests.network.runs import ran, run, run_all, saved, typed


def collatz(net: Network) -> None:
    def step(n: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        return net.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), steps + 1

    _, steps = net.while_loop(lambda n, steps: n > 1, step, (net.input("n", np.int32), 0))
    net.output(steps, "out")


def one_value(net: Network) -> None:
    x = net.input("x", np.float32, (2,))
    net.output(net.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x), "out")


def swap(net: Network) -> None:
    a, b = net.input("a", np.int32), net.input("b", np.int32)
    i, first, second = net.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b, a), [0, a, b])
    net.output(net.stack([i, first, second]), "out")


def trees(net: Network) -> None:
    x = net.input("x", np.float32)
    init = ({"sum": x, "pair": (x, [1.0])}, 0)
    state, count = net.while_loop(
        lambda state, i: i < 4,
        lambda state, i: ({"sum": state["sum"] + i.astype(np.float32),
                           "pair": (state["pair"][1][0], [state["pair"][0]])}, i + 1), init)
    assert count.dtype.numpy == np.int32
    net.output(net.stack([state["sum"], state["pair"][0], state["pair"][1][0]]), "out")


def nested_closures(net: Network) -> None:
    """Two levels down, functions use values of all levels above."""
    n, scale = net.input("n", np.int32), net.input("scale", np.int32)
    table = net.constant([3, 5, 7, 11])
    offset = scale + 1

    def outer(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        start = i * 10

        def inner(j: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
            return j + 1, net.cond(j == i, lambda: part + table[j] * scale, lambda: part + offset + start)

        return i + 1, total + net.while_loop(lambda j, part: j < n, inner, (0, 0))[1]

    net.output(net.while_loop(lambda i, total: i < n, outer, (0, 0))[1], "out")


def nested_closures_by_hand(n: int, scale: int) -> int:
    return sum([3, 5, 7, 11][j] * scale if i == j else scale + 1 + i * 10 for i in range(n) for j in range(n))


def growing(net: Network) -> None:
    """The carried list gets longer, which the first trace of the body finds out."""
    n = net.input("n", np.int32)
    count, rows = net.while_loop(lambda i, rows: i < n, lambda i, rows: (i + 1, net.concat([rows, i[None]])),
                                 (0, np.array([-1], np.int32)))
    assert (count.shape, rows.shape) == ((), (-1,))
    net.output(rows, "out")


def condition_from_outside(net: Network) -> None:
    """A loop whose body and condition use what is computed outside, and a branch that gives constants."""
    x = net.input("x", np.float32, (2,))
    limit = x.sum() * 4
    total = net.while_loop(lambda v: v < limit, lambda v: v + x.max(), 0.0)
    net.output(net.cond(total > 10, lambda: 1, lambda: 2), "out")


def operands(net: Network) -> None:
    x = net.input("x", np.float32, (2,))
    a, b = net.cond(x[0] > x[1], lambda p, q: (p, q), lambda p, q: (q, p), x[0], x[1])
    net.output(a * 10 + b, "out")


Inputs = Mapping[str, npt.ArrayLike]
PROGRAMS: list[tuple[Callable[[Network], None], list[tuple[Inputs, object]]]] = [
    (collatz, [({"n": 27}, 111), ({"n": 1}, 0)]),
    (one_value, [({"x": [1, 2]}, [64, 128]), ({"x": [100, 1]}, [100, 1])]),
    (swap, [({"a": 5, "b": 6}, [3, 6, 5])]),
    (trees, [({"x": 2}, [2 + 0 + 1 + 2 + 3, 2, 1])]),
    (nested_closures, [({"n": n, "scale": s}, nested_closures_by_hand(n, s)) for n, s in ((0, 1), (1, 5), (4, -3))]),
    (growing, [({"n": 3}, [-1, 0, 1, 2]), ({"n": 0}, [-1])]),
    (condition_from_outside, [({"x": [1, 2]}, 1), ({"x": [0.5, 0.25]}, 2)]),
    (operands, [({"x": [1, 2]}, 21), ({"x": [3, 2]}, 32)]),
]


@pytest.mark.parametrize(("program", "runs"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_program(program: Callable[[Network], None], runs: list[tuple[Inputs, object]]) -> None:
    net = Network()
    program(net)
    for inputs, expected in runs:
        for found in run_all(net, inputs, native=program is nested_closures):
            assert found["out"].tolist() == expected


@pytest.mark.parametrize("program", [collatz, nested_closures, growing], ids=lambda program: program.__name__)
def test_a_file_holds_the_same(program: Callable[[Network], None], tmp_path: Path) -> None:
    net = Network()
    program(net)
    inputs = next(runs for each, runs in PROGRAMS if each is program)[-1][0]
    model = saved(net, tmp_path)
    found = circlet.Session(model, backend="cpu").run(typed(model, inputs))["out"]
    np.testing.assert_array_equal(found, run(net, **inputs)["out"])


def test_all_that_a_branch_records_is_lazy() -> None:
    """Also what depends on nothing from outside, and what an outer function computes for itself."""
    net = Network()
    flag, index = net.input("flag", bool), net.input("index", np.int32)
    net.output(cast(Tensor, net.cond(flag, lambda: net.constant([1, 2])[index], lambda: -1)), "out")
    for found in run_all(net, {"flag": False, "index": 9}):
        assert found["out"] == -1
    with pytest.raises(circlet.ExecutionError, match="GATHER"):
        run(net, flag=True, index=9)


def test_invariants_of_a_body_stay_in_it() -> None:
    net = Network()
    n, index = net.input("n", np.int32), net.input("index", np.int32)
    total = net.while_loop(lambda i: i < n, lambda i: i + net.constant([1, 2])[index], 0)
    net.output(total, "out")
    assert run(net, n=0, index=9)["out"] == 0
    assert run(net, n=5, index=1)["out"] == 6


def test_one_branch_runs() -> None:
    net = Network()
    collatz(net)
    counts = ran(net.build(), {"n": 6})  # 6 3 10 5 16 8 4 2 1
    assert sorted(counts.values()) == [1, 2, 6, 8, 9]


def test_in_a_conditional_that_the_data_flow_delimits() -> None:
    """A traced loop on a value of a branch is in the branch, and a conditional in a body in the body."""
    net = Network()
    flag, x = net.input("flag", bool), net.input("x", np.int32)

    def body(v: Tensor) -> Tensor:
        inner = net.conditional(v > 20)
        return inner.output(inner.input(v) + 100, inner.input(v) * 2)

    outer = net.conditional(flag)
    limit = outer.input(x)
    net.output(outer.output(net.while_loop(lambda v: v < limit, body, 3), 0), "out")
    for flag_value, expected in ((True, 124), (False, 0)):
        for found in run_all(net, {"flag": flag_value, "x": 50}):
            assert found["out"] == expected
    counts = ran(net.build(), {"flag": False, "x": 50})
    assert sorted(counts.values()) == [0, 0, 0, 0, 0, 1, 1]
