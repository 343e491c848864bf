"""Random loops: the backends agree with the definition, and with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.elementwise import Add, Maximum, Mul, Sub
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import (
    Base,
    Carried,
    CondUse,
    Feed,
    Mode,
    Order,
    Overrun,
    Position,
    ScanInput,
    ScanOutput,
    TripPolicy,
)
from circlet.runtime.ops.reduce import ReduceMax
from tests.ops.loop_cases import Array, LoopCase, arguments, expected, loop_model
from tests.ops.loop_reference import NotDefined
from tests.properties import holds

I32, BOOL = DType.INT32, DType.BOOL
ROW = (I32, (2, 3))
BINARY = (Add(), Sub(), Mul(), Maximum())
SLICES = 6


@dataclass(frozen=True)
class Program:
    """A loop over rows and what its body computes: operations on two earlier values, then which of them are results."""

    op: Loop
    count: int
    """Of rows that the body gets: carried values, invariants, slices."""
    steps: tuple[tuple[int, int, int], ...]
    results: tuple[int, ...]
    bound: int
    """The condition is that the first result has no element above this."""
    trip_count: int | None
    starts_true: bool | None
    constants: frozenset[int]


def scan_inputs(draw: st.DrawFn, first: int) -> list[ScanInput]:
    found = []
    for k in range(draw(st.integers(0, 2))):
        step = draw(st.sampled_from([1, -1, 2]))
        base = draw(st.sampled_from([Base.START, Base.END])) if step < 0 else Base.START
        begin = Position(-1 if base is Base.END else draw(st.integers(0, 2)) + (3 if step < 0 else 0), base)
        found.append(ScanInput(first + k, draw(st.sampled_from([0, 1, 2, -1])), begin, step))
    return found


@st.composite
def programs(draw: st.DrawFn) -> Program:
    carried, invariants = draw(st.integers(0, 3)), draw(st.integers(0, 1))
    feeds = 2 + carried + invariants
    slices = scan_inputs(draw, feeds)
    rows = carried + invariants + len(slices)
    steps = []
    for k in range(draw(st.integers(1, 4))):
        earlier = st.integers(0, rows + k)
        steps.append((draw(st.integers(0, len(BINARY) - 1)), draw(earlier), draw(earlier)))
    values = st.integers(0, rows + len(steps))
    results = tuple(draw(values) for _ in range(carried + 2))
    outputs = st.integers(1, len(results))
    scans = [ScanOutput(draw(outputs), axis := draw(st.integers(-2, 1)), mode := draw(st.sampled_from(Mode)),
                        draw(st.sampled_from(Order)), 1 if mode is Mode.STACK else (2, 3)[axis])
             for _ in range(draw(st.integers(0, 2)))]
    counted = bool(slices) and draw(st.booleans())
    op = Loop(
        carried=tuple(Carried(2 + k, draw(outputs)) for k in range(carried)),
        invariants=tuple(range(2 + carried, feeds)), scan_inputs=tuple(slices), scan_outputs=tuple(scans),
        last_outputs=(draw(outputs),) if draw(st.booleans()) else (),
        iteration=Feed(0), cond_input=Feed(1, draw(st.integers(0, 1))), cond_output=draw(st.sampled_from([-1, 0])),
        cond_use=draw(st.sampled_from(CondUse)), trip_policy=draw(st.sampled_from(TripPolicy)), count_from_scan=counted,
        overrun=draw(st.sampled_from(Overrun)),
    )
    trip_count = None if counted else draw(st.integers(0, 5))
    return Program(op, rows, tuple(steps), results, draw(st.integers(-5, 60)), trip_count,
                   draw(st.sampled_from([None, True, False])), frozenset(draw(st.sets(st.integers(0, 9), max_size=4))))


def case_of(program: Program) -> LoopCase:
    op = program.op

    def body(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        number = s.apply(Add(), v[0], s.constant([[1, 0, 2], [0, 1, 0]]))
        values = [number, *v[2:]]
        for name, a, b in program.steps:
            values.append(s.apply(BINARY[name], values[a], values[b]))
        results = [values[k] for k in program.results]
        peak = s.apply(ReduceMax(), results[0], s.constant([0, 1]))
        return [s.apply(Less(), peak, s.constant(program.bound)), *results]

    cond = (BOOL, (1,) * (op.cond_input.rank if op.cond_input else 0))
    kinds = ((I32, ()), cond, *[ROW] * program.count)
    rng = np.random.default_rng(7)
    operands: list[Array | None] = [
        None if program.trip_count is None else np.array(program.trip_count, np.int32),
        None if program.starts_true is None else np.array(program.starts_true),
    ]
    shapes: list[tuple[int, ...]] = [(2, 3)] * (len(op.carried) + len(op.invariants))
    for scan in op.scan_inputs:
        axis = scan.axis % 3
        shapes.append((*(2, 3)[:axis], SLICES, *(2, 3)[axis:]))
    operands += [rng.integers(-9, 9, shape).astype(np.int32) for shape in shapes]
    return LoopCase("", op, body, kinds, (tuple(operands),))


def check(program: Program, backends: Sequence[tuple[str, bool]]) -> None:
    case = case_of(program)
    operands = case.runs[0]
    constants = [k for k in program.constants if k < len(operands)]
    model = loop_model(case, operands, constants)
    try:
        wanted = expected(model, operands)
    except NotDefined:
        wanted = None
    for backend, elide in backends:
        session = circlet.Session(model, backend=backend, copy_elision=elide)
        for _ in range(2):
            if wanted is None:
                with pytest.raises(circlet.CircletError):
                    session.invoke(0, arguments(operands, constants))
                continue
            for one, other in zip(session.invoke(0, arguments(operands, constants)), wanted, strict=True):
                np.testing.assert_array_equal(one, other, strict=True)


@holds(programs(), few=20, many=120)
def test_cpu(program: Program) -> None:
    check(program, [("cpu", True), ("cpu", False)])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(programs())
def test_native(program: Program) -> None:
    check(program, [("native", True)])
