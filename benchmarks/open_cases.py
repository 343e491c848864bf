"""Models of an operator or few whose inputs have open lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding, Quantization, Shape
from circlet.runtime.ops.comparison import Greater, SelectV2
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add, Mul, SquaredDifference, Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import L2Normalization, LogSoftmax, RmsNorm, Softmax
from circlet.runtime.ops.pad import Pad, Tile
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Dequantize, Quantize
from circlet.runtime.ops.recurrent import UnidirectionalSequenceLstm
from circlet.runtime.ops.reduce import ArgMax, Cumsum, Mean, ReduceMax, Sum
from circlet.runtime.ops.resize import ResizeBilinear, ResizeNearestNeighbor
from circlet.runtime.ops.shape import OneHot, Reshape
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import Exp, Gelu, HardSwish, Logistic, Rsqrt, Tanh
from circlet.runtime.records import dataclass

F32, I8, I32 = DType.FLOAT32, DType.INT8, DType.INT32
GIVEN = Quantization((0.02,), (5,))
"""Of int8 inputs."""
Write: TypeAlias = "Callable[[Network, Value], Value]"


class Network:
    """A subgraph whose results are declared without a shape, with constants of random numbers."""

    def __init__(self, builder: SubgraphBuilder) -> None:
        self.builder = builder
        self._random = np.random.default_rng(0)

    def __call__(self, op: Op, *inputs: Value | None, dtype: DType = F32, scale: float = 0.0, zero: int = 0) -> Value:
        quantization = Quantization((scale,), (zero,)) if scale else None
        (result,) = self.builder.op(op, *inputs, outputs=[
            Tensor("", dtype, (), has_rank=False, quantization=quantization)])
        return result

    def ints(self, *numbers: int) -> Value:
        return self.builder.constant(np.array(numbers, np.int32))

    def weights(self, *shape: int) -> Value:
        return self.builder.constant((self._random.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32))

    def bytes(self, *shape: int, axis: int = 0) -> Value:
        scales = tuple(float(each) for each in np.linspace(0.004, 0.009, shape[axis], dtype=np.float32))
        return self.builder.constant(self._random.integers(-127, 128, shape).astype(np.int8),
                                     quantization=Quantization(scales, (0,) * shape[axis], axis=axis))

    def bias(self, count: int) -> Value:
        return self.builder.constant(self._random.integers(-900, 900, count).astype(np.int32))


def _one(op: Op, *parameters: npt.ArrayLike, dtype: DType = F32, scale: float = 0.0, zero: int = 0) -> Write:
    """An operator on the input, with constants."""
    def write(n: Network, x: Value) -> Value:
        return n(op, x, *(n.builder.constant(np.asarray(each)) for each in parameters), dtype=dtype, scale=scale,
                 zero=zero)

    return write


def _dense(depth: int, columns: int) -> Write:
    return lambda n, x: n(FullyConnected(Activation.RELU, keep_num_dims=True), x, n.weights(columns, depth),
                          n.weights(columns))


def _dense_int8(depth: int, columns: int) -> Write:
    return lambda n, x: n(FullyConnected(Activation.RELU), x, n.bytes(columns, depth), n.bias(columns), dtype=I8,
                          scale=0.03, zero=-128)


def _convolution(kernel: int, before: int, channels: int, stride: int = 1, padding: Padding = Padding.SAME) -> Write:
    return lambda n, x: n(Conv2D(padding, stride, stride, Activation.RELU6), x,
                          n.weights(channels, kernel, kernel, before), n.weights(channels))


def _depthwise(kernel: int, channels: int, stride: int = 1) -> Write:
    return lambda n, x: n(DepthwiseConv2D(Padding.SAME, stride, stride, fused_activation_function=Activation.RELU6), x,
                          n.weights(1, kernel, kernel, channels), n.weights(channels))


def _convolution_int8(kernel: int, before: int, channels: int, stride: int = 1) -> Write:
    return lambda n, x: n(Conv2D(Padding.SAME, stride, stride, Activation.RELU6), x,
                          n.bytes(channels, kernel, kernel, before), n.bias(channels), dtype=I8, scale=0.03, zero=-128)


def _depthwise_int8(kernel: int, channels: int, stride: int = 1) -> Write:
    return lambda n, x: n(DepthwiseConv2D(Padding.SAME, stride, stride, fused_activation_function=Activation.RELU6), x,
                          n.bytes(1, kernel, kernel, channels, axis=3), n.bias(channels), dtype=I8, scale=0.02, zero=6)


def _images_int8(n: Network, x: Value) -> Value:
    """Layers as of MobileNet: (1, h, w, 3) to (1, 10)."""
    x = _convolution_int8(3, 3, 16, 2)(n, x)
    for before, after, stride in ((16, 32, 2), (32, 32, 1), (32, 64, 2)):
        x = _convolution_int8(1, before, after)(n, _depthwise_int8(3, before, stride)(n, x))
    x = n(Mean(), x, n.ints(1, 2), dtype=I8, scale=0.03, zero=-128)
    return n(FullyConnected(), x, n.bytes(10, 64), n.bias(10), dtype=I8, scale=0.1, zero=0)


def _attention(n: Network, x: Value) -> Value:
    """Of (4, n, 32) with itself."""
    scores = n(Softmax(1.0), n(BatchMatMul(adj_y=True), x, x))
    return n(BatchMatMul(), scores, x)


def _layer_norm(width: int | None) -> Write:
    """As exporters write it: of rows of a width, or of an open one without scale and offset."""
    def write(n: Network, x: Value) -> Value:
        mean = n(Mean(keep_dims=True), x, n.ints(-1))
        variance = n(Mean(keep_dims=True), n(SquaredDifference(), x, mean), n.ints(-1))
        root = n(Rsqrt(), n(Add(), variance, n.builder.constant(np.float32(1e-5))))
        result = n(Mul(), n(Sub(), x, mean), root)
        return n(Add(), n(Mul(), result, n.weights(width)), n.weights(width)) if width else result

    return write


def _heads(n: Network, x: Value) -> Value:
    """Attention of 4 heads that are 64 wide: (b, n, 256) to the same shape."""
    def split(width: int) -> Value:
        return n(Transpose(), n(Reshape(), x, n.ints(-1, width, 4, 64)), n.ints(0, 2, 1, 3))

    heads = split(50)
    mixed = n(BatchMatMul(), n(Softmax(1.0), n(BatchMatMul(adj_y=True), heads, heads)), heads)
    return n(Reshape(), n(Transpose(), mixed, n.ints(0, 2, 1, 3)), n.ints(-1, 50, 256))


def _beside(n: Network, x: Value) -> Value:
    return n(Concatenation(1), x, n(Tanh(), x))


def _cut(n: Network, x: Value) -> Value:
    return n(StridedSlice(begin_mask=0, end_mask=3), x, n.ints(1, 2), n.ints(0, 0), n.ints(1, 1))


def _hybrid(depth: int, columns: int) -> Write:
    return lambda n, x: n(FullyConnected(keep_num_dims=True), x, n.bytes(columns, depth), n.weights(columns))


def _along(kernel: int, before: int, channels: int) -> Write:
    """A convolution along a sequence, as exporters write it: of (1, 1, n, before)."""
    return lambda n, x: n(Conv2D(Padding.SAME, 1, 1, Activation.RELU), x, n.weights(channels, 1, kernel, before),
                          n.weights(channels))


def _along_each(kernel: int, channels: int) -> Write:
    return lambda n, x: n(DepthwiseConv2D(Padding.SAME, 1, 1), x, n.weights(1, 1, kernel, channels),
                          n.weights(channels))


def _masked(n: Network, x: Value) -> Value:
    """A softmax of scaled scores (4, n, n) with what a mask (n,) takes away."""
    scores = n(BatchMatMul(adj_y=True), x, x)
    mask = n(ReduceMax(), x, n.ints(0, 2))
    return n(Softmax(1.0), n(Add(), n(Mul(), scores, n.builder.constant(np.float32(0.18))), mask))


def _lstm(n: Network, x: Value) -> Value:
    """32 units over a sequence (1, n, 32)."""
    state = [n.builder.tensor(Tensor(name, F32, (1, 32), is_variable=True)) for name in ("h", "c")]
    bias = [n.weights(32) for _ in range(4)]
    return n(UnidirectionalSequenceLstm(Activation.TANH), x, *(n.weights(32, 32) for _ in range(8)), None, None, None,
             *bias, None, None, *state, None, None, None, None)


def _selected(n: Network, x: Value) -> Value:
    nothing = n.builder.constant(np.float32(0))
    return n(SelectV2(), n(Greater(), x, nothing, dtype=DType.BOOL), x, n(Tanh(), x))


def _largest(n: Network, x: Value) -> Value:
    found, _ = n.builder.op(TopKV2(), x, n.builder.constant(np.int32(3)), outputs=[
        Tensor("", each, (), has_rank=False) for each in (F32, DType.INT32)])
    return found


def _one_hot(n: Network, x: Value) -> Value:
    return n(OneHot(-1), x, *map(n.builder.constant, (np.int32(64), np.float32(1), np.float32(0))))


ONES = np.ones(64, np.float32)
LARGEST = MaxPool2D(Padding.VALID, 2, 2, filter_width=2, filter_height=2)
AROUND = AveragePool2D(Padding.SAME, 1, 1, filter_width=3, filter_height=3)


@dataclass(frozen=True)
class Case:
    """A model of one input x.

    Attributes:
        write: its operators.
        shape: of x, -1 for what is open.
        lengths: what open axes are, for each shape that is measured.
        dtype: of x.
    """

    write: Write
    shape: Shape
    lengths: Sequence[Sequence[int]]
    dtype: DType = F32

    def at(self, lengths: Sequence[int]) -> Shape:
        """The shape of x with its open axes filled in."""
        left = iter(lengths)
        return tuple(next(left) if size == -1 else size for size in self.shape)

    def model(self, shape: Shape) -> Model:
        """The model with an input of a shape."""
        b = ModelBuilder()
        n = Network(b.subgraph("main"))
        n.builder.output(self.write(n, n.builder.input("x", self.dtype, shape, GIVEN if self.dtype is I8 else None)))
        return b.build()

    def input(self, lengths: Sequence[int]) -> npt.NDArray[np.generic]:
        """Random numbers."""
        random, shape = np.random.default_rng(1), self.at(lengths)
        if self.dtype is I32:
            return random.integers(0, 10, shape).astype(np.int32)
        if self.dtype is I8:
            return random.integers(-128, 128, shape).astype(np.int8)
        return random.normal(size=shape).astype(np.float32)


_TIMES = ((10,), (50,), (200,), (1000,))
_ROWS = ((2000, 4), (2000, 8), (2000, 13), (1000, 32), (500, 64), (400, 100), (400, 128), (100, 768), (100, 1000))
_COUNTS = ((7,), (64,), (100,), (1000,))
_IMAGES, _SMALL = ((7, 7), (32, 32), (64, 64), (97, 101)), ((7, 7), (16, 16), (32, 32), (64, 64))
_LARGE = (*_IMAGES[:2], (56, 56), (97, 101), (224, 224))

CASES: dict[str, Case] = {
    "sums of rows": Case(_one(Sum(), [1]), (-1, -1), _ROWS),
    "means of rows": Case(_one(Mean(), [1]), (-1, -1), _ROWS),
    "maxima of rows": Case(_one(ReduceMax(), [1]), (-1, -1), _ROWS),
    "places of maxima": Case(_one(ArgMax(output_type=DType.INT32), 1, dtype=DType.INT32), (-1, -1), _ROWS),
    "softmax": Case(_one(Softmax(1.0)), (-1, -1), _ROWS),
    "log softmax": Case(_one(LogSoftmax()), (-1, -1), _ROWS),
    "L2": Case(_one(L2Normalization()), (-1, -1), _ROWS),
    "sums of columns": Case(_one(Sum(), [0]), (-1, -1), _ROWS),
    "means of images": Case(_one(Mean(), [1, 2]), (1, -1, -1, 64), ((14, 14), (50, 50))),
    "means of all": Case(_one(Mean(), [0, 1]), (-1, -1), _ROWS),
    "sums of fixed rows": Case(_one(Sum(), [1]), (-1, 64), _COUNTS),
    "sums of fixed columns": Case(_one(Sum(), [0]), (-1, 64), _COUNTS),
    "softmax of fixed rows": Case(_one(Softmax(1.0)), (-1, 10), _COUNTS),
    "mean squares": Case(_one(RmsNorm(1e-5), ONES), (-1, 64), _COUNTS),
    "layer norm": Case(_layer_norm(None), (-1, -1), _ROWS),
    "layer norm, 64 wide": Case(_layer_norm(64), (-1, 64), _COUNTS),
    "layer norm, 768 wide": Case(_layer_norm(768), (-1, 768), ((7,), (64,), (100,))),
    "sums so far": Case(_one(Cumsum(), 1), (-1, -1), _ROWS),
    "sums so far of columns": Case(_one(Cumsum(), 0), (-1, -1), _ROWS),
    "tanh": Case(_one(Tanh()), (-1, -1), _ROWS),
    "gelu": Case(_one(Gelu()), (-1, 64), _COUNTS),
    "double": Case(lambda n, x: n(Add(), x, x), (-1, -1), _ROWS),
    "times columns": Case(lambda n, x: n(Mul(), x, n.weights(64)), (-1, 64), _COUNTS),
    "times rows' sums": Case(lambda n, x: n(Mul(), x, n(Sum(keep_dims=True), x, n.ints(1))), (-1, -1), _ROWS),
    "transposed": Case(_one(Transpose(), np.array([1, 0], np.int32)), (-1, -1), _ROWS),
    "heads": Case(_one(Transpose(), np.array([1, 0, 2], np.int32)), (-1, 4, 32), _COUNTS),
    "beside": Case(_beside, (-1, -1), _ROWS),
    "cut": Case(_cut, (-1, -1), _ROWS),
    "padded": Case(_one(Pad(), np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)), (1, -1, -1, 16), _IMAGES),
    "dense": Case(_dense(64, 256), (-1, 64), _COUNTS),
    "narrow": Case(_dense(64, 10), (-1, 64), _COUNTS),
    "attention": Case(_attention, (4, -1, 32), ((7,), (50,), (100,), (128,))),
    "attention, 64 wide": Case(_attention, (12, -1, 64), ((7,), (50,), (128,))),
    "batches of heads": Case(_heads, (-1, 50, 256), ((2,), (8,))),
    "products of a batch": Case(lambda n, x: n(BatchMatMul(adj_y=True), x, x), (-1, 50, 64), ((2,), (12,), (96,))),
    "convolution 3x3": Case(_convolution(3, 16, 32), (1, -1, -1, 16), _LARGE),
    "convolution 3x3, stride 2": Case(_convolution(3, 3, 16, 2), (1, -1, -1, 3), _LARGE),
    "convolution 1x1": Case(_convolution(1, 32, 64), (1, -1, -1, 32), _IMAGES),
    "depthwise 3x3": Case(_depthwise(3, 32), (1, -1, -1, 32), _LARGE),
    "depthwise 3x3, stride 2": Case(_depthwise(3, 32, 2), (1, -1, -1, 32), _LARGE),
    "max pool": Case(_one(LARGEST), (1, -1, -1, 32), _IMAGES),
    "average pool": Case(_one(AROUND), (1, -1, -1, 32), _IMAGES),
    "bilinear": Case(_one(ResizeBilinear(), np.array([64, 64], np.int32)), (1, -1, -1, 16), _IMAGES),
    "nearest": Case(_one(ResizeNearestNeighbor(), np.array([64, 64], np.int32)), (1, -1, -1, 16), _IMAGES),
    "dense int8": Case(_dense_int8(64, 256), (-1, 64), _COUNTS, I8),
    "narrow int8": Case(_dense_int8(64, 10), (-1, 64), _COUNTS, I8),
    "wide int8": Case(_dense_int8(256, 1000), (-1, 256), ((2,), (7,), (32,)), I8),
    "convolution 3x3 int8": Case(_convolution_int8(3, 16, 32), (1, -1, -1, 16), _SMALL, I8),
    "convolution 3x3 int8, stride 2": Case(_convolution_int8(3, 3, 16, 2), (1, -1, -1, 3), _SMALL, I8),
    "convolution 1x1 int8": Case(_convolution_int8(1, 32, 64), (1, -1, -1, 32), _SMALL, I8),
    "depthwise 3x3 int8": Case(_depthwise_int8(3, 32), (1, -1, -1, 32), _SMALL, I8),
    "depthwise 3x3 int8, stride 2": Case(_depthwise_int8(3, 32, 2), (1, -1, -1, 32), _SMALL, I8),
    "images int8": Case(_images_int8, (1, -1, -1, 3), _SMALL, I8),
    "max pool int8": Case(_one(LARGEST, dtype=I8, scale=0.02, zero=5), (1, -1, -1, 32), _SMALL, I8),
    "average pool int8": Case(_one(AROUND, dtype=I8, scale=0.02, zero=5), (1, -1, -1, 32), _SMALL, I8),
    "means of images int8": Case(_one(Mean(), [1, 2], dtype=I8, scale=0.02, zero=5), (1, -1, -1, 64), _SMALL, I8),
    "sums int8": Case(lambda n, x: n(Add(), x, n(Add(), x, x, dtype=I8, scale=0.04), dtype=I8, scale=0.06), (-1, -1),
                      _ROWS, I8),
    "softmax int8": Case(_one(Softmax(1.0), dtype=I8, scale=1 / 256, zero=-128), (-1, -1), _ROWS, I8),
    "logistic int8": Case(_one(Logistic(), dtype=I8, scale=1 / 256, zero=-128), (-1, -1), _ROWS, I8),
    "bilinear int8": Case(_one(ResizeBilinear(), np.array([64, 64], np.int32), dtype=I8, scale=0.02, zero=5),
                          (1, -1, -1, 16), _SMALL, I8),
    "hard swish": Case(_one(HardSwish()), (-1, -1), _ROWS),
    "exponentials": Case(_one(Exp()), (-1, 64), _COUNTS),
    "greatest so far": Case(_one(ReduceMax(), [1]), (1, -1, 64), _TIMES),
    "means of times": Case(_one(Mean(), [1]), (1, -1, 64), _TIMES),
    "sums so far of times": Case(_one(Cumsum(), 1), (1, -1, 64), _TIMES),
    "places of fixed rows": Case(_one(ArgMax(output_type=I32), 1, dtype=I32), (-1, 10), _COUNTS),
    "three largest": Case(_largest, (-1, 64), _COUNTS),
    "selected": Case(_selected, (-1, -1), _ROWS),
    "masked scores": Case(_masked, (4, -1, 32), ((7,), (50,), (100,), (128,))),
    "padded rows": Case(_one(Pad(), np.array([[1, 0], [2, 1]], np.int32)), (-1, -1), _ROWS),
    "twice beside": Case(_one(Tile(), np.array([1, 2], np.int32)), (-1, -1), _ROWS),
    "rows of a table": Case(lambda n, x: n(Gather(), n.weights(100, 64), x), (-1,), _TIMES, I32),
    "one-hot": Case(_one_hot, (-1,), _TIMES, I32),
    "convolution of 3": Case(_along(3, 64, 64), (1, 1, -1, 64), _TIMES),
    "convolution of 1": Case(_along(1, 64, 64), (1, 1, -1, 64), _TIMES),
    "depthwise of 5": Case(_along_each(5, 64), (1, 1, -1, 64), _TIMES),
    "LSTM": Case(_lstm, (1, -1, 32), _TIMES[:3]),
    "dense with bytes": Case(_hybrid(64, 256), (-1, 64), _COUNTS),
    "average pool 2x2": Case(_one(AveragePool2D(Padding.VALID, 2, 2, filter_width=2, filter_height=2)),
                             (1, -1, -1, 32), _IMAGES),
    "quantised": Case(_one(Quantize(), dtype=I8, scale=0.02, zero=5), (-1, -1), _ROWS),
    "as floats": Case(_one(Dequantize()), (-1, -1), _ROWS, I8),
}
"""By name."""
