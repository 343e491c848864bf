"""Names convolutions by what they are whose groups have one channel each: DEPTHWISE_CONV_2D.

Keras writes `Conv2D(groups=channels)` as a CONV_2D. As products of groups, each would have a matrix of one column.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.rewrite import is_same, rewrite_subgraphs
from circlet.runtime.records import replace

_MOST_FILTERS = {DType.FLOAT32: 8, DType.INT8: 2}
"""Filters of a channel, by the type of images, filters and results: types whose two operators compute the same, to the
bit where they are integers. Beyond it products of groups are as fast: with AVX-512 and 3 to 16 channels, 16 filters
take 1.0 to 1.1 of their time, and of int8 4 up to 1.5."""


def name_depthwise(model: Model) -> Model:
    """Makes a DEPTHWISE_CONV_2D of each CONV_2D whose constant filter has one channel, and its image several with few
    filters each."""
    changed = rewrite_subgraphs(model, _named)
    return model if changed is model else eliminate_dead(changed)


def _named(subgraph: Subgraph) -> Subgraph:
    tensors, filters = list(subgraph.tensors), dict[int, int]()
    makers = {each: operator for operator in subgraph.operators for each in operator.outputs}

    def named(operator: Operator) -> Operator:
        op = operator.op
        if not isinstance(op, Conv2D):
            return operator
        image, filter, *others = operator.inputs
        known = _known(subgraph, filter, makers)
        if known is None or not _is_by_channel(subgraph, operator, known):
            return operator
        if filter not in filters:
            filters[filter] = len(tensors)
            tensors.append(_turned(known))
        times = known.shape[0] // tensors[image].shape[3]
        made = DepthwiseConv2D(op.padding, op.stride_w, op.stride_h, op.fused_activation_function, times,
                               op.dilation_w_factor, op.dilation_h_factor)
        return replace(operator, op=made, inputs=(image, filters[filter], *others), version=1)

    operators = tuple(map(named, subgraph.operators))
    if is_same(operators, subgraph.operators):
        return subgraph
    return replace(subgraph, tensors=tuple(tensors), operators=operators)


def _known(subgraph: Subgraph, place: int, makers: Mapping[int, Operator]) -> Tensor | None:
    """A constant filter; one that is made of float16, as float32."""
    filter = subgraph.tensors[place]
    if place in makers and isinstance(makers[place].op, Dequantize):
        stored = subgraph.tensors[makers[place].inputs[0]]
        if stored.dtype is DType.FLOAT16 and stored.data is not None and stored.sparsity is None:
            return replace(filter, data=stored.data.astype(np.float32))
    return None if filter.data is None or filter.sparsity is not None else filter


def _is_by_channel(subgraph: Subgraph, operator: Operator, filter: Tensor) -> bool:
    """Whether each channel of the image is a group, and the operators compute the same of it."""
    image, made = (subgraph.tensors[each] for each in (operator.inputs[0], operator.outputs[0]))
    if len(filter.shape) != 4 or len(image.shape) != 4:
        return False
    units, channels = filter.shape[0], image.shape[3]
    if filter.shape[3] != 1 or channels < 2 or not units or units % channels:
        return False
    return image.dtype is filter.dtype is made.dtype and units <= _MOST_FILTERS.get(filter.dtype, 0) * channels


def _turned(filter: Tensor) -> Tensor:
    """A filter (o, kh, kw, 1) as (1, kh, kw, o)."""
    assert filter.data is not None, "it is constant"
    data = np.ascontiguousarray(filter.data.transpose(3, 1, 2, 0))
    data.flags.writeable = False
    quantization = filter.quantization
    return replace(filter, data=data, shape=data.shape, shape_signature=None,
                   quantization=None if quantization is None else replace(quantization, axis=3))
