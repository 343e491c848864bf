"""Plans of models whose results are no function's: shapes, constants, and what only a run tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.index import Where
from circlet.runtime.ops.layout import SplitV
from circlet.runtime.ops.shape import ShapeOf
from circlet.runtime.ops.unary import Neg
from circlet.schema.files import dump_model
from tests.native.test_plans import forbid_reading


def test_results_that_follow_from_lengths_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lengths at hand, of one that the run computes, and of none."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 3))
    shapes = [main.apply(ShapeOf(DType.INT64), each) for each in (x, main.apply(Where(), x))]
    main.output(main.apply(Neg(), x), *shapes, main.apply(Neg(), main.constant(np.array([1, 2], np.float32))))
    content = dump_model(b.build(), "tflite")
    circlet.Session(content, "native").run([np.zeros((7, 3), np.float32)])
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    for length in (7, 2, 100, 2):
        value = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
        negative, own, found, constant = session.run([value]).values()
        assert negative.tolist() == (-value).tolist()
        assert (own.dtype, own.tolist(), found.tolist()) == (np.int64, [length, 3], [3 * length - 1, 2])
        assert constant.tolist() == [-1, -2]


def test_results_that_follow_from_fixed_shapes_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 3))
    main.output(main.apply(ShapeOf(DType.INT32), x), main.apply(Neg(), x))
    content = dump_model(b.build(), "tflite")
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    circlet.Session(content, "native").run([value])
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    for _ in range(2):
        shape, negative = session.run([value]).values()
        assert (shape.dtype, shape.tolist(), negative.tolist()) == (np.int32, [2, 3], (-value).tolist())
        shape[:] = 0  # the caller's own


def test_shapes_that_values_of_a_run_tell_are_not_planned(folder: Path) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x, sizes = main.input("x", DType.FLOAT32, (-1, 4)), main.input("sizes", DType.INT64, (2,))
    main.output(*main.op(SplitV(2), x, sizes, main.constant(np.int32(0)), count=2))
    content, value = dump_model(b.build(), "tflite"), np.arange(20, dtype=np.float32).reshape(5, 4)
    for rows in (2, 1, 4):
        session = circlet.Session(content, "native")
        first, second = map(np.asarray, session.run({"x": value, "sizes": np.array([rows, 5 - rows])}).values())
        assert (first.tolist(), second.tolist()) == (value[:rows].tolist(), value[rows:].tolist())


@pytest.mark.parametrize("rows", [-1, 2])
def test_results_that_are_constants_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    table, is_on = main.constant(np.arange(12, dtype=np.float32)), main.constant(np.bool_(True))
    main.output(table, main.apply(Neg(), main.input("x", DType.FLOAT32, (rows,))), is_on)
    content = dump_model(b.build(), "tflite")
    circlet.Session(content, "native").run([np.ones(2, np.float32)])
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    assert [each.dtype for each in session.outputs.values()] == [np.float32, np.float32, np.bool_]
    for _ in range(2):
        first, negative, flag = map(np.asarray, session.run([np.ones(2, np.float32)]).values())
        assert (first.tolist(), negative.tolist(), flag.tolist()) == ([*range(12)], [-1, -1], True)
        first[:] = 0  # the caller's own
