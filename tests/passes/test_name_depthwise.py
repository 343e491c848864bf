"""Convolutions whose groups have one channel each are convolutions of channels, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.passes.transforms.constants.name_depthwise import name_depthwise
from tests.needs import NATIVE
from tests.ops.cases import check

CHANNELS = 6
RANDOM = np.random.default_rng(4)
OPS = {
    "same": Conv2D(Padding.SAME, 1, 1, Activation.RELU),
    "strides": Conv2D(Padding.VALID, 2, 1, Activation.RELU6),
    "dilated": Conv2D(Padding.SAME, 1, 1, dilation_w_factor=2, dilation_h_factor=3),
}
IMAGES = ((1, 9, 8, CHANNELS), (3, 20, 7, CHANNELS), (2, 7, 33, CHANNELS), (0, 9, 9, CHANNELS))


def _filter(m: SubgraphBuilder, kind: str, units: int, depth: int) -> Value:
    shape = units, 3, 2, depth
    if kind == "int8":
        scales = tuple(np.linspace(0.01, 0.03, units).tolist())
        return m.constant(RANDOM.integers(-127, 128, shape).astype(np.int8),
                          quantization=Quantization(scales, (0,) * units, 0))
    weights = RANDOM.standard_normal(shape).astype(np.float32)
    if kind == "float32":
        return m.constant(weights)
    stored = m.constant(weights.astype(np.float16))
    return m.op(Dequantize(), stored, outputs=[Tensor("filter", DType.FLOAT32, shape)])[0]


def _model(op: Conv2D, kind: str = "float32", units: int = CHANNELS, depth: int = 1) -> Model:
    builder = ModelBuilder()
    m = builder.subgraph("main")
    dtype = DType.INT8 if kind == "int8" else DType.FLOAT32
    image, made = ((Quantization((scale,), (zero,)) if kind == "int8" else None)
                   for scale, zero in ((0.04, 3), (0.1, -5)))
    x = m.input("x", dtype, (-1, -1, -1, CHANNELS), quantization=image)
    bias = m.constant(RANDOM.standard_normal(units).astype(np.float32)) if kind != "int8" else m.constant(
        RANDOM.integers(-500, 500, units).astype(np.int32))
    m.output(*m.op(op, x, _filter(m, kind, units, depth), bias, outputs=[
        Tensor("y", dtype, (), has_rank=False, quantization=made)]))
    return builder.build()


def _names(model: Model) -> list[str]:
    return [each.op.name for each in model.subgraphs[0].operators]


def _image(kind: str, shape: tuple[int, ...]) -> Array:
    if kind == "int8":
        return RANDOM.integers(-128, 128, shape).astype(np.int8)
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", OPS)
def test_the_same_is_computed(name: str, kind: str, times: int) -> None:
    plain = _model(OPS[name], kind, CHANNELS * times)
    changed = name_depthwise(plain)
    assert "DEPTHWISE_CONV_2D" in _names(changed)
    assert "CONV_2D" not in _names(changed)
    assert "DEQUANTIZE" not in _names(changed)
    one, other = (circlet.Session(each, "cpu") for each in (plain, changed))
    for shape in IMAGES:
        given = [_image(kind, shape)]
        (expected,), (found,) = one.invoke(0, given), other.invoke(0, given)
        assert found.dtype == expected.dtype
        check(found, expected, 0.0 if kind == "int8" else 1e-5)


@NATIVE
@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_code_is_that_of_channels(kind: str) -> None:
    plain = _model(OPS["same"], kind)
    session, peer = circlet.Session(plain, "native"), circlet.Session(plain, "cpu")
    for shape in IMAGES:
        given = [_image(kind, shape)]
        check(session.invoke(0, given)[0], peer.invoke(0, given)[0], 0.0 if kind == "int8" else 1e-5)
    with pytest.raises(circlet.ExecutionError):
        session.invoke(0, [_image(kind, (1, 9, 8, CHANNELS + 1))])
    given = [_image(kind, IMAGES[0])]
    check(session.invoke(0, given)[0], peer.invoke(0, given)[0], 0.0 if kind == "int8" else 1e-5)


@pytest.mark.parametrize(("units", "depth"), [(CHANNELS, 2), (9 * CHANNELS, 1)])
def test_larger_groups_stay(units: int, depth: int) -> None:
    plain = _model(OPS["same"], units=units, depth=depth)
    assert name_depthwise(plain) is plain


@pytest.mark.parametrize("is_constant", [False, True])
def test_other_filters_stay(is_constant: bool) -> None:
    """Ones that the run gives, and int8 for an image of floats, which is quantised in another way for channels."""
    builder = ModelBuilder()
    m = builder.subgraph("main")
    x, shape = m.input("x", DType.FLOAT32, (1, 4, 4, CHANNELS)), (CHANNELS, 3, 3, 1)
    filter = m.constant(np.ones(shape, np.int8), quantization=Quantization((0.5,) * CHANNELS, (0,) * CHANNELS, 0)) \
        if is_constant else m.input("filter", DType.FLOAT32, shape)
    m.output(*m.op(OPS["same"], x, filter, outputs=[Tensor("y", DType.FLOAT32, (1, 4, 4, CHANNELS))]))
    plain = builder.build()
    assert name_depthwise(plain) is plain
