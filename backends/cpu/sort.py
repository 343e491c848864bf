"""Numpy rules of the operators that order elements or place them among ordered ones."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.quantized import NUMBERS, one_quantization, supports
from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType
from circlet.runtime.ops import sort as ops

_keeps_values = all_of(supports(NUMBERS, QUANTIZABLE), one_quantization)


@rule(ops.TopKV2, accepts=_keeps_values)
def top_k(node: Node[ops.TopKV2]) -> Step:
    x, k, (values, indices) = node.input(0), node.input(1), node.outputs
    descending = np.negative if x.dtype.kind == "f" else np.invert

    def step() -> None:
        order = np.argsort(descending(x), axis=-1, kind="stable")[..., :int(k.item())]
        store(values, np.take_along_axis(x, order, -1))
        store(indices, order)

    return step


def _accepts_unique(call: Call) -> str | None:
    if isinstance(call.op, ops.Unique) and call.op.idx_out_type not in (DType.INT32, DType.INT64):
        return f"index type {call.op.idx_out_type.value} (supported: int32, int64)"
    return _keeps_values(call)


@rule(ops.Unique, accepts=_accepts_unique)
def unique(node: Node[ops.Unique]) -> Step:
    x, (values, indices) = node.input(0), node.outputs

    def step() -> None:
        _, first, group = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
        order = np.argsort(first)
        store(values, x[first[order]])
        store(indices, np.argsort(order)[group])

    return step


@rule(ops.Bucketize, accepts={DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64})
def bucketize(node: Node[ops.Bucketize]) -> Step:
    """Compares as C does: an integer with a float32 boundary as float32."""
    x, out = node.input(0), node.out
    real = np.float64 if node.dtype() is DType.FLOAT64 else np.float32
    boundaries = np.array(node.op.boundaries, np.float32).astype(real)

    def step() -> None:
        np.copyto(out, np.searchsorted(boundaries, x.astype(real), "right"), "unsafe")

    return step


def _distinct(node: Node[ops.UniqueSlices]) -> tuple[Array, ...]:
    """The results of the search for distinct slices, whose number only the search tells."""
    axis = node.op.axis
    found, first, places, counts = np.unique(node.input(0), True, True, True, axis)
    places = places.reshape(-1)
    if not node.op.ascending:
        order = np.argsort(first)
        found, first, counts = found.take(order, axis or 0), first[order], counts[order]
        places = np.argsort(order)[places]
    return found, first, places, counts


@rule(ops.UniqueSlices, accepts=NUMBERS | {DType.BOOL}, evaluate=_distinct)
def unique_slices(node: Node[ops.UniqueSlices]) -> Step:
    def step() -> None:
        for out, value in zip(node.outputs, _distinct(node), strict=True):
            store(out, value)

    return step
