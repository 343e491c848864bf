"""Models whose inputs have open lengths, made here, and random inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add, Mul, SquaredDifference, Sub
from circlet.runtime.ops.index import Gather, GatherNd, Where
from circlet.runtime.ops.layout import Pack, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pool import MaxPool2D
from circlet.runtime.ops.recurrent import UnidirectionalSequenceLstm
from circlet.runtime.ops.reduce import Mean, Sum
from circlet.runtime.ops.shape import Reshape, ShapeOf
from circlet.runtime.ops.unary import Gelu, Rsqrt

Arrays: TypeAlias = "dict[str, npt.NDArray[np.generic]]"
DEPTH, HEADS, HIDDEN, WORDS = 128, 4, 512, 1000
LONGEST = 120


class Graph:
    """A graph with constants of random numbers; the shapes of results are declared, -1 where they are open."""

    def __init__(self, builder: SubgraphBuilder) -> None:
        self.builder = builder
        self._random = np.random.default_rng(0)

    def __call__(self, op: Op, *inputs: Value | None, shape: Sequence[int], dtype: DType = DType.FLOAT32) -> Value:
        declared = Tensor("", dtype, tuple(max(each, 1) for each in shape), shape_signature=tuple(shape))
        (result,) = self.builder.op(op, *inputs, outputs=[declared])
        return result

    def weights(self, *shape: int) -> Value:
        return self.builder.constant((self._random.normal(size=shape) / shape[-1] ** 0.5).astype(np.float32))

    def ints(self, *numbers: int) -> Value:
        return self.builder.constant(np.array(numbers, np.int32))

    def number(self, value: float | int) -> Value:
        return self.builder.constant(np.array(value, np.int32 if isinstance(value, int) else np.float32))


def _normalized(g: Graph, x: Value) -> Value:
    mean = g(Mean(keep_dims=True), x, g.ints(-1), shape=(-1, 1))
    spread = g(Mean(keep_dims=True), g(SquaredDifference(), x, mean, shape=(-1, DEPTH)), g.ints(-1), shape=(-1, 1))
    root = g(Rsqrt(), g(Add(), spread, g.number(1e-5), shape=(-1, 1)), shape=(-1, 1))
    return g(Mul(), g(Sub(), x, mean, shape=(-1, DEPTH)), root, shape=(-1, DEPTH))


def _encoder(g: Graph) -> None:
    """Two layers of attention and a feed-forward network each, as converters write them: ids (n,) to (n, DEPTH)."""
    ids, each = g.builder.input("ids", DType.INT32, (-1,)), DEPTH // HEADS
    n = g(StridedSlice(shrink_axis_mask=1), g(ShapeOf(DType.INT32), ids, shape=(1,), dtype=DType.INT32), g.ints(0),
          g.ints(1), g.ints(1), shape=(), dtype=DType.INT32)
    split, joined = (g(Pack(len(parts) + 1), n, *map(g.number, parts), shape=(len(parts) + 1,), dtype=DType.INT32)
                     for parts in ((HEADS, each), (DEPTH,)))
    last = g(Reshape(), n, g.ints(1), shape=(1,), dtype=DType.INT32)
    places = g(StridedSlice(begin_mask=1), g.weights(LONGEST, DEPTH), g.ints(0), last, g.ints(1), shape=(-1, DEPTH))
    x = g(Add(), g(Gather(), g.weights(WORDS, DEPTH), ids, shape=(-1, DEPTH)), places, shape=(-1, DEPTH))
    for _ in range(2):
        inner = _normalized(g, x)
        heads = [g(Transpose(), g(Reshape(), g(FullyConnected(keep_num_dims=True), inner, g.weights(DEPTH, DEPTH), None,
                                               shape=(-1, DEPTH)), split, shape=(-1, HEADS, each)),
                   g.ints(1, 0, 2), shape=(HEADS, -1, each)) for _ in range(3)]
        scores = g(BatchMatMul(adj_y=True), heads[0], heads[1], shape=(HEADS, -1, -1))
        scores = g(Softmax(1.0), g(Mul(), scores, g.number(each ** -0.5), shape=(HEADS, -1, -1)), shape=(HEADS, -1, -1))
        mixed = g(Transpose(), g(BatchMatMul(), scores, heads[2], shape=(HEADS, -1, each)), g.ints(1, 0, 2),
                  shape=(-1, HEADS, each))
        mixed = g(FullyConnected(keep_num_dims=True), g(Reshape(), mixed, joined, shape=(-1, DEPTH)),
                  g.weights(DEPTH, DEPTH), None, shape=(-1, DEPTH))
        x = g(Add(), x, mixed, shape=(-1, DEPTH))
        wide = g(Gelu(), g(FullyConnected(keep_num_dims=True), _normalized(g, x), g.weights(HIDDEN, DEPTH), None,
                           shape=(-1, HIDDEN)), shape=(-1, HIDDEN))
        back = g(FullyConnected(keep_num_dims=True), wide, g.weights(DEPTH, HIDDEN), None, shape=(-1, DEPTH))
        x = g(Add(), x, back, shape=(-1, DEPTH))
    g.builder.output(_normalized(g, x))


def _lstm(g: Graph) -> None:
    """x (1, time, 32) to (1, time, 10)."""
    units, x = 64, g.builder.input("x", DType.FLOAT32, (1, -1, 32))
    state = [g.builder.tensor(Tensor(name, DType.FLOAT32, (1, units), is_variable=True)) for name in ("h", "c")]
    gates = [*(g.weights(units, 32) for _ in range(4)), *(g.weights(units, units) for _ in range(4))]
    bias = [g.weights(units) for _ in range(4)]
    hidden = g(UnidirectionalSequenceLstm(fused_activation_function=Activation.TANH), x, *gates, None, None, None,
               *bias, None, None, *state, None, None, None, None, shape=(1, -1, units))
    g.builder.output(g(FullyConnected(keep_num_dims=True), hidden, g.weights(10, units), g.weights(10),
                       shape=(1, -1, 10)))


def _convolution(stride: int) -> Conv2D:
    return Conv2D(fused_activation_function=Activation.RELU6, stride_w=stride, stride_h=stride)


def _image(g: Graph) -> None:
    """x (1, h, w, 3) to (1, 10): three convolutions, a depthwise one, a pool."""
    x, image = g.builder.input("x", DType.FLOAT32, (1, -1, -1, 3)), (1, -1, -1)
    x = g(_convolution(2), x, g.weights(16, 3, 3, 3), g.weights(16), shape=(*image, 16))
    x = g(_convolution(1), x, g.weights(32, 3, 3, 16), g.weights(32), shape=(*image, 32))
    each = DepthwiseConv2D(fused_activation_function=Activation.RELU6, stride_w=2, stride_h=2, depth_multiplier=1)
    x = g(each, x, g.weights(1, 3, 3, 32), g.weights(32), shape=(*image, 32))
    x = g(_convolution(1), x, g.weights(64, 1, 1, 32), g.weights(64), shape=(*image, 64))
    x = g(MaxPool2D(padding=Padding.VALID, stride_w=2, stride_h=2, filter_width=2, filter_height=2), x,
          shape=(*image, 64))
    g.builder.output(g(FullyConnected(), g(Mean(), x, g.ints(1, 2), shape=(1, 64)), g.weights(10, 64), g.weights(10),
                       shape=(1, 10)))


def _batch(g: Graph) -> None:
    """x (batch, 64) to (batch, 10): three layers."""
    x = g.builder.input("x", DType.FLOAT32, (-1, 64))
    for size, before in ((256, 64), (256, 256), (10, 256)):
        x = g(FullyConnected(fused_activation_function=Activation.RELU if size > 10 else Activation.NONE), x,
              g.weights(size, before), g.weights(size), shape=(-1, size))
    g.builder.output(g(Softmax(1.0), x, shape=(-1, 10)))


def _where(g: Graph) -> None:
    """x (n, 16) to (c, 8): the rows of positive sum through two layers."""
    x = g.builder.input("x", DType.FLOAT32, (-1, 16))
    total = g(Sum(), x, g.ints(-1), shape=(-1,))
    places = g(Where(), g(Greater(), total, g.number(0.0), shape=(-1,), dtype=DType.BOOL), shape=(-1, 1),
               dtype=DType.INT64)
    x = g(GatherNd(), x, places, shape=(-1, 16))
    x = g(FullyConnected(fused_activation_function=Activation.RELU), x, g.weights(32, 16), g.weights(32),
          shape=(-1, 32))
    g.builder.output(g(FullyConnected(), x, g.weights(8, 32), g.weights(8), shape=(-1, 8)))


def floats(*shape: int) -> Arrays:
    return {"x": np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)}


def _words(random: np.random.Generator) -> Arrays:
    """Ids of a batch of one or two, and which of them count."""
    shape = (int(random.integers(1, 3)), int(random.integers(3, LONGEST + 1)))
    return {"ids": random.integers(0, WORDS, shape), "mask": (random.random(shape) < 0.9).astype(np.int64)}


def _step(random: np.random.Generator) -> Arrays:
    """A word, and keys and values of two layers."""
    rows = int(random.integers(100, 4001))
    caches = {f"{name}{layer}": random.normal(size=(1, 4, rows, 32)).astype(np.float32)
              for layer in range(2) for name in ("keys", "values")}
    return {"ids": random.integers(0, WORDS, (1, 1)), **caches}


MODELS: dict[str, tuple[Callable[[Graph], None] | None, Callable[[np.random.Generator], Arrays], str]] = {
    "encoder": (_encoder, lambda random: {"ids": random.integers(0, WORDS, random.integers(3, LONGEST + 1)).astype(
        np.int32)}, "two layers of attention, ids int32[3 to 120]"),
    "lstm": (_lstm, lambda random: floats(1, int(random.integers(3, LONGEST + 1)), 32),
             "an LSTM of 64 units, 3 to 120 steps"),
    "image": (_image, lambda random: floats(1, *map(int, random.integers(32, 161, 2)), 3),
              "convolutions over 32 to 160 by 32 to 160"),
    "batch": (_batch, lambda random: floats(int(random.integers(1, 65)), 64), "three layers, a batch of 1 to 64"),
    "where": (_where, lambda random: floats(int(random.integers(3, LONGEST + 1)), 16),
              "rows of positive sum among 3 to 120"),
    "export": (None, _words, "an encoder as ONNX with dynamic axes, ids int64[1 or 2, 3 to 120]"),
    "decoder": (None, _step, "a step of a decoder as ONNX, its keys and values of 100 to 4000 rows given and returned"),
    "stateful": (None, lambda random: floats(1, int(random.integers(1, 5)), DEPTH),
                 "steps of a decoder as OpenVINO IR that keeps its keys and values, 1 to 4 rows each"),
}
"""By name: what writes the graph, or None for a model of ONNX or OpenVINO, what makes inputs, and what it is."""


def write_model(name: str, folder: Path) -> Path:
    """Writes a model; gives its path."""
    write = MODELS[name][0]
    if name == "stateful":
        from benchmarks.open_stateful import write_decoder

        path = folder / f"{name}.xml"
        write_decoder(path)
        return path
    if write is None:
        from benchmarks.open_export import decoder, encoder

        path = folder / f"{name}.onnx"
        path.write_bytes(encoder() if name == "export" else decoder())
        return path
    path, b = folder / f"{name}.tflite", ModelBuilder()
    write(Graph(b.subgraph("main")))
    circlet.save(b.build(), path)
    return path
