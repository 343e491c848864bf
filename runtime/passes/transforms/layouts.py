"""Permuted tensors, and how operators compute on them instead of on the tensors themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.model import Operator
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops import comparison, elementwise, index, layout, pad, reduce, resample
from circlet.runtime.records import dataclass

Permutation: TypeAlias = tuple[int, ...]


def inverse(permutation: Permutation) -> Permutation:
    """What undoes a permutation."""
    return tuple(int(each) for each in np.argsort(permutation))


def composed(first: Permutation, then: Permutation) -> Permutation:
    """One permutation for two, one applied to the result of the other."""
    return tuple(first[axis] for axis in then)


def is_identity(permutation: Permutation) -> bool:
    return permutation == tuple(range(len(permutation)))


@dataclass(frozen=True)
class View:
    """A tensor that is another one transposed: its axis k is axis `permutation[k]` of the source."""

    source: int
    permutation: Permutation


@dataclass(frozen=True)
class Rows:
    """The rows of a tensor that a run tells, in another order."""

    tensor: int
    order: Permutation


@dataclass(frozen=True)
class Transposed:
    """A tensor in another layout."""

    tensor: int
    order: Permutation
    """Of the tensor with as many axes of size 1 in front as there are more."""


Given: TypeAlias = "int | Array | Rows | Transposed"
"""What an operator reads: a tensor, a new constant, or what is made of a tensor."""


@dataclass(frozen=True)
class Moved:
    """An operator that computes on sources what another one computes on their views."""

    op: Op
    inputs: tuple[Given, ...]
    permutation: Permutation
    """Each result of the operator in place is this permutation of the new one's."""


def fits(tensor: Tensor, permutation: Permutation) -> bool:
    """Whether a tensor has, as far as is known, as many axes as a permutation."""
    return tensor.declared is None or len(tensor.shape) == len(permutation)


def permuted_back(tensor: Tensor, permutation: Permutation) -> Tensor:
    """The declaration of a tensor of which the given one is a permutation."""
    if not tensor.has_rank:
        return tensor
    order = inverse(permutation)
    signature = None if tensor.shape_signature is None else tuple(tensor.shape_signature[axis] for axis in order)
    return replace(tensor, shape=tuple(tensor.shape[axis] for axis in order), shape_signature=signature, data=None,
                   axes=(), is_variable=False)


Views: TypeAlias = "Mapping[int, View]"
Rule: TypeAlias = "Callable[[Operator, Sequence[Tensor], Views], Moved | None]"


def _sources(inputs: Sequence[int], tensors: Sequence[Tensor],
             views: Views) -> tuple[list[Given], Permutation] | None:
    """The inputs as an operator reads them that broadcasts: sources of views of one permutation, constants to fit,
    scalars, and what may be transposed instead; None where they are something else too."""
    orders = {views[each].permutation for each in inputs if each in views}
    if len(orders) != 1:
        return None
    (order,) = orders
    found: list[Given] = []
    for each in inputs:
        data, tensor = tensors[each].data if each >= 0 else None, tensors[each]
        if each in views:
            found.append(views[each].source)
        elif data is not None and 0 < data.ndim <= len(order) and tensor.dtype is DType.of(data.dtype):
            full = data.reshape((1,) * (len(order) - data.ndim) + data.shape)
            found.append(np.ascontiguousarray(full.transpose(inverse(order))))
        elif each >= 0 and tensor.has_rank and not tensor.shape:
            found.append(each)
        elif each >= 0 and data is None and _is_narrow(tensor, order):
            found.append(Transposed(each, inverse(order)))
        else:
            return None
    return found, order


def _is_narrow(tensor: Tensor, order: Permutation) -> bool:
    """Whether a tensor that is broadcast to views has, by declaration, one number, or one for each channel, or for each
    channel of each image, and its elements keep their order when it is transposed."""
    declared = tensor.declared
    if declared is None or len(declared) > len(order):
        return False
    shape = (1,) * (len(order) - len(declared)) + declared
    wide = [axis for axis in inverse(order) if shape[axis] != 1]
    return len(wide) <= 1 or wide == [0, 1]


