"""Makes constants of int8 of filters and tables of int4 and int2, which a model stores several elements in a byte; and
operands of the scales of blocks of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.packed import unpacked
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import BlockEmbeddingLookup, BlockFullyConnected, EmbeddingLookup, FullyConnected
from circlet.runtime.passes.transforms.rewrite import is_same, rewrite_subgraphs
from circlet.runtime.records import replace

_PACKED = (DType.INT2, DType.INT4)


def unpack_filters(model: Model) -> Model:
    """Gives convolutions, look-ups in tables, and products filters of int8 for those of int4 and int2; but products of
    float32 and int8 read int4 as it is stored, unless blocks of it have scales, which then are operands."""
    return rewrite_subgraphs(model, _unpacked)


def _unpacked(subgraph: Subgraph) -> Subgraph:
    tensors, found = list(subgraph.tensors), dict[tuple[int, bool], int]()

    def instead(tensor: int, of: Callable[[Tensor], Tensor], is_plain: bool = False) -> int:
        if (tensor, is_plain) not in found:
            found[tensor, is_plain] = len(tensors)
            tensors.append(of(tensors[tensor]))
        return found[tensor, is_plain]

    def changed(operator: Operator) -> Operator:
        op, scales = operator.op, _scales(subgraph, operator)
        if scales is not None:
            x, packed, *others = operator.inputs
            single = partial(_single, subgraph.tensors[packed].shape[0])
            inputs = (x, instead(packed, _plain_bytes, is_plain=True), instead(scales, single), *others)
            made = BlockFullyConnected(op.fused_activation_function, op.keep_num_dims) if isinstance(
                op, FullyConnected) else BlockEmbeddingLookup()
            return replace(operator, op=made, inputs=inputs)
        if not _reads_bytes(subgraph, operator):
            return operator
        x, packed, *others = operator.inputs
        return replace(operator, inputs=(x, instead(packed, _bytes), *others))

    operators = tuple(map(changed, subgraph.operators))
    if is_same(operators, subgraph.operators):
        return subgraph
    return replace(subgraph, tensors=tuple(tensors), operators=operators)


def _scales(subgraph: Subgraph, operator: Operator) -> int | None:
    """The tensor of the scales of blocks, of a product of float32 with such weights, or of a look-up of float32 in such
    a table; None of all others."""
    op = operator.op
    if not isinstance(op, (EmbeddingLookup, FullyConnected)) or (isinstance(op, FullyConnected) and op.weights_format):
        return None
    x, packed, y = (subgraph.tensors[each] for each in (*operator.inputs[:2], operator.outputs[0]))
    blocks = None if packed.quantization is None else packed.quantization.blockwise
    if blocks is None or blocks.zero_points != ABSENT or len(packed.shape) != 2 or packed.sparsity is not None:
        return None
    scales, (units, depth) = subgraph.tensors[blocks.scales], packed.shape
    fits = not depth % blocks.block_size and prod(scales.shape) * blocks.block_size == units * depth > 0
    is_constant = packed.dtype is DType.INT4 and packed.data is not None and scales.data is not None
    is_float = (x if isinstance(op, FullyConnected) else y).dtype is DType.FLOAT32
    is_scaled = scales.dtype in (DType.FLOAT16, DType.FLOAT32) and scales.sparsity is None
    return blocks.scales if fits and is_constant and is_float and is_scaled else None


def _reads_bytes(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether an operator has a filter of few bits, and would read it if it were int8 alone."""
    op = operator.op
    if not isinstance(op, (Conv2D, DepthwiseConv2D, EmbeddingLookup, FullyConnected)):
        return False
    x, packed = (subgraph.tensors[each] for each in operator.inputs[:2])
    is_packed = packed.dtype in _PACKED and packed.data is not None and packed.sparsity is None
    return is_packed and not (
        isinstance(op, FullyConnected) and packed.dtype is DType.INT4 and x.dtype is not DType.INT16)


def _bytes(tensor: Tensor) -> Tensor:
    assert tensor.data is not None
    data = unpacked(tensor.data, tensor.dtype, tensor.shape).astype(np.int8)
    data.flags.writeable = False
    return replace(tensor, dtype=DType.INT8, data=data)


def _plain_bytes(tensor: Tensor) -> Tensor:
    """The integers alone, as their scales are elsewhere."""
    return replace(_bytes(tensor), quantization=None)


def _single(units: int, scales: Tensor) -> Tensor:
    """Scales as float32, a row for each of the weights."""
    assert scales.data is not None
    data = np.ascontiguousarray(scales.data.reshape(units, -1), np.float32)
    data.flags.writeable = False
    return replace(scales, dtype=DType.FLOAT32, data=data, shape=data.shape, shape_signature=None)
