"""`Session.invoke` and `Session.bind` run any subgraph of the model, whatever passes made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.model import Subgraph
from tests.exec import graphs as g

MODELS = Path(__file__).parents[1] / "models"
NAMES = ("cache_additive", "cache_gru", "cache_heads", "cache_tokens", "grow_concat", "counter", "cond_nested")
"""Loops that grow, whose condition and body get the length as another input; state; branches in branches."""


def ones(subgraph: Subgraph, length: int) -> list[g.Array]:
    """An array for each input, with the given length where none is declared."""
    tensors = [subgraph.tensors[each] for each in subgraph.inputs]
    return [np.ones([length if dim < 0 else dim for dim in each.signature], each.dtype.numpy) for each in tensors]


def invoked(session: circlet.Session, index: int, arrays: list[g.Array]) -> list[g.Array]:
    return session.invoke(index, arrays)


def bound(session: circlet.Session, index: int, arrays: list[g.Array]) -> list[g.Array]:
    run = session.bind(index, arrays)
    session.run_bound(run)
    return [each.copy() for each in run.results]


@pytest.mark.parametrize("name", NAMES)
def test_every_subgraph(name: str) -> None:
    """Each gives the same on both backends, for several lengths, before and after the loop that invokes it has run."""
    model = circlet.load(MODELS / f"{name}.tflite")
    native, cpu = (circlet.Session(model, each) for each in ("native", "cpu"))
    for index in (*range(len(model.subgraphs))[::-1], 0):
        for length in (2, 3):
            arrays = ones(model.subgraphs[index], length)
            for run in (invoked, bound):
                for one, other in zip(run(native, index, arrays), run(cpu, index, arrays), strict=True):
                    np.testing.assert_allclose(one, other, 1e-5, strict=True)


def test_a_body_counts_as_itself() -> None:
    model = circlet.load(MODELS / "grow_concat.tflite")
    counter = circlet.Counter()
    circlet.Session(model, "native").invoke(2, ones(model.subgraphs[2], 2), counter)
    assert counter.invocations == {2: 1}


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("subgraph", "count", "message"), [
    (-1, 3, "expected the index of a subgraph, below 3, found -1"),
    (3, 3, "expected the index of a subgraph, below 3, found 3"),
    (2, 2, r"subgraph 2 \('while_body'\): expected 3 inputs, found 2"),
    (2, 4, r"subgraph 2 \('while_body'\): expected 3 inputs, found 4"),
])
def test_what_is_no_subgraph_or_does_not_fit_it(subgraph: int, count: int, message: str, backend: str) -> None:
    session = circlet.Session(circlet.load(MODELS / "grow_concat.tflite"), backend)
    arrays = [np.ones((), np.float32)] * count
    for run in (session.invoke, session.bind):
        with pytest.raises(circlet.InputError, match=message):
            run(subgraph, arrays)
