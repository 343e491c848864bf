"""Numpy rules of the operators that enlarge a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.backends.cpu.move import Copies, copies, moving
from circlet.backends.cpu.quantized import one_quantization
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, promised
from circlet.backends.refusal import all_of
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import QUANTIZABLE, Array
from circlet.runtime.ops.layout import Index
from circlet.runtime.ops.pad import (
    Continuation,
    ContinuedPad,
    Dilate,
    MirrorPad,
    MirrorPadMode,
    Pad,
    PadV2,
    StablehloPad,
    Tile,
)


def _zero(call: Call) -> Array:
    """What stands for zero in the output."""
    out = call.outputs[0]
    if out.dtype.numpy.hasobject:
        return np.array(b"", object)
    found = out.quantization if out.dtype in QUANTIZABLE else None
    return np.array(0 if found is None else found.zero_point).astype(out.dtype.numpy)


def _inside(out: Array, x: Array, paddings: Array) -> list[tuple[Array, Array]]:
    inner = (slice(first, first + size) for first, size in zip(paddings[:, 0].tolist(), x.shape, strict=True))
    index: Index = (*inner, ...)
    return [(out[index], x)]


def _surrounded(node: Node[Any], value: Array) -> Step:
    """Fills the output with `value`, then puts input 0 inside the paddings in input 1."""
    x, out = node.input(0), node.out

    return copies(node, lambda paddings: [(out, value), *_inside(out, x, paddings)], 1)


@rule(Pad, accepts=moving(parameters=(1,)))
def pad(node: Node[Pad]) -> Step:
    return _surrounded(node, _zero(node.call))


@rule(PadV2, accepts=all_of(moving(parameters=(1,)), one_quantization))
def padv2(node: Node[PadV2]) -> Step:
    return _surrounded(node, node.input(2).reshape(()))


@rule(MirrorPad, accepts=moving(parameters=(1,)))
def mirror_pad(node: Node[MirrorPad]) -> Step:
    x, out = node.input(0), node.out
    skip = int(node.op.mode is MirrorPadMode.REFLECT)

    def plan(paddings: Array) -> Copies:
        yield from _inside(out, x, paddings)
        for axis, (before, after) in enumerate(paddings.tolist()):
            layers = np.moveaxis(out, axis, 0)
            end = before + x.shape[axis]
            yield layers[:before], layers[before + skip:2 * before + skip][::-1]
            yield layers[end:], layers[end - skip - after:end - skip][::-1]

    return copies(node, plan, 1)


@rule(ContinuedPad, accepts=moving(parameters=(1,)))
def continued_pad(node: Node[ContinuedPad]) -> Step:
    x, paddings, out = node.input(0), node.input(1), node.out

    def step() -> None:
        found = x
        for axis, (before, after) in enumerate(paddings.tolist()):
            if before or after:
                found = np.take(found, _places(node.op.continuation, x.shape[axis], before, after), axis)
        np.copyto(out, found)

    return chain(promised(node), step)


def _places(continuation: Continuation, size: int, before: int, after: int) -> Array:
    """The elements of an axis that it shows with some before and behind it."""
    places = np.arange(-before, size + after)
    if places.size and not size:
        raise ExecutionError("input 0 has no elements to go on with")
    if continuation is Continuation.EDGE:
        return places.clip(0, size - 1)
    if continuation is Continuation.WRAP:
        return places % size
    period = max(2 * (size - 1), 1)
    return np.minimum(places % period, period - places % period)


@rule(Tile, accepts=moving(parameters=(1,)))
def tile(node: Node[Tile]) -> Step:
    x, out = node.input(0), node.out
    source = x.reshape([size for each in x.shape for size in (1, each)])

    def plan(multiples: Array) -> Copies:
        repeated = zip(multiples.tolist(), x.shape, strict=True)
        return [(out.reshape([size for both in repeated for size in both]), source)]

    return copies(node, plan, 1)


@rule(StablehloPad, accepts=moving())
def stablehlo_pad(node: Node[StablehloPad]) -> Step:
    op = node.op
    steps = [gap + 1 for gap in op.interior_padding]
    return copies(node, lambda: _spread(node.out, node.input(0), node.input(1), op.edge_padding_low, steps))


@rule(Dilate, accepts=moving(parameters=(1,)))
def dilate(node: Node[Dilate]) -> Step:
    x, out, value = node.input(0), node.out, node.input(2)
    return copies(node, lambda steps: _spread(out, x, value, [0] * x.ndim, steps.tolist()), 1)


def _spread(out: Array, x: Array, value: Array, starts: Sequence[int], steps: Sequence[int]) -> Copies:
    """Fills `out` with `value`, then puts the elements of `x` that fall into it `steps` apart from `starts` on."""
    targets: list[slice] = []
    sources: list[slice] = []
    for start, step, size, length in zip(starts, steps, x.shape, out.shape, strict=True):
        skipped = max(0, -(start // step))
        first = start + skipped * step
        count = min(size - skipped, len(range(first, length, step)))
        targets.append(slice(first, first + max(count, 0) * step, step))
        sources.append(slice(skipped, skipped + max(count, 0)))
    target: Index = (*targets, ...)
    source: Index = (*sources, ...)
    return [(out, value.reshape(())), (out[target], x[source])]
