"""What operators reach of the machine's best."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.profiling.peak import Peak, measured_peak
from circlet.profiling.tables import Tables
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.unary import Neg
from circlet.runtime.passes.analyses.work import Work

PEAK = Peak(1e9, ((1000, 4e9), (1 << 20, 1e9)), "native", 2e9)
F, B, W = DType.FLOAT32, DType.INT8, DType.INT16


@pytest.mark.parametrize(("work", "types", "seconds"), [
    (Work(10**9, 10, 10), {F}, 1.0),
    (Work(10**9, 10, 10), {F, DType.INT32}, 1.0),
    (Work(10**9, 10, 10), {F, B}, 0.5),
    (Work(10**9, 10, 10), {B, DType.INT32}, 0.5),
    (Work(10**9, 10, 10), {W, B}, None),
    (Work(10**9, 10, 10), {DType.INT32}, None),
    (Work(0, 10**9, 10**9), {DType.INT32}, 2.0),
    (Work(0, 10**9, 10**9), {W}, 2.0),
    (Work(1, 500, 500), {F}, 2.5e-7),
    (Work(1, 10**9, 10**9), {F}, 2.0)])
def test_what_limits(work: Work, types: set[DType], seconds: float | None) -> None:
    assert PEAK.seconds(work, types) == pytest.approx(seconds)


def test_rates_between_sizes() -> None:
    assert [PEAK.rate(each) for each in (0, 1, 1000, 1 << 20, 1 << 30)] == [4e9, 4e9, 4e9, 1e9, 1e9]
    assert PEAK.rate(round((1000 * (1 << 20)) ** 0.5)) == pytest.approx(2.5e9, rel=1e-3)


def test_operators_are_compared_with_the_peak() -> None:
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x, n = main.input("x", np.float32, (1000,)), main.input("n", np.int16, (4,))
    main.output(main.apply(Neg(), x))
    main.output(main.apply(Add(), n, n))
    session = circlet.Session(builder.build(), "cpu")
    with circlet.profile(session) as found:
        session.run([np.ones(1000, np.float32), np.ones(4, np.int16)])
    assert {each.of_peak for each in found.tables.operators} == {None}
    rows = {each.name: each for each in Tables(found, PEAK).operators}
    assert rows["ADD"].of_peak is None
    assert rows["NEG"].of_peak == pytest.approx(8000 / PEAK.rate(8000) / (rows["NEG"].own * 1e-9))


def test_the_machine_is_measured_once() -> None:
    found = measured_peak()
    assert found is measured_peak()
    assert found.flops > 1e8
    assert all(rate > 1e7 for _, rate in found.rates)
    assert [size for size, _ in found.rates] == sorted(size for size, _ in found.rates)
    assert f"({found.product} product" in found.text
    assert (found.int8 is None) == (found.product == "numpy")
    assert found.int8 is None or found.int8 > 1e8
