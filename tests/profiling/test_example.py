"""The example of docs/profiling.md: what it says of two models holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.model import Model
from examples.slow_loop import ROWS, WIDTH, main
from tests.needs import NATIVE

BACKENDS = ["cpu", pytest.param("native", marks=NATIVE)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder: Path = tmp_path_factory.mktemp("models")
    main(folder)
    return {each.stem: circlet.load(each) for each in sorted(folder.iterdir())}


def test_they_compute_the_same(models: dict[str, Model]) -> None:
    x = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)
    slow, quick = (circlet.Session(models[f"{name}_loop"], "cpu").run([x])["state"] for name in ("slow", "quick"))
    np.testing.assert_allclose(slow, quick, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "subgraph", "count"), [("slow_loop", 2, ROWS), ("quick_loop", 0, 1)])
def test_how_often_the_product_is_made(models: dict[str, Model], name: str, subgraph: int, count: int,
                                       backend: str) -> None:
    session = circlet.Session(models[name], backend)
    with circlet.profile(session) as found:
        session.run([np.ones((ROWS, WIDTH), np.float32)])
    flops = 2 * ROWS * WIDTH * WIDTH
    (product,) = (each for each in found.tables.operators if each.work is not None and each.work.flops == flops)
    assert (product.name, product.subgraph, product.count) == ("BATCH_MATMUL", subgraph, count)
    (loop,) = found.tables.loops
    assert (loop.activations, loop.turns) == (1, ROWS)
