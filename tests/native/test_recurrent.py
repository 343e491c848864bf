"""Native recurrent operators: LiteRT's results of the cases, and the numpy backend's on random ones.

What has int8 weights gives the same bits on both backends, unless sums of floats are normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import NativeBackend, Options
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation
from circlet.runtime.ops.recurrent import (
    BidirectionalSequenceLstm,
    BidirectionalSequenceRnn,
    Svdf,
    UnidirectionalSequenceLstm,
)
from tests.native.against_cpu import Array, seeds
from tests.ops.cases import Case, T, check, q
from tests.ops.one_operator import called, fed_arrays, model_of
from tests.ops.test_recurrent import INT8_NETWORKS, NETWORKS, state

LIVE = {"live-weights", "lstm-kernel-1"}
"""The cases whose weights are not constant, so that numpy computes them."""
sizes = st.sampled_from([1, 3, 8, 20, 33])
batches = st.sampled_from([1, 2, 9])


@pytest.mark.parametrize("case", [*NETWORKS, *INT8_NETWORKS], ids=lambda case: case.id)
def test_cases(case: Case) -> None:
    """In a subgraph that another one calls; the second run continues with the state of the first."""
    made: list[NativeBackend] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        made.append(NativeBackend(executors, Options(keep_text=True)))
        return (ControlflowBackend(executors), *made)

    session = Session(called(model_of(case)), Engine(backends))
    session.invoke(0, fed_arrays(case))
    for actual, expected in zip(session.invoke(0, fed_arrays(case)), case.expected, strict=True):
        check(actual, expected.array, case.tolerance)
    (listing,) = made[0].listings
    assert any("host call" in line for line in listing.outline) == (case.id in LIVE)


@dataclass
class Parts:
    """Random parts of a network."""

    random: np.random.Generator
    hybrid: bool

    def numbers(self, *shape: int) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def matrix(self, rows: int, columns: int) -> T:
        value = self.numbers(rows, columns) / np.float32(sqrt(columns))
        if not self.hybrid:
            return T(value, constant=True)
        return T((value * 30).clip(-127, 127).astype(np.int8), q=q(1 / 30), constant=True)

    def vector(self, count: int) -> T:
        return T(self.numbers(count), constant=True)

    def rnn(self, inputs: int, units: int, batch: int) -> list[T]:
        return [self.matrix(units, inputs), self.matrix(units, units), self.vector(units), state(batch, units)]

    def lstm(self, inputs: int, cells: int, units: int, coupled: bool = False,
             peephole: bool = False) -> list[T | None]:
        """Inputs 1 to 17; there is a projection where units are not cells."""
        peepholes: list[T | None] = [None] * 3
        if peephole:
            peepholes = [T(self.matrix(1, cells).array[0], q=self.matrix(1, 1).q, constant=True) for _ in range(3)]
        projection = [None, None] if cells == units else [self.matrix(units, cells), self.vector(units)]
        found = [*(self.matrix(cells, inputs) for _ in range(4)), *(self.matrix(cells, units) for _ in range(4)),
                 *peepholes, *(self.vector(cells) for _ in range(4)), *projection]
        return [None if coupled and k in (0, 4, 8, 11) else each for k, each in enumerate(found)]


def agree(op: Op, inputs: list[T | None], outputs: Sequence[Array | T], tolerance: float | None) -> None:
    """Compares two runs one after the other on both backends; numpy must not compute any of the native ones."""
    case = Case("random", op, inputs, outputs)
    native, cpu = (circlet.Session(model_of(case), backend=backend) for backend in ("native", "cpu"))
    assert native.backend_of(0) == ("native",)
    for _ in range(2):
        for actual, expected in zip(native.invoke(0, fed_arrays(case)), cpu.invoke(0, fed_arrays(case)), strict=True):
            check(actual, expected, tolerance)


@settings(max_examples=14, deadline=None)
@given(sizes, sizes, sizes, batches, st.integers(1, 4), st.sets(st.sampled_from([
    "hybrid", "asymmetric", "coupled", "peephole", "norm", "projected", "clip", "time-major", "relu"])), seeds)
def test_lstm(inputs: int, cells: int, units: int, batch: int, times: int, has: set[str], seed: int) -> None:
    parts, coupled, clip = Parts(np.random.default_rng(seed), "hybrid" in has), "coupled" in has, "clip" in has
    units = units if "projected" in has else cells
    op = UnidirectionalSequenceLstm(
        Activation.RELU if "relu" in has else Activation.TANH, "asymmetric" in has, 0.7 * clip, 0.4 * clip,
        time_major="time-major" in has)
    shape = (times, batch) if op.time_major else (batch, times)
    norms = [None if coupled and k == 0 else parts.vector(cells) for k in range(4)] if "norm" in has else []
    given = [T(parts.numbers(*shape, inputs)), *parts.lstm(inputs, cells, units, coupled, "peephole" in has),
             state(batch, units), state(batch, cells), *norms]
    tolerance = 1e-5 if not parts.hybrid else 0.1 if norms else None
    agree(op, given, [np.zeros((*shape, units), np.float32)], tolerance)


second_kinds = st.sampled_from(["none", "own", "crossed"])


@settings(max_examples=6, deadline=None)
@given(sizes, sizes, batches, second_kinds, st.booleans(), st.booleans(), st.booleans(), seeds)
def test_both_lstm(inputs: int, cells: int, batch: int, second: str, hybrid: bool, merged: bool, time_major: bool,
                   seed: int) -> None:
    parts = Parts(np.random.default_rng(seed), hybrid)
    op = BidirectionalSequenceLstm(Activation.TANH, merge_outputs=merged, time_major=time_major)
    x, other = (T(parts.numbers(3, batch, inputs) if time_major else parts.numbers(batch, 3, inputs)) for _ in range(2))
    auxiliary = [parts.matrix(cells, inputs) if second == "own" else None for _ in range(8)]
    given = [x, *parts.lstm(inputs, cells, cells), *parts.lstm(inputs, cells, cells),
             *(state(batch, cells) for _ in range(4)), None if second == "none" else other, *auxiliary]
    outputs = [np.zeros((*x.array.shape[:2], 2 * cells if merged else cells), np.float32)] * (1 if merged else 2)
    agree(op, given, outputs, None if hybrid else 1e-5)


@settings(max_examples=6, deadline=None)
@given(sizes, sizes, sizes, batches, second_kinds, st.booleans(), st.booleans(), st.booleans(), seeds)
def test_both_rnn(inputs: int, units: int, others: int, batch: int, second: str, hybrid: bool, merged: bool,
                  time_major: bool, seed: int) -> None:
    parts = Parts(np.random.default_rng(seed), hybrid)
    op = BidirectionalSequenceRnn(Activation.TANH, merge_outputs=merged, time_major=time_major)
    x, other = (T(parts.numbers(3, batch, inputs) if time_major else parts.numbers(batch, 3, inputs)) for _ in range(2))
    auxiliary = [parts.matrix(each, inputs) if second == "own" else None for each in (units, others)]
    given = [x, *parts.rnn(inputs, units, batch), *parts.rnn(inputs, others, batch),
             None if second == "none" else other, *auxiliary]
    widths = [units + others] if merged else [units, others]
    agree(op, given, [np.zeros((*x.array.shape[:2], each), np.float32) for each in widths], None if hybrid else 1e-5)


@settings(max_examples=6, deadline=None)
@given(sizes, sizes, sizes, st.integers(1, 3), batches, st.booleans(), st.booleans(), seeds)
def test_svdf(inputs: int, units: int, memory: int, rank: int, batch: int, hybrid: bool, bias: bool, seed: int) -> None:
    parts = Parts(np.random.default_rng(seed), hybrid)
    filters = units * rank
    given = [T(parts.numbers(batch, inputs)), parts.matrix(filters, inputs), parts.matrix(filters, memory),
             parts.vector(units) if bias else None, state(batch, filters * memory)]
    agree(Svdf(Activation.RELU, rank=rank), given, [np.zeros((batch, units), np.float32)], 1e-5)


@settings(max_examples=12, deadline=None)
@given(sizes, sizes, sizes, st.integers(1, 3), batches, st.booleans(), st.sampled_from([2e-6, 2e-4, 0.03]), seeds)
def test_int8_svdf(inputs: int, units: int, memory: int, rank: int, batch: int, bias: bool, scale: float, seed: int
                   ) -> None:
    """Sums over time wrap where states are of a small scale."""
    random = np.random.default_rng(seed)

    def drawn(dtype: npt.DTypeLike, most: int, *shape: int, constant: bool = True, **quantized: float) -> T:
        value = random.integers(-most, most, shape, endpoint=True).astype(dtype)
        return T(value, q=q(**quantized), constant=constant)  # type: ignore[arg-type]

    filters = units * rank
    given = [drawn(np.int8, 127, batch, inputs, constant=False, scale=0.02, zero_point=3),
             drawn(np.int8, 127, filters, inputs, scale=0.004), drawn(np.int16, 32767, filters, memory, scale=3e-5),
             drawn(np.int32, 2**31 - 1, units, scale=1e-8) if bias else None,
             T(np.zeros((batch, filters * memory), np.int16), q=q(scale), variable=True)]
    agree(Svdf(Activation.RELU, rank=rank), given, [T(np.zeros((batch, units), np.int8), q=q(0.05, -128))], None)


@settings(max_examples=6, deadline=None)
@given(sizes, sizes, batches, st.integers(1, 4), st.integers(9, 15),
       st.sets(st.sampled_from(["coupled", "peephole", "clip", "time-major"])), seeds)
def test_int8_lstm(inputs: int, cells: int, batch: int, times: int, cell_bits: int, has: set[str], seed: int) -> None:
    random = np.random.default_rng(seed)

    def drawn(dtype: npt.DTypeLike, scale: float, most: int, *shape: int) -> T:
        return T(random.integers(-most, most, shape, endpoint=True).astype(dtype), q=q(scale), constant=True)

    matrices = [drawn(np.int8, 0.004 + k / 1000, 127, cells, inputs if k < 4 else cells) for k in range(8)]
    peepholes = [drawn(np.int16, 3e-5, 32767, cells) if "peephole" in has else None for _ in range(3)]
    given = [*matrices, *peepholes, *(drawn(np.int32, 8e-5, 9000, cells) for _ in range(4))]
    op = UnidirectionalSequenceLstm(Activation.TANH, cell_clip=0.5 if "clip" in has else 0.0,
                                    time_major="time-major" in has)
    shape = (times, batch) if op.time_major else (batch, times)
    x = T(random.integers(-128, 128, (*shape, inputs)).astype(np.int8), q=q(0.02, 3))
    states = [T(np.full((batch, cells), -5, np.int8), q=q(0.007, -5), variable=True),
              T(np.zeros((batch, cells), np.int16), q=q(2.0**-cell_bits), variable=True)]
    inputs_of = [x, *(None if "coupled" in has and k in (0, 4, 8, 11) else each for k, each in enumerate(given)),
                 None, None, *states]
    agree(op, inputs_of, [T(np.zeros((*shape, cells), np.int8), q=q(0.007, -5))], None)
