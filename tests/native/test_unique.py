"""Native operators that find distinct elements and slices."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import strategies as st

import circlet
from circlet.backends.native.rules.moving.unique import MIX
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather, Where
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.sort import Unique, UniqueSlices
from tests.exec.test_limits import SLACK
from tests.native.against_cpu import Array, agree, applied, seeds, shapes, values
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import I64, INTS, LENGTHS, Write, column, model, several
from tests.ops.cases import check
from tests.properties import holds

KINDS = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)


def some(shape: Sequence[int], dtype: type[np.generic], few: bool, seed: int) -> Array:
    """Numbers with zeros of both signs and NaN, of which there are few different ones, or not."""
    if not few or dtype is np.bool_:
        return values(shape, dtype, seed, special=True)
    kinds = np.array([0.0, -0.0, 1.0, np.nan, -np.inf, -1.0] if np.dtype(dtype).kind == "f" else [0, 1, 5], dtype)
    return np.asarray(np.random.default_rng(seed).choice(kinds, shape), dtype)


@holds(st.sampled_from([0, 1, 2, 3, 7, 40, 300]), st.sampled_from(KINDS), st.booleans(),
       st.sampled_from([DType.INT32, DType.INT64]), seeds, few=15, many=300)
def test_first_occurrences(length: int, dtype: type[np.generic], few: bool, places: DType, seed: int) -> None:
    agree(applied(Unique(places)), some([length], dtype, few, seed), floats=0)


@holds(shapes(0, 3, st.sampled_from([0, 1, 2, 5, 30])), st.sampled_from([*KINDS, np.bool_]), st.booleans(),
       st.booleans(), seeds, few=15, many=300)
def test_elements(shape: list[int], dtype: type[np.generic], few: bool, ascending: bool, seed: int) -> None:
    agree(applied(UniqueSlices(None, ascending)), some(shape, dtype, few, seed), floats=0)


@holds(shapes(1, 4, st.sampled_from([0, 1, 2, 3, 12])), st.data(), st.booleans(), seeds, few=15, many=300)
def test_slices(shape: list[int], data: st.DataObject, ascending: bool, seed: int) -> None:
    """Of integers; numpy's are of real numbers that are more than one each."""
    dtype = data.draw(st.sampled_from([*KINDS[3:], np.bool_, np.float32]))
    op = UniqueSlices(data.draw(st.integers(-len(shape), len(shape) - 1)), ascending)
    agree(applied(op), np.random.default_rng(seed).integers(0, 2, shape).astype(dtype), floats=0)


def colliding(count: int) -> Array:
    """Distinct numbers that all begin to be looked up at one place."""
    inverse = pow(MIX, -1, 1 << 64)
    return np.array([each * inverse % (1 << 64) for each in range(count)], np.uint64).view(np.int64)


@pytest.mark.parametrize("op", [Unique(), UniqueSlices()], ids=str)
def test_numbers_that_collide(op: Op, folder: object) -> None:
    agree(applied(op), np.tile(colliding(700), 2))


def test_a_deadline_ends_many_collisions(folder: object) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = colliding(1 << 18)
    main.output(*main.op(Unique(), main.input("x", DType.INT64, x.shape)))
    built = b.build()
    circlet.Session(built, backend="native").invoke(0, [np.zeros_like(x)])
    session = circlet.Session(built, backend="native", limits=circlet.Limits(deadline=0.05))
    start = time.monotonic()
    with pytest.raises(circlet.LimitError, match=r"operator 0 \(UNIQUE\): the run went over its deadline of 0.05 s"):
        session.invoke(0, [x])
    assert time.monotonic() - start < SLACK


def distinct(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    found, places = several(g, Unique(), (INTS, INTS), column(g, x, k))
    return [g(Add(), found, g.number(1), dtype=INTS), g(Gather(), found, places, dtype=INTS)]


def in_order(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    return several(g, UniqueSlices(), (INTS, I64, I64, I64), column(g, x, k))


def of_some(g: Graph, x: Value, k: Value) -> Sequence[Value]:
    """Of a length that the code computes; then rows, whose length it does, too."""
    places = g(Where(), g(Greater(), column(g, x, k), g.number(0), dtype=DType.BOOL), dtype=I64)
    found = several(g, Unique(), (I64, INTS), g(Reshape(), places, g.ints(-1), dtype=I64))
    rows = g(Reshape(), g(Gather(), column(g, x, k), found[0], dtype=INTS), g.ints(1, -1), dtype=INTS)
    return [places, *found, *several(g, UniqueSlices(0), (INTS, I64, I64, I64), rows),
            *several(g, UniqueSlices(1), (INTS, I64, I64, I64), rows)]


OPEN: dict[str, Write] = {"distinct": distinct, "in order": in_order, "of some": of_some}


@pytest.mark.parametrize("name", OPEN)
def test_one_function_serves_all_lengths(name: str, folder: object, compiled: list[str]) -> None:
    native, cpu = (circlet.Session(model(OPEN[name]), backend=each) for each in ("native", "cpu"))
    for rows, k in LENGTHS:
        given = [floats(rows, 6), np.array(k, np.int32)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            assert found.shape == expected.shape
            check(found, expected, None)
    assert len(compiled) == 1
    assert {part for each in native.backend_of(0) for part in each.split("+")} == {"native"}
