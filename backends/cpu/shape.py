"""Numpy rules of the operators about shapes."""

from __future__ import annotations

from functools import partial

import numpy as np

from circlet.backends.cpu.move import ELEMENTS, INDICES, copy, moving
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import guarded
from circlet.backends.refusal import names
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.shape import (
    Alias,
    Bitcast,
    BroadcastArgs,
    BroadcastTo,
    Densify,
    ExpandDims,
    Fill,
    OneHot,
    Range,
    Rank,
    Reshape,
    ShapeOf,
    Squeeze,
    StablehloBroadcastInDim,
    StablehloIota,
    StablehloReshape,
)


def _view(array: Array, shape: Shape) -> Array:
    if array.size != np.prod(shape, dtype=np.int64):
        raise ExecutionError(f"the result has {array.size} elements, the model declares shape {shape}")
    return array.reshape(shape)


@rule(Reshape, accepts=moving(parameters=(1,)))
def reshape(node: Node[Reshape]) -> Step:
    target = node.optional(1)
    step = copy(node.out, _view(node.input(0), node.out.shape))
    return guarded(node, () if target is None or target.ndim != 1 else (1,), step)


@rule(ExpandDims, accepts=moving(parameters=(1,)))
def expand_dims(node: Node[ExpandDims]) -> Step:
    return guarded(node, (1,), copy(node.out, _view(node.input(0), node.out.shape)))


@rule(Squeeze, accepts=moving())
def squeeze(node: Node[Squeeze]) -> Step:
    return copy(node.out, _view(node.input(0), node.out.shape))


@rule(StablehloReshape, accepts=moving(), evaluate=lambda node: [_view(node.input(0), node.call.outputs[0].shape)])
def stablehlo_reshape(node: Node[StablehloReshape]) -> Step:
    return copy(node.out, _view(node.input(0), node.out.shape))


@rule(Densify, accepts=moving())
def densify(node: Node[Densify]) -> Step:
    return copy(node.out, node.input(0))


@rule(Alias, accepts=moving())
def alias(node: Node[Alias]) -> Step:
    return copy(node.out, node.input(0))


def _refuses_bitcast(call: Call) -> str | None:
    found = {call.input(0).dtype, call.outputs[0].dtype}
    plain = frozenset(dtype for dtype in ELEMENTS if not dtype.numpy.hasobject)
    return None if found <= plain else f"element type {names(found - plain)} (supported: {names(plain)})"


@rule(Bitcast, accepts=_refuses_bitcast)
def bitcast(node: Node[Bitcast]) -> Step:
    x, out = node.input(0), node.out
    if x.nbytes != out.nbytes:
        raise ExecutionError(f"the result has {x.nbytes} bytes, the model declares shape {out.shape}")
    return copy(out.reshape(-1).view(np.uint8), x.reshape(-1).view(np.uint8))


def _integer_result(call: Call) -> str | None:
    found = call.outputs[0].dtype
    return None if found in (DType.INT32, DType.INT64) else f"element type {found.value} of the result"


@rule(ShapeOf, accepts=_integer_result)
def shape_of(node: Node[ShapeOf]) -> Step:
    return copy(node.out, np.array(node.input(0).shape, node.out.dtype))


@rule(Rank, accepts=_integer_result)
def rank(node: Node[Rank]) -> Step:
    return partial(node.out.fill, node.input(0).ndim)


@rule(Fill, accepts=moving(parameters=(0,)))
def fill(node: Node[Fill]) -> Step:
    return guarded(node, (0,), copy(node.out, node.input(1)))


@rule(Range, accepts=moving(types=(DType.INT32, DType.INT64, DType.FLOAT32)))
def range_(node: Node[Range]) -> Step:
    start, delta, out = node.input(0), node.input(2), node.out

    def step() -> None:
        out[...] = delta
        out[:1] = start
        np.add.accumulate(out, 0, None, out)

    return guarded(node, (0, 1, 2), step)


@rule(OneHot, accepts=moving(parameters=(0, 1)))
def one_hot(node: Node[OneHot]) -> Step:
    indices, out = node.input(0), node.out
    axis = node.op.axis % out.ndim
    positions = np.arange(out.shape[axis], dtype=np.int64).reshape((-1,) + (1,) * (out.ndim - axis - 1))
    hits = np.empty(out.shape, np.bool_)
    on, off = (node.input(k).reshape(()) for k in (2, 3))
    return guarded(node, (1,), partial(np.equal, np.expand_dims(indices, axis), positions, hits), copy(out, off),
                   partial(np.copyto, out, on, where=hits))


@rule(BroadcastTo, accepts=moving(parameters=(1,)))
def broadcast_to(node: Node[BroadcastTo]) -> Step:
    return guarded(node, (1,), copy(node.out, node.input(0)))


@rule(BroadcastArgs, accepts=moving(types=INDICES))
def broadcast_args(node: Node[BroadcastArgs]) -> Step:
    first, second, out, resolve = node.input(0), node.input(1), node.out, node.op.resolve

    def step() -> None:
        out[...] = resolve(first, second)

    return step


@rule(StablehloBroadcastInDim, accepts=moving())
def broadcast_in_dim(node: Node[StablehloBroadcastInDim]) -> Step:
    x = node.input(0)
    return copy(node.out, x.reshape(node.op.align(x.shape, node.out.shape)))


def _refuses_iota(call: Call) -> str | None:
    kind = call.outputs[0].dtype
    return None if kind in ELEMENTS and kind.numpy.kind in "iuf" else f"element type {kind.value} of the result"


@rule(StablehloIota, accepts=_refuses_iota)
def iota(node: Node[StablehloIota]) -> Step:
    out, axis = node.out, node.op.iota_dimension
    if not 0 <= axis < out.ndim:
        raise ExecutionError(f"iota_dimension: expected an axis of the result of shape {out.shape}, found {axis}")
    counted = np.arange(out.shape[axis]).astype(out.dtype)
    return copy(out, counted.reshape((-1,) + (1,) * (out.ndim - axis - 1)))
