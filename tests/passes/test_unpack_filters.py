"""Filters and tables of int4 and int2, and weights of which blocks have scales, as quantisers make them: what LiteRT's
reference kernels compute, to the bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.packed import BITS, unpacked
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, Blockwise, DType, Quantization, Shape
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import EmbeddingLookup, FullyConnected
from circlet.schema.files import dump_model
from tests.needs import NATIVE
from tests.ops.cases import q

F32, I32, I16, I8 = DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8
CONV, APART = Conv2D(stride_w=1, stride_h=1), DepthwiseConv2D(stride_w=1, stride_h=1, depth_multiplier=1)
WIDE = replace(CONV, quantized_bias_type=DType.INT64)
IMAGE = (2, 5, 6, 4)


@dataclass(frozen=True)
class Packed:
    """An operator, its input, the shape of its filter, of which one axis may have a scale each, and its result."""

    op: Op
    x: Shape
    dtype: DType
    filter: Shape
    axis: int | None
    y: Shape
    made: DType
    has_peer: bool = True
    stored: DType = DType.INT4


CASES = {
    "conv": Packed(CONV, IMAGE, F32, (3, 3, 3, 4), 0, (2, 5, 6, 3), F32),
    "conv_of_one_scale": Packed(CONV, IMAGE, F32, (3, 3, 3, 4), None, (2, 5, 6, 3), F32),
    "conv_int8": Packed(CONV, IMAGE, I8, (3, 3, 3, 4), 0, (2, 5, 6, 3), I8),
    "conv_int16": Packed(WIDE, IMAGE, I16, (3, 3, 3, 4), 0, (2, 5, 6, 3), I16),
    "depthwise": Packed(APART, IMAGE, F32, (1, 3, 3, 4), 3, IMAGE, F32, has_peer=False),
    "depthwise_int8": Packed(APART, IMAGE, I8, (1, 3, 3, 4), 3, IMAGE, I8),
    "product_int16": Packed(FullyConnected(), (7, 5), I16, (3, 5), 0, (7, 3), I16),
    "product_int2": Packed(FullyConnected(), (7, 8), F32, (3, 8), 0, (7, 3), F32, stored=DType.INT2),
    "product_int8_int2": Packed(FullyConnected(), (7, 8), I8, (3, 8), 0, (7, 3), I8, stored=DType.INT2),
    "conv_int2": Packed(CONV, IMAGE, I8, (3, 3, 3, 4), 0, (2, 5, 6, 3), I8, has_peer=False, stored=DType.INT2),
    "rows": Packed(EmbeddingLookup(), (9,), I32, (5, 4), 0, (9, 4), F32),
    "rows_of_one_scale": Packed(EmbeddingLookup(), (9,), I32, (5, 4), None, (9, 4), F32),
}


def filter_of(case: Packed) -> Tensor:
    """Elements of all bits but the least, several in a byte, and the scale of each channel."""
    random, bits = np.random.default_rng(5), BITS[case.stored]
    elements = random.integers(1 - (1 << bits - 1), 1 << bits - 1, (-(-prod(case.filter) * bits // 8), 8 // bits))
    shifts = np.arange(0, 8, bits)
    data = np.bitwise_or.reduce((elements & (1 << bits) - 1) << shifts, axis=1).astype(np.uint8)
    data.flags.writeable = False
    count = 1 if case.axis is None else case.filter[case.axis]
    scales = tuple(random.uniform(0.01, 0.06, count).astype(np.float32).tolist())
    quantization = Quantization(scales, (0,) * count, case.axis or 0)
    return Tensor("w", case.stored, case.filter, data=data, quantization=quantization)


def model(case: Packed, filter: Tensor) -> Model:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    quantized = {dtype: q(0.05) for dtype in (I8, I16)}
    x = main.input("x", case.dtype, case.x, quantization=quantized.get(case.dtype))
    y = Tensor("y", case.made, case.y, quantization=quantized.get(case.made))
    weights = [main.tensor(filter)]
    if isinstance(case.op, (Conv2D, DepthwiseConv2D)):
        bias = {I8: np.int32, I16: np.int64}.get(case.dtype, np.float32)
        weights.append(main.constant(np.arange(case.y[-1], dtype=bias)))
    main.output(*main.op(case.op, x, *weights, outputs=[y]))
    return builder.build()


def given(case: Packed) -> Array:
    random = np.random.default_rng(6)
    if case.dtype is F32:
        return random.standard_normal(case.x).astype(np.float32)
    least, most = {I8: (-100, 100), I16: (-9999, 9999), I32: (0, 5)}[case.dtype]
    return random.integers(least, most, case.x).astype(case.dtype.numpy)


def by(made: Any, x: Array) -> Array:
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], x)
    made.invoke()
    found: Array = made.get_tensor(made.get_output_details()[0]["index"])
    return found


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_few_bits_are_read_as_int8_is(name: str, backend: str) -> None:
    case, x = CASES[name], given(CASES[name])
    packed = filter_of(case)
    assert packed.data is not None
    wide = unpacked(packed.data, case.stored, case.filter).astype(np.int8)
    wide.flags.writeable = False
    found, expected = (circlet.Session(model(case, each), backend=backend).run([x])["y"]
                       for each in (packed, replace(packed, dtype=I8, data=wide)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.has_peer])
def test_interpreters_agree(name: str) -> None:
    litert: Any = pytest.importorskip("ai_edge_litert.interpreter")
    case, x = CASES[name], given(CASES[name])
    content = dump_model(model(case, filter_of(case)), "tflite")
    reference = litert.OpResolverType.BUILTIN_REF
    expected = by(litert.Interpreter(model_content=content, experimental_op_resolver_type=reference), x)
    np.testing.assert_array_equal(by(circlet.Interpreter(model_content=content), x), expected)


@dataclass(frozen=True)
class Blocks:
    """A product of float32 with weights (units, depth) of which blocks of some elements have a scale each."""

    units: int
    depth: int
    block: int
    scales: DType = DType.FLOAT16
    has_bias: bool = True
    zero_point: int | None = None

    def model(self, is_table: bool = False) -> Model:
        """Of any number of rows; `is_table`: which are looked up, by number, and not multiplied."""
        builder, random = ModelBuilder(), np.random.default_rng(8)
        main = builder.subgraph("main")
        x = main.input("x", I32, (-1,)) if is_table else main.input("x", F32, (-1, self.depth))
        count = -(-self.units * self.depth // self.block)
        scales = main.constant(random.uniform(0.01, 0.05, (self.units, count // self.units)).astype(self.scales.numpy))
        zero = -1 if self.zero_point is None else main.constant(np.array([self.zero_point], np.int32)).index
        weights = main.tensor(Tensor(
            "w", DType.INT4, (self.units, self.depth), quantization=Quantization(
                blockwise=Blockwise(scales.index, zero, self.block)),
            data=random.integers(0, 256, -(-self.units * self.depth // 2)).astype(np.uint8)))
        if is_table:
            rows = Tensor("y", F32, (1, self.depth), shape_signature=(-1, self.depth))
            main.output(*main.op(EmbeddingLookup(), x, weights, outputs=[rows]))
            return builder.build()
        bias = [main.constant(random.standard_normal(self.units).astype(np.float32))] if self.has_bias else []
        (y,) = main.op(FullyConnected(asymmetric_quantize_inputs=True), x, weights, *bias)
        main.output(y)
        return builder.build()


BLOCKS = {
    "of_32": Blocks(5, 64, 32),
    "of_a_row": Blocks(8, 32, 32, has_bias=False),
    "of_float32": Blocks(3, 96, 32, scales=F32),
    "many": Blocks(70, 256, 64),
}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("is_table", [False, True], ids=["product", "table"])
@pytest.mark.parametrize("case", BLOCKS.values(), ids=list(BLOCKS))
def test_blocks_have_scales(case: Blocks, is_table: bool, backend: str) -> None:
    """Any number of rows, to the bit what LiteRT's own kernels give; with float32 scales it has none."""
    model, random = case.model(is_table), np.random.default_rng(9)
    content, session = dump_model(model, "tflite"), circlet.Session(model, backend=backend)
    if backend == "native":
        assert set(session.backend_of(0)) == {"native"}
    for rows in (1, 7, 3, 40):
        x = random.integers(0, case.units, rows).astype(np.int32) if is_table else random.standard_normal(
            (rows, case.depth)).astype(np.float32)
        (found,) = session.invoke(0, [x])
        assert found.shape == (rows, case.depth if is_table else case.units)
        if case.scales is not DType.FLOAT16:
            continue
        litert: Any = pytest.importorskip("ai_edge_litert.interpreter")
        peer = litert.Interpreter(
            model_content=content,
            experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        peer.resize_tensor_input(0, x.shape)
        np.testing.assert_array_equal(found, by(peer, x))


@pytest.mark.parametrize("case", [Blocks(4, 64, 32, zero_point=1), Blocks(4, 48, 32)], ids=["zero_points", "part"])
def test_other_blocks_are_refused(case: Blocks) -> None:
    for is_table, name in ((False, "FULLY_CONNECTED"), (True, "EMBEDDING_LOOKUP")):
        with pytest.raises(UnsupportedError, match=f"{name}.*blockwise weights"):
            circlet.Session(case.model(is_table), backend="cpu")


@NATIVE
@pytest.mark.parametrize("name", ["rows", "rows_of_one_scale"])
def test_tables_of_integers_are_native(name: str) -> None:
    session = circlet.Session(model(CASES[name], filter_of(CASES[name])), backend="native")
    assert set(session.backend_of(0)) == {"native"}
