"""Numpy rules of the matrix products and of lookups.

Quantised results are equal to the bit to LiteRT's reference kernels, which multiply FULLY_CONNECTED's sums by a real
scale, unless both factors are int16, and BATCH_MATMUL's by a quantised multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.arithmetic.fixed_point import (
    quantize_multiplier,
    quantized_range,
    rescaler,
    rescaler_64,
    round_half_away,
)
from circlet.backends.arithmetic.quantization import unpack_int4
from circlet.backends.cpu.hybrid import Product, block_product, exact_dtype, hybrid_product, integer_matrix
from circlet.backends.cpu.quantized import object_to_activations, object_to_weights
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import activate, chain, prepared, saturating
from circlet.backends.refusal import names, refusal
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.matmul import (
    BatchMatMul,
    BlockEmbeddingLookup,
    BlockFullyConnected,
    EmbeddingLookup,
    FullyConnected,
)

Combinations: TypeAlias = "dict[tuple[DType, DType], Callable[[Node[Any]], Step]]"
"""How an operator is bound for each pair of element types of its first two inputs."""


def _matrices(node: Node[FullyConnected]) -> tuple[Array, Array]:
    """The input as rows (m, k) and the output as rows (m, n)."""
    *outer, units = node.out.shape
    rows, packed = prod(outer), node.dtype(1) is DType.INT4
    depth = node.call.input(1).shape[1] if packed else node.input(1).shape[1]
    return node.input(0).reshape(rows, depth), node.out.reshape(rows, units)


def _weights(node: Node[FullyConnected]) -> Array:
    tensor, data = node.call.input(1), node.input(1)
    if tensor.dtype is DType.INT4:
        return unpack_int4(data, tensor.shape)
    return data.view(np.int8) if tensor.dtype is DType.UINT8 and node.dtype() is DType.FLOAT32 else data


def _fully_connected(node: Node[FullyConnected]) -> Step:
    rows, out = _matrices(node)
    bias, weights = node.optional(2), node.input(1).T
    if node.constant(1) is not None:
        weights = np.ascontiguousarray(weights)
    steps: list[Step] = [partial(np.matmul, rows, weights, out)]
    if bias is not None:
        steps.append(partial(np.add, out, bias.reshape(-1), out))
    return chain(*steps, *activate(node.op.fused_activation_function, out))


def _fully_connected_integers(node: Node[FullyConnected]) -> Step:
    given, weighted, made = node.quantization(0), node.quantization(1), node.output_quantization()
    rows, out = _matrices(node)
    zero, limits = given.zero_point, np.iinfo(rows.dtype)
    span = max(limits.max - zero, zero - limits.min)
    matrix = prepared(node, {1}, lambda: integer_matrix(_weights(node), weighted.zero_point, span))
    bias = 0 if (found := node.optional(2)) is None else found.reshape(-1)
    scale = np.float64(given.scale) * np.array(weighted.scales, np.float64) / made.scale
    store = saturating(out, *quantized_range(node.op.fused_activation_function, made, node.call.outputs[0].dtype))

    def step() -> None:
        weights = matrix()
        sums = np.matmul(np.subtract(rows, zero, dtype=weights.dtype), weights).astype(np.float64)
        sums += bias
        sums *= scale
        store(round_half_away(sums) + made.zero_point)

    return step


def _fully_connected_of_int16(node: Node[FullyConnected]) -> Step:
    """Both factors are int16: sums of 64 bits are multiplied by a quantised multiplier, as BATCH_MATMUL's are."""
    rows, out = _matrices(node)
    weights, made = node.input(1).T, node.output_quantization()
    dtype = exact_dtype(float(1 << 30) * len(weights))
    bias = 0 if (found := node.optional(2)) is None else found.reshape(-1)
    rescale = rescaler_64(*_multiplier(node))
    store = saturating(out, *quantized_range(node.op.fused_activation_function, made, node.call.outputs[0].dtype))
    return lambda: store(rescale(np.matmul(rows.astype(dtype), weights.astype(dtype)).astype(np.int64) + bias))


def _multiplier(node: Node[Any]) -> tuple[int, int]:
    """The quantised multiplier of sums of products of the first two inputs."""
    scale = float(np.float32(node.quantization(0).scale) * np.float32(node.quantization(1).scale))
    return quantize_multiplier(scale / node.output_quantization().scale)


def _fully_connected_hybrid(node: Node[FullyConnected]) -> Step:
    rows, out = _matrices(node)
    quantization, asymmetric = node.quantization(1), node.op.asymmetric_quantize_inputs
    product = prepared(node, {1}, lambda: hybrid_product(_weights(node), quantization, asymmetric))
    bias = np.float32(0) if (found := node.optional(2)) is None else found.reshape(-1)

    def multiply() -> None:
        np.add(product()(rows), bias, out)

    return chain(multiply, *activate(node.op.fused_activation_function, out))


