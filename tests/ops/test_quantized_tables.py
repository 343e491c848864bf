"""Functions of one quantised value over all that their type stores, at scales that are powers of two or next to one.

There halves are exact, and bounds are met: a table that rounds once too often, or clamps one entry too early, differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import erf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops import normalize, unary
from circlet.schema.files import dump_model, load_model
from circlet.session import Session
from tests.ops.cases import Case, T, q
from tests.ops.litert import litert_results
from tests.ops.one_operator import fed_arrays, model_of

I8, U8, I16 = DType.INT8, DType.UINT8, DType.INT16
Floats = npt.NDArray[np.float64]
Outputs = Callable[[DType], Quantization | None]
"""The only quantisation that a result of a type may have; None for any."""


def _least(dtype: DType) -> int:
    return int(np.iinfo(dtype.numpy).min)


def _any(dtype: DType) -> None:
    return None


def _signed_fraction(dtype: DType) -> Quantization:
    return q(2.0**-15) if dtype is I16 else q(1 / 128, 128 if dtype is U8 else 0)


def _fraction(dtype: DType) -> Quantization:
    return q(2.0**-15) if dtype is I16 else q(1 / 256, _least(dtype))


def _leaky(slope: float) -> Callable[[Floats], Floats]:
    return lambda x: np.where(x > 0, x, slope * x)


@dataclass(frozen=True)
class Table:
    """An operator, the types it takes, and the function of real numbers that it stands for.

    Attributes:
        error: how far a result may lie from that function, in steps of the output's scale.
        positive: negative values are an error.
    """

    op: Op
    types: Sequence[DType]
    real: Callable[[Floats], Floats]
    made: Outputs = _any
    error: float = 0.501
    positive: bool = False
    largest: int = -7
    """The greatest exponent of an int16 scale at which LiteRT's table does not overflow."""

    def __str__(self) -> str:
        alpha = getattr(self.op, "alpha", "")
        return f"{self.op.name}{alpha}"


TABLES = [
    Table(unary.Abs(), (I8, I16), np.abs, error=1.0),
    Table(unary.Exp(), (I8, I16), np.exp, largest=-9),
    Table(unary.Log(), (I8, I16), lambda x: np.log(np.where(x > 0, x, 1e-300))),
    Table(unary.Sqrt(), (I8, I16), np.sqrt, error=1.001, positive=True),
    Table(unary.Rsqrt(), (I8, I16), lambda x: 1 / np.sqrt(np.maximum(x, 1e-300)), error=1.0, positive=True),
    Table(unary.Tanh(), (I8, U8, I16), np.tanh, _signed_fraction),
    Table(unary.Logistic(), (I8, U8, I16), lambda x: 1 / (1 + np.exp(-x)), _fraction),
    Table(unary.Relu(), (I8, U8, I16), lambda x: np.maximum(x, 0), error=1.0),
    Table(unary.Relu6(), (I8, U8, I16), lambda x: np.clip(x, 0, 6), error=1.0),
    Table(unary.ReluN1To1(), (I8, U8), lambda x: np.clip(x, -1, 1), error=1.0),
    Table(unary.Relu0To1(), (I8, U8), lambda x: np.clip(x, 0, 1), error=1.0),
    *(Table(unary.LeakyRelu(slope), (I8, U8, I16), _leaky(slope), error=1.0) for slope in (0.25, 0.3, -0.25, -2.0)),
    Table(unary.Gelu(), (I8, U8), lambda x: x * (1 + np.vectorize(erf)(x * sqrt(0.5))) / 2),
    Table(unary.Gelu(True), (I8, U8), lambda x: x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2),
    Table(unary.HardSwish(), (I8, U8), lambda x: x * np.clip(x + 3, 0, 6) / 6, error=1.5),
]
ROWS = [(table, dtype) for table in TABLES for dtype in table.types]
ALL = pytest.mark.parametrize(("table", "dtype"), ROWS, ids=[f"{table}-{dtype.value}" for table, dtype in ROWS])


