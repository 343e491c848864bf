"""Native elementwise operators on quantised values: equal to the bit to the numpy backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.ops import comparison, elementwise, unary
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.quantize import Quantize
from tests.native.native_cases import native_test
from tests.native.quantized_models import Network, stored
from tests.ops.cases import q
from tests.ops.test_quantize import DEQUANTIZE, QUANTIZE
from tests.ops.test_quantized import BINARY, REFUSED, SCALARS, UNARY, of_one, of_two

test_cases_of_one = native_test([of_one(*each) for each in UNARY], floats=0.0)
test_cases_of_two = native_test([of_two(*each) for each in BINARY], floats=0.0)
test_scalars = native_test(SCALARS, floats=0.0)
test_refused = native_test(REFUSED)
test_conversions = native_test([*QUANTIZE, *DEQUANTIZE], floats=0.0)

BYTES = [DType.INT8, DType.UINT8]
ARITHMETIC: list[Op] = [elementwise.Add(pot_scale_int16=False), elementwise.Sub(Activation.RELU, pot_scale_int16=False),
                        elementwise.Mul(Activation.RELU6)]
BYTEWISE: list[tuple[Op, DType]] = [
    (elementwise.SquaredDifference(), DType.INT8),
    *((op, dtype) for op in (elementwise.Prelu(), comparison.Less(), comparison.NotEqual()) for dtype in BYTES),
]
TABLES = [unary.Logistic(), unary.Tanh(), unary.HardSwish(), unary.Relu6(), unary.LeakyRelu(-0.5)]
ORDER: list[Op] = [elementwise.Maximum(), elementwise.Minimum(), comparison.GreaterEqual()]
scales = st.floats(1e-4, 2.0).map(lambda value: float(np.float32(value)))
seeds = st.integers(0, 2**32 - 1)


@st.composite
def quantizations(draw: st.DrawFn, dtype: DType) -> Quantization:
    limits = np.iinfo(dtype.numpy)
    return q(draw(scales), 0 if dtype is DType.INT16 else draw(st.integers(int(limits.min), int(limits.max))))


def run(data: st.DataObject, op: Op, dtype: DType, *found: Quantization) -> None:
    """Applies an operator to two inputs; the last quantisation is that of the result."""
    shape = data.draw(st.sampled_from([(1,), (7,), (2, 3, 5), (4, 33)]))
    other = data.draw(st.sampled_from([shape, shape[-1:], (1,)]))
    network = Network()
    operands = [network.input(stored(size, dtype, data.draw(seeds)), each)
                for size, each in zip((shape, other), found, strict=False)]
    network.op(op, *operands, quantization=None if isinstance(op, comparison.Comparison) else found[-1])
    network.agree()


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_quotients(dtype: DType, data: st.DataObject) -> None:
    """By anything but zero, which a constant that has none and an input may hold."""
    found = [data.draw(quantizations(dtype)) for _ in range(3)]
    shape, network, seed = data.draw(st.sampled_from([(1,), (7,), (0, 3), (4, 33)])), Network(), data.draw(seeds)
    divisor = stored(data.draw(st.sampled_from([shape, shape[-1:], (1,)])), dtype, seed)
    zero = found[1].zero_point
    divisor[divisor == zero] = zero + 1 if zero < np.iinfo(dtype.numpy).max else zero - 1
    add = network.constant if data.draw(st.booleans()) else network.input
    operands = network.input(stored(shape, dtype, seed + 1), found[0]), add(divisor, found[1])
    activation = data.draw(st.sampled_from([Activation.NONE, Activation.RELU6]))
    network.op(elementwise.Div(activation), *operands, quantization=found[2])
    network.agree(is_native=True)


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.name)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_arithmetic(op: Op, dtype: DType, data: st.DataObject) -> None:
    run(data, op, dtype, *(data.draw(quantizations(dtype)) for _ in range(3)))


@pytest.mark.parametrize(("op", "dtype"), BYTEWISE, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_bytewise(op: Op, dtype: DType, data: st.DataObject) -> None:
    run(data, op, dtype, *(data.draw(quantizations(dtype)) for _ in range(3)))


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@pytest.mark.parametrize("op", ORDER, ids=lambda op: op.name)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_order(op: Op, dtype: DType, data: st.DataObject) -> None:
    run(data, op, dtype, *(data.draw(quantizations(dtype)),) * 3)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_rescaling(data: st.DataObject) -> None:
    source, result = (data.draw(st.sampled_from([*BYTES, DType.INT16])) for _ in range(2))
    network = Network()
    x = network.input(stored((5, 13), source, data.draw(seeds)), data.draw(quantizations(source)))
    network.op(Quantize(), x, dtype=result, quantization=data.draw(quantizations(result)))
    network.agree()


@pytest.mark.parametrize("scale", [2.0**-18, 2.0**-20, 2.0**-60])
def test_left_shifts_that_leave_little_or_nothing(scale: float) -> None:
    network = Network()
    x = network.input(np.array([1, -3, 70000, 2**31 - 1, -(2**31)], np.int32), q(4096.0))
    y = network.op(Quantize(), x, dtype=DType.INT16, quantization=q(scale))
    z = network.op(elementwise.Mul(), y, y, quantization=q(scale * scale / 4096))
    network.op(elementwise.Add(pot_scale_int16=False), z, y, quantization=q(scale / 2.0**40))
    network.agree()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_a_chain(dtype: DType) -> None:
    network = Network()
    x, y = network.input(stored((3, 41), dtype, 1), q(0.02)), network.input(stored((41,), dtype, 2), q(0.03))
    total = network.op(elementwise.Add(pot_scale_int16=False), x, y, quantization=q(0.05))
    gate = network.op(unary.LeakyRelu(0.1), total, quantization=q(0.01))
    product = network.op(elementwise.Mul(), gate, y, quantization=q(0.04))
    network.op(elementwise.Maximum(), product, product, quantization=q(0.04))
    network.agree()


@pytest.mark.parametrize("op", TABLES, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", BYTES)
def test_every_value(op: Any, dtype: DType) -> None:
    limits = np.iinfo(dtype.numpy)
    network = Network()
    x = network.input(np.arange(limits.min, limits.max + 1).astype(dtype.numpy), q(0.04, 3))
    network.op(op, x, quantization=q(1 / 128, 0 if dtype is DType.INT8 else 128))
    network.agree()


@pytest.mark.parametrize("size", [1, 7, 256, 300])
@pytest.mark.parametrize("dtype", BYTES)
def test_functions_of_one_byte(dtype: DType, size: int) -> None:
    """Groups of operators that are one table: x * logistic(x) + 1 / 2, and one that is none, as y is another input."""
    values = np.resize(np.arange(256).astype(np.uint8).view(dtype.numpy), (2, size))
    for has_other in (False, True):
        network = Network()
        x = network.input(values, q(0.04, 3))
        y = network.input(values[:, ::-1].copy(), q(0.04, 3)) if has_other else x
        gate = network.op(unary.Logistic(), x, quantization=q(1 / 256, -128 if dtype is DType.INT8 else 0))
        product = network.op(elementwise.Mul(), gate, y, quantization=q(0.03, -5 if dtype is DType.INT8 else 5))
        half = network.constant(np.full((1, 1), 64, dtype.numpy), q(1 / 128, 0))
        network.op(elementwise.Add(pot_scale_int16=False), half, product, quantization=q(0.05, 7))
        network.agree(is_native=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_bytes_of_different_quantisation_are_joined(axis: int, data: st.DataObject) -> None:
    network = Network()
    found = [data.draw(quantizations(DType.UINT8)) for _ in range(3)]
    shapes = [[2, 3, 70] for _ in range(4)]
    for k, each in enumerate(shapes):
        each[axis] = 1 + 2 * k
    operands = [network.input(stored((*shape,), DType.UINT8, k), each)
                for k, (shape, each) in enumerate(zip(shapes, (*found, found[0]), strict=True))]
    joined = network.op(Concatenation(axis), *operands, quantization=found[0])
    network.op(unary.Logistic(), joined, quantization=q(1 / 256))
    network.agree(is_native=True)


@pytest.mark.parametrize("shape", [(), (7,), (5000,), (3, 5, 16), (5, 900, 3), (2, 70, 100), (2, 3, 4097)])
@pytest.mark.parametrize("dtype", BYTES)
def test_rows_are_looked_up_together(dtype: DType, shape: tuple[int, ...]) -> None:
    """The greater one of x in another quantisation and y."""
    network = Network()
    x, y = network.input(stored(shape, dtype, 1), q(0.04, 3)), network.input(stored(shape, dtype, 2), q(0.03, 5))
    network.op(elementwise.Maximum(), network.op(Quantize(), x, quantization=q(0.03, 5)), y, quantization=q(0.03, 5))
    network.agree(is_native=True)
