"""What becomes of the parts of a network in the model."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet import Network
from tests.network.runs import run, run_all


def test_outputs_may_be_anything() -> None:
    """An input, a constant, and one tensor under two names."""
    net = Network("entry")
    x = net.input("x", np.float32, (2,))
    y = x * 2
    for name, each in (("same", x), ("constant", [1, 2]), ("twice", y), ("again", y)):
        net.output(each, name)
    model = net.build()
    assert model.subgraphs[0].name == "entry"
    for found in run_all(net, {"x": [3, 4]}):
        assert {name: value.tolist() for name, value in found.items()} == {
            "same": [3, 4], "constant": [1, 2], "twice": [6, 8], "again": [6, 8]}


def test_constants_share_their_memory() -> None:
    """However many branches use one, and the network keeps a copy of the caller's array."""
    weights = np.ones((64, 64), np.float32)
    net = Network()
    x, flag = net.input("x", np.float32, (64,)), net.input("flag", bool)
    shared = net.constant(weights)
    net.output(net.cond(flag, lambda: x @ shared, lambda: shared @ x), "y")
    weights[:] = 0
    data = [each.data for subgraph in net.build().subgraphs for each in subgraph.tensors
            if each.data is not None and each.data.size == 64 * 64]
    assert len(data) == 2
    assert np.shares_memory(data[0], data[1])
    assert run(net, x=np.ones(64), flag=True)["y"][0] == 64


def test_a_network_may_be_built_again() -> None:
    net = Network()
    x = net.input("x", np.int32)
    net.output(x + 1, "y")
    first = net.build()
    net.output(x + 2, "z")
    assert list(first.signatures[0].outputs) == ["y"]
    assert run(net, x=1) == {"y": 2, "z": 3}


def test_unused_layers_are_left_out() -> None:
    net = Network()
    x = net.input("x", np.int32)
    net.output(x + 1, "y")
    net.cond(x > 0, lambda: x * 5, lambda: x)
    assert [len(each.operators) for each in net.build().subgraphs] == [1]


@pytest.mark.parametrize("traced", [False, True], ids=["delimited", "traced"])
def test_networks_may_be_deep(traced: bool) -> None:
    """Deeper than Python's stack."""
    net = Network()
    total = net.input("x", np.int32)
    for _ in range(1500):
        total = total + 1
    for _ in range(60):
        if traced:
            total = net.cond(total > 0, lambda total=total: total + 1, lambda total=total: total)
        else:
            conditional = net.conditional(total > 0)
            inside = conditional.input(total)
            total = conditional.output(inside + 1, inside)
    net.output(total, "y")
    model = net.build()
    assert circlet.Session(model, backend="cpu").run({"x": np.int32(1)})["y"] == 1561
