"""The functions of a network, beside Python's operators on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from circlet.network.graph import Graph
from circlet.network.tensor import Axes, Like, Tensor, as_dtype, matmul
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops.comparison import SelectV2
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Maximum, Minimum, SquaredDifference
from circlet.runtime.ops.index import DynamicUpdateSlice, Gather, GatherNd, ScatterNd
from circlet.runtime.ops.layout import Concatenation, Pack, ReverseV2, Split, SplitV
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.normalize import LogSoftmax, Softmax
from circlet.runtime.ops.pad import PadV2, Tile
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.reduce import Cumsum
from circlet.runtime.ops.shape import BroadcastTo, Fill, OneHot, Range, ShapeOf
from circlet.runtime.ops.sort import TopKV2
from circlet.runtime.ops.unary import (
    Ceil,
    Cos,
    Elu,
    Exp,
    Floor,
    Gelu,
    HardSwish,
    LeakyRelu,
    Log,
    Logistic,
    Relu,
    Relu6,
    Round,
    Rsqrt,
    Sign,
    Sin,
    Sqrt,
    Square,
    Tanh,
)

Sizes = int | tuple[int, int]
"""Along height and width; one number stands for both."""


class Functions:
    """Functions of tensors; where they take a `Like`, Python numbers, lists and arrays become constants.

    All raise ModelError where an operand does not fit.
    """

    def __init__(self) -> None:
        self.graph = Graph()

    def apply(self, op: Op, *operands: Like, count: int = 1, dtype: DType | npt.DTypeLike | None = None,
              name: str = "") -> tuple[Tensor, ...]:
        """Applies any operator of `circlet.runtime.ops`, and gives its `count` outputs.

        `dtype` is their element type where the operator leaves it open.
        """
        tensors = [self.graph.tensor(each) for each in operands]
        kind = None if dtype is None else as_dtype(dtype)
        return self.graph.apply_all(op, *tensors, count=count, dtype=kind, name=name)

    def exp(self, x: Like) -> Tensor:
        return self._apply(Exp(), x)

    def log(self, x: Like) -> Tensor:
        return self._apply(Log(), x)

    def sqrt(self, x: Like) -> Tensor:
        return self._apply(Sqrt(), x)

    def rsqrt(self, x: Like) -> Tensor:
        return self._apply(Rsqrt(), x)

    def square(self, x: Like) -> Tensor:
        return self._apply(Square(), x)

    def sin(self, x: Like) -> Tensor:
        return self._apply(Sin(), x)

    def cos(self, x: Like) -> Tensor:
        return self._apply(Cos(), x)

    def tanh(self, x: Like) -> Tensor:
        return self._apply(Tanh(), x)

    def sigmoid(self, x: Like) -> Tensor:
        return self._apply(Logistic(), x)

    def relu(self, x: Like) -> Tensor:
        return self._apply(Relu(), x)

    def relu6(self, x: Like) -> Tensor:
        return self._apply(Relu6(), x)

    def leaky_relu(self, x: Like, alpha: float = 0.01) -> Tensor:
        return self._apply(LeakyRelu(alpha), x)

    def elu(self, x: Like) -> Tensor:
        return self._apply(Elu(), x)

    def gelu(self, x: Like, approximate: bool = False) -> Tensor:
        return self._apply(Gelu(approximate), x)

    def hard_swish(self, x: Like) -> Tensor:
        return self._apply(HardSwish(), x)

    def floor(self, x: Like) -> Tensor:
        return self._apply(Floor(), x)

    def ceil(self, x: Like) -> Tensor:
        return self._apply(Ceil(), x)

    def round(self, x: Like) -> Tensor:
        """The nearest whole number, halves to the even one."""
        return self._apply(Round(), x)

    def sign(self, x: Like) -> Tensor:
        return self._apply(Sign(), x)

    def softmax(self, x: Like, beta: float = 1.0) -> Tensor:
        """Along the last axis."""
        return self._apply(Softmax(beta), x)

    def log_softmax(self, x: Like) -> Tensor:
        """Along the last axis."""
        return self._apply(LogSoftmax(), x)

    def maximum(self, x: Like, y: Like) -> Tensor:
        return self.graph.apply(Maximum(), *self.graph.aligned(x, y))

    def minimum(self, x: Like, y: Like) -> Tensor:
        return self.graph.apply(Minimum(), *self.graph.aligned(x, y))

    def squared_difference(self, x: Like, y: Like) -> Tensor:
        return self.graph.apply(SquaredDifference(), *self.graph.aligned(x, y))

    def where(self, condition: Like, x: Like, y: Like) -> Tensor:
        """Elements of `x` where the condition holds, of `y` elsewhere; both are computed."""
        return self.graph.apply(SelectV2(), self.graph.tensor(condition), *self.graph.aligned(x, y))

    def cast(self, x: Like, dtype: DType | npt.DTypeLike) -> Tensor:
        return self.graph.tensor(x).astype(dtype)

    def reshape(self, x: Like, shape: Sequence[int] | Tensor) -> Tensor:
        return self.graph.tensor(x).reshape(shape)

    def transpose(self, x: Like, axes: Sequence[int] = ()) -> Tensor:
        return self.graph.tensor(x).transpose(*axes)

    def sum(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).sum(axis, keepdims)

    def mean(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).mean(axis, keepdims)

    def prod(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).prod(axis, keepdims)

    def max(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).max(axis, keepdims)

    def min(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).min(axis, keepdims)

    def any(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).any(axis, keepdims)

    def all(self, x: Like, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self.graph.tensor(x).all(axis, keepdims)

    def cumsum(self, x: Like, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
        return self._apply(Cumsum(exclusive, reverse), x, np.int32(axis))

    def top_k(self, x: Like, k: Like) -> tuple[Tensor, Tensor]:
        """The k greatest elements of each row of the last axis, and their indices."""
        values, indices = self.apply(TopKV2(), x, k, count=2)
        return values, indices

    def concat(self, tensors: Sequence[Like], axis: int = 0) -> Tensor:
        return self.graph.apply(Concatenation(axis), *self.graph.aligned(*_some(tensors, "concat")))

    def stack(self, tensors: Sequence[Like], axis: int = 0) -> Tensor:
        """Along a new axis of the result."""
        return self.graph.apply(Pack(len(tensors), axis), *self.graph.aligned(*_some(tensors, "stack")))

    def split(self, x: Like, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
        """So many equal pieces along an axis, or pieces of the given sizes, one of which may be -1."""
        if isinstance(parts, int):
            return self.apply(Split(parts), np.int32(axis), x, count=parts)
        sizes = np.array(list(parts), np.int32)
        return self.apply(SplitV(sizes.size), x, sizes, np.int32(axis), count=sizes.size)

    def reverse(self, x: Like, axis: int | Sequence[int] = 0) -> Tensor:
        axes = [axis] if isinstance(axis, int) else list(axis)
        return self._apply(ReverseV2(), x, np.array(axes, np.int32))

    def tile(self, x: Like, repeats: Like) -> Tensor:
        """`x` repeated along each axis."""
        return self._apply(Tile(), x, repeats)

    def pad(self, x: Like, widths: Like, value: Like = 0) -> Tensor:
        """`x` surrounded by a value: `widths` has a pair, before and behind, for each axis."""
        tensor = self.graph.tensor(x)
        return self.graph.apply(PadV2(), tensor, self.graph.tensor(widths), self.graph.tensor(value, tensor.dtype))

    def broadcast_to(self, x: Like, shape: Like) -> Tensor:
        return self._apply(BroadcastTo(), x, shape)

    def shape(self, x: Like) -> Tensor:
        """The dimensions that `x` has in a run, as a vector of int32."""
        return self._apply(ShapeOf(DType.INT32), x)

    def full(self, shape: Like, value: Like, dtype: DType | npt.DTypeLike | None = None) -> Tensor:
        """A tensor of a shape, which may be computed, of equal elements."""
        kind = None if dtype is None else as_dtype(dtype)
        sizes = self.graph.constant(np.zeros(0, np.int32)) if _is_empty(shape) else self.graph.tensor(shape)
        return self.graph.apply(Fill(), sizes, self.graph.tensor(value, kind))

    def range(self, start: Like, limit: Like, step: Like = 1) -> Tensor:
        return self.graph.apply(Range(), *self.graph.aligned(start, limit, step))

    def one_hot(self, indices: Like, depth: Like, on: Like = 1.0, off: Like = 0.0, axis: int = -1) -> Tensor:
        return self._apply(OneHot(axis), indices, depth, *self.graph.aligned(on, off))

    def gather(self, x: Like, indices: Like, axis: int = 0, batch_dims: int = 0) -> Tensor:
        """Slices of `x`; an index out of range is an error of the run."""
        return self._apply(Gather(axis, batch_dims), x, indices)

    def gather_nd(self, x: Like, indices: Like) -> Tensor:
        """Slices of `x` at the rows of `indices`, which are indices into its first axes."""
        return self._apply(GatherNd(), x, indices)

    def scatter_nd(self, indices: Like, updates: Like, shape: Like) -> Tensor:
        """Zeros of a shape with updates added at the rows of `indices`."""
        return self._apply(ScatterNd(), indices, updates, shape)

    def update(self, x: Like, value: Like, start: Like | Sequence[Like]) -> Tensor:
        """`x` with the elements from `start`, an index for each axis, replaced by `value`, which must fit."""
        begin = self.stack(start) if isinstance(start, (list, tuple)) else self.graph.tensor(cast(Like, start))
        return self.graph.apply(DynamicUpdateSlice(), *self.graph.aligned(x, value), begin)

    def matmul(self, x: Like, y: Like) -> Tensor:
        return matmul(*self.graph.aligned(x, y))

    def dense(self, x: Like, weights: Like, bias: Like | None = None,
              activation: Activation = Activation.NONE) -> Tensor:
        """`x @ weights.T + bias` of inputs (..., k), weights (n, k) and a bias (n,): (..., n)."""
        op = FullyConnected(activation, keep_num_dims=True)
        return self.graph.apply(op, *self._with_bias(x, weights, bias))

    def conv2d(self, x: Like, filters: Like, bias: Like | None = None, stride: Sizes = 1,
               padding: Padding = Padding.SAME, dilation: Sizes = 1,
               activation: Activation = Activation.NONE) -> Tensor:
        """Convolves images (n, h, w, c) with filters (o, kh, kw, c) and adds a bias (o,)."""
        op = Conv2D(padding, *_width_first(stride), activation, *_width_first(dilation))
        return self.graph.apply(op, *self._with_bias(x, filters, bias))

    def depthwise_conv2d(self, x: Like, filters: Like, bias: Like | None = None, stride: Sizes = 1,
                         padding: Padding = Padding.SAME, dilation: Sizes = 1,
                         activation: Activation = Activation.NONE) -> Tensor:
        """Convolves each channel of images (n, h, w, c) with m filters, (1, kh, kw, c * m), adding a bias (c * m,)."""
        image, kernel, *rest = self._with_bias(x, filters, bias)
        known = image.shape and kernel.shape and image.shape[-1] > 0
        multiplier = kernel.shape[-1] // image.shape[-1] if known and image.shape and kernel.shape else 0
        op = DepthwiseConv2D(padding, *_width_first(stride), activation, multiplier, *_width_first(dilation))
        return self.graph.apply(op, image, kernel, *rest)

    def max_pool2d(self, x: Like, window: Sizes, stride: Sizes | None = None,
                   padding: Padding = Padding.VALID) -> Tensor:
        """The largest element of each window of images (n, h, w, c); by default windows do not overlap."""
        return self._apply(MaxPool2D(padding, *_width_first(window if stride is None else stride), Activation.NONE,
                                     *_width_first(window)), x)

    def average_pool2d(self, x: Like, window: Sizes, stride: Sizes | None = None,
                       padding: Padding = Padding.VALID) -> Tensor:
        """The mean of each window of images (n, h, w, c); by default windows do not overlap."""
        return self._apply(AveragePool2D(padding, *_width_first(window if stride is None else stride),
                                         Activation.NONE, *_width_first(window)), x)

    def _apply(self, op: Op, *operands: Like) -> Tensor:
        return self.apply(op, *operands)[0]

    def _with_bias(self, x: Like, weights: Like, bias: Like | None) -> tuple[Tensor, ...]:
        return self.graph.aligned(x, weights) if bias is None else self.graph.aligned(x, weights, bias)


def _width_first(sizes: Sizes) -> tuple[int, int]:
    """(height, width) as (width, height), the order of option fields."""
    return (sizes, sizes) if isinstance(sizes, int) else (sizes[1], sizes[0])


def _some(tensors: Sequence[Like], name: str) -> Sequence[Like]:
    if not tensors:
        raise ModelError(f"{name}: expected at least one tensor, found none")
    return tensors


def _is_empty(shape: Like) -> bool:
    return isinstance(shape, (list, tuple)) and not shape
