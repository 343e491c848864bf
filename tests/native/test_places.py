"""Errors name subgraphs and operators of the model that was given, whatever passes made of these."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import add_loop
from circlet.runtime.ops.loop_options import ScanInput, ScanOutput
from circlet.runtime.ops.matmul import EmbeddingLookup
from tests.exec.kept import I32, ROWS, append, assign, read, set_once


def variables() -> Model:
    """Rows of what it keeps, by number: the variable becomes an input of another subgraph."""
    b = ModelBuilder()
    s = b.subgraph("main")
    x, ids = s.input("x", I32, ROWS), s.input("ids", I32, (-1,))
    set_once(b, s, "rows", np.zeros((1, 0, 2), np.int32))
    found = append(s, read(s, "rows"), x)
    assign(s, "rows", found)
    (picked,) = s.op(Gather(1), found, ids, outputs=[Tensor("picked", I32, (1, 1, 2), (1, -1, 2))])
    s.output(picked)
    return b.build()


def loop() -> Model:
    """Rows of a table by number, one in each turn of a body that gets to know the table; there are four numbers."""
    b = ModelBuilder()
    s, body = b.subgraph("main"), b.subgraph("body")
    table, ids, turns = s.constant(np.eye(3, dtype=np.float32)), s.input("ids", I32, (4,)), s.input("turns", "int64")
    rows, one = body.input("rows", "float32", (3, 3)), body.input("one", I32, (1,))
    body.output(*body.op(EmbeddingLookup(), one, rows, outputs=[Tensor("row", DType.FLOAT32, (1, 3))]))
    op = Loop(body.index, invariants=(0,), scan_inputs=(ScanInput(1, keep_axis=True),), scan_outputs=(ScanOutput(0),))
    s.output(*add_loop(s, op, body, trip_count=turns, invariants=[table], scan_inputs=[ids]).scans)
    return b.build()


X = np.ones((1, 2, 2), np.int32)
CASES = {
    "variables": (variables, {"x": X, "ids": [0, 1]}, {"x": X, "ids": [7]},
                  r"subgraph 0 \('main'\), operator \d+ \(GATHER\)"),
    "body": (loop, {"ids": [0, 1, 2, 0], "turns": 2}, {"ids": [0, 1, 2, 3], "turns": 4},
             r"subgraph 1 \('body'\), operator 0 \(EMBEDDING_LOOKUP\): index 3"),
    "slices": (loop, {"ids": [0, 1, 2, 0], "turns": 2}, {"ids": [0, 1, 2, 0], "turns": 5},
               r"subgraph 0 \('main'\), operator 0 \(LOOP\)"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_errors_name_what_the_file_has(name: str, backend: str, folder: object) -> None:
    """In a session that makes code, and in the next one, which may take it from a plan."""
    make, right, wrong, message = CASES[name]
    model = make()
    for _ in range(2):
        session = circlet.Session(model, backend)
        session.run(right)
        with pytest.raises(circlet.ExecutionError, match=message) as error:
            session.run(wrong)
        assert error.value.place is not None
        assert error.value.place.subgraph < len(model.subgraphs)
        session.run(right)
