"""Operators that read or write single elements, or slices, at places that indices name; no format has them.

An index may count from the end of its axis; one that is out of range is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

import numpy as np

from circlet.runtime.ir.op import Count, Op, OpenResults, Operands, ShapeError, Unknown, exactly
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.elementwise import same_types
from circlet.runtime.ops.operands import agreed_shape, normalize_axis
from circlet.runtime.records import dataclass


class Combine(Enum):
    """What becomes of an element that several updates, or one, are for."""

    REPLACE = "none"
    """The update takes its place, the last one where there are several."""
    ADD = "add"
    MULTIPLY = "mul"
    MAXIMUM = "max"
    MINIMUM = "min"


def _along(args: Operands, axis: int) -> int:
    """The axis along which indices count, after a check that they fit into the other axes of input 0."""
    data, indices = args[0].shape, args[1].shape
    if len(data) != len(indices) or not data:
        raise ShapeError(f"indices: expected the rank of {data}, at least 1, found shape {indices}")
    return normalize_axis(axis, len(data))


@dataclass(frozen=True)
class GatherElements(Op):
    """Element (i, j, ...) of the result is that of input 0 whose index along `axis` is input 1 at (i, j, ...)."""

    name: ClassVar[str] = "GATHER_ELEMENTS"
    inputs: ClassVar[Count] = exactly(2)
    axis: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, indices = args[0].shape, args[1].shape
        axis = _along(args, self.axis)
        if any(size > limit for k, (size, limit) in enumerate(zip(indices, data, strict=True)) if k != axis):
            raise ShapeError(f"indices: expected a shape within {data} but for axis {axis}, found {indices}")
        return (indices,)


@dataclass(frozen=True)
class Scattering(Op):
    """Base of the operators that write updates, input 2, into input 0 where the indices in input 1 say."""

    inputs: ClassVar[Count] = exactly(3)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


@dataclass(frozen=True)
class ScatterElements(Scattering):
    """Input 0 with the element whose index along `axis` is input 1 at (i, j, ...) changed by input 2 at (i, j, ...)."""

    name: ClassVar[str] = "SCATTER_ELEMENTS"
    axis: int = 0
    combine: Combine = Combine.REPLACE

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, indices = args[0].shape, args[1].shape
        axis = _along(args, self.axis)
        if any(size > limit for k, (size, limit) in enumerate(zip(indices, data, strict=True)) if k != axis):
            raise ShapeError(f"indices: expected a shape within {data} but for axis {axis}, found {indices}")
        if agreed_shape(args[2].shape, indices) is None:
            raise ShapeError(f"updates: expected the shape of the indices, {indices}, found {args[2].shape}")
        return (data,)


@dataclass(frozen=True)
class ScatterSlices(Scattering):
    """Input 0 with the slices that the rows of input 1 (..., k) name by indices into its first k axes changed by
    the slices of input 2."""

    name: ClassVar[str] = "SCATTER_SLICES"
    combine: Combine = Combine.REPLACE

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, indices, updates = (args[k].shape for k in range(3))
        same_types(Operands((args[0], args[2]), 1))
        taken = None if not indices or indices[-1] > len(data) else (*indices[:-1], *data[indices[-1]:])
        if taken is None or agreed_shape(updates, taken) is None:
            raise ShapeError(f"cannot scatter updates {updates} into {data} by indices {indices}")
        return (data,)

    def open_results(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Sequence[Array] | None:
        """Of numbers, such as a shape of which some are exchanged, where the places are known."""
        values, indices, updates = inputs
        if values is None or indices is None or updates is None or indices.dtype.hasobject:
            raise Unknown
        limits = values.shape[:indices.shape[-1]]
        if self.combine is not Combine.REPLACE or np.any((indices < np.negative(limits)) | (indices >= limits)):
            raise Unknown
        found = np.array(values, np.object_)
        found[tuple(np.moveaxis(indices, -1, 0))] = updates
        return (found,)
