"""Quantised operators like one that was written before call its function, whatever their scales are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.backends.native.load import cache, llvm
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization, Shape
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add, Mul, SquaredDifference, Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Slice, Split, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pad import MirrorPad, MirrorPadMode
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Dequantize, Quantize
from circlet.runtime.ops.reduce import Mean, Sum
from circlet.runtime.ops.shape import Reshape
from circlet.runtime.ops.unary import LeakyRelu, Logistic, Tanh
from tests.native.quantized_models import stored
from tests.native.test_budget import session_of
from tests.native.test_outlined import defined
from tests.native.test_targets import Pairs, Words, plain
from tests.ops.cases import check, q

IMAGE, ROWS = (1, 6, 5, 32), (30, 32)
ZERO = -3
"""The zero point of what has margins around it: those are part of the code."""
Layer = Callable[[SubgraphBuilder, Value, int], Value]
"""An operator on an int8 tensor, given a number that decides what is its own."""


def own(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def scales(seed: int, count: int) -> tuple[float, ...]:
    return tuple(float(each) for each in own(seed).uniform(1e-3, 4e-3, count).astype(np.float32))


def weighed(op: Op, filter: Shape, axis: int, zero: int | None = None) -> Layer:
    """An operator with weights that have a scale for each channel, and a bias."""
    def layer(s: SubgraphBuilder, v: Value, k: int) -> Value:
        count = filter[axis]
        weights = np.maximum(stored(filter, DType.INT8, k), -127).astype(np.int8)
        given = s.tensor(Tensor("", DType.INT8, filter, data=weights,
                                quantization=Quantization(scales(k, count), (0,) * count, axis)))
        bias = s.constant(own(k + 90).integers(-900, 900, count).astype(np.int32))
        return made(s, op, [v, given, bias], ROWS if len(filter) == 2 else IMAGE, k, zero)

    return layer


def alone(op: Op, zero: int | None = None) -> Layer:
    """An operator of one image."""
    return lambda s, v, k: made(s, op, [v], IMAGE, k, zero)


def made(s: SubgraphBuilder, op: Op, inputs: list[Value], shape: Shape, k: int, zero: int | None) -> Value:
    """The result, whose zero point is 7 k by default."""
    tensor = Tensor("", DType.INT8, shape, quantization=q(0.05 + k / 100, 7 * k if zero is None else zero))
    (found,) = s.op(op, *inputs, outputs=[tensor])
    return found


def pooled(op: Op) -> Layer:
    """What has the quantisation of its input, which that of the input of the model is."""
    def layer(s: SubgraphBuilder, v: Value, k: int) -> Value:
        (found,) = s.op(op, v, outputs=[Tensor("", DType.INT8, IMAGE, quantization=q(0.05, ZERO))])
        return found

    return layer


def beside(op: Op, scale: float | None = None) -> Layer:
    """An operator of one image and of a constant, which has a scale of its own by default."""
    def layer(s: SubgraphBuilder, v: Value, k: int) -> Value:
        other = s.tensor(Tensor("", DType.INT8, IMAGE, data=stored(IMAGE, DType.INT8, k),
                                quantization=q(scale or scales(k, 1)[0], 3 + k)))
        return made(s, op, [v, other], IMAGE, k, 11 + k)

    return layer


def apart(op: Op, shape: Shape, *inputs: npt.ArrayLike) -> Layer:
    """An operator, the result of which is added to its first input."""
    def layer(s: SubgraphBuilder, v: Value, k: int) -> Value:
        parameters = (s.constant(np.asarray(each, np.int32)) for each in inputs)
        (found,) = s.op(op, v, *parameters, outputs=[
            Tensor("", DType.INT8, shape, quantization=q(0.15 + k / 50, 9 + k))])
        return made(s, Add(), [v, found], IMAGE, k, 11 + k)

    return layer


def attention(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """Products of rows with each other, and what they weigh."""
    weights = made(s, BatchMatMul(adj_y=True), [v, v], (1, 6, 5, 5), k, ZERO)
    (shares,) = s.op(Softmax(beta=1.0), weights, outputs=[
        Tensor("", DType.INT8, (1, 6, 5, 5), quantization=q(1 / 256, -128))])
    return made(s, BatchMatMul(), [shares, v], IMAGE, k, ZERO)


def of_reals(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A function of floats between bytes, of which one operand is a constant."""
    (one,) = s.op(Dequantize(), v, outputs=[Tensor("", DType.FLOAT32, IMAGE)])
    (two,) = s.op(Add(), one, s.constant(np.ones(IMAGE, np.float32)), outputs=[Tensor("", DType.FLOAT32, IMAGE)])
    return made(s, Quantize(), [two], IMAGE, k, 11 + k)


