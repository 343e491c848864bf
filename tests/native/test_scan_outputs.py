"""Loops that collect what their turns make, of which only the run tells how many there are: one function for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Carried, Feed, Mode, Order, ScanOutput
from tests.ops.loop_cases import LoopCase, arguments, loop_model

ROW = np.arange(1, 5, dtype=np.int32)
COUNTS = (3, 0, 8, 16, 17, 100, 1, 64, 65, 300, 8)


def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """Twice the row plus one, and its sum with the one before."""
    found = s.apply(Add(), s.apply(Mul(), v[1], s.constant(np.int32(2))), s.constant(np.int32(1)))
    return [found, s.apply(Add(), found, v[1])]


SCANS = (ScanOutput(1), ScanOutput(1, axis=-1), ScanOutput(1, order=Order.PREPEND),
         ScanOutput(1, mode=Mode.CONCAT, part=4), ScanOutput(1, mode=Mode.CONCAT, part=4, order=Order.PREPEND))


@pytest.mark.parametrize("scan", SCANS, ids=str)
@pytest.mark.parametrize("open", [False, True])
def test_one_function_serves_all_counts(scan: ScanOutput, open: bool, folder: object, compiled: list[str]) -> None:
    op = Loop(iteration=Feed(0), carried=(Carried(1, 0),), scan_outputs=(scan,))
    length = -1 if open else 4
    case = LoopCase("scan", op, turn, ((DType.INT64, ()), (DType.INT32, (length,))), (), open=open)
    model = loop_model(case, (np.int64(3), None, ROW))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for count in COUNTS:
        given = arguments((np.int64(count), None, ROW))
        for found, wanted in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert len(compiled) == 1