def near(exponent: int) -> list[float]:
    """A power of two and the numbers of single precision next to it."""
    power = np.float32(2.0**exponent)
    below, above = (np.nextafter(power, np.float32(end)) for end in (0, np.inf))
    return [float(each) for each in (below, power, above)]


def grids(table: Table, dtype: DType, exponents: Sequence[int]) -> Iterator[tuple[Array, Quantization, Quantization]]:
    """All inputs, and quantisations of input and output."""
    limits = np.iinfo(dtype.numpy)
    for number, scale in enumerate(scale for exponent in exponents for scale in near(exponent)):
        zeros = (0,) if dtype is I16 else (limits.min,) if table.positive else (
            limits.min, (limits.min + limits.max + 1) // 2, limits.max - 3)
        zero = zeros[number % len(zeros)]
        x = np.arange(zero if table.positive else limits.min, limits.max + 1)
        other = near((-2, 1, 0)[number % 3])[number % 2 * 2] * 2.0 ** round(np.log2(scale))
        yield x, q(scale, zero), table.made(dtype) or q(other, (limits.min + limits.max + 1) // 2)


def model_content(op: Op, x: Array, dtype: DType, source: Quantization, result: DType,
                  target: Quantization) -> tuple[bytes, list[Array]]:
    """A file of one operator, and what its input is given."""
    case = Case("", op, [T(x, dtype, source)], [T(np.zeros(x.shape, np.int64), result, target)])
    return dump_model(model_of(case), "tflite"), fed_arrays(case)


def found_of(content: bytes, given: Sequence[Array]) -> Array:
    return Session(load_model(content), "cpu").invoke(0, list(given))[0]


def _expect_reference(table: Table, dtype: DType, exponents: Sequence[int]) -> None:
    """LiteRT's reference kernels have the same bits."""
    module: Any = pytest.importorskip("ai_edge_litert.interpreter")
    for x, source, target in grids(table, dtype, exponents):
        content, given = model_content(table.op, x, dtype, source, dtype, target)
        (wanted,) = litert_results(module, content, given, reference=True)
        np.testing.assert_array_equal(found_of(content, given), wanted, f"{source} to {target}")


def _expect_near(table: Table, dtype: DType, exponents: Sequence[int]) -> None:
    """The result is the nearest stored value of the function of the real numbers, or as near as LiteRT's arithmetic."""
    limits = np.iinfo(dtype.numpy)
    for x, source, target in grids(table, dtype, exponents):
        found = found_of(*model_content(table.op, x, dtype, source, dtype, target))
        with np.errstate(all="ignore"):
            exact = table.real((x - source.zero_point) * source.scale) / target.scale + target.zero_point
        distance = np.abs(found - np.clip(exact, limits.min, limits.max))
        assert distance.max() <= table.error, f"{source} to {target}, input {x[distance.argmax()]}"


@ALL
def test_all_values_as_in_litert(table: Table, dtype: DType) -> None:
    _expect_reference(table, dtype, (-12, table.largest) if dtype is I16 else (-8, -4))


@pytest.mark.slow
@ALL
def test_all_values_as_in_litert_at_all_scales(table: Table, dtype: DType) -> None:
    exponents = range(-15, table.largest + 1) if dtype is I16 else range(-10, 3)
    _expect_reference(table, dtype, exponents)


@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_all_bytes_are_the_nearest(table: Table, dtype: DType) -> None:
    if dtype in table.types:
        _expect_near(table, dtype, (-8, -7, -4, -1))


def test_values_whose_exponential_overflows_saturate() -> None:
    x = np.arange(-32768, 32768)
    for scale in (*near(-8), 2.0**-6, 2.0**-5, 1.0):
        found = found_of(*model_content(unary.Exp(), x, I16, q(scale), I16, q(scale)))
        with np.errstate(over="ignore"):
            before = np.exp((x >> 7 << 7) * scale) / scale
        assert (found[before > 1 << 18] == 32767).all(), scale


@pytest.mark.parametrize("dtype", [I8, U8, I16], ids=lambda dtype: dtype.value)
def test_native_code_has_the_same_tables(dtype: DType) -> None:
    """All operators in one model."""
    limits = np.iinfo(dtype.numpy)
    x = np.arange(limits.min, limits.max + 1).astype(dtype.numpy)
    b = ModelBuilder()
    main = b.subgraph("main")
    source = q(2.0**-11 if dtype is I16 else 2.0**-4, 0 if dtype is I16 else 3)
    given = main.input("x", dtype, x.shape, quantization=source)
    for number, table in enumerate(each for each in TABLES if dtype in each.types and not each.positive):
        target = table.made(dtype) or q(source.scale * 1.5, source.zero_point)
        main.output(*main.op(table.op, given, outputs=[Tensor(f"y{number}", dtype, x.shape, quantization=target)]))
    model = b.build()
    native, cpu = (Session(model, backend).invoke(0, [x]) for backend in ("native", "cpu"))
    for found, wanted in zip(native, cpu, strict=True):
        np.testing.assert_array_equal(found, wanted)


def _distances(dtype: DType, depth: int) -> Array:
    """Rows in which each value stands beside the greatest one, or beside its like."""
    limits = np.iinfo(dtype.numpy)
    x = np.arange(limits.min, limits.max + 1)
    first = np.repeat(x[:, None], depth, axis=1)
    second = np.repeat(x[:, None], depth, axis=1)
    second[:, 0] = limits.max
    return np.concatenate([first, second])


SHARES = [(normalize.LogSoftmax(), I8, I8, q(1 / 16, 127)), (normalize.LogSoftmax(), U8, U8, q(1 / 16, 255)),
          (normalize.Softmax(1.0), I8, I8, q(1 / 256, -128)), (normalize.Softmax(0.7), U8, U8, q(1 / 256)),
          (normalize.Softmax(1.0), I8, I16, q(2.0**-15))]


def _expect_shares(op: Op, dtype: DType, result: DType, target: Quantization, exponents: Sequence[int]) -> None:
    module: Any = pytest.importorskip("ai_edge_litert.interpreter")
    for scale in (scale for exponent in exponents for scale in near(exponent)):
        for depth in (3, 37):
            content, given = model_content(op, _distances(dtype, depth), dtype, q(scale, 3), result, target)
            (wanted,) = litert_results(module, content, given, reference=True)
            np.testing.assert_array_equal(found_of(content, given), wanted, f"scale {scale}")


BY_SHARES = pytest.mark.parametrize(("op", "dtype", "result", "target"), SHARES,
                                    ids=[f"{op.name}-{x.value}-{y.value}" for op, x, y, _ in SHARES])


@BY_SHARES
def test_shares_as_in_litert(op: Op, dtype: DType, result: DType, target: Quantization) -> None:
    _expect_shares(op, dtype, result, target, (-4, -3, -2))


@pytest.mark.slow
@BY_SHARES
def test_shares_as_in_litert_at_all_scales(op: Op, dtype: DType, result: DType, target: Quantization) -> None:
    _expect_shares(op, dtype, result, target, range(-25, 9))


@pytest.mark.parametrize("depth", [2, 4095, 4096, 8192, 20000])
@pytest.mark.parametrize("scale", [0.001, 0.125, 0.25])
def test_logarithms_of_shares_are_near(depth: int, scale: float) -> None:
    """LiteRT's sums overflow from 4096 equal elements on."""
    x = np.full((2, depth), -128)
    x[:, 0] = (-128, 127)
    found = found_of(*model_content(normalize.LogSoftmax(), x, I8, q(scale), I8, q(1 / 16, 127)))
    real = x * scale
    exact = real - np.log(np.exp(real - real.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) \
        - real.max(axis=1, keepdims=True)
    assert np.abs(found - np.clip(exact * 16 + 127, -128, 127)).max() < 1.01