def gated(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A function of bytes within a group."""
    (found,) = s.op(Tanh(), made(s, Mul(), [v, v], IMAGE, k, 5 + k), outputs=[
        Tensor("", DType.INT8, IMAGE, quantization=q(1 / 128, 0))])
    return made(s, Mul(), [found, v], IMAGE, k, 11 + k)


def moved(op: Op, shape: Shape, *parameters: npt.ArrayLike, is_first: bool = False, times: int = 1) -> Layer:
    """An operator that moves elements; its last result is used, and a result of the model."""
    def layer(s: SubgraphBuilder, v: Value, k: int) -> Value:
        by = q(0.3 + k / 50, 4 + k)
        given = s.op(LeakyRelu(alpha=0.5), v, outputs=[Tensor("", DType.INT8, IMAGE, quantization=by)])
        known = [s.constant(np.asarray(each, np.int32)) for each in parameters]
        inputs = [*known, *given] if is_first else [*given, *known]
        tensors = [Tensor("", DType.INT8, shape, quantization=by) for _ in range(times)]
        *_, found = s.op(op, *inputs, outputs=tensors)
        (first,) = s.op(Softmax(beta=1.0), found, outputs=[
            Tensor("", DType.INT8, shape, quantization=q(1 / 256, -128))])
        s.output(first)
        return made(s, Logistic(), [v], IMAGE, k, ZERO)

    return layer


ACROSS = Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1)
EACH = DepthwiseConv2D(padding=Padding.SAME, stride_h=1, stride_w=1)
LAYERS: Mapping[str, Layer] = {
    "convolution of pixels": weighed(ACROSS, (32, 1, 1, 32), 0),
    "convolution": weighed(ACROSS, (32, 3, 3, 32), 0, ZERO),
    "depthwise convolution": weighed(EACH, (1, 3, 3, 32), 3, ZERO),
    "product": weighed(FullyConnected(), (32, 32), 0, ZERO),
    "table": alone(LeakyRelu(alpha=0.25)),
    "logistic": alone(Logistic(), ZERO),
    **{op.name: beside(op) for op in (Add(), Add(fused_activation_function=Activation.RELU), Sub(), Mul(),
                                      SquaredDifference())},
    "sum of a larger scale": beside(Add(), 0.9),
    "mean": apart(Mean(keep_dims=True), (1, 6, 5, 1), [3]),
    "sums": apart(Sum(keep_dims=True), (1, 6, 5, 1), [3]),
    "attention": attention,
    "reals": of_reals,
    "group": gated,
    "parts": moved(Split(num_splits=4), (1, 6, 5, 8), 3, is_first=True, times=4),
    "transposition": moved(Transpose(), (1, 32, 6, 5), [0, 3, 1, 2]),
    "view": moved(Reshape(new_shape=(30, 32)), (30, 32)),
    "margins": moved(MirrorPad(mode=MirrorPadMode.REFLECT), (1, 6, 7, 32), [[0, 0], [0, 0], [1, 1], [0, 0]]),
    "part": moved(Slice(), (1, 2, 5, 32), [0, 1, 0, 0], [1, 2, 5, 32]),
    "rows": moved(Gather(axis=1), (1, 3, 5, 32), [4, 0, 4]),
    "means": pooled(AveragePool2D(padding=Padding.SAME, stride_h=1, stride_w=1, filter_height=3, filter_width=3)),
    "extremes": pooled(MaxPool2D(padding=Padding.SAME, stride_h=1, stride_w=1, filter_height=3, filter_width=3)),
}


def chain(layer: Layer, count: int, shape: Shape) -> Model:
    """Layers, one behind the other, each of which is a result."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v = main.tensor(Tensor("x", DType.INT8, shape, quantization=q(0.05, ZERO)))
    main.feed(v)
    results = []
    for k in range(count):
        v = layer(main, v, k)
        results.append(v)
    main.output(*results)
    return b.build()


def agree(model: Model) -> int:
    """How many functions of operators there are; the results have the bits of numpy's."""
    (main,) = model.subgraphs
    x = stored(main.tensors[main.inputs[0]].shape, DType.INT8, 5)
    session, backend = session_of(model)
    for found, wanted in zip(session.invoke(0, [x]), circlet.Session(model, "cpu").invoke(0, [x]), strict=True):
        check(found, wanted, None)
    return sum(defined(each).count("operator") for each in backend.listings)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_layers_are_written_once(layer: Layer) -> None:
    shape = ROWS if layer is LAYERS["product"] else IMAGE
    few, many = (agree(chain(layer, count, shape)) for count in (2, 4))
    assert 0 < few == many


@pytest.mark.parametrize("kind", [Target, Pairs, Words])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_layers_on_processors_of_which_nothing_is_known(layer: Layer, kind: type[Target],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    monkeypatch.setattr(llvm, "host", lambda: plain(kind, Goal.HERE))
    agree(chain(layer, 3, ROWS if layer is LAYERS["product"] else IMAGE))


ACTIVATIONS = [Activation.NONE, Activation.RELU, Activation.RELU6]
SCALES = st.sampled_from([1e-9, 1e-6, 1e-3, 0.02, 0.3, 40.0])
"""Of weights: shifts to the left, usual ones, and such as need more than 32 bits."""


Parameters: TypeAlias = tuple[list[float], int, Quantization, int]
"""Scales of weights, the magnitude of biases, how the result is quantised, and the least weight."""
PARAMETERS: st.SearchStrategy[Parameters] = st.tuples(
    st.lists(SCALES, min_size=1, max_size=1) | st.tuples(SCALES, SCALES).map(lambda each: list(np.repeat(each, 16))),
    st.sampled_from([0, 900, 2**30]),
    st.builds(q, st.sampled_from([0.01, 0.05, 2.0]), st.sampled_from([-128, -3, 0, 127])),
    st.sampled_from([-128, -127]))


def side_by_side(op: Op, filter: Shape, axis: int, each: list[Parameters],
                 zeros: list[int]) -> Model:
    """Operators of one kind on inputs of other zero points."""
    b = ModelBuilder()
    main = b.subgraph("main")
    shape = ROWS if len(filter) == 2 else IMAGE
    given = [main.tensor(Tensor(f"x{k}", DType.INT8, shape, quantization=q(0.05, zero)))
             for k, zero in enumerate(zeros)]
    main.feed(*given)
    results = []
    for k, (x, (scales, most, quantization, least)) in enumerate(zip(given, each, strict=True)):
        weights = np.maximum(stored(filter, DType.INT8, k), least).astype(np.int8)
        w = main.tensor(Tensor("", DType.INT8, filter, data=weights,
                               quantization=Quantization(tuple(float(np.float32(s)) for s in scales),
                                                         (0,) * len(scales), axis)))
        bias = main.constant(own(k).integers(-most, most + 1, filter[axis]).astype(np.int32))
        (y,) = main.op(op, x, w, bias, outputs=[Tensor("", DType.INT8, shape, quantization=quantization)])
        results.append(y)
    main.output(*results)
    return b.build()


def compare_side_by_side(model: Model) -> None:
    """The results have the bits of numpy's."""
    xs = [stored(model.subgraphs[0].tensors[tensor].shape, DType.INT8, 5 + k)
          for k, tensor in enumerate(model.subgraphs[0].inputs)]
    wanted = circlet.Session(model, "cpu").invoke(0, xs)
    for found, other in zip(circlet.Session(model, "native").invoke(0, xs), wanted, strict=True):
        check(found, other, None)


@pytest.mark.parametrize("kind", [
    (Conv2D, (32, 1, 1, 32), 0), (Conv2D, (32, 3, 3, 32), 0), (Conv2D, (32, 3, 3, 16), 0),
    (DepthwiseConv2D, (1, 3, 3, 32), 3), (FullyConnected, (32, 32), 0)])
@settings(max_examples=20, deadline=None)
@given(st.sampled_from(ACTIVATIONS), st.lists(PARAMETERS, min_size=3, max_size=3),
       st.lists(st.sampled_from([-128, -3, 127]), min_size=3, max_size=3))
def test_what_differs_is_told_apart(kind: tuple[Callable[..., Op], Shape, int], activation: Activation,
                                    each: list[Parameters], zeros: list[int]) -> None:
    op, filter, axis = kind
    windows = {} if op is FullyConnected else {"stride_h": 1, "stride_w": 1}
    model = side_by_side(op(fused_activation_function=activation, **windows), filter, axis, each, zeros)
    compare_side_by_side(model)


def test_groups_whose_shifts_differ_are_told_apart() -> None:
    """Of the first operator the first group is requantised by longer shifts, of the second one the other."""
    scales = [1e-9] * 16 + [1e-3] * 16
    each = [(found, 2**30, q(0.05), -127) for found in (scales, scales[::-1])]
    compare_side_by_side(side_by_side(ACROSS, (32, 3, 3, 16), 0, each, [ZERO, ZERO]))
