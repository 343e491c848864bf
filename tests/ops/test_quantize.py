"""Changes of the element type; the expected integers are those of LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Blockwise, DType, Quantization
from circlet.runtime.ops import quantize as ops
from circlet.runtime.ops.controlflow import CallSubgraph
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

NAN, INF = float("nan"), float("inf")
LEAST, MOST = -(1 << 31), (1 << 31) - 1
PAIRS = np.array([1.5 + 2j, complex(-0.0, 7), 300 - 1j, complex(NAN, 1)], np.complex64)
WIDE = [NAN, INF, -INF, 1.9, -1.9, 300.0, -300.0, 3e9, -3e9]
X8 = [-128, -100, -50, -7, -1, 0, 1, 13, 64, 127]
XU8 = [0, 1, 20, 77, 127, 128, 129, 200, 255]
X16 = [-32768, -20001, -777, -1, 0, 1, 333, 12345, 32767]
REALS = [-100.0, -0.3, -0.25, -0.05, 0.0, 0.05, 0.15, 0.25, 12.7, 13.0, 100.0]
PER_AXIS = Quantization((0.5, 0.25, 2.0), (0, 1, -1), axis=1)


def cast(id: str, value: T, result: T) -> Case:
    return Case(id, ops.Cast(), [value], [result])


CASTS = [
    cast("int8", T(WIDE), T([127, 127, -128, 1, -1, 127, -128, 127, -128], DType.INT8)),
    cast("uint8", T(WIDE), T([255, 255, 0, 1, 0, 255, 0, 255, 0], DType.UINT8)),
    cast("int32", T(WIDE), T([MOST, MOST, LEAST, 1, -1, 300, -300, MOST, LEAST], DType.INT32)),
    cast("int64", T(WIDE), T([2**63 - 1, 2**63 - 1, -(2**63), 1, -1, 300, -300, 3 * 10**9, -3 * 10**9], DType.INT64)),
    cast("float16-int32", T([INF, -1.5], DType.FLOAT16), T([MOST, -1], DType.INT32)),
    cast("float64-int64", T([1e300, -(2.0**53) - 2], DType.FLOAT64), T([2**63 - 1, -(2**53) - 2], DType.INT64)),
    cast("bool", T([NAN, 0.0, -0.0, 0.1]), T([True, False, False, True])),
    cast("int32-bool", T([256, 0]), T([True, False])),
    cast("bool-float", T([True, False]), T([1.0, 0.0])),
    cast("int32-float", T([[1, -2]]), T([[1.0, -2.0]])),
    cast("int32-int8", T([40000, 255, -129]), T([64, -1, 127], DType.INT8)),
    cast("int8-uint32", T([-1], DType.INT8), T([2**32 - 1], DType.UINT32)),
    cast("float-float16", T([70000.0, 0.1]), T([INF, 0.1], DType.FLOAT16)),
    cast("scalar", T(2.5), T(2)),
    cast("complex-float", T(PAIRS), T([1.5, -0.0, 300.0, NAN])),
    cast("complex-int8", T(PAIRS), T([1, 0, 127, 127], DType.INT8)),
    cast("complex-bool", T(PAIRS), T([True, False, True, True])),
    cast("complex-bfloat16", T(PAIRS[:3]), T([0x3FC0, 0x8000, 0x4396], DType.BFLOAT16)),
    Case("float-complex", ops.Cast(), [[1.5]], [T(PAIRS[:1])], error="element type complex64"),
    Case("string", ops.Cast(), [T([b"1"], DType.STRING)], [[1]], error="element type string"),
    Case("int32", ops.StablehloConvert(), [[1.9, -1.9]], [[1, -1]]),
]
QUANTIZE = [
    Case("int8", ops.Quantize(), [REALS], [T([-128, 0, 0, 2, 3, 4, 5, 6, 127, 127, 127], DType.INT8, q(0.1, 3))]),
    Case("uint8", ops.Quantize(), [REALS], [T([0, 0, 0, 2, 3, 4, 5, 6, 130, 133, 255], DType.UINT8, q(0.1, 3))]),
    Case("int16", ops.Quantize(), [REALS], [
        T([-32768, -300, -250, -50, 0, 50, 150, 250, 12700, 13000, 32767], DType.INT16, q(0.001))]),
    Case("not-finite", ops.Quantize(), [[NAN, INF, -INF, 1e30]], [T([-128, 127, -128, 127], DType.INT8, q(0.1, 3))]),
    Case("per-axis", ops.Quantize(), [[[1.0, 1.0, 5.0], [-3.0, 0.125, -3.0]]],
         [T([[2, 5, 2], [-6, 2, -3]], DType.INT8, PER_AXIS)]),
    Case("int8-uint8", ops.Quantize(), [T(X8, DType.INT8, q(0.1, 5))],
         [T([0, 28, 78, 121, 127, 128, 129, 141, 192, 255], DType.UINT8, q(0.1, 133))]),
    Case("int8-int8", ops.Quantize(), [T(X8, DType.INT8, q(0.1, 5))],
         [T([-128, -128, -128, -60, -40, -37, -33, 7, 127, 127], DType.INT8, q(0.03, -20))]),
    Case("uint8-int8", ops.Quantize(), [T(XU8, DType.UINT8, q(0.1, 128))],
         [T([-57, -56, -47, -18, 7, 7, 8, 43, 71], DType.INT8, q(0.2, 7))]),
    Case("int16-int8", ops.Quantize(), [T(X16, DType.INT16, q(0.001))],
         [T([-128, -93, 3, 7, 7, 7, 9, 69, 127], DType.INT8, q(0.2, 7))]),
    Case("int8-int16", ops.Quantize(), [T(X8, DType.INT8, q(0.1, 5))],
         [T([-13300, -10500, -5500, -1200, -600, -500, -400, 800, 5900, 12200], DType.INT16, q(0.001))]),
    Case("int16-int32", ops.Quantize(), [T(X16, DType.INT16, q(0.001))],
         [T([-327680, -200010, -7770, -10, 0, 10, 3330, 123450, 327670], DType.INT32, q(0.0001))]),
    Case("int32-int16", ops.Quantize(), [T([LEAST, -70000, -3, 0, 5, 70000, MOST], DType.INT32, q(0.001))],
         [T([-32768, -7000, 0, 0, 1, 7000, 32767], DType.INT16, q(0.01))]),
    Case("scalar", ops.Quantize(), [1.0], [T(13, DType.INT8, q(0.1, 3))]),
    Case("unscaled", ops.Quantize(), [[1.0]], [T([1], DType.INT8)], error="has no quantisation"),
    Case("to-int32", ops.Quantize(), [[1.0]], [T([1], DType.INT32, q(0.1))], error="int32 from float32"),
    Case("per-axis-again", ops.Quantize(), [T([[1, 1, 1]], DType.INT8, PER_AXIS)], [T([[1, 1, 1]], DType.INT8, q(0.1))],
         error="a change of quantisation per axis"),
]
DEQUANTIZE = [
    Case("int8", ops.Dequantize(), [T([-128, 0, 1, 127], DType.INT8, q(0.5, 1))], [[-64.5, -0.5, 0.0, 63.0]]),
    Case("uint8", ops.Dequantize(), [T([0, 255], DType.UINT8, q(0.5, 1))], [[-0.5, 127.0]]),
    Case("int16", ops.Dequantize(), [T([-32768, 3], DType.INT16, q(0.1))],
         [(np.float32(0.1) * np.array([-32768, 3], np.float32)).tolist()]),
    Case("per-axis", ops.Dequantize(), [T([[2, 5, 2], [-6, 2, -3]], DType.INT8, PER_AXIS)],
         [[[1.0, 1.0, 6.0], [-3.0, 0.25, -4.0]]]),
    Case("float16", ops.Dequantize(), [T([0.1, INF], DType.FLOAT16)], [[float(np.float16(0.1)), INF]]),
    Case("scalar", ops.Dequantize(), [T(3, DType.INT8, q(0.5, 1))], [1.0]),
    Case("int4", ops.Dequantize(),
         [T(np.array([0x8F, 0x07], np.uint8), DType.INT4, q(0.5, 1), constant=True, shape=(3,))], [[-1.0, -4.5, 3.0]]),
    Case("unscaled", ops.Dequantize(), [T([1], DType.INT8)], [[1.0]], error="has no quantisation"),
    Case("int32", ops.Dequantize(), [T([1], DType.INT32, q(0.1))], [[1.0]], error="element type int32"),
    Case("blockwise", ops.Dequantize(), [T([1], DType.INT8, Quantization(blockwise=Blockwise(1, -1, 32)))], [[1.0]],
         error="blockwise quantisation"),
]
FAKE_QUANT = [
    Case("4-bits", ops.FakeQuant(-1.3, 2.2, 4), [[-2.0, -1.0, 0.33, 0.5, 0.55, 3.0, NAN]],
         [[-1.4, -0.93333328, 0.23333335, 0.4666667, 0.4666667, 2.1, -1.4]]),
    Case("8-bits", ops.FakeQuant(-1.3, 2.2, 8), [[-2.0, -1.0, 0.33, 0.5, 0.55, 3.0]],
         [[-1.3039216, -1.0019608, 0.32941175, 0.49411762, 0.5490196, 2.1960783]]),
    Case("narrow", ops.FakeQuant(-1.0, 1.0, 2, narrow_range=True), [[-2.0, -0.4, 0.6, 2.0]], [[-1.0, 0.0, 1.0, 1.0]]),
    Case("empty", ops.FakeQuant(0.0, 0.0, 8), [[1.0]], [[1.0]], error="8 bits over"),
]
test_cast = case_test(CASTS)
test_quantize = case_test(QUANTIZE)
test_dequantize = case_test(DEQUANTIZE)
test_fake_quant = case_test(FAKE_QUANT)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("size", [0, 1, 2, 4])
def test_an_axis_is_as_long_as_it_has_scales(size: int, backend: str) -> None:
    """A callee gets lengths that it does not declare; its results keep their scales."""
    b = ModelBuilder()
    main, callee = b.subgraph("main"), b.subgraph("callee")
    per_axis = Tensor("y", DType.INT8, (2, 3), quantization=PER_AXIS)
    callee.output(*callee.op(ops.Quantize(), callee.input("x", DType.FLOAT32, (-1, -1)), outputs=[per_axis]))
    x = main.input("x", DType.FLOAT32, (-1, -1))
    main.output(*main.op(CallSubgraph(callee.index), x, outputs=[replace(per_axis, name="z")]))
    session = circlet.Session(b.build(), backend)
    np.testing.assert_array_equal(session.invoke(0, [np.ones((1, 3), np.float32)])[0], np.array([[2, 5, 0]], np.int8))
    for index in (0, 1):
        with pytest.raises(circlet.ExecutionError, match=rf"expected length 3 of axis 1.*found shape \(2, {size}\)"):
            session.invoke(index, [np.ones((2, size), np.float32)])
