"""Numpy rules that move elements between the spatial axes of a tensor and its batch or its channels."""

from __future__ import annotations

from functools import partial

import numpy as np

from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, rebound
from circlet.backends.cpu.window import padded
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import FLOATS, INTEGERS, Array, DType, Shape
from circlet.runtime.ops.spatial import BatchToSpaceND, DepthToSpace, SpaceToBatchND, SpaceToDepth, block_of, margins_of

ELEMENTS = INTEGERS | FLOATS | {DType.BOOL, DType.COMPLEX64, DType.COMPLEX128}


@rule(DepthToSpace, accepts=ELEMENTS)
def depth_to_space(node: Node[DepthToSpace]) -> Step:
    (n, h, w, _), block, channels = node.input(0).shape, node.op.block_size, node.out.shape[3]
    blocks = node.input(0).reshape(n, h, w, block, block, channels)
    return partial(np.copyto, node.out.reshape(n, h, block, w, block, channels), blocks.swapaxes(2, 3))


@rule(SpaceToDepth, accepts=ELEMENTS)
def space_to_depth(node: Node[SpaceToDepth]) -> Step:
    (n, h, w, _), block, channels = node.out.shape, node.op.block_size, node.input(0).shape[3]
    blocks = node.input(0).reshape(n, h, block, w, block, channels)
    return partial(np.copyto, node.out.reshape(n, h, w, block, block, channels), blocks.swapaxes(2, 3))


@rule(SpaceToBatchND, accepts=ELEMENTS)
def space_to_batch_nd(node: Node[SpaceToBatchND]) -> Step:
    quantization = quantization_of(node.call.outputs[0])
    zero = quantization.zero_point if quantization else 0

    def bind() -> Step:
        source, out, block = node.input(0), node.out, block_of(node.input(1))
        whole, inner = padded(source.shape, margins_of(node.input(2)), source.dtype, zero)
        batched = _batched(whole, block)
        return chain(partial(np.copyto, inner, source), partial(np.copyto, out.reshape(batched.shape), batched))

    return rebound(node, (1, 2), bind)


@rule(BatchToSpaceND, accepts=ELEMENTS)
def batch_to_space_nd(node: Node[BatchToSpaceND]) -> Step:
    def bind() -> Step:
        source, out, block = node.input(0), node.out, block_of(node.input(1))
        whole, inner = padded(out.shape, margins_of(node.input(2)), out.dtype)
        batched = _batched(whole, block)
        return chain(partial(np.copyto, batched, source.reshape(batched.shape)), partial(np.copyto, out, inner))

    return rebound(node, (1, 2), bind)


def _batched(whole: Array, block: Shape) -> Array:
    """A view (b, b', n, s / b, s' / b', ...) of (n, s, s', ...)."""
    split = (part for length, size in zip(whole.shape[1:], block, strict=False) for part in (length // size, size))
    blocks = whole.reshape(whole.shape[0], *split, *whole.shape[1 + len(block):])
    return np.moveaxis(blocks, range(2, 2 * len(block) + 1, 2), range(len(block)))
