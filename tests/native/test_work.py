"""How much a function is told to compute, by which it keeps Python's lock or gives it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import invocation
from circlet.backends.native.load.invocation import LOCKED, Invocation
from circlet.backends.native.load.team import Teams
from circlet.backends.native.parts import UNKNOWN
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.terms import value_of
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.unary import Tanh
from tests.exec.graphs import at_most, i32, plus, while_model
from tests.native.test_constants import manifests

WIDTH = 64
CHANCE = np.random.default_rng(0)


def layers(g: SubgraphBuilder, x: Value) -> Value:
    """Two of them, alike."""
    for _ in range(2):
        x = g.apply(FullyConnected(), x, g.constant(CHANCE.normal(size=(WIDTH, WIDTH)).astype(np.float32)))
    return x


def products(g: SubgraphBuilder, x: Value) -> Value:
    return g.apply(Mul(), x, x)


def chosen(g: SubgraphBuilder, x: Value) -> Value:
    """Rows of a table, by where there is something."""
    places = g.apply(Where(), x)
    return g.apply(Gather(), g.constant(np.ones((4096, 8), np.float32)), places)


def model(write: Callable[[SubgraphBuilder, Value], Value], length: int) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(write(main, main.input("x", DType.FLOAT32, (length, WIDTH))))
    return b.build()


@pytest.mark.parametrize(("write", "length", "least", "most"), [
    (layers, 4, 4 * 2 * WIDTH ** 2, LOCKED), (layers, 128, 128 * 2 * WIDTH ** 2, 512 * 2 * WIDTH ** 2),
    (products, 4, 4 * WIDTH, LOCKED), (products, 1 << 14, WIDTH << 14, WIDTH << 20)])
def test_what_is_known_grows_with_lengths(folder: object, monkeypatch: pytest.MonkeyPatch,
                                          write: Callable[[SubgraphBuilder, Value], Value], length: int, least: int,
                                          most: int) -> None:
    found = manifests(monkeypatch)
    for declared in (length, -1):
        circlet.Session(model(write, declared), "native").invoke(0, [np.zeros((length, WIDTH), np.float32)])
        assert least <= value_of(found.pop().work, [length]) <= most, declared


def test_turns_that_the_run_decides_are_not_known(folder: object, monkeypatch: pytest.MonkeyPatch) -> None:
    found, inputs = manifests(monkeypatch), [i32(0), np.ones((1, WIDTH), np.float32)]
    loop = while_model(at_most(4), lambda g, v: [plus(g, v[0]), g.apply(Tanh(), v[1])], inputs)
    circlet.Session(loop, "native").invoke(0, inputs)
    assert value_of(found.pop().work, ()) == UNKNOWN


@pytest.mark.parametrize(("write", "expected"), [(layers, [True, False, True]), (chosen, [True, False, True])])
def test_the_lock_is_kept_where_it_is_little(folder: object, monkeypatch: pytest.MonkeyPatch, expected: Sequence[bool],
                                             write: Callable[[SubgraphBuilder, Value], Value]) -> None:
    kept: list[bool] = []
    entry = Invocation._entry

    def heard(self: Invocation, teams: Teams, keeps_lock: bool) -> Callable[[], int]:
        kept.append(keeps_lock)
        return entry(self, teams, keeps_lock)

    monkeypatch.setattr(invocation.Invocation, "_entry", heard)
    session = circlet.Session(model(write, -1), "native")
    for length in (1, 2000, 2):
        session.invoke(0, [np.zeros((length, WIDTH), np.float32)])
    assert kept[:2] == expected[:2]
    assert all(len(kept) == 2 or each == expected[2] for each in kept[2:])
