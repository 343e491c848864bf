"""Native softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.backends.native.load import llvm
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.normalize import (
    InstanceNorm,
    L2Normalization,
    LocalResponseNormalization,
    LogSoftmax,
    RmsNorm,
    Softmax,
)
from tests.native.against_cpu import agree, applied, seeds, shapes, values
from tests.native.native_cases import native_test
from tests.native.quantized_models import Array, Network, stored
from tests.native.test_targets import lowered
from tests.ops.cases import q
from tests.ops.test_normalize import CIRCLE, L2, LOG_SOFTMAX, LRN, SOFTMAX

test_softmax = native_test([*SOFTMAX, *LOG_SOFTMAX])
test_normalizations = native_test([*L2, *LRN, *CIRCLE])

ROWS = [Softmax(1.0), Softmax(0.3), Softmax(-2.0), LogSoftmax(), L2Normalization()]
LENGTHS = st.sampled_from([1, 2, 3, 8, 20, 67])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ROWS), shapes(1, 4, LENGTHS), st.booleans(), seeds)
def test_rows_of_any_shape(op: Op, shape: list[int], special: bool, seed: int) -> None:
    agree(applied(op), values(shape, np.float32, seed, special))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ROWS), shapes(1, 3, LENGTHS), seeds)
def test_computed_rows(op: Op, shape: list[int], seed: int) -> None:
    """Elements are computed as they are read, and others from the results."""
    def formula(g: SubgraphBuilder, x: Value, y: Value) -> Sequence[Value]:
        given = g.apply(Add(), g.apply(Mul(), x, g.constant(3.0)), y)
        return [g.apply(Mul(), g.apply(op, given), g.constant(2.0))]

    agree(formula, values(shape, np.float32, seed), values(shape, np.float32, seed + 1))


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 0.6, -1.0])
@pytest.mark.parametrize(("bias", "alpha"), [(1.0, 0.1), (2.0, 0.0), (0.0, 1.0), (1.0, -0.3)])
@pytest.mark.parametrize("special", [False, True])
def test_powers_of_windows(beta: float, bias: float, alpha: float, special: bool) -> None:
    """By roots or not; zeros, sums below zero and infinities among them."""
    for shape in ((2, 3, 8), (1, 5, 40), (4, 1)):
        agree(applied(LocalResponseNormalization(2, bias, alpha, beta)), values(shape, np.float32, 5, special))


@pytest.mark.parametrize(("beta", "alpha", "has_doubles"), [
    (0.5, 0.1, False), (0.75, 0.1, False), (1.0, 0.1, False), (0.6, 0.1, True), (0.5, -0.1, True)])
def test_powers_by_roots_need_no_doubles(beta: float, alpha: float, has_doubles: bool,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (2, 40))
    main.output(main.apply(LocalResponseNormalization(2, 1.0, alpha, beta), x))
    (listing,) = lowered(b.build(), llvm.host(), monkeypatch)
    assert ("double" in listing.module) is has_doubles


@pytest.mark.parametrize("channels", [1, 3, 16, 40])
@pytest.mark.parametrize("shared", [False, True])
def test_scaled(channels: int, shared: bool) -> None:
    gamma, beta = (values((1 if shared else channels,), np.float32, seed) for seed in (1, 2))
    agree(applied(RmsNorm(1e-5)), values((2, 3, channels), np.float32, 3), gamma)
    agree(applied(InstanceNorm(1e-5)), values((2, 3, 4, channels), np.float32, 4), gamma, beta)


@pytest.mark.parametrize("depth", [1, 3, 20])
@pytest.mark.parametrize("radius", [-1, 0, 2, 5, 40])
def test_local_response(depth: int, radius: int) -> None:
    op = LocalResponseNormalization(radius, 1.0, 0.5, 0.75)
    agree(applied(op), values((2, 3, depth), np.float32, 5))


def test_extreme_scores() -> None:
    """Rows whose exponentials would overflow, vanish, or are not numbers."""
    rows = np.array([[1e4, -1e4, 9.99e3], [-3e38, 3e38, 0], [np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, 1, 2],
                     [-np.inf] * 3], np.float32)
    for op in (Softmax(1.0), LogSoftmax()):
        agree(applied(op), rows)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([DType.INT8, DType.UINT8]), st.integers(-25, 8), st.floats(1, 1.99), shapes(1, 3, LENGTHS),
       seeds)
def test_logarithms_of_stored_shares(dtype: DType, exponent: int, mantissa: float, shape: list[int], seed: int) -> None:
    _agree_on_logarithms(stored(tuple(shape), dtype, seed), mantissa * 2.0**exponent)


@pytest.mark.parametrize("depth", [1, 2, 4095, 4096, 8192, 20000])
def test_logarithms_of_large_sums(depth: int) -> None:
    """Rows of equal elements, and of one that is greater."""
    x = np.full((2, depth), -128, np.int8)
    x[:, 0] = (-128, 127)
    for scale in (0.001, 0.125, 0.25):
        _agree_on_logarithms(x, scale)


def _agree_on_logarithms(x: Array, scale: float) -> None:
    network = Network()
    network.op(LogSoftmax(), network.input(x, q(float(np.float32(scale)), 3)),
               quantization=q(1 / 16, int(np.iinfo(x.dtype).max)))
    network.agree(is_native=True)
