"""Plans of models whose results are no function's: shapes, constants, and what only a run tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Where
from circlet.runtime.ops.layout import SplitV
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.ops.shape import ShapeOf
from circlet.runtime.ops.unary import Neg
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
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
        first, second = map(np.asarray, session.run({"x": value, "sizes": np.array([rows, -1])}).values())
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


@pytest.mark.parametrize("is_result", [False, True])
@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("rows", [-1, 2])
def test_constants_that_loops_hand_on_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int,
                                                  is_folded: bool, is_result: bool) -> None:
    """A bias that a loop carries and leaves as it is, which the file has, or which is made of float16."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    kinds = [DType.INT32, DType.FLOAT32, DType.FLOAT32]
    shapes: list[tuple[int, ...]] = [(), (rows, 3), (3,)]
    k, *_ = (cond.input(f"x{n}", *each) for n, each in enumerate(zip(kinds, shapes, strict=True)))
    cond.output(cond.apply(Less(), k, cond.constant(np.int32(2))))
    k, total, bias = (body.input(f"x{n}", *each) for n, each in enumerate(zip(kinds, shapes, strict=True)))
    body.output(body.apply(Add(), k, body.constant(np.int32(1))), body.apply(Add(), total, bias), bias)
    halves = np.array([1, 2, 4], np.float16)
    given = main.apply(Dequantize(), main.constant(halves)) if is_folded else main.constant(halves.astype(np.float32))
    start = main.apply(Neg(), main.input("x", DType.FLOAT32, (rows, 3)))
    _, total, handed = main.op(While(cond.index, body.index), main.constant(np.int32(0)), start, given, count=3)
    main.output(total, main.apply(Neg(), handed), *([handed] if is_result else []))
    content, x = dump_model(b.build(), "tflite"), np.arange(6, dtype=np.float32).reshape(2, 3)

    def check() -> circlet.Session:
        session = circlet.Session(content, "native")
        for _ in range(2):
            found = [np.asarray(each) for each in session.run([x]).values()]
            expected = (2 * halves - x, -halves, halves)
            assert [each.tolist() for each in found] == [each.tolist() for each in expected[:len(found)]]
            for each in found:
                each[...] = 0  # the caller's own
        return session

    first = check()  # kept, so that nothing else comes to lie in its memory
    forbid_reading(monkeypatch)
    check()
    first.close()


def test_first_values_that_are_folded_are_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a variable that CALL_ONCE sets to what DEQUANTIZE makes of float16."""
    b = ModelBuilder()
    main, once = b.subgraph("main"), b.subgraph("once")
    name, halves = VarHandle(shared_name="v"), np.array([1, 2, 4], np.float16)
    value = once.apply(Dequantize(), once.constant(halves))
    once.op(AssignVariable(), once.op(name, outputs=[Tensor("v", DType.RESOURCE, ())])[0], value, count=0)
    main.op(CallOnce(once.index), count=0)
    (handle,) = main.op(name, outputs=[Tensor("v", DType.RESOURCE, ())])
    before = main.op(ReadVariable(), handle, outputs=[Tensor("before", DType.FLOAT32, (3,))])[0]
    after = main.apply(Add(), before, main.input("x", DType.FLOAT32, (3,)))
    main.op(AssignVariable(), handle, after, count=0)
    main.output(after)
    content = dump_model(b.build(), "tflite")

    def check() -> None:
        session = circlet.Session(content, "native")
        for times in (1, 2):
            (found,) = map(np.asarray, session.run([np.ones(3, np.float32)]).values())
            assert found.tolist() == (halves + times).tolist()

    check()
    forbid_reading(monkeypatch)
    check()
