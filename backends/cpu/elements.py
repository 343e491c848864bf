"""Numpy rules of the operators that read or write single elements, or slices, at places that indices name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.cpu.move import INDICES, copy, moving
from circlet.backends.cpu.quantized import NUMBERS
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elements import Combine, GatherElements, ScatterElements, ScatterSlices

Places: TypeAlias = "Callable[[], tuple[Array, ...]]"
"""Gives an index for each of the first axes; they broadcast."""

COMBINE: dict[Combine, np.ufunc] = {
    Combine.ADD: np.add, Combine.MULTIPLY: np.multiply, Combine.MAXIMUM: np.maximum, Combine.MINIMUM: np.minimum,
}
"""How elements and updates become one; not there where updates take their places."""


def _inside(indices: Array, size: int) -> Array:
    """Indices of an axis counted from the front."""
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        wrong = next(each for each in indices.reshape(-1).tolist() if not -size <= each < size)
        raise ExecutionError(f"index {wrong} is out of range for an axis of size {size}")
    return np.where(indices < 0, indices + size, indices)


@rule(GatherElements, accepts=moving(parameters=(1,), integers=INDICES))
def gather_elements(node: Node[GatherElements]) -> Step:
    x, out = node.input(0), node.out
    places = along(node, node.op.axis)

    def step() -> None:
        out[...] = x[places()]

    return step


def along(node: Node[Any], axis: int) -> Places:
    """The places that indices along one axis name."""
    x, indices = node.input(0), node.input(1)
    axis %= x.ndim
    grid = [np.arange(size).reshape((-1,) + (1,) * (x.ndim - k - 1)) for k, size in enumerate(indices.shape)]

    def places() -> tuple[Array, ...]:
        return (*grid[:axis], _inside(indices, x.shape[axis]), *grid[axis + 1:])

    return places


def rows(node: Node[ScatterSlices]) -> Places:
    """The places that rows of indices name."""
    x, indices = node.input(0), node.input(1)
    return lambda: tuple(_inside(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))


def _scatter(node: Node[Any], places: Places, combine: Combine) -> Step:
    x, updates, out = node.input(0), node.input(2), node.out
    function, slices = COMBINE.get(combine), out[np.newaxis]

    def step() -> None:
        found = places()
        target, where = (out, found) if found else (slices, (np.zeros(node.input(1).shape[:-1], np.int64),))
        if function is None:
            target[where] = updates
        else:
            function.at(target, where, updates)

    return step if np.may_share_memory(x, out) else chain(copy(out, x), step)


def refuses_scatter(call: Call, combine: Combine) -> str | None:
    """Refuses indices of no axis, and elements that cannot be combined so."""
    reason = moving(parameters=(1,), integers=INDICES)(call)
    found = call.input(0).dtype
    if reason is None and combine is not Combine.REPLACE and found not in NUMBERS | {DType.BOOL}:
        return f"element type {found.value}, combined by {combine.value}"
    return reason


def _refuses(call: Call) -> str | None:
    assert isinstance(call.op, (ScatterElements, ScatterSlices))
    return refuses_scatter(call, call.op.combine)


@rule(ScatterElements, accepts=_refuses)
def scatter_elements(node: Node[ScatterElements]) -> Step:
    return _scatter(node, along(node, node.op.axis), node.op.combine)


@rule(ScatterSlices, accepts=_refuses)
def scatter_slices(node: Node[ScatterSlices]) -> Step:
    return _scatter(node, rows(node), node.op.combine)
