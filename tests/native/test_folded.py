"""What follows from constants alone is computed before code is made, also where a later session has a plan of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add
from circlet.schema.files import dump_model
from tests.native.test_plans import forbid_reading
from tests.passes.test_fold_constants import COUNTS, window


def loop() -> bytes:
    """A loop that adds a window to rows of any number, three times."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    for graph in (main, cond, body):
        count, x = graph.input("count", DType.INT32, ()), graph.input("x", DType.FLOAT32, (-1, 6))
        if graph is main:
            kinds = [Tensor(name, each, (), has_rank=False) for name, each in
                     (("n", DType.INT32), ("y", DType.FLOAT32))]
            graph.output(*graph.op(While(1, 2), count, x, outputs=kinds))
        elif graph is cond:
            graph.output(graph.apply(Less(), count, graph.constant(np.int32(3))))
        else:
            graph.output(graph.apply(Add(), count, graph.constant(np.int32(1))), graph.apply(Add(), x, window(graph)))
    return dump_model(b.build(), "tflite")


def run(session: circlet.Session) -> None:
    for rows in (2, 5):
        found = session.invoke(0, [np.array(0, np.int32), np.zeros((rows, 6), np.float32)])[1]
        np.testing.assert_allclose(found, np.tile(3 * np.cos(COUNTS * np.float32(0.5)), (rows, 1)), 1e-6, strict=True)


def test_loops_compute_no_constants(folder: Path, compiled: list[str], tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop.tflite").write_bytes(loop())
    session = circlet.Session(tmp_path / "loop.tflite", "native")
    run(session)
    left = [each.name for each in session.executed.subgraphs[2].operators if each.name != "SKIP"]
    assert left == ["ADD", "ADD"]
    assert len(compiled) == 1
    forbid_reading(monkeypatch)
    run(circlet.Session(tmp_path / "loop.tflite", "native"))
    assert len(compiled) == 1
