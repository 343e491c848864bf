"""One function serves all lengths that a quantised model leaves open, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Padding, Quantization, Shape
from circlet.runtime.ops.comparison import Greater
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.elementwise import Add, Mul, Sub
from circlet.runtime.ops.index import GatherNd, Where
from circlet.runtime.ops.layout import Concatenation, Pack, StridedSlice, Transpose
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Dequantize, Quantize
from circlet.runtime.ops.reduce import Mean, ReduceMax, Sum
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.shape import Reshape, ShapeOf
from circlet.runtime.ops.unary import Logistic, Rsqrt, Tanh
from tests.ops.cases import check, q

RANDOM = np.random.default_rng(3)
DEPTH, HEADS = 24, 3
GIVEN = q(0.02, 5)
I8, I16, U8, F32 = DType.INT8, DType.INT16, DType.UINT8, DType.FLOAT32


class Graph:
    """A subgraph whose results are declared without a shape."""

    def __init__(self, builder: SubgraphBuilder) -> None:
        self.builder = builder

    def __call__(self, op: Op, *inputs: Value, q: Quantization | None = None, dtype: DType = I8) -> Value:
        (result,) = self.builder.op(op, *inputs, outputs=[Tensor("", dtype, (), has_rank=False, quantization=q)])
        return result

    def input(self, shape: Shape, dtype: DType = I8, q: Quantization | None = GIVEN) -> Value:
        return self.builder.input("x", dtype, shape, q)

    def ints(self, *numbers: int) -> Value:
        return self.builder.constant(np.array(numbers, np.int32))

    def weights(self, *shape: int, per_axis: int | None = None, dtype: DType = I8) -> Value:
        count = 1 if per_axis is None else shape[per_axis]
        scales = tuple(float(each) for each in np.linspace(0.004, 0.009, count, dtype=np.float32))
        found = Quantization(scales, (0,) * count, axis=per_axis or 0)
        limit = 8 if dtype is DType.INT4 else 127
        stored = RANDOM.integers(-limit, limit, shape).astype(np.int8)
        if dtype is not DType.INT4:
            return self.builder.constant(stored, quantization=found)
        low, high = stored.reshape(-1)[::2], stored.reshape(-1)[1::2]
        return self.builder.tensor(Tensor("", dtype, shape, data=(low & 15 | high << 4).view(np.uint8),
                                          quantization=found))

    def bias(self, count: int, dtype: DType = DType.INT32) -> Value:
        return self.builder.constant(RANDOM.integers(-900, 900, count).astype(dtype.numpy))


def layers(g: Graph) -> Sequence[Value]:
    """(batch, DEPTH) to (batch, 5)."""
    hidden = g(FullyConnected(Activation.RELU), g.input((-1, DEPTH)), g.weights(40, DEPTH, per_axis=0), g.bias(40),
               q=q(0.03, -128))
    hidden = g(FullyConnected(), g(Tanh(), hidden, q=q(1 / 128)), g.weights(70, 40), g.bias(70), q=q(0.02, 1))
    return [g(Softmax(1.0), g(FullyConnected(), hidden, g.weights(5, 70), q=q(0.05, 3)), q=q(1 / 256, -128))]


def attention(g: Graph) -> Sequence[Value]:
    """Two heads' worth of what an encoder does: (n, DEPTH) to (n, 2 DEPTH)."""
    x = g.input((-1, DEPTH))
    split = g.ints(-1, HEADS, DEPTH // HEADS)
    heads = [g(Transpose(), g(Reshape(), g(FullyConnected(), x, g.weights(DEPTH, DEPTH), q=q(0.03, zero)), split,
                              q=q(0.03, zero)), g.ints(1, 0, 2), q=q(0.03, zero)) for zero in (3, -7, 0)]
    scores = g(Softmax(1.0), g(BatchMatMul(adj_y=True), heads[0], heads[1], q=q(0.05, 2)), q=q(1 / 256, -128))
    mixed = g(Transpose(), g(BatchMatMul(), scores, heads[2], q=q(0.01, -1)), g.ints(1, 0, 2), q=q(0.01, -1))
    x = g(Add(), x, g(Reshape(), mixed, g.ints(-1, DEPTH), q=q(0.01, -1)), q=q(0.03, 4))
    centred = g(Sub(), x, g(Mean(keep_dims=True), x, g.ints(-1), q=q(0.01, 3)), q=q(0.03, 1))
    spread = g(Mean(keep_dims=True), g(Mul(), centred, centred, q=q(0.05, -128)), g.ints(-1), q=q(0.02, -128))
    normal = g(Mul(), centred, g(Rsqrt(), spread, q=q(0.05, -128)), q=q(1 / 256, -128))
    return [g(Concatenation(1), normal, g(Logistic(), x, q=q(1 / 256, -128)), q=q(1 / 256, -128))]


def hybrid(g: Graph) -> Sequence[Value]:
    """Rows of floats and weights of 8 and 4 bits."""
    x = g.input((-1, DEPTH), F32, None)
    hidden = g(FullyConnected(asymmetric_quantize_inputs=True), x, g.weights(40, DEPTH, per_axis=0), dtype=F32)
    return [g(FullyConnected(), hidden, g.weights(6, 40, dtype=DType.INT4), dtype=F32)]


def packed(g: Graph) -> Sequence[Value]:
    """Rows of floats by weights of 4 bits, in heads: (n, m, DEPTH) to (n, m, HEADS, -1)."""
    x = g.input((-1, -1, DEPTH), F32, None)
    shape = g(ShapeOf(DType.INT32), x, dtype=DType.INT32)
    sizes = [g(StridedSlice(shrink_axis_mask=1), shape, g.ints(k), g.ints(k + 1), g.ints(1), dtype=DType.INT32)
             for k in range(2)]
    sizes += [g.builder.constant(np.int32(each)) for each in (HEADS, 8)]
    made = g(FullyConnected(keep_num_dims=True), x, g.weights(8 * HEADS, DEPTH, dtype=DType.INT4), dtype=F32)
    return [g(Reshape(), made, g(Pack(4), *sizes, dtype=DType.INT32), dtype=F32)]


def wide(g: Graph) -> Sequence[Value]:
    """Rows of 16 bits and of unsigned bytes."""
    x = g.input((-1, DEPTH), I16, q(0.0001))
    one = g(FullyConnected(quantized_bias_type=DType.INT64), x, g.weights(40, DEPTH), g.bias(40, DType.INT64),
            q=q(0.0002), dtype=I16)
    other = g(FullyConnected(), g(Quantize(), g(Dequantize(), one, dtype=F32), q=q(0.03, 120), dtype=U8),
              g.builder.constant(RANDOM.integers(0, 256, (9, 40)).astype(np.uint8), quantization=q(0.01, 120)),
              q=q(0.1, 100), dtype=U8)
    return [one, other]


def wide_attention(g: Graph) -> Sequence[Value]:
    """What an encoder of 16 bits does: (n, DEPTH) to (n, DEPTH), and each row with itself."""
    x = g.input((-1, DEPTH), I16, q(0.0001))
    scores = g(Softmax(1.0), g(BatchMatMul(adj_y=True), x, x, q=q(0.0002), dtype=I16), q=q(2.0**-15), dtype=I16)
    return [g(BatchMatMul(), scores, x, q=q(0.0001), dtype=I16),
            g(BatchMatMul(adj_x=True), x, x, q=q(0.0003), dtype=I16)]


def related(g: Graph) -> Sequence[Value]:
    """Sums of products of columns, also with a constant: (n, DEPTH) to (DEPTH, DEPTH), and (b, n, DEPTH) by parts."""
    x = g.input((-1, DEPTH))
    halves = g(Reshape(), x, g.ints(-1, 2, DEPTH // 2), q=GIVEN)
    by_parts = g(BatchMatMul(adj_x=True), halves, g.weights(2, 5), q=q(0.003, 4))
    return [g(BatchMatMul(adj_x=True), x, x, q=q(0.5, -2)), g(BatchMatMul(adj_x=True), halves, halves, q=q(0.02, -2)),
            by_parts]


def compared(g: Graph) -> Sequence[Value]:
    """Each row with each, as products by weights that the run makes: (n, DEPTH) to (n, n)."""
    x = g.input((-1, DEPTH))
    return [g(FullyConnected(Activation.RELU), x, g(Tanh(), x, q=q(1 / 128)), q=q(0.002, 5))]


def compared_wide(g: Graph) -> Sequence[Value]:
    """The same of 16 bits."""
    x = g.input((-1, DEPTH), I16, q(0.0001))
    return [g(FullyConnected(), x, g(Tanh(), x, q=q(2.0**-15), dtype=I16), q=q(0.0003), dtype=I16)]


def images(g: Graph) -> Sequence[Value]:
    """Convolutions, pools and reductions: (n, h, w, 4) to (n, 18) and (n, 9)."""
    x = g.input((-1, -1, -1, 4))
    x = g(Conv2D(Padding.SAME, 2, 1, Activation.RELU6), x, g.weights(18, 3, 3, 4, per_axis=0), g.bias(18),
          q=q(0.03, -128))
    x = g(DepthwiseConv2D(Padding.SAME, 1, 2), x, g.weights(1, 3, 5, 18, per_axis=3), g.bias(18), q=q(0.02, 6))
    x = g(Conv2D(Padding.VALID, 1, 1), x, g.weights(18, 1, 1, 18), g.bias(18), q=q(0.04, -6))
    largest = g(MaxPool2D(Padding.SAME, 2, 2, filter_width=3, filter_height=2), x, q=q(0.04, -6))
    means = g(AveragePool2D(Padding.SAME, 1, 1, filter_width=2, filter_height=3), largest, q=q(0.04, -6))
    total = g(Sum(), means, g.ints(2), q=q(0.3, 3))
    return [g(Mean(), x, g.ints(1, 2), q=q(0.02, 1)), g(ReduceMax(), total, g.ints(1), q=q(0.3, 3))]


def wide_images(g: Graph) -> Sequence[Value]:
    """The same of 16 bits."""
    x = g.input((-1, -1, -1, 4), I16, q(0.0001))
    x = g(Conv2D(Padding.SAME, 1, 2), x, g.weights(9, 3, 3, 4, per_axis=0), g.bias(9, DType.INT64), q=q(0.0002),
          dtype=I16)
    x = g(DepthwiseConv2D(Padding.SAME, 1, 1), x, g.weights(1, 3, 3, 9, per_axis=3), g.bias(9, DType.INT64),
          q=q(0.0002), dtype=I16)
    return [x, g(Mean(), x, g.ints(1, 2), q=q(0.0001), dtype=I16)]


def resized(g: Graph) -> Sequence[Value]:
    """Images twice as high and three times as wide: (n, h, w, 4) to (n, 2 h, 3 w, 4), for each way to find places."""
    x = g.input((-1, -1, -1, 4), U8)
    size = g(Mul(), g(StridedSlice(), g(ShapeOf(DType.INT32), x, dtype=DType.INT32), g.ints(1), g.ints(3), g.ints(1),
                      dtype=DType.INT32), g.ints(2, 3), dtype=DType.INT32)
    y = g(Quantize(), x, q=q(0.02, -123))
    return [g(ResizeBilinear(*flags), each, size, q=scale, dtype=dtype)
            for each, scale, dtype in ((x, GIVEN, U8), (y, q(0.02, -123), I8))
            for flags in ((False, False), (True, False), (False, True))]


def twice_as_large(g: Graph, x: Value, q: Quantization | None, dtype: DType) -> Value:
    """Images (n, h, w, 4), convolved to (n, 2 h, 2 w, 6)."""
    size = g(Mul(), g(ShapeOf(DType.INT32), x, dtype=DType.INT32), g.ints(1, 2, 2, 1), dtype=DType.INT32)
    size = g(Add(), size, g.ints(0, 0, 0, 2), dtype=DType.INT32)
    bias = g.bias(6, {I8: DType.INT32, I16: DType.INT64, F32: F32}[dtype])
    return g(TransposeConv(Padding.SAME, 2, 2), size, g.weights(6, 3, 3, 4, per_axis=0), x, bias, q=q, dtype=dtype)


def transposed(g: Graph) -> Sequence[Value]:
    return [twice_as_large(g, g.input((-1, -1, -1, 4)), q(0.03, -4), I8)]


def wide_transposed(g: Graph) -> Sequence[Value]:
    return [twice_as_large(g, g.input((-1, -1, -1, 4), I16, q(0.0001)), q(0.0002), I16)]


def hybrid_transposed(g: Graph) -> Sequence[Value]:
    x = g(Dequantize(), g.input((-1, -1, -1, 4)), dtype=F32)
    return [twice_as_large(g, x, None, F32)]


def found(g: Graph) -> Sequence[Value]:
    """Of (n, DEPTH) what is above the zero point, its sum and its mean."""
    x = g.input((-1, DEPTH))
    least = g.builder.constant(np.int8(5), quantization=GIVEN)
    above = g(GatherNd(), x, g(Where(), g(Greater(), x, least, dtype=DType.BOOL), dtype=DType.INT64), q=GIVEN)
    return [above, g(Sum(), above, g.ints(0), q=q(9.0, -100)), g(Mean(), above, g.ints(0), q=q(0.02, 1))]


def stored(shape: Shape, dtype: DType = I8) -> Array:
    """Any stored values."""
    limits = np.iinfo(dtype.numpy)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype.numpy)


def model(write: Callable[[Graph], Sequence[Value]]) -> Model:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(*write(g))
    return b.build()


MODELS: dict[str, tuple[Model, Callable[[int], Array]]] = {
    "layers": (model(layers), lambda n: stored((n, DEPTH))),
    "attention": (model(attention), lambda n: stored((n, DEPTH))),
    "hybrid": (model(hybrid), lambda n: RANDOM.standard_normal((n, DEPTH)).astype(np.float32)),
    "packed": (model(packed), lambda n: RANDOM.standard_normal((3, n, DEPTH)).astype(np.float32)),
    "wide": (model(wide), lambda n: stored((n, DEPTH), I16)),
    "related": (model(related), lambda n: stored((n, DEPTH), I8)),
    "wide attention": (model(wide_attention), lambda n: stored((n, DEPTH), I16)),
    "compared": (model(compared), lambda n: stored((n, DEPTH))),
    "compared wide": (model(compared_wide), lambda n: stored((n, DEPTH), I16)),
    "found": (model(found), lambda n: stored((n, DEPTH))),
}
LENGTHS = (7, 2, 64, 33, 150, 12, 13)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_one_function_serves_all_lengths(name: str, threads: int, folder: object, compiled: list[str]) -> None:
    made, inputs = MODELS[name]
    native = circlet.Session(made, backend="native", num_threads=threads)
    cpu = circlet.Session(made, backend="cpu")
    for n in (*LENGTHS, *LENGTHS):
        given = [inputs(n)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, None if expected.dtype.kind != "f" else 1e-6)
    assert len(compiled) == 1
    assert set(native.backend_of(0)) == {"native"}


@pytest.mark.parametrize("name", MODELS)
def test_code_with_bounds_assertions_has_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of a few lanes outlive calls there: a masked store of 8 bytes wrote 16."""
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", "1")
    made, inputs = MODELS[name]
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    for n in (7, 33, 48, 65):
        given = [inputs(n)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, None if expected.dtype.kind != "f" else 1e-6)


@pytest.mark.parametrize("write", [images, wide_images, resized, transposed, wide_transposed, hybrid_transposed],
                         ids=lambda write: str(write.__name__))
def test_images_of_all_sizes_have_their_bits(write: Callable[[Graph], Sequence[Value]], folder: object,
                                             compiled: list[str]) -> None:
    made = model(write)
    native, cpu = (circlet.Session(made, backend=each) for each in ("native", "cpu"))
    dtype = made.subgraphs[0].tensors[made.subgraphs[0].inputs[0]].dtype
    for size in ((2, 9, 11), (3, 9, 11), (2, 13, 15), (5, 21, 8), (4, 17, 12)):
        given = [stored((*size, 4), dtype)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, None)
    assert len(compiled) == 1


@pytest.mark.parametrize("dtype", [I8, I16, U8], ids=lambda each: str(each.value))
@pytest.mark.parametrize("width", [1, 5, 16, 40, 64, 100, 256, 300])
def test_columns_of_all_widths_have_their_bits(width: int, dtype: DType, folder: object) -> None:
    """Sums and means (n, c) of (n, h, w, c) for fixed and for open lengths."""
    sizes = ((1, 1, 1), (2, 3, 5), (1, 12, 9))
    for shape in ((-1, -1, -1, width), (-1, -1, -1, -1), *((*size, width) for size in sizes)):
        b = ModelBuilder()
        g = Graph(b.subgraph("main"))
        x = g.input(shape, dtype, q(0.02) if dtype is I16 else GIVEN)
        zero = 0 if dtype is I16 else 3
        g.builder.output(*(g(op, x, g.ints(1, 2), q=q(0.03, zero), dtype=dtype) for op in (Mean(), Sum())))
        native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
        for size in sizes if -1 in shape else (shape[:3],):
            given = [stored((*size, width), dtype)]
            for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
                check(found, expected, None)


@pytest.mark.parametrize("dtype", [I8, I16, U8], ids=lambda each: str(each.value))
def test_a_window_that_fits_nowhere_leaves_nothing_to_reduce(dtype: DType, folder: object, compiled: list[str]) -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.input((-1, -1, -1, 4), dtype, scale := q(0.02))
    x = g(MaxPool2D(Padding.VALID, 1, 1, filter_width=3, filter_height=3), x, q=scale, dtype=dtype)
    g.builder.output(g(Mean(), x, g.ints(1, 2), q=q(0.03), dtype=dtype),
                     g(ReduceMax(), x, g.ints(1, 2), q=scale, dtype=dtype))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    for size in ((2, 9, 11), (3, 9, 2), (2, 2, 2), (5, 3, 3)):
        given = [stored((*size, 4), dtype)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, None)
    assert len(compiled) == 1


def test_the_root_of_a_negative_number_is_found_at_any_length() -> None:
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    g.builder.output(g(Rsqrt(), g.input((-1,), q=q(0.1, 3)), q=q(0.1)))
    session = circlet.Session(b.build(), backend="native")
    for count in (4, 9):
        session.invoke(0, [np.full(count, 3, np.int8)])
        with pytest.raises(circlet.ExecutionError, match="the square root of a negative number"):
            session.invoke(0, [np.array([4] * (count - 1) + [2], np.int8)])