def _refuse_blocks(call: Call) -> str | None:
    op = call.op
    assert isinstance(op, BlockFullyConnected)
    if op.fused_activation_function > Activation.TANH:
        return f"fused activation {op.fused_activation_function.name}"
    found = tuple(each.dtype for each in call.inputs if each is not None)
    kinds = (DType.FLOAT32, DType.INT8, DType.FLOAT32, DType.FLOAT32)[:len(found)]
    return None if found == kinds else f"element types {names(found)} (supported: {names(kinds)})"


@rule(BlockFullyConnected, accepts=_refuse_blocks)
def block_fully_connected(node: Node[BlockFullyConnected]) -> Step:
    out, weights = node.out.reshape(-1, node.out.shape[-1]), node.input(1)
    rows = node.input(0).reshape(len(out), weights.shape[1])
    product = prepared(node, {1, 2}, lambda: block_product(weights, node.input(2)))
    bias = np.float32(0) if (found := node.optional(3)) is None else found.reshape(-1)
    return chain(lambda: np.add(product()(rows), bias, out), *activate(node.op.fused_activation_function, out))


def _batch_matmul(node: Node[BatchMatMul]) -> Step:
    return partial(np.matmul, *_factors(node), node.out)


def _batch_matmul_integers(node: Node[BatchMatMul]) -> Step:
    x, y = _factors(node)
    out = node.out
    raw = out.dtype == np.int32
    zeros = (0, 0) if raw else (node.quantization(0).zero_point, node.quantization(1).zero_point)
    reach = [max(np.iinfo(each.dtype).max - zero, zero - np.iinfo(each.dtype).min)
             for each, zero in zip((x, y), zeros, strict=True)]
    dtype = exact_dtype(reach[0] * reach[1] * x.shape[-1])

    def multiply() -> Array:
        sums: Array = np.matmul(np.subtract(x, zeros[0], dtype=dtype), np.subtract(y, zeros[1], dtype=dtype))
        return sums

    if raw:
        return lambda: np.copyto(out, multiply(), casting="unsafe")
    made, store = node.output_quantization(), saturating(out)
    rescale = (rescaler if x.dtype == np.int8 else rescaler_64)(*_multiplier(node))
    return lambda: store(rescale(multiply().astype(np.int64)) + made.zero_point)


def _batch_matmul_hybrid(node: Node[BatchMatMul]) -> Step:
    x, y = _factors(node)
    quantization, asymmetric = node.quantization(1), node.op.asymmetric_quantize_inputs
    product: Callable[[], Product] = prepared(
        node, {1}, lambda: hybrid_product(y.swapaxes(-1, -2), quantization, asymmetric))
    return lambda: np.copyto(node.out, product()(x))


def _factors(node: Node[BatchMatMul]) -> tuple[Array, Array]:
    """The inputs as (..., m, k) and (..., k, n)."""
    x, y = node.input(0), node.input(1)
    return x.swapaxes(-1, -2) if node.op.adj_x else x, y.swapaxes(-1, -2) if node.op.adj_y else y


_PLAIN = (DType.FLOAT64, DType.INT32, DType.INT64)
"""Types of factors that are never quantised; products of integers wrap."""
FULLY_CONNECTED: Combinations = {
    (DType.FLOAT32, DType.FLOAT32): _fully_connected,
    (DType.INT8, DType.INT8): _fully_connected_integers,
    (DType.INT8, DType.INT4): _fully_connected_integers,
    (DType.UINT8, DType.UINT8): _fully_connected_integers,
    (DType.INT16, DType.INT8): _fully_connected_integers,
    (DType.INT16, DType.INT16): _fully_connected_of_int16,
    (DType.FLOAT32, DType.INT8): _fully_connected_hybrid,
    (DType.FLOAT32, DType.UINT8): _fully_connected_hybrid,
    (DType.FLOAT32, DType.INT4): _fully_connected_hybrid,
}
BATCH_MATMUL: Combinations = {
    **{(dtype, dtype): _batch_matmul for dtype in _PLAIN},
    (DType.FLOAT32, DType.FLOAT32): _batch_matmul,
    (DType.INT8, DType.INT8): _batch_matmul_integers,
    (DType.INT16, DType.INT16): _batch_matmul_integers,
    (DType.INT16, DType.INT8): _batch_matmul_integers,
    (DType.FLOAT32, DType.INT8): _batch_matmul_hybrid,
}
_BIASES = {
    DType.FLOAT32: frozenset({DType.FLOAT32}),
    DType.INT8: frozenset({DType.INT32}),
    DType.UINT8: frozenset({DType.INT32}),
    DType.INT16: frozenset({DType.INT32, DType.INT64}),
}

_ONE_SCALE = frozenset({DType.UINT8, DType.INT16})
"""Types of weights of which the rows have no scales of their own."""


def _types(call: Call) -> tuple[DType, DType]:
    return call.input(0).dtype, call.input(1).dtype


def object_to_types(call: Call, combinations: Combinations) -> Iterator[str]:
    if _types(call) not in combinations:
        supported = ", ".join(f"{first.value} with {second.value}" for first, second in combinations)
        yield f"element types {' with '.join(each.value for each in _types(call))} (supported: {supported})"


