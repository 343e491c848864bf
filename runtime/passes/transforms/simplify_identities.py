"""Makes operators that change nothing into aliases, which cost nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias
from circlet.runtime.passes.transforms.rewrite import rewrite_operators, rewrite_subgraphs


def simplify_identities(model: Model) -> Model:
    """Replaces each CAST to the type that its input already has, and each STRIDED_SLICE of all there is."""
    return rewrite_subgraphs(model, lambda subgraph: rewrite_operators(subgraph, partial(_simplify, subgraph)))


def _simplify(subgraph: Subgraph, operator: Operator) -> Operator:
    if not _is_identity(subgraph, operator):
        return operator
    return replace(operator, op=Alias(), inputs=operator.inputs[:1], version=1)


def _is_identity(subgraph: Subgraph, operator: Operator) -> bool:
    if not isinstance(operator.op, Cast) and not _takes_all(subgraph, operator):
        return False
    source, result = (subgraph.tensors[each] for each in (operator.inputs[0], operator.outputs[0]))
    return source.dtype is result.dtype


def _takes_all(subgraph: Subgraph, operator: Operator) -> bool:
    """Whether an operator is a slice in steps of 1 that goes from the first element to the last of each axis, however
    long it is: bounds are ignored, or 0 and the largest number."""
    op = operator.op
    if not isinstance(op, StridedSlice) or op.offset or op.ellipsis_mask or op.new_axis_mask or op.shrink_axis_mask:
        return False
    source, *parameters = (subgraph.tensors[each] for each in operator.inputs)
    entries = {each.shape for each in parameters}
    begins, ends, strides = (each.data for each in parameters)
    if strides is None or len(entries) != 1 or strides.ndim != 1 or (strides != 1).any():
        return False
    if ends is not None and ends.dtype.kind not in "iu":  # refused behind that
        return False
    return strides.size <= len(source.signature) and all(
        (op.begin_mask >> k & 1 or (begins is not None and begins[k] == 0))
        and (op.end_mask >> k & 1 or (ends is not None and ends[k] == np.iinfo(ends.dtype).max))
        for k in range(strides.size))
