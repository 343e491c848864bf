"""Padding that counts for nothing is left out by the windows that meet it; what counts stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.pad import Pad, PadV2
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.ops.unary import Abs, Relu
from circlet.runtime.passes.transforms.absorb_padding import absorb_padding
from tests.needs import NATIVE
from tests.ops.cases import check

VALID, RELU, INF = Padding.VALID, Activation.RELU, np.inf
F32, I8 = DType.FLOAT32, DType.INT8
AROUND = (1, 2, 0, 1)
"""Rows above and below, then columns before and behind."""
SHAPES = ((2, 9, 12, 4), (1, 1, 2, 4), (3, 4, 1, 4), (1, 17, 17, 4))
"""Of images."""
IMAGE, RESULT = Quantization((0.05,), (-7,)), Quantization((0.2,), (3,))


def numbers(shape: Sequence[int], dtype: DType = F32, seed: int = 0) -> npt.NDArray[Any]:
    random = np.random.default_rng((seed, *shape))
    if dtype is F32:
        return random.standard_normal(shape).astype(np.float32)
    return random.integers(-128, 128, shape).astype(dtype.numpy)


@dataclass(frozen=True)
class Case:
    """An image in padding, and an operator whose windows slide over that.

    Attributes:
        op: slides the windows.
        filter: its shape, if it has one.
        value: that the padding has; PAD says none.
        amounts: see `AROUND`.
        dtype: of the image.
        maker: computes the image.
        weigh: makes the weights of random ones.
        moved: the quantisation of the image in its padding, where that is another one.
        channels: that are added.
    """

    op: Conv2D | DepthwiseConv2D | MaxPool2D | AveragePool2D
    filter: tuple[int, ...] | None = None
    value: float | None = None
    amounts: tuple[int, ...] = AROUND
    dtype: DType = F32
    maker: Op | None = None
    weigh: Callable[[SubgraphBuilder, npt.NDArray[Any]], Value] = lambda m, weights: m.constant(weights)
    moved: Quantization = IMAGE
    channels: int = 0

    def model(self, open_lengths: bool = True, is_read: bool = False) -> circlet.Model:
        """Of images (n, h, w, 4); `is_read`: the image in its padding is a result as well."""
        b = ModelBuilder()
        m = b.subgraph("main")
        shape = (-1, -1, -1, 4) if open_lengths else SHAPES[0]
        image = self._tensor("x", shape, IMAGE)
        x = m.input("x", self.dtype, shape, quantization=image.quantization)
        if self.maker is not None:
            (x,) = m.op(self.maker, x, outputs=[self._tensor("made", shape, IMAGE)])
        around = self._padded(m, x, shape)
        m.output(self._slid(m, around))
        if is_read:
            m.output(around)
        return b.build()

    def _tensor(self, name: str, shape: Sequence[int], quantization: Quantization) -> Tensor:
        declared = tuple(max(each, 1) for each in shape)
        return Tensor(name, self.dtype, declared, shape_signature=tuple(shape),
                      quantization=None if self.dtype is F32 else quantization)

    def _padded(self, m: SubgraphBuilder, x: Value, shape: Sequence[int]) -> Value:
        table = np.array([(0, 0), self.amounts[:2], self.amounts[2:], (0, self.channels)], np.int32)
        larger = [each if each < 0 else each + sum(more) for each, more in zip(shape, table.tolist(), strict=True)]
        outputs = [self._tensor("padded", larger, self.moved)]
        if self.value is None:
            return m.op(Pad(), x, m.constant(table), outputs=outputs)[0]
        value = Tensor("value", self.dtype, (), data=np.array(self.value, self.dtype.numpy),
                       quantization=None if self.dtype is F32 else IMAGE)
        return m.op(PadV2(), x, m.constant(table), m.tensor(value), outputs=outputs)[0]

    def _slid(self, m: SubgraphBuilder, x: Value) -> Value:
        channels = 4 + self.channels
        if self.filter is not None:
            channels = self.filter[3 if isinstance(self.op, DepthwiseConv2D) else 0]
        made = replace(self._tensor("made", (-1, -1, -1, channels), RESULT if self.filter else self.moved), name="y")
        if self.filter is None:
            return m.op(self.op, x, outputs=[made])[0]
        if self.dtype is F32:
            return m.op(self.op, x, self.weigh(m, numbers(self.filter)), m.constant(numbers((channels,))),
                        outputs=[made])[0]
        axis = 3 if isinstance(self.op, DepthwiseConv2D) else 0
        scales = Quantization((0.01,) * channels, (0,) * channels, axis)
        weights = Tensor("filter", I8, self.filter, data=numbers(self.filter, I8), quantization=scales)
        bias = Tensor("bias", DType.INT32, (channels,), data=np.arange(channels, dtype=np.int32) * 50,
                      quantization=Quantization((0.05 * 0.01,) * channels, (0,) * channels))
        return m.op(self.op, x, m.tensor(weights), m.tensor(bias), outputs=[made])[0]


def halves(m: SubgraphBuilder, weights: npt.NDArray[Any]) -> Value:
    """Weights of half precision."""
    return m.op(Dequantize(), m.constant(weights.astype(np.float16)), outputs=[Tensor("w", F32, weights.shape)])[0]


def infinite(m: SubgraphBuilder, weights: npt.NDArray[Any]) -> Value:
    """Weights, one of which is infinite."""
    return m.constant(np.where(np.arange(weights.size).reshape(weights.shape) == 3, INF, weights).astype(np.float32))


def computed(m: SubgraphBuilder, weights: npt.NDArray[Any]) -> Value:
    """Weights of the run."""
    return m.apply(Abs(), m.input("w", F32, weights.shape))


EACH = DepthwiseConv2D(VALID, 2, 2)
FILTER = (1, 3, 2, 4)
LARGEST = MaxPool2D(VALID, 2, 1, filter_width=2, filter_height=3)
ABSORBED: Mapping[str, Case] = {
    "convolution": Case(EACH, FILTER),
    "activation": Case(replace(EACH, fused_activation_function=RELU), FILTER),
    "wide": Case(DepthwiseConv2D(VALID, 1, 1), (1, 3, 5, 4), amounts=(1, 1, 2, 4)),
    "before alone": Case(DepthwiseConv2D(VALID, 1, 1), (1, 4, 5, 4), amounts=(3, 0, 4, 0)),
    "behind alone": Case(DepthwiseConv2D(VALID, 1, 1, dilation_w_factor=2), (1, 1, 3, 4), amounts=(0, 0, 0, 4)),
    "as many positions": Case(DepthwiseConv2D(VALID, 1, 1), (1, 3, 3, 4), amounts=(1, 1, 1, 1)),
    "dilation": Case(DepthwiseConv2D(VALID, 1, 1, dilation_w_factor=2, dilation_h_factor=3), (1, 2, 2, 4),
                     amounts=(3, 3, 2, 2)),
    "channels made": Case(EACH, (1, 3, 2, 8)),
    "a number": Case(EACH, FILTER, 0.0),
    "half precision": Case(EACH, FILTER, weigh=halves),
    "int8": Case(EACH, FILTER, dtype=I8),
    "int8, a number": Case(EACH, FILTER, -7, dtype=I8),
    "largest": Case(LARGEST, value=-INF),
    "largest of what is not negative": Case(LARGEST, maker=Relu()),
    "int8, largest": Case(LARGEST, value=-128, dtype=I8),
}
KEPT: Mapping[str, Case] = {
    "another number": Case(EACH, FILTER, 1.0),
    "int8, another number": Case(EACH, FILTER, 0, dtype=I8),
    "channels": Case(EACH, (1, 3, 2, 6), channels=2),
    "as wide as the window": Case(EACH, FILTER, amounts=(1, 1, 2, 0)),
    "an infinite weight": Case(EACH, FILTER, weigh=infinite),
    "weights of the run": Case(EACH, FILTER, weigh=computed),
    "SAME": Case(replace(EACH, padding=Padding.SAME), FILTER),
    "largest of zeros": Case(LARGEST),
    "mean": Case(AveragePool2D(VALID, 2, 1, filter_width=2, filter_height=3)),
    "other quantisation": Case(EACH, FILTER, dtype=I8, moved=Quantization((0.05,), (0,))),
    "all channels together": Case(Conv2D(VALID, 2, 2), (5, 3, 2, 4)),
}


def names(found: circlet.Model) -> list[str]:
    return [each.name for each in found.subgraphs[0].operators]


@pytest.mark.parametrize("open_lengths", [False, True])
@pytest.mark.parametrize("name", ABSORBED)
def test_absorbed(name: str, open_lengths: bool) -> None:
    case = ABSORBED[name]
    plain = case.model(open_lengths)
    changed = absorb_padding(plain)
    assert "SKIP" in names(changed)
    assert not {"PAD", "PADV2"} & {*names(changed)}
    expect_equal(case, plain, changed, "cpu", SHAPES if open_lengths else SHAPES[:1])


@pytest.mark.slow
@NATIVE
@pytest.mark.parametrize("open_lengths", [False, True])
@pytest.mark.parametrize("name", ABSORBED)
def test_absorbed_by_native_code(name: str, open_lengths: bool) -> None:
    plain = ABSORBED[name].model(open_lengths)
    expect_equal(ABSORBED[name], plain, plain, "native", SHAPES if open_lengths else SHAPES[:1])


def expect_equal(case: Case, plain: circlet.Model, changed: circlet.Model, backend: str,
                 shapes: Sequence[Sequence[int]]) -> None:
    """One session of each model gives the same for images of some shapes."""
    wanted, found = circlet.Session(plain, "cpu"), circlet.Session(changed, backend)
    for number, shape in enumerate(shapes):
        image = numbers(shape, case.dtype, number)
        for one, other in zip(found.invoke(0, [image]), wanted.invoke(0, [image]), strict=True):
            check(one, other, 1e-5 if case.dtype is F32 else None)


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    plain = KEPT[name].model()
    assert absorb_padding(plain) is plain


def test_padding_that_others_read_stays_for_them() -> None:
    case = ABSORBED["convolution"]
    plain = case.model(is_read=True)
    changed = absorb_padding(plain)
    assert names(changed) == ["PAD", "DEPTHWISE_CONV_2D"]
    expect_equal(case, plain, changed, "cpu", SHAPES)


def test_a_file_cannot_hold_it() -> None:
    """Formats have no such option; what is saved is the model as it was."""
    changed = absorb_padding(ABSORBED["convolution"].model())
    with pytest.raises(circlet.UnsupportedError, match="explicit_paddings"):
        circlet.save(changed, "never.tflite")
