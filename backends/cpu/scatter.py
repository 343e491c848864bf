"""Numpy rule of the operators that change windows of a tensor: the places of all updates, those outside left out."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.elements import COMBINE, refuses_scatter
from circlet.backends.cpu.move import copy
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.scatter import ScatterWindows


def _refuses(call: Call) -> str | None:
    assert isinstance(call.op, ScatterWindows)
    return refuses_scatter(call, call.op.combine)


@rule(ScatterWindows, accepts=_refuses)
def scatter_windows(node: Node[ScatterWindows]) -> Step:
    x, updates, out = node.input(0), node.input(2), node.out
    combine, flat = COMBINE.get(node.op.combine), out.reshape(-1)

    def step() -> None:
        places, inside = _places(node)
        if combine is None:
            flat[places] = updates[inside]
        else:
            combine.at(flat, places, updates[inside])

    return step if np.may_share_memory(x, out) else chain(copy(out, x), step)


def _places(node: Node[ScatterWindows]) -> tuple[Array, Array]:
    """The row-major positions that updates are for, in their order, and which updates have one."""
    op, indices, updates = node.op, node.input(1), node.input(2)
    if op.index_vector_dim == indices.ndim:
        indices = indices[..., None]
    starts = np.moveaxis(indices, op.index_vector_dim, 0).astype(np.int64)
    along = tuple(size if axis in op.batch(updates.ndim) else 1 for axis, size in enumerate(updates.shape))
    positions, inside = np.zeros(updates.shape, np.int64), np.ones(updates.shape, np.bool_)
    windows, shape = op.windows(node.out.ndim), node.out.shape
    for axis, size in enumerate(shape):
        place: Array = np.zeros((), np.int64)
        if axis in op.scatter_dims_to_operand_dims:
            place = starts[op.scatter_dims_to_operand_dims.index(axis)].reshape(along)
        if axis in windows:
            count, behind = updates.shape[windows[axis]], updates.ndim - windows[axis] - 1
            place = place + np.arange(count).reshape(-1, *[1] * behind)
        inside &= (place >= 0) & (place < size)
        positions = positions * size + place
    return positions[inside], inside
