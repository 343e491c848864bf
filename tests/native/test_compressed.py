"""Products by weights that are made of integers, zero points and scales: kept so, with the bits of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

import circlet
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.check.watched import VARIABLE
from circlet.backends.native.load.llvm import host
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import elementwise, unary
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.passes.analyses import compressed
from circlet.runtime.records import dataclass

DEPTH, COLUMNS = 1104, 150
"""More steps than are summed up one after the other, and no whole number of groups in each part of them."""

Made: TypeAlias = Callable[[SubgraphBuilder, int], Value]
"""Weights of a layer."""


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "CACHED", 0)


@dataclass(frozen=True)
class Weights:
    """How weights are stored.

    Attributes:
        low, high: integers from the one on, below the other.
        kept: bytes that they are kept in, as a part of those of float32, at most.
        zero: what zero points are beside such integers; None if there are none.
        group: steps of a column that have a scale.
        is_transposed: whether they are (columns, depth).
        dtype: as which they are stored.
    """

    low: int
    high: int
    kept: float
    zero: float | None = None
    group: int = DEPTH
    is_transposed: bool = True
    dtype: DType = DType.INT8

    def parts(self, seed: int) -> list[Array]:
        """Integers, zero points and scales; groups have an axis of their own."""
        rng, groups = np.random.default_rng(seed), DEPTH // self.group
        stored = rng.integers(self.low, self.high, (COLUMNS, groups, self.group)).astype(self.dtype.numpy)
        zeros = rng.integers(self.low, self.high, (COLUMNS, groups, 1)) + np.float32(self.zero or 0)
        scales = rng.uniform(-0.02, 0.02, zeros.shape)
        found = [stored, zeros.astype(np.float32), scales.astype(np.float32)]
        found = [each[:, 0] for each in found] if groups == 1 else found
        return found if self.is_transposed else [np.moveaxis(each, 0, -1) for each in found]

    def made(self, s: SubgraphBuilder, seed: int) -> Value:
        """The weights as operators make them."""
        stored, zeros, scales = map(s.constant, self.parts(seed))
        (real,) = s.op(Cast(), stored, outputs=[Tensor("real", DType.FLOAT32, self.parts(seed)[0].shape)])
        real = real if self.zero is None else s.apply(elementwise.Sub(), real, zeros)
        return s.apply(Reshape(), s.apply(elementwise.Mul(), real, scales), s.constant(np.array(self.shape, np.int32)))

    def known(self, s: SubgraphBuilder, seed: int) -> Value:
        """The weights as a constant."""
        return s.constant(self.real(seed))

    def real(self, seed: int) -> Array:
        stored, zeros, scales = self.parts(seed)
        real = stored.astype(np.float32)
        return ((real if self.zero is None else real - zeros) * scales).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        return (COLUMNS, DEPTH) if self.is_transposed else (DEPTH, COLUMNS)


CASES = {
    "int8": Weights(-128, 128, 0.27),
    "uint8 with zero points": Weights(0, 256, 0.27, zero=0, dtype=DType.UINT8),
    "int8 in groups": Weights(-128, 128, 0.3, group=48),
    "zero points between integers": Weights(0, 16, 0.3, zero=0.5, group=48),
    "int4": Weights(-8, 8, 0.15),
    "uint4 in groups": Weights(0, 16, 0.2, zero=0, group=48),
    "integers as floats": Weights(0, 16, 0.22, zero=0, group=24, dtype=DType.FLOAT32),
    "columns side by side": Weights(0, 256, 0.27, zero=0, is_transposed=False, dtype=DType.UINT8),
    "groups side by side": Weights(-8, 8, 0.2, group=48, is_transposed=False),
    "small groups": Weights(-8, 8, 1.0, group=8),
    "more than bytes": Weights(0, 300, 1.0, dtype=DType.INT16),
    "no integers": Weights(0, 2, 1.0, zero=0.25, dtype=DType.INT8, group=12),
}


def layers(weights: Weights, made: Made, rows: int, count: int = 1) -> Model:
    """The sum of products of the same rows."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (rows, DEPTH))
    op = FullyConnected() if weights.is_transposed else BatchMatMul()
    total = None
    for k in range(count):
        product = main.apply(unary.Tanh(), main.apply(op, x, made(main, k)))
        total = product if total is None else main.apply(elementwise.Add(), total, product)
    assert total is not None
    main.output(total)
    return b.build()


def kept(session: circlet.Session) -> int:
    """Bytes of constants."""
    (backend,) = session._executors.span_backends
    assert isinstance(backend, NativeBackend)
    return sum(each.constants.nbytes for each in backend._functions.values() if each is not None)


