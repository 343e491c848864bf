"""What loops are lowered to, as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.types import Array
from circlet.runtime.passes.transforms.lower_loops import lower_loops
from tests.ops.loop_cases import LoopCase, loop_model
from tests.ops.test_loop import (
    GUARDED,
    GUARDED_KINDS,
    I32,
    ROW,
    TOTAL,
    TOTAL_KINDS,
    TRUE,
    forwarded,
    guarded,
    i32,
    i64,
    total,
)

SUBGRAPHS = {
    "counted": ["main[0] loop", "main[0] turn", "main[0] test"],
    "open": ["main[0] loop", "main[0] turn", "main[0] test", "main[0] room", "main[0] growth"],
}


def lowered(case: LoopCase, constants: tuple[int, ...] = ()) -> circlet.Model:
    return lower_loops(loop_model(case, case.runs[0], constants))


def names(model: circlet.Model, subgraph: int) -> list[str]:
    return [each.name for each in model.subgraphs[subgraph].operators]


def test_operators_keep_their_places() -> None:
    model = loop_model(LoopCase("", TOTAL, total, TOTAL_KINDS, ()), (i32(6), None, ROW), (0,))
    found = lower_loops(model)
    assert names(found, 0) == ["CALL"]
    assert found.subgraphs[1] is model.subgraphs[1]
    assert [each.name for each in found.subgraphs[2:]] == SUBGRAPHS["counted"]


def test_a_counted_loop_collects_where_its_result_lies() -> None:
    found = lowered(LoopCase("", TOTAL, total, TOTAL_KINDS, ((i32(6), None, ROW),)), (0,))
    assert names(found, 2) == ["LOOP_COUNT", "LOOP_ROOM", "LOOP_BUFFER", "WHILE", "LOOP_TAKE"]
    assert names(found, 3) == ["CALL", "LOOP_STORE", "ADD"]
    assert names(found, 4) == ["LESS"]
    edges = circlet.Session(found, backend="cpu").copies()
    collected = [each for each in edges if (each.subgraph, each.edge) == (2, "carry 3")]
    assert [each.action.value for each in collected] == ["in_place"]
    assert not [each for each in edges if each.per_iteration and each.action.value == "copy" and each.bytes != 8]


@pytest.mark.parametrize("count", [i32(1), i64([1])])
@pytest.mark.parametrize("backend", ["native", "cpu"])
def test_a_loop_of_one_turn_is_a_call_of_its_body(count: Array, backend: Literal["native", "cpu"]) -> None:
    case = LoopCase("", TOTAL, total, TOTAL_KINDS, ((count, None, ROW),))
    found = lowered(case, (0,))
    assert len(found.subgraphs) == 3
    assert [each for each in names(found, 2) if each not in ("SHAPE", "LOOP_KEEP", "CAST")] == ["CALL", "EXPAND_DIMS"]
    last, collected = circlet.Session(found, backend=backend).invoke(0, [ROW])
    assert last.tolist() == [2, -1]
    assert collected.tolist() == [[2, -1]]


def test_text() -> None:
    found = lowered(LoopCase("", replace(TOTAL, scan_outputs=()), total, TOTAL_KINDS, ((i32(6), None, ROW),)), (0,))
    assert to_text(found).split("\n\n", 3)[3] == """\
subgraph 2 'main[0] loop' (%0 operand_2: int32[2]) -> (%6)
  %1 constant_1: constant int32[] = 0
  %2 operand_0: constant int32[] = 6
  [0] %3 limit: int32[] = LOOP_COUNT(%2) {dtype: INT32}
  [1] %4 iteration_after: int32[], %5 limit_after: int32[], %6 carried_0_after: int32[2] = WHILE(%1, %3, %0) \
{cond: @4, body: @3}

subgraph 3 'main[0] turn' (%0 iteration: int32[], %1 limit: int32[], %2 carried_0: int32[2]) -> (%5, %1, %3)
  %4 constant_4: constant int32[] = 1
  [0] %3 result_0: int32[2] = CALL(%0, %2) {subgraph: @1}
  [1] %5 next: int32[] = ADD(%0, %4)

subgraph 4 'main[0] test' (%0 iteration: int32[], %1 limit: int32[], %2 carried_0: int32[2]) -> (%3)
  [0] %3 goes_on: bool[] = LESS(%0, %1)
"""


@pytest.mark.parametrize(("condition", "kind"), [(forwarded, "counted"), (guarded(3), "open")],
                         ids=["never_ends", "may_end"])
def test_only_a_condition_that_may_end_a_loop_makes_its_outputs_open(condition: object, kind: str) -> None:
    case = LoopCase("", GUARDED, condition, GUARDED_KINDS, ((i32(9), TRUE, ROW),))  # type: ignore[arg-type]
    assert [each.name for each in lowered(case, (1,)).subgraphs[2:]] == SUBGRAPHS[kind]


def test_constants_become_part_of_the_body() -> None:
    case = LoopCase("", replace(TOTAL, invariants=(2,)), lambda s, v: total(s, [v[2], v[1]]),
                    (*TOTAL_KINDS, (I32, ())), ((i32(9), None, ROW, i32(7)),))
    found = lowered(case, (3,))
    body = found.subgraphs[2]
    assert (body.name, len(body.inputs)) == ("body", 2)
    assert any(each.data is not None and np.array_equal(each.data, 7) for each in body.tensors)
