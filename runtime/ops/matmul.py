"""Products of matrices, and rows looked up in a matrix."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, between, exactly
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops.operands import agreed, broadcast_shapes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@operator
@dataclass(frozen=True)
class FullyConnected(Op):
    """`x @ w.T + b` of an input of m * k elements, weights (n, k) and a bias (n,) or none.

    The result has shape (m, n); with `keep_num_dims` that of the input, whose last dimension, then k, becomes n.
    """

    name: ClassVar[str] = "FULLY_CONNECTED"
    table: ClassVar[str | None] = "FullyConnectedOptions"
    inputs: ClassVar[Count] = between(2, 3)
    optional: ClassVar[frozenset[int]] = frozenset({2})
    fused_activation_function: Activation = Activation.NONE
    weights_format: int = 0
    """0: the weights are stored row by row."""
    keep_num_dims: bool = False
    asymmetric_quantize_inputs: bool = False
    """How a float32 input meets integer weights: each row is quantised with a zero point of its own, or with none."""
    quantized_bias_type: DType = DType.FLOAT32
    """What converters say the bias of int16 activations has; its own element type is what counts."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        bias = args.get(2)
        return product_shape(args[0].shape, args[1].shape, None if bias is None else bias.shape, self.keep_num_dims)


def product_shape(source: Shape, weights: Shape, bias: Shape | None, keep_num_dims: bool) -> tuple[Shape, ...]:
    """The shape that FULLY_CONNECTED gives.

    Raises:
        ShapeError: the operands do not fit.
    """
    if len(weights) != 2:
        raise ShapeError(f"the weights must have shape (n, k), found {weights}")
    units, depth = weights
    if bias is not None and prod(bias) != units:
        raise ShapeError(f"the bias must have {units} elements, one for each row of the weights, found shape {bias}")
    if keep_num_dims or not depth:
        if source[-1:] != (depth,):
            raise ShapeError(f"an input of shape {source} meets weights of shape {weights}: expected a last "
                             f"dimension of {depth}")
        return ((*source[:-1], units) if keep_num_dims else (prod(source[:-1]), units),)
    if prod(source) % depth:
        raise ShapeError(f"an input of shape {source} does not divide into rows of {depth} elements, as the "
                         f"weights {weights} have")
    return ((prod(source) // depth, units),)


def blocks_of(args: Operands, position: int) -> tuple[Shape, Shape]:
    """The shapes of weights and of the scales of their blocks, which are the input behind.

    Raises:
        ShapeError: they do not fit.
    """
    weights, scales = args[position].shape, args[position + 1].shape
    if len(weights) != 2 or len(scales) != 2 or scales[0] != weights[0] or not scales[1] or weights[1] % scales[1]:
        raise ShapeError(f"expected weights (n, k) and scales (n, b) of each k / b, found {weights} and {scales}")
    return weights, scales


@dataclass(frozen=True)
class BlockFullyConnected(Op):
    """`FULLY_CONNECTED` of float32 rows, each quantised to int8 with a zero point, and weights (n, k), int8, of which
    each block of k / b in a row has its scale: (n, b), float32. A bias (n,), float32, or none.

    A pass makes it of FULLY_CONNECTED whose weights are quantised by blocks, so that the scales are an operand.
    """

    name: ClassVar[str] = "BLOCK_FULLY_CONNECTED"
    inputs: ClassVar[Count] = between(3, 4)
    optional: ClassVar[frozenset[int]] = frozenset({3})
    fused_activation_function: Activation = Activation.NONE
    keep_num_dims: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        (weights, _), bias = blocks_of(args, 1), args.get(3)
        return product_shape(args[0].shape, weights, None if bias is None else bias.shape, self.keep_num_dims)


@operator
@dataclass(frozen=True)
class BatchMatMul(Op):
    """`x @ y` of matrices (..., m, k) and (..., k, n) whose batch dimensions broadcast.

    The result has the element type of x, or int32 where both are int8: the sums of products of stored integers.
    """

    name: ClassVar[str] = "BATCH_MATMUL"
    table: ClassVar[str | None] = "BatchMatMulOptions"
    inputs: ClassVar[Count] = exactly(2)
    adj_x: bool = False
    """x is stored as (..., k, m)."""
    adj_y: bool = False
    """y is stored as (..., n, k)."""
    asymmetric_quantize_inputs: bool = False
    """How a float32 x meets an int8 y: each row is quantised with a zero point of its own, or with none."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        x, y = args[0].shape, args[1].shape
        if min(len(x), len(y)) < 2:
            raise ShapeError(f"expected matrices, found shapes {x} and {y}")
        rows, depth = x[-2:] if not self.adj_x else x[:-3:-1]
        taken, columns = y[-2:] if not self.adj_y else y[:-3:-1]
        if agreed(depth, taken) is None:
            raise ShapeError(f"shapes {x} and {y} do not multiply: {depth} columns meet {taken} rows")
        try:
            batch = broadcast_shapes((x[:-2], y[:-2]))
        except ShapeError:
            raise ShapeError(f"the batch dimensions of shapes {x} and {y} do not broadcast") from None
        return ((*batch, rows, columns),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None if args[0].dtype is DType.INT8 else args[0].dtype,)


@operator
@dataclass(frozen=True)
class EmbeddingLookup(Op):
    """The rows of a table (rows, ...) that a list of int32 indices (n,) names: (n, ...).

    A result of float32 from a table of integers is their real values.
    """

    name: ClassVar[str] = "EMBEDDING_LOOKUP"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        indices, table = args[0].shape, args[1].shape
        if len(indices) != 1 or not table:
            raise ShapeError(f"expected a list of indices (n,) and a table (rows, ...), found shapes {indices} and "
                             f"{table}")
        return ((*indices, *table[1:]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class BlockEmbeddingLookup(Op):
    """`EMBEDDING_LOOKUP` of a table (rows, k), int8, of which each block of k / b in a row has its scale: (rows, b),
    float32. The result (n, k) is float32."""

    name: ClassVar[str] = "BLOCK_EMBEDDING_LOOKUP"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        indices, (table, _) = args[0].shape, blocks_of(args, 1)
        if len(indices) != 1:
            raise ShapeError(f"expected a list of indices (n,), found shape {indices}")
        return ((*indices, table[1]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.FLOAT32,)