@refusal
def _refuse_fully_connected(call: Call) -> Iterator[str]:
    yield from object_to_types(call, FULLY_CONNECTED)
    op, weights, (given, stored) = call.op, call.input(1), _types(call)
    assert isinstance(op, FullyConnected)
    hybrid = given is DType.FLOAT32 is not stored
    if op.weights_format:
        yield f"weights format {op.weights_format} (supported: 0)"
    if op.fused_activation_function > (Activation.TANH if hybrid else Activation.RELU6):
        yield f"fused activation {op.fused_activation_function.name}"
    if call.has(2) and call.input(2).dtype not in _BIASES[given]:
        yield f"a bias of {call.input(2).dtype.value} (supported: {names(_BIASES[given])})"
    if stored is DType.INT4 and weights.data is None:
        yield "int4 weights that are not constant"
    if stored in _ONE_SCALE and weights.quantization is not None and weights.quantization.per_axis:
        yield f"{stored.value} weights quantised per axis"
    if stored is not DType.FLOAT32:
        yield from object_to_weights(weights, axis=0, symmetric=hybrid or stored is DType.INT16)
    if given is not DType.FLOAT32:
        yield from object_to_activations(call.input(0), call.outputs[0])


@rule(FullyConnected, accepts=_refuse_fully_connected)
def fully_connected(node: Node[FullyConnected]) -> Step:
    return FULLY_CONNECTED[_types(node.call)](node)


@refusal
def _refuse_batch_matmul(call: Call) -> Iterator[str]:
    yield from object_to_types(call, BATCH_MATMUL)
    op, y, (given, stored) = call.op, call.input(1), _types(call)
    assert isinstance(op, BatchMatMul)
    if stored in (DType.FLOAT32, *_PLAIN) or (given, call.outputs[0].dtype) == (DType.INT8, DType.INT32):
        return
    hybrid = given is DType.FLOAT32
    yield from object_to_weights(y, axis=len(y.shape) - (2 if op.adj_y else 1), symmetric=given is not DType.INT8)
    if not hybrid and y.quantization is not None and y.quantization.per_axis:
        yield "factors quantised per axis"
    if not hybrid:
        yield from object_to_activations(call.input(0), call.outputs[0])


@rule(BatchMatMul, accepts=_refuse_batch_matmul)
def batch_matmul(node: Node[BatchMatMul]) -> Step:
    return BATCH_MATMUL[_types(node.call)](node)


@refusal
def _refuse_embedding_lookup(call: Call) -> Iterator[str]:
    table, made = call.input(1), call.outputs[0].dtype
    if call.input(0).dtype is not DType.INT32:
        yield f"indices of {call.input(0).dtype.value} (supported: int32)"
    if table.dtype is made and made.is_computable:
        return
    if (table.dtype, made) != (DType.INT8, DType.FLOAT32):
        yield f"an output of {made.value} from a table of {table.dtype.value}"
    yield from object_to_weights(table, axis=0, symmetric=True)


@rule(EmbeddingLookup, accepts=_refuse_embedding_lookup)
def embedding_lookup(node: Node[EmbeddingLookup]) -> Step:
    indices, table, out = node.input(0), node.input(1), node.out
    found = out if table.dtype == out.dtype else np.empty(out.shape, table.dtype)
    look_up = _rows(indices, table, found)
    if found is out:
        return look_up
    scales = np.array(node.quantization(1).scales, np.float32)
    each_row = np.zeros_like(indices) if len(scales) == 1 else indices
    shape = (-1, *(1,) * (out.ndim - 1))
    return chain(look_up, lambda: np.multiply(found, scales[each_row].reshape(shape), out))


def _refuse_table_of_blocks(call: Call) -> str | None:
    found = tuple(each.dtype for each in call.inputs if each is not None)
    kinds = (DType.INT32, DType.INT8, DType.FLOAT32)
    return None if found == kinds else f"element types {names(found)} (supported: {names(kinds)})"


@rule(BlockEmbeddingLookup, accepts=_refuse_table_of_blocks)
def block_embedding_lookup(node: Node[BlockEmbeddingLookup]) -> Step:
    indices, table, scales = node.input(0), node.input(1), node.input(2)
    shape = (len(indices), scales.shape[1], table.shape[1] // scales.shape[1])
    found, out = np.empty((len(indices), table.shape[1]), table.dtype), node.out.reshape(shape)
    return chain(_rows(indices, table, found),
                 lambda: np.multiply(found.reshape(shape), scales[indices][..., None], out))


def _rows(indices: Array, table: Array, found: Array) -> Step:
    """The step that copies the rows of a table that indices name."""
    def look_up() -> None:
        if indices.size and not 0 <= indices.min() <= indices.max() < len(table):
            wrong = next(each for each in indices.tolist() if not 0 <= each < len(table))
            raise ExecutionError(f"index {wrong} is outside a table of {len(table)} rows")
        np.take(table, indices, axis=0, out=found, mode="clip")

    return look_up
