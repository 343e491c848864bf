"""Has windows leave out padding that an operator before them writes around images, which is a copy of the whole image.

Convolutions of each channel and pooling look at what lies inside the image alone. CONV_2D makes that copy itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.types import Activation, Array, DType, Padding
from circlet.runtime.ops.conv import DepthwiseConv2D
from circlet.runtime.ops.pad import Pad, PadV2
from circlet.runtime.ops.pool import MaxPool2D
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.ops.unary import Relu, Relu6
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs

Makers: TypeAlias = "Mapping[int, Operator]"
"""What computes each tensor."""


def absorb_padding(model: Model) -> Model:
    """Gives `explicit_paddings` to DEPTHWISE_CONV_2D and MAX_POOL_2D with VALID windows whose image is another one in
    constant padding that counts for nothing: zeros under a constant filter whose weights are finite, or what is no
    larger than any element that is pooled. A PAD that nothing else reads becomes a `Skip`."""
    changed = rewrite_subgraphs(model, _absorb)
    return model if changed is model else eliminate_dead(changed)


def _absorb(subgraph: Subgraph) -> Subgraph:
    makers = {each: operator for operator in subgraph.operators for each in operator.outputs}

    def absorbed(operator: Operator) -> Operator:
        op = operator.op
        if not isinstance(op, (DepthwiseConv2D, MaxPool2D)) or op.padding is not Padding.VALID:
            return operator
        pad = makers.get(operator.inputs[0])
        if pad is None or not isinstance(pad.op, Pad) or op.explicit_paddings:
            return operator
        filter = None if isinstance(op, MaxPool2D) else _filter(subgraph, operator, makers)
        amounts, spans = _amounts(subgraph, pad), _spans(op, filter)
        if amounts is None or spans is None or any(each >= spans[k // 2] for k, each in enumerate(amounts)):
            return operator
        if not (_counts_in_no_sum(subgraph, pad) if filter is not None else _is_never_largest(subgraph, pad, makers)):
            return operator
        return replace(operator, op=replace(op, explicit_paddings=amounts),
                       inputs=(pad.inputs[0], *operator.inputs[1:]))

    return rewrite_operators(subgraph, absorbed)


def _amounts(subgraph: Subgraph, pad: Operator) -> tuple[int, ...] | None:
    """Rows above and below, then columns before and behind, that an operator adds to an image; None where that is not
    known, or it adds anything else."""
    table = subgraph.tensors[pad.inputs[1]].data
    if table is None or table.shape != (4, 2) or table[[0, 3]].any() or (table < 0).any():
        return None
    return tuple(table[1:3].reshape(-1).tolist())


def _filter(subgraph: Subgraph, operator: Operator, makers: Makers) -> Array | None:
    """The constant filter of a convolution, if all weights are finite, and of the type of the image where that is a
    float; numbers of a smaller type that are converted first are the same."""
    place = operator.inputs[1]
    given, image = subgraph.tensors[place], subgraph.tensors[operator.inputs[0]]
    if place in makers and isinstance(makers[place].op, Dequantize):
        filter = subgraph.tensors[makers[place].inputs[0]]
    else:
        filter = given
    is_other = image.dtype is DType.FLOAT32 and given.dtype is not DType.FLOAT32
    if filter.data is None or filter.sparsity is not None or is_other or filter.data.ndim != 4:
        return None
    is_float = filter.data.dtype.kind == "f"
    return filter.data if not is_float or np.isfinite(filter.data).all() else None


def _spans(op: DepthwiseConv2D | MaxPool2D, filter: Array | None) -> tuple[int, int] | None:
    """The rows and columns from a window's first to its last one; None where they are not known."""
    if isinstance(op, MaxPool2D):
        return op.filter_height, op.filter_width
    if filter is None:
        return None
    height, width = filter.shape[1:3]
    return (height - 1) * op.dilation_h_factor + 1, (width - 1) * op.dilation_w_factor + 1


def _around(subgraph: Subgraph, pad: Operator) -> float | None:
    """The stored number that padding is of; None where it is not known, or elements change their meaning."""
    image, padded = (subgraph.tensors[each] for each in (pad.inputs[0], pad.outputs[0]))
    if image.quantization != padded.quantization or image.dtype is not padded.dtype:
        return None
    if not isinstance(pad.op, PadV2):
        return _zero(subgraph, pad)
    value = subgraph.tensors[pad.inputs[2]].data
    return None if value is None or value.size != 1 else float(value.reshape(-1)[0])


def _zero(subgraph: Subgraph, pad: Operator) -> int:
    """The stored number that stands for zero."""
    quantization = subgraph.tensors[pad.inputs[0]].quantization
    return 0 if quantization is None else quantization.zero_point


def _counts_in_no_sum(subgraph: Subgraph, pad: Operator) -> bool:
    """Whether padding stands for zeros."""
    return _around(subgraph, pad) == _zero(subgraph, pad)


def _is_never_largest(subgraph: Subgraph, pad: Operator, makers: Makers) -> bool:
    """Whether no element of an image is less than the padding around it: that is the least number of its type, or zero
    around what is not negative."""
    around, dtype = _around(subgraph, pad), subgraph.tensors[pad.inputs[0]].dtype
    if around is None:
        return False
    maker = makers.get(pad.inputs[0])
    is_positive = maker is not None and (isinstance(maker.op, (Relu, Relu6)) or getattr(
        maker.op, "fused_activation_function", None) in (Activation.RELU, Activation.RELU6))
    if is_positive and around == _zero(subgraph, pad):
        return True
    return around == (-np.inf if dtype.numpy.kind == "f" else np.iinfo(dtype.numpy).min)
