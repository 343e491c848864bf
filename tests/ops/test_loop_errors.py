"""What the canonical loop refuses, before it runs and while it does, and in which words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import (
    Base,
    Carried,
    Feed,
    Mode,
    Position,
    ScanInput,
    ScanOutput,
    ShapePolicy,
    TripPolicy,
)
from circlet.runtime.ops.shape import Reshape
from tests.ops.loop_cases import Array, Formula, Kind, LoopCase, Operands, arguments, loop_model
from tests.ops.test_loop import (
    BOOL,
    CUBE,
    F32,
    GUARDED,
    GUARDED_KINDS,
    I32,
    ROW,
    TABLE,
    TOTAL,
    TOTAL_KINDS,
    TRUE,
    constant,
    guarded,
    i32,
    i64,
    keep,
    scanning,
    total,
)


@dataclass(frozen=True)
class Wrong:
    """A loop that is refused."""

    name: str
    op: Loop
    message: str
    """A part of what is said."""
    operands: Operands = (i32(3), None, ROW)
    kinds: tuple[Kind, ...] = TOTAL_KINDS
    body: Formula = total
    open: bool = False
    cond: Formula | None = None

    @property
    def case(self) -> LoopCase:
        return LoopCase(self.name, self.op, self.body, self.kinds, (self.operands,), self.cond, self.open)


MALFORMED = [
    Wrong("trip count of two", TOTAL, "trip count: expected exactly one element, found shape (2,)",
          (i32([1, 2]), None, ROW)),
    Wrong("trip count of none", TOTAL, "trip count: expected exactly one element, found shape (0,)",
          (i32([]), None, ROW)),
    Wrong("trip count of floats", TOTAL, "trip count: expected int32 or int64, found float32",
          (np.float32(3).reshape(()), None, ROW)),
    Wrong("condition of two", TOTAL, "condition: expected exactly one element, found shape (2,)",
          (None, np.array([True, False]), ROW)),
    Wrong("condition of integers", TOTAL, "condition: expected bool, found int32", (None, i32(1), ROW)),
    Wrong("condition result of two", replace(GUARDED, cond_output=0),
          "condition, body output 0: expected exactly one element, found shape (2,)", (i32(3), TRUE, ROW),
          GUARDED_KINDS, lambda s, v: [constant(s, [True, False], BOOL), v[2]]),
    Wrong("condition result of integers", replace(TOTAL, cond_output=0), "body output 0: expected bool, found int32"),
    Wrong("condition input of rank 2", replace(TOTAL, cond_input=Feed(2, 2)),
          "condition: expected rank 0 or 1, found 2",
          kinds=(*TOTAL_KINDS, (BOOL, (1, 1)))),
    Wrong("iteration of another rank", replace(TOTAL, iteration=Feed(0, 1)),
          "iteration: expected rank 0 as body input 0 declares, found 1"),
    Wrong("iteration of floats", TOTAL, "iteration, body input 0: expected int32 or int64, found float32",
          kinds=((F32, ()), (I32, (2,))), body=lambda s, v: [v[1]]),
    Wrong("carried input type", TOTAL, "carried value 0: expected int64 as tensor", (i32(3), None, i64([1, 2]))),
    Wrong("carried output type", TOTAL, "carried value 0: expected int32 as tensor", body=lambda s, v: [
        s.constant(np.array([1, 2], np.float32))]),
    Wrong("invariant type", replace(TOTAL, invariants=(2,)), "invariant 0: expected int64 as tensor",
          (i32(3), None, ROW, i64(1)), (*TOTAL_KINDS, (I32, ()))),
    Wrong("scan input type", scanning(ScanInput(0), count_from_scan=True), "scan input 0: expected int64 as tensor",
          (None, None, i64([1, 2])), ((I32, ()),), keep),
    Wrong("scan input axis", scanning(ScanInput(0, 2), count_from_scan=True),
          "scan input 0: expected an axis from -2 to 1, found 2", (None, None, TABLE), ((I32, (3,)),), keep),
    Wrong("scan output axis", replace(TOTAL, scan_outputs=(ScanOutput(0, -3),)),
          "scan output 0: expected an axis from -2 to 1, found -3"),
    Wrong("concatenation axis", replace(TOTAL, scan_outputs=(ScanOutput(0, 1, Mode.CONCAT, part=2),)),
          "scan output 0: expected an axis from -1 to 0, found 1"),
    Wrong("step of 0", scanning(ScanInput(0, step=0)), "scan input 0: expected a step that is not 0",
          (i32(3), None, TABLE), ((I32, (3,)),), keep),
    Wrong("two elements of a dropped axis", scanning(ScanInput(0, size=2)),
          "scan input 0: expected slices of at least 1",
          (i32(3), None, TABLE), ((I32, (3,)),), keep),
    Wrong("part of a stack", replace(TOTAL, scan_outputs=(ScanOutput(0, part=2),)), "scan output 0: expected a part"),
    Wrong("trip count and slices", scanning(ScanInput(0), count_from_scan=True),
          "trip count: expected none, since the scan inputs give it, found one", (i32(3), None, TABLE), ((I32, (3,)),),
          keep),
    Wrong("no slices to count", replace(TOTAL, count_from_scan=True), "count_from_scan: expected scan inputs"),
    Wrong("positions from a count that slices give", scanning(ScanInput(0, begin=Position(-1, Base.TRIP), step=-1),
                                                             count_from_scan=True),
          "scan input 0: expected positions that do not count from the trip count", (None, None, TABLE),
          ((I32, (3,)),), keep),
    Wrong("positions from no count", scanning(ScanInput(0, begin=Position(-1, Base.TRIP), step=-1)),
          "scan input 0: expected a trip count to count positions from", (None, None, TABLE), ((I32, (3,)),), keep),
    Wrong("body input without a value", replace(TOTAL, iteration=None),
          "expected a value for each body input, found none for 0"),
    Wrong("body input with two values", replace(TOTAL, cond_input=Feed(1)),
          "body input 1: expected one value for it, found condition and carried value 0"),
    Wrong("body input that is not there", replace(TOTAL, iteration=Feed(7)),
          "iteration: expected a body input, below 2"),
]


@pytest.mark.parametrize("wrong", MALFORMED, ids=lambda wrong: wrong.name.replace(" ", "_"))
def test_malformed(wrong: Wrong) -> None:
    model = loop_model(wrong.case, wrong.operands)
    with pytest.raises(circlet.ModelError, match=re.escape(wrong.message)) as found:
        verify(model)
    assert "subgraph 0 ('main'), operator 0 (LOOP)" in str(found.value)


def reshaped(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """(n, x of 2) -> x + n + 1, of shape (1, 2) in all iterations but the first."""
    return s.op(Concatenation(), v[0], constant(s, [7]))


GROWING = Loop(carried=(Carried(0, 0),), scan_outputs=(ScanOutput(0),))
FAILING = [
    Wrong("element of another shape", GROWING, "the element of iteration 1 has shape (4,)",
          kinds=((I32, (-1,)),), body=reshaped, open=True),
    Wrong("part of another size", replace(GROWING, scan_outputs=(ScanOutput(0, 0, Mode.CONCAT, part=2),)),
          "expected 2 along axis 0 of each element, found shape (3,)", kinds=((I32, (-1,)),), body=reshaped, open=True),
    Wrong("fixed shape", Loop(carried=(Carried(0, 0, ShapePolicy.FIXED),)),
          "carried value 0, body output 0: expected shape (2,) as before the iteration, found (3,)",
          kinds=((I32, (-1,)),), body=reshaped, open=True),
    Wrong("fixed rank", Loop(carried=(Carried(0, 0, ShapePolicy.FIXED_RANK),)),
          "expected rank 1 as before the iteration, found (1, 2)", kinds=((I32, (-1,)),),
          body=lambda s, v: [s.apply(Reshape(), v[0], constant(s, [1, -1]))], open=True),
    Wrong("slices of another number", scanning(ScanInput(0), ScanInput(1, 1), count_from_scan=True),
          "expected scan inputs of equally many slices, found 4, 3", (None, None, TABLE, TABLE),
          ((I32, (3,)), (I32, (4,))), keep),
    Wrong("steps that leave a rest", scanning(ScanInput(0, 2, size=3, step=3, keep_axis=True), count_from_scan=True),
          "expected a length that steps of 3 divide, found 4 elements", (None, None, CUBE), ((I32, (2, 3, 3)),), keep),
    Wrong("slice past the end", scanning(ScanInput(0)), "index 4 is out of range for an axis of size 4",
          (i32(5), None, TABLE), ((I32, (3,)),), keep),
    Wrong("slice before the start", scanning(ScanInput(0, begin=Position(-1, Base.TRIP), step=-1)),
          "index 4 is out of range for an axis of size 4", (i32(5), None, TABLE), ((I32, (3,)),), keep),
    Wrong("more elements than the length", replace(TOTAL, scan_outputs=(ScanOutput(0, has_length=True),)),
          "iteration 2 makes an element, the scan output has room for 2", (i32(3), None, ROW, i32(2))),
    Wrong("negative length", replace(TOTAL, scan_outputs=(ScanOutput(0, has_length=True),)),
          "scan output: expected no negative number, found -1", (i32(3), None, ROW, i32(-1))),
    Wrong("trip count of no element when run", TOTAL, "trip count: expected exactly one element, found shape (0,)",
          (i32([]), None, ROW), open=True),
    Wrong("condition of two when run", replace(GUARDED), "condition: expected exactly one element, found shape (2,)",
          (i32(3), np.array([True, True]), ROW), GUARDED_KINDS, guarded(2), open=True),
    Wrong("unbounded collection", replace(TOTAL, scan_outputs=(ScanOutput(0),)), "more", (i64(2**62), None, ROW)),
]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=pytest.mark.slow)])
@pytest.mark.parametrize("wrong", FAILING, ids=lambda wrong: wrong.name.replace(" ", "_"))
def test_failing(wrong: Wrong, backend: str) -> None:
    session = circlet.Session(loop_model(wrong.case, wrong.operands), backend=backend)
    with pytest.raises((circlet.ExecutionError, circlet.LimitError), match=re.escape(wrong.message)) as found:
        session.invoke(0, arguments(wrong.operands))
    assert "subgraph" in str(found.value)


@pytest.mark.parametrize("constants", [(), (0,)], ids=["operand", "constant"])
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_trip_count_below_minus_one_is_told(constants: tuple[int, ...], backend: str) -> None:
    op = replace(GUARDED, trip_policy=TripPolicy.NEGATIVE_IS_INFINITE)
    operands: Operands = (i32(-5), TRUE, ROW)
    case = LoopCase("", op, guarded(2), GUARDED_KINDS, (operands,))
    session = circlet.Session(loop_model(case, operands, constants), backend=backend)
    for _ in range(1 if constants else 2):
        with pytest.warns(UserWarning, match="trip count -5 is taken as -1"):
            carried, _ = session.invoke(0, arguments(operands, constants))
        np.testing.assert_array_equal(carried, ROW + 6)


def test_a_loop_without_an_end_is_limited() -> None:
    operands: tuple[Array | None, ...] = (None, None, ROW)
    case = LoopCase("", replace(TOTAL, scan_outputs=()), total, TOTAL_KINDS, (operands,))
    session = circlet.Session(loop_model(case, operands), backend="cpu", limits=circlet.Limits(max_iterations=10))
    with pytest.raises(circlet.LimitError, match="max_iterations=10"):
        session.invoke(0, [ROW])
