"""Native reductions, pooling, normalisation and softmax of quantised values: equal to the bit to the numpy backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.backends.native.emit.emitter import LONG_LOOP
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops import reduce as ops
from circlet.runtime.ops.normalize import L2Normalization, Softmax
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from tests.native.native_cases import native_test
from tests.native.quantized_models import Network, stored
from tests.native.test_quantized import BYTES, quantizations, seeds
from tests.ops.cases import Case, as_t, q
from tests.ops.test_normalize import L2, SOFTMAX
from tests.ops.test_pool import AVERAGE, MAX
from tests.ops.test_reduce import QUANTIZED


def is_quantized(case: Case) -> bool:
    return as_t(case.outputs[0]).q is not None


test_cases = native_test([each for each in (*QUANTIZED, *AVERAGE, *MAX, *SOFTMAX, *L2) if is_quantized(each)])

REDUCTIONS = [ops.Mean, ops.Sum, ops.ReduceMax, ops.ReduceMin]


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_reductions(op: type[ops.Reduction], dtype: DType, data: st.DataObject) -> None:
    source, result = (data.draw(quantizations(dtype)) for _ in range(2))
    shape = data.draw(st.sampled_from([(7,), (3, 40), (2, 7, 7, 33), (1, 5, 1, 4), (2, 3000)]))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    network = Network()
    x = network.input(stored(shape, dtype, data.draw(seeds)), source)
    same = op in (ops.ReduceMax, ops.ReduceMin)
    network.op(op(keep_dims=data.draw(st.booleans())), x, network.constant(np.array(axes, np.int32)),
               quantization=source if same else result)
    network.agree()


@pytest.mark.parametrize("dtype", BYTES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_l2_normalization(dtype: DType, data: st.DataObject) -> None:
    """Of rows whose squares add up to little, and to more than 2 ** 29."""
    source = data.draw(quantizations(dtype))
    shape = data.draw(st.sampled_from([(7,), (60, 1), (3, 5, 40), (2, 1, 3, 129), (2, 30_000)]))
    network = Network()
    x = network.input(stored(shape, dtype, data.draw(seeds)), source)
    network.op(L2Normalization(), x, quantization=q(1 / 128, 128 if dtype is DType.UINT8 else 0))
    network.agree()


@pytest.mark.parametrize("dtype", [*BYTES, DType.INT16])
@pytest.mark.parametrize("op", [AveragePool2D, MaxPool2D], ids=lambda op: op.name)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_pooling(op: type[AveragePool2D | MaxPool2D], dtype: DType, data: st.DataObject) -> None:
    quantization = data.draw(quantizations(dtype))
    sizes = st.integers(1, 3)
    options = op(data.draw(st.sampled_from(Padding)), data.draw(sizes), data.draw(sizes),
                 data.draw(st.sampled_from([Activation.NONE, Activation.RELU6])), data.draw(sizes), data.draw(sizes))
    network = Network()
    x = network.input(stored((2, 7, 5, data.draw(st.sampled_from([1, 24, 65]))), dtype, data.draw(seeds)), quantization)
    network.op(options, x, quantization=quantization)
    network.agree()


@pytest.mark.parametrize(("dtype", "scale", "zero_point"), [
    (DType.INT8, 1 / 256, -128), (DType.UINT8, 1 / 256, 0), (DType.INT16, 1 / 32768, 0)])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_softmax(dtype: DType, scale: float, zero_point: int, data: st.DataObject) -> None:
    network = Network()
    shape = data.draw(st.sampled_from([(1, 1), (1, 10), (3, 2, 1001)]))
    x = network.input(stored(shape, dtype, data.draw(seeds)), data.draw(quantizations(dtype)))
    network.op(Softmax(data.draw(st.sampled_from([1.0, 0.5]))), x, quantization=q(scale, zero_point))
    network.agree()


@pytest.mark.parametrize("op", [ops.Mean, ops.Sum])
@pytest.mark.parametrize("count", [LONG_LOOP, LONG_LOOP + 13])
def test_rows_as_long_as_loops_that_are_cut(op: type[ops.Reduction], count: int) -> None:
    network = Network()
    x = network.input(stored((count,), DType.INT8, 1) | np.int8(96), q(0.05, 3))
    axes = network.constant(np.zeros(1, np.int32))
    network.op(op(True), x, axes, quantization=q(0.4 if op is ops.Mean else 4e4, 3))
    network.agree(is_native=True)
