"""Makes constants of int8 of filters and tables of int4 and int2, which a model stores several elements in a byte."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.packed import unpacked
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import EmbeddingLookup, FullyConnected
from circlet.runtime.passes.transforms.rewrite import is_same, rewrite_subgraphs
from circlet.runtime.records import replace

_PACKED = (DType.INT2, DType.INT4)


def unpack_filters(model: Model) -> Model:
    """Gives convolutions, look-ups in tables, and products filters of int8 for those of int4 and int2; but products of
    float32 and int8 read int4 as it is stored."""
    return rewrite_subgraphs(model, _unpacked)


def _unpacked(subgraph: Subgraph) -> Subgraph:
    tensors, made = list(subgraph.tensors), dict[int, int]()

    def changed(operator: Operator) -> Operator:
        if not _reads_bytes(subgraph, operator):
            return operator
        x, packed, *others = operator.inputs
        if packed not in made:
            made[packed] = len(tensors)
            tensors.append(_bytes(tensors[packed]))
        return replace(operator, inputs=(x, made[packed], *others))

    operators = tuple(map(changed, subgraph.operators))
    if is_same(operators, subgraph.operators):
        return subgraph
    return replace(subgraph, tensors=tuple(tensors), operators=operators)


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
