"""Rules for operators that change the element type, and for quantisation, which is arithmetic on real values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from circlet.runtime.ir.types import INTEGERS, MOST_DIMENSIONS, Array, DType, Shape
from circlet.runtime.ops import comparison, elementwise, quantize, reduce, shape, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.fold import LARGEST
from circlet.schema.importer.graph import Graph, Narrow, Value, constant, type_text
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.layout import cropped
from circlet.schema.onnx.ops.matmul import product_of_stored
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.scope import Dequantized
from circlet.schema.onnx.types import NARROW, dtype_of


@rule("Cast")
def cast_(node: Node) -> Value:
    return _cast(node, dtype_of(node.integer("to")))


@rule("CastLike")
def cast_like(node: Node) -> Value:
    return _cast(node, node.dtype(1))


def _cast(node: Node, dtype: DType) -> Value:
    data = node.known(0)
    if data is not None and data.dtype.kind in "bi" and dtype in INTEGERS | {DType.BOOL} and data.size <= LARGEST:
        return constant(data.astype(dtype.numpy), dtype)
    if node.dtype() is dtype:
        return node.copy(node[0])
    return node.apply(quantize.Cast(), node[0], type=dtype)


@rule("BitCast")
def bit_cast(node: Node) -> Value:
    dtype, found = dtype_of(node.integer("to")), node[0].shape
    if dtype.numpy.itemsize != node.dtype().numpy.itemsize or DType.STRING in (dtype, node.dtype()):
        node.unsupported(f"{node.dtype().value} as {dtype.value}")
    if found is None:
        node.unsupported("an input of unknown rank")
    # The shape of a result that is not inferred is trusted if it has axes.
    x = node[0] if found else c.reshape(node.graph, node[0], [1])
    (made,) = node.graph.op(shape.Bitcast(), x, types=(dtype,), shapes=(found or (1,),))
    return made if found else c.reshape(node.graph, made, [])


def _fitted(node: Node, parameter: Value) -> Value:
    """Scales or zero points so that they broadcast: one for all, one for each index of an axis, or one for a block."""
    graph, block = node.graph, node.integer("block_size", 0)
    found, rank = parameter.shape, node.rank()
    if block:
        return _repeated(node, parameter, block)
    if found in ((), (1,)):
        return c.reshape(graph, parameter, [])
    axis = node.integer("axis", 1) % max(rank, 1)
    return c.reshape(graph, parameter, [-1 if k == axis else 1 for k in range(rank)])


def _repeated(node: Node, parameter: Value, block: int) -> Value:
    """Parameters of blocks of an axis repeated for each of its elements."""
    graph, axis, found, sizes = node.graph, node.integer("axis", 1), parameter.shape, node.shape()
    axis %= len(sizes)
    if found is None or -1 in (*found, *sizes):
        return c.gather(graph, parameter, _blocks(node, axis, block), axis)
    inner = c.reshape(graph, parameter, [*found[:axis + 1], 1, *found[axis + 1:]])
    target = constant(np.array([*found[:axis + 1], block, *found[axis + 1:]], np.int64))
    whole = c.reshape(graph, graph.apply(shape.BroadcastTo(), inner, target),
                     [*found[:axis], found[axis] * block, *found[axis + 1:]])
    return _cut(graph, whole, axis, sizes[axis])


def _blocks(node: Node, axis: int, block: int) -> Value:
    """The number of the block in which each element of an axis is, of whatever length."""
    size = node.shape()[axis]
    if size >= 0:
        c.expect_few(size)
        return constant(np.arange(size) // block)
    return c.floor_divided(node.graph, c.counted(node.graph, c.reshape(
        node.graph, c.dimension(node.graph, node[0], axis), [])), block)


def _cut(graph: Graph, x: Value, axis: int, size: int) -> Value:
    found = x.shape or ()
    if found[axis] == size:
        return x
    return cropped(graph, x, [(0, found[k] - size if k == axis else 0) for k in range(len(found))])


def stored(graph: Graph, real: Value, zero: Value | None, dtype: DType) -> Value:
    """Real values, already divided by the scale, rounded with halves to even, moved by the zero point and clamped."""
    limits = np.iinfo(dtype.numpy)
    found = graph.apply(unary.Round(), real)
    if zero is not None:
        found = c.add(graph, found, c.cast(graph, zero, real.dtype))
    found = graph.apply(elementwise.Maximum(), found, c.like(limits.min, found))
    return c.cast(graph, graph.apply(elementwise.Minimum(), found, c.like(limits.max, found)), dtype)


@rule("com.microsoft.QuantizeLinear")
@rule("QuantizeLinear", since=10)
def quantize_linear(node: Node) -> Value:
    graph, zero = node.graph, node.get(2)
    narrow = _narrow_result(node)
    if narrow is not None:
        return _quantized_now(node, narrow)
    dtype = DType.UINT8 if zero is None else zero.dtype
    if node.integer("output_dtype", 0):
        dtype = dtype_of(node.integer("output_dtype"))
    if dtype not in {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16}:
        node.unsupported(f"element type {dtype.value} of the result")
    x, scale = (c.cast(graph, each, DType.FLOAT32) for each in (node[0], _fitted(node, node[1])))
    return stored(graph, c.divide(graph, x, scale), None if zero is None else _fitted(node, zero), dtype)


def _narrow_result(node: Node) -> Narrow | None:
    """The type of the result, if constants alone have it."""
    zero, number = node.get(2), node.integer("output_dtype", 0)
    if zero is not None and zero.narrow is not None:
        return zero.narrow
    return NARROW.get(TensorProto.DataType.Name(number)) if number in TensorProto.DataType.values() else None


def _quantized_now(node: Node, narrow: Narrow) -> Value:
    """A constant as integers of few bits, rounded with halves to even."""
    bits = narrow.name.removeprefix("U").removeprefix("INT")
    x, scale, zero = (node.known(k) for k in range(3))
    if not bits.isdecimal() or x is None or scale is None or (zero is None and node.get(2) is not None):
        node.unsupported(f"element type {type_text(narrow)} of a result that is not constant")
    found = np.rint(np.divide(x, _spread(node, scale, x.shape), dtype=np.float32))
    if zero is not None:
        found = found + _spread(node, zero, x.shape)
    least = 0 if narrow.name.startswith("U") else -(1 << int(bits) - 1)
    return constant(found.clip(least, least + (1 << int(bits)) - 1).astype(narrow.held.numpy), narrow)


def _spread(node: Node, parameter: Array, shape: Shape) -> Array:
    """Constant scales or zero points as `_fitted` has them, float32."""
    block, axis, found = node.integer("block_size", 0), node.integer("axis", 1), parameter.astype(np.float32)
    if block:
        return np.repeat(found, block, axis).take(np.arange(shape[axis]), axis)
    if found.size == 1:
        return found.reshape(())
    along = axis % len(shape)
    return found.reshape([-1 if k == along else 1 for k in range(len(shape))])


@rule("com.microsoft.DequantizeLinear")
@rule("DequantizeLinear", since=10)
def dequantize_linear(node: Node) -> Value:
    graph, zero = node.graph, node.get(2)
    made = dtype_of(node.integer("output_dtype")) if node.integer("output_dtype", 0) else node[1].dtype
    in_blocks = _real_blocks(node)
    if in_blocks is not None:
        return c.cast(graph, in_blocks, made)
    scale = c.cast(graph, _fitted(node, node[1]), DType.FLOAT32)
    _remember(node, made)
    return c.cast(graph, real(graph, node[0], scale, None if zero is None else _fitted(node, zero)), made)


def _real_blocks(node: Node) -> Value | None:
    """What stored values stand for whose axis consists of whole blocks: computed with an axis for those of a block."""
    block, found, sizes = node.integer("block_size", 0), node[1].shape, node[0].shape
    if not block or not sizes or not found or -1 in (*found, *sizes) or len(sizes) >= MOST_DIMENSIONS:
        return None
    graph, zero, axis = node.graph, node.get(2), node.integer("axis", 1) % len(sizes)
    count, rest = divmod(sizes[axis], block)
    if rest or found != (*sizes[:axis], count, *sizes[axis + 1:]):
        return None
    x = c.reshape(graph, node[0], [*sizes[:axis], count, block, *sizes[axis + 1:]])
    parameters = [None if each is None else c.reshape(graph, each, [*found[:axis + 1], 1, *found[axis + 1:]])
                  for each in (node[1], zero)]
    assert parameters[0] is not None, "there is a scale"
    return c.reshape(graph, real(graph, x, c.cast(graph, parameters[0], DType.FLOAT32), parameters[1]), sizes)


def _remember(node: Node, made: DType) -> None:
    """Notes for operators that compute with stored integers what the result is made of."""
    scale, zero = node.known(1), None if node.get(2) is None else node.known(2)
    if made is not DType.FLOAT32 or scale is None or node.integer("block_size", 0) or scale.ndim > 1:
        return
    if zero is not None or node.get(2) is None:
        shape = () if scale.size == 1 else scale.shape
        node.scope.dequantized[node.proto.output[0]] = Dequantized(
            node[0], scale.reshape(shape), None if zero is None else zero.reshape(shape), node.integer("axis", 1))


def real(graph: Graph, x: Value, scale: Value, zero: Value | None) -> Value:
    """What stored values stand for, by a scale, float32, and zero points that broadcast to them: float32."""
    if x.data is not None and x.dtype in (DType.INT8, DType.UINT8) and (zero is None or zero.data is not None):
        x, zero = c.widened(graph, x), None if zero is None else c.cast(graph, zero, DType.FLOAT32)
    exact = DType.INT32 if x.dtype in INTEGERS else DType.FLOAT32
    if zero is not None:
        x = c.subtract(graph, c.cast(graph, x, exact), c.cast(graph, zero, exact))
    return c.multiply(graph, c.cast(graph, x, DType.FLOAT32), scale)


@rule("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node) -> Sequence[Value]:
    return dynamically(node.graph, node[0])


def dynamically(graph: Graph, x: Value) -> tuple[Value, Value, Value]:
    """Real values as bytes, their scale and their zero point, by the least and the greatest of them and 0."""
    axes, zero = constant(np.arange(c.rank_of(x), dtype=np.int32)), c.like(0, x)
    low = graph.apply(elementwise.Minimum(), graph.apply(reduce.ReduceMin(), x, axes), zero)
    high = graph.apply(elementwise.Maximum(), graph.apply(reduce.ReduceMax(), x, axes), zero)
    span = c.divide(graph, c.subtract(graph, high, low), c.like(255, x))
    scale = c.select(graph, graph.apply(comparison.Equal(), span, zero), c.like(1, x), span)
    point = stored(graph, c.divide(graph, c.subtract(graph, zero, low), scale), None, DType.UINT8)
    return stored(graph, c.divide(graph, x, scale), point, DType.UINT8), span, point


def rescaled(graph: Graph, sums: Value, scales: Sequence[Value], made: Value, zero: Value) -> Value:
    """Sums of products of stored values as stored values of another quantisation."""
    a, b, whole = (c.cast(graph, each, DType.FLOAT32) for each in (*scales, made))
    factor = c.divide(graph, c.multiply(graph, a, b), whole)
    return stored(graph, c.multiply(graph, c.cast(graph, sums, DType.FLOAT32), factor), zero, zero.dtype)


@rule("QLinearMatMul", since=10)
def quantized_product(node: Node) -> Value:
    graph = node.graph
    a, b = ((node[k], column(node, node[k + 2], behind)) for k, behind in ((0, [1]), (3, [])))
    scales = [column(node, node[1], [1]), column(node, node[4], [])]
    return rescaled(graph, product_of_stored(graph, a, b), scales, node[6], node[7])


def column(node: Node, parameter: Value, behind: list[int]) -> Value:
    """A parameter for each row, if axes follow behind, or column; one for all without axes."""
    found = parameter.shape
    if found in ((), (1,)):
        return c.reshape(node.graph, parameter, [])
    if found is None or len(found) > 1:
        return parameter
    return c.reshape(node.graph, parameter, [-1, *behind])