def alone(weights: Weights, rows: tuple[int, ...]) -> float:
    """What a vector of four bits takes that shares its bytes with no other: with 16 registers a panel for one row has
    seven vectors."""
    return 0.125 / 7 if rows == (1,) and weights.high - weights.low == 16 and host().vector_registers == 16 else 0


@pytest.mark.parametrize("weights", CASES.values(), ids=CASES)
@pytest.mark.parametrize("rows", [(1,), (4,), (5,), (-1, 1, 3, 7, 9, 13, 25, 40)], ids=str)
def test_results_have_the_bits_of_the_weights(weights: Weights, rows: tuple[int, ...]) -> None:
    """Integers are kept where few rows, or an open number of them, are multiplied."""
    one, other = (circlet.Session(layers(weights, made, rows[0]), "native") for made in (weights.made, weights.known))
    for count in rows[1:] if rows[0] < 0 else rows:
        x = np.random.default_rng(count).standard_normal((count, DEPTH)).astype(np.float32)
        (found,), (wanted,) = (each.invoke(0, [x]) for each in (one, other))
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
    part = kept(one) / kept(other)
    assert part <= (1.0 if rows == (5,) else weights.kept + alone(weights, rows))
    assert part > 0.9 or rows != (5,)


def test_layers_that_are_alike_have_integers_of_their_own() -> None:
    weights = CASES["uint4 in groups"]
    x = np.random.default_rng(0).standard_normal((5, DEPTH)).astype(np.float32)
    found, wanted = (circlet.Session(layers(weights, made, -1, 2), "native").invoke(0, [x])[0]
                     for made in (weights.made, weights.known))
    np.testing.assert_array_equal(found, wanted)


def test_layers_that_are_kept_otherwise_are_others() -> None:
    weights = CASES["int8"]

    def made(s: SubgraphBuilder, k: int) -> Value:
        return (weights.known, weights.made, CASES["int8 in groups"].made, CASES["int4"].made)[k](s, k)

    x = np.random.default_rng(0).standard_normal((5, DEPTH)).astype(np.float32)
    (found,) = circlet.Session(layers(weights, made, -1, 4), "native").invoke(0, [x])
    wanted = [CASES[each].real(k) for k, each in enumerate(("int8", "int8", "int8 in groups", "int4"))]
    np.testing.assert_allclose(found, sum(np.tanh(x @ each.T) for each in wanted), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("case", "part"), [("int8", 0.55), ("uint8 with zero points", 0.55), ("int4", 0.3),
                                            ("uint4 in groups", 0.4), ("int8 in groups", 0.6)])
def test_rows_are_made_as_they_are_picked(case: str, part: float) -> None:
    """As an embedding that the last product shares, which is kept twice."""
    weights = CASES[case]
    b = ModelBuilder()
    main = b.subgraph("main")
    ids, matrix = main.input("ids", DType.INT32, (-1,)), weights.made(main, 0)
    rows = main.apply(Gather(), matrix, ids)
    main.output(rows, main.apply(FullyConnected(), rows, matrix))
    given = np.array([3, 0, 149], np.int32)
    session = circlet.Session(b.build(), "native")
    rows_found, found = session.invoke(0, [given])
    np.testing.assert_array_equal(rows_found.view(np.uint32), weights.real(0)[given].view(np.uint32))
    assert kept(session) < part * weights.real(0).nbytes
    np.testing.assert_allclose(found, weights.real(0)[given] @ weights.real(0).T, rtol=1e-3, atol=1e-3)


def test_code_whose_bounds_are_checked_keeps_as_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    test_rows_are_made_as_they_are_picked("int8", 0.55)


@pytest.mark.parametrize(("case", "cached", "least", "most"), [("int8", 600_000, 0.2, 0.4), ("int4", 700_000, 1, 1.4)])
def test_few_weights_are_kept_as_float32(monkeypatch: pytest.MonkeyPatch, case: str, cached: int, least: float,
                                         most: float) -> None:
    monkeypatch.setattr(compressed, "CACHED", cached)
    session = circlet.Session(layers(CASES[case], CASES[case].made, 2), "native")
    session.invoke(0, [np.zeros((2, DEPTH), np.float32)])
    assert least * 4 * DEPTH * COLUMNS < kept(session) < most * 4 * DEPTH * COLUMNS


def test_others_read_the_weights() -> None:
    weights = CASES["uint4 in groups"]
    b = ModelBuilder()
    main = b.subgraph("main")
    x, matrix = main.input("x", DType.FLOAT32, (-1, DEPTH)), weights.made(main, 0)
    main.output(main.apply(FullyConnected(), x, matrix), main.apply(elementwise.Add(), x, matrix))
    given = np.random.default_rng(1).standard_normal((1, DEPTH)).astype(np.float32)
    product, total = circlet.Session(b.build(), "native").invoke(0, [given])
    np.testing.assert_allclose(product, given @ weights.real(0).T, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(total, given + weights.real(0))