def _elementwise(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    found = _sources(operator.inputs, tensors, views)
    return None if found is None else Moved(operator.op, tuple(found[0]), found[1])


def _concatenation(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    op, found = operator.op, _sources(operator.inputs, tensors, views)
    assert isinstance(op, layout.Concatenation)
    if found is None or any(isinstance(each, Transposed) or (isinstance(each, int) and tensors[each].shape == ())
                            for each in found[0]):
        return None
    rank = len(found[1])
    return Moved(replace(op, axis=found[1][op.axis]), tuple(found[0]), found[1]) if -rank <= op.axis < rank else None


def _first(operator: Operator, tensors: Sequence[Tensor], views: Views) -> tuple[View, list[Array]] | None:
    """The view that input 0 is, and the other inputs, if these are constant."""
    parameters = [tensors[each].data if each >= 0 else None for each in operator.inputs[1:]]
    view = views.get(operator.inputs[0])
    known = [each for each in parameters if each is not None]
    return None if view is None or len(known) != len(parameters) else (view, known)


def _rows(operator: Operator, tensors: Sequence[Tensor], views: Views, shape: Shape
          ) -> tuple[Array | Rows, ...] | None:
    """Inputs 1 and up, each of which says something about each axis of the view that input 0 is, for its source; None
    where they are not known to be of the same shape, with as many rows."""
    view, given = views.get(operator.inputs[0]), operator.inputs[1:]
    if view is None or any(
            each in views or not tensors[each].has_rank or tensors[each].shape != (len(view.permutation), *shape)
            for each in given):
        return None
    order = inverse(view.permutation)
    known = [tensors[each].data for each in given]
    return tuple(Rows(each, order) if data is None else np.ascontiguousarray(data[list(order)])
                 for each, data in zip(given, known, strict=True))


def _padding(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    found = _first(operator, tensors, views)
    if found is None:
        source, value = operator.inputs[:1], operator.inputs[2:]
        rows = _rows(replace(operator, inputs=operator.inputs[:2]), tensors, views, (2,))
        return None if rows is None or any(each in views for each in value) else Moved(
            operator.op, (views[source[0]].source, *rows, *value), views[source[0]].permutation)
    view, (amounts, *rest) = found
    if amounts.shape != (len(view.permutation), 2):
        return None
    return Moved(operator.op, (view.source, np.ascontiguousarray(amounts[list(inverse(view.permutation))]), *rest),
                 view.permutation)


def _slicing(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    op, found = operator.op, _first(operator, tensors, views)
    assert isinstance(op, layout.StridedSlice)
    if op.new_axis_mask or op.shrink_axis_mask or op.ellipsis_mask:
        return None
    if found is None:
        rows, source = _rows(operator, tensors, views, ()), views.get(operator.inputs[0])
        return None if rows is None or source is None else Moved(
            _for_source(op, source, len(source.permutation)), (source.source, *rows), source.permutation)
    view, bounds = found
    order = inverse(view.permutation)
    given = bounds[0].size
    if given > len(order) or any(each.shape != (given,) for each in bounds):
        return None
    moved = _for_source(op, view, given)
    whole = [np.concatenate([each, np.full(len(order) - given, number, each.dtype)])[list(order)]
             for each, number in zip(bounds, (0, 0, 1), strict=True)]
    return Moved(moved, (view.source, *whole), view.permutation)


def _for_source(op: layout.StridedSlice, view: View, given: int) -> layout.StridedSlice:
    """The operator with masks for the source of a view, where bounds of the first axes are given."""
    left_out = -1 << given
    masks = [sum(((mask | left_out) >> axis & 1) << k for k, axis in enumerate(inverse(view.permutation)))
             for mask in (op.begin_mask, op.end_mask)]
    return replace(op, begin_mask=masks[0], end_mask=masks[1])


def _reduction(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    op, found = operator.op, _first(operator, tensors, views)
    assert isinstance(op, reduce.Reduction)
    if found is None:
        return None
    view, (axes,) = found
    order = view.permutation
    if not all(-len(order) <= axis < len(order) for axis in axes.reshape(-1).tolist()):
        return None
    gone = {order[axis] for axis in axes.reshape(-1).tolist()}
    moved = Moved(op, (view.source, np.array(sorted(gone), axes.dtype)), order)
    if op.keep_dims:
        return moved
    kept = [axis for axis in order if axis not in gone]
    return replace(moved, permutation=tuple(sorted(kept).index(axis) for axis in kept))


def _resampling(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    op, view = operator.op, views.get(operator.inputs[0])
    assert isinstance(op, resample.Resample)
    if view is None or not all(0 <= axis < len(view.permutation) for axis in op.axes):
        return None
    axes = tuple(view.permutation[axis] for axis in op.axes)
    return Moved(replace(op, axes=axes), (view.source, *operator.inputs[1:]), view.permutation)


def _gathering(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    op, (value, indices) = operator.op, operator.inputs
    assert isinstance(op, index.Gather)
    view, rank = views.get(value), len(tensors[indices].shape) if tensors[indices].has_rank else -1
    if view is None or indices in views or rank != 1 or op.batch_dims or not (
            -len(view.permutation) <= op.axis < len(view.permutation)):
        return None
    return Moved(replace(op, axis=view.permutation[op.axis]), (view.source, indices), view.permutation)


def _splitting(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    value, at = _SPLIT[type(operator.op)]
    view, axis = views.get(operator.inputs[value]), tensors[operator.inputs[at]].data
    if view is None or axis is None or axis.size != 1 or any(
            each in views for k, each in enumerate(operator.inputs) if k != value):
        return None
    rank, number = len(view.permutation), int(axis.item())
    if not -rank <= number < rank:
        return None
    inputs: list[Given] = list(operator.inputs)
    inputs[value], inputs[at] = view.source, np.full(axis.shape, view.permutation[number], axis.dtype)
    return Moved(operator.op, tuple(inputs), view.permutation)


_SPLIT: dict[type[Op], tuple[int, int]] = {layout.Split: (1, 0), layout.SplitV: (0, 2)}
"""Which inputs of operators that cut a value into several are the value and the axis."""
RULES: dict[type[Op], Rule] = {
    index.Gather: _gathering,
    layout.Concatenation: _concatenation,
    layout.Split: _splitting,
    layout.SplitV: _splitting,
    layout.StridedSlice: _slicing,
    pad.Pad: _padding,
    pad.PadV2: _padding,
    pad.MirrorPad: _padding,
    pad.ContinuedPad: _padding,
    resample.Resample: _resampling,
    **{op: _reduction for op in (reduce.Sum, reduce.Mean, reduce.ReduceProd, reduce.ReduceMax, reduce.ReduceMin)},
}
"""The operators that compute on permuted tensors, besides those that work element by element."""
_UNEVEN = (comparison.Select, elementwise.StablehloClamp)


def takes_views(op: Op) -> bool:
    """Whether an operator may compute on the source of a view."""
    return isinstance(op, layout.Transpose) or type(op) in RULES or op.elementwise


def moved(operator: Operator, tensors: Sequence[Tensor], views: Views) -> Moved | None:
    """What an operator becomes if it is to compute on the sources of views; None where it has to have the views."""
    op = operator.op
    if not any(each in views for each in operator.inputs):
        return None
    if any(tensors[each].quantization is not None for each in (*operator.inputs, *operator.outputs) if each >= 0):
        return None
    rule = RULES.get(type(op))
    if rule is None and op.elementwise and not isinstance(op, _UNEVEN):
        rule = _elementwise
    found = None if rule is None else rule(operator, tensors, views)
    if found is None or not all(fits(tensors[each], found.permutation) for each in operator.outputs):
        return None
    return found
