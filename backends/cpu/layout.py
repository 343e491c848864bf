"""Numpy rules of the operators that move elements to places known from shapes and parameters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic.fixed_point import round_half_away
from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.cpu.move import ELEMENTS, INDICES, Copies, copies, copy, moving
from circlet.backends.cpu.quantized import one_quantization
from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.cpu.steps import chain, guarded
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.layout import (
    Concatenation,
    Index,
    MatrixDiag,
    MatrixSetDiag,
    Pack,
    ReverseSequence,
    ReverseV2,
    Slice,
    Split,
    SplitV,
    StablehloConcatenate,
    StablehloSlice,
    StablehloTranspose,
    StridedSlice,
    Transpose,
    Unpack,
)
from circlet.runtime.ops.operands import normalize_axis

Bytes: TypeAlias = npt.NDArray[np.uint8]


def _select(node: Node[Any], index: Callable[..., Index], *parameters: int) -> Step:
    """A step that copies what an index selects from input 0; `index` is given the values of the inputs `parameters`."""
    x, out = node.input(0), node.out
    values = [node.input(k).tolist for k in parameters]
    if node.is_constant(parameters):
        found = x[index(*(value() for value in values))]
        if found.shape == out.shape:
            return copy(out, found)

    def step() -> None:
        store(out, x[index(*[value() for value in values])])

    return step


@rule(Transpose, accepts=moving(parameters=(1,)))
def transpose(node: Node[Transpose]) -> Step:
    return copies(node, lambda axes: [(node.out, node.input(0).transpose(axes))], 1)


@rule(StablehloTranspose, accepts=moving())
def stablehlo_transpose(node: Node[StablehloTranspose]) -> Step:
    return copy(node.out, node.input(0).transpose(node.op.permutation))


@rule(Slice, accepts=moving(parameters=(1, 2)))
def slice_(node: Node[Slice]) -> Step:
    shape = node.input(0).shape
    return _select(node, lambda begin, size: node.op.index(shape, begin, size), 1, 2)


@rule(StridedSlice, accepts=moving(parameters=(1, 2, 3)))
def strided_slice(node: Node[StridedSlice]) -> Step:
    op, shape = node.op, node.input(0).shape
    plan = op.plan(len(shape), len(node.input(1)))
    return _select(node, lambda begin, end, strides: op.index(shape, plan, begin, end, strides), 1, 2, 3)


@rule(StablehloSlice, accepts=moving())
def stablehlo_slice(node: Node[StablehloSlice]) -> Step:
    return _select(node, node.op.index)


@rule(ReverseV2, accepts=moving(parameters=(1,)))
def reverse_v2(node: Node[ReverseV2]) -> Step:
    shape = node.input(0).shape
    return _select(node, lambda axes: node.op.index(shape, axes), 1)


def _pieces(array: Array, axis: int, parts: list[Array]) -> list[Array]:
    """The views of `array` along an axis, one after another, that are as long there as `parts`."""
    bounds = accumulate((part.shape[axis] for part in parts), initial=0)
    front = np.moveaxis(array, axis, 0)
    return [np.moveaxis(front[first:last], 0, axis) for first, last in pairwise(bounds)]


def _layers(array: Array, axis: int) -> list[Array]:
    """The views of `array` along an axis, each without that axis."""
    front = np.moveaxis(array, axis, 0)
    return [front[k, ...] for k in range(len(front))]


@rule(Split, accepts=moving(parameters=(0,)))
def split(node: Node[Split]) -> Step:
    return _split(node, 1, 0, 0)


@rule(SplitV, accepts=moving(parameters=(1, 2)))
def split_v(node: Node[SplitV]) -> Step:
    return _split(node, 0, 2, 1, 2)


def _split(node: Node[Any], data: int, axis: int, *parameters: int) -> Step:
    """Cuts input `data` along the axis in input `axis`; the sizes are those of the outputs."""
    x, outputs = node.input(data), list(node.outputs)

    def plan(*_: Array) -> Copies:
        along = normalize_axis(int(node.input(axis).item()), x.ndim)
        return zip(outputs, _pieces(x, along, outputs), strict=True)

    return copies(node, plan, *parameters)


@rule(Unpack, accepts=moving())
def unpack(node: Node[Unpack]) -> Step:
    return copies(node, lambda: zip(node.outputs, _layers(node.input(0), node.op.axis), strict=True))


@rule(Pack, accepts=all_of(moving(), one_quantization))
def pack(node: Node[Pack]) -> Step:
    return copies(node, lambda: zip(_layers(node.out, node.op.axis), node.inputs, strict=True))


@rule(StablehloConcatenate, accepts=moving())
def stablehlo_concatenate(node: Node[StablehloConcatenate]) -> Step:
    axis = normalize_axis(node.op.dimension, node.out.ndim)
    return chain(*(copy(*each) for each in zip(_pieces(node.out, axis, node.inputs), node.inputs, strict=True)))


def refuses_concatenation(call: Call) -> str | None:
    """Refuses fused activations, and inputs of different quantisation, but uint8 ones of one scale each."""
    refusal = moving()(call)
    if refusal is not None:
        return refusal
    op = call.op
    if isinstance(op, Concatenation) and op.fused_activation_function != Activation.NONE:
        return f"fused activation {op.fused_activation_function.name}"
    if call.outputs[0].dtype is not DType.UINT8:
        return one_quantization(call)
    per_axis = (each for each in (*call.inputs, *call.outputs) if each is not None and each.quantization is not None
                and each.quantization.per_axis)
    return next((f"tensor {each.name!r} is quantised per axis (supported: per tensor)" for each in per_axis), None)


@rule(Concatenation, accepts=refuses_concatenation)
def concatenation(node: Node[Concatenation]) -> Step:
    pieces = _pieces(node.out, normalize_axis(node.op.axis, node.out.ndim), node.inputs)
    return chain(*(_requantize(node, k, *each) for k, each in enumerate(zip(pieces, node.inputs, strict=True))))


def _requantize(node: Node[Concatenation], position: int, piece: Array, x: Array) -> Step:
    table = requantized(node.call.input(position), node.call.outputs[0])
    if table is None:
        return copy(piece, x)

    def step() -> None:
        piece[...] = table[x]

    return step


def requantized(given: Tensor, joined: Tensor) -> Bytes | None:
    """What becomes of each stored uint8 value: a float32 product and sum, rounded half away from zero. None where all
    stay as they are."""
    source, target = quantization_of(given), quantization_of(joined)
    if given.dtype is not DType.UINT8 or source is None or target is None or \
            (source.scale, source.zero_point) == (target.scale, target.zero_point):
        return None
    scale = np.float32(source.scale) * (np.float32(1) / np.float32(target.scale))
    real = np.arange(256, dtype=np.float32) * scale + np.float32(-source.zero_point) * scale
    table: Bytes = np.clip(round_half_away(real) + target.zero_point, 0, 255).astype(np.uint8)
    return table


@rule(ReverseSequence, accepts=moving(parameters=(1,), integers=INDICES))
def reverse_sequence(node: Node[ReverseSequence]) -> Step:
    lengths, axes = node.input(1)[:, None], node.op.axes(node.out.ndim)
    x, out = (np.moveaxis(each, axes, (1, 0)) for each in (node.input(0), node.out))
    batch, positions = np.arange(len(x))[:, None], np.arange(x.shape[1])

    def step() -> None:
        out[...] = x[batch, np.where(positions < lengths, lengths - 1 - positions, positions)]

    return guarded(node, (1,), step)


def _diagonals(matrices: Array) -> Array:
    """A view of the main diagonals of matrices (..., m, n)."""
    least = min(matrices.shape[-2:])
    view: Array = np.einsum("...ii->...i", matrices[..., :least, :least])
    return view


@rule(MatrixDiag, accepts=moving(types={each for each in ELEMENTS if not each.numpy.hasobject}))
def matrix_diag(node: Node[MatrixDiag]) -> Step:
    return chain(copy(node.out, np.zeros((), node.out.dtype)), copy(_diagonals(node.out), node.input(0)))


@rule(MatrixSetDiag, accepts=moving())
def matrix_set_diag(node: Node[MatrixSetDiag]) -> Step:
    x, out, diagonals = node.input(0), node.out, copy(_diagonals(node.out), node.input(1))
    return diagonals if np.may_share_memory(x, out) else chain(copy(out, x), diagonals)
