"""Operators that change windows of a tensor, which lie where indices say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from circlet.runtime.ir.op import Callee, Count, Interface, Op, Operands, ShapeError, exactly
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.elements import Combine
from circlet.runtime.ops.index import are_axes
from circlet.runtime.ops.operands import agreed_shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class WindowScattering(Op):
    """Base of the operators that change input 0 where the indices in input 1 say by windows, which are input 2.

    Number j along the axis `index_vector_dim` of input 1 is where a window begins along axis
    `scatter_dims_to_operand_dims[j]`; along other axes it begins at 0. Windows have the axes of input 0 but for the
    inserted ones, at `update_window_dims` of input 2, whose other axes are those of input 1. Elements of a window that
    lie outside are left out; those for one place are taken in the row-major order of input 2.
    """

    inputs: ClassVar[Count] = exactly(3)
    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    indices_are_sorted: bool = False
    unique_indices: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, indices, updates = (args[k].shape for k in range(3))
        if args[2].dtype is not args[0].dtype:
            raise ShapeError(f"updates: expected {args[0].dtype.value} as input 0 has, found {args[2].dtype.value}")
        if not 0 <= self.index_vector_dim <= len(indices):
            raise ShapeError(f"index_vector_dim: expected 0 to {len(indices)}, found {self.index_vector_dim}")
        count = indices[self.index_vector_dim] if self.index_vector_dim < len(indices) else 1
        axes, inserted = self.scatter_dims_to_operand_dims, self.inserted_window_dims
        if agreed_shape((count,), (len(axes),)) is None or not are_axes(axes, len(shape)):
            raise ShapeError(f"scatter_dims_to_operand_dims: expected {count} axes of input 0, found {list(axes)}")
        if not are_axes(inserted, len(shape)):
            raise ShapeError(f"inserted_window_dims: expected axes of input 0, found {list(inserted)}")
        kept = len(shape) - len(inserted)
        if len(self.update_window_dims) != kept or not are_axes(self.update_window_dims, len(updates)):
            raise ShapeError(f"update_window_dims: expected {kept} axes of {len(updates)}, found "
                             f"{list(self.update_window_dims)}")
        batch = (*indices[:self.index_vector_dim], *indices[self.index_vector_dim + 1:])
        if agreed_shape(tuple(updates[axis] for axis in self.batch(len(updates))), batch) is None:
            raise ShapeError(f"cannot scatter updates {updates} by indices {indices}")
        return (shape,)

    def batch(self, rank: int) -> tuple[int, ...]:
        """The axes of input 2, which has so many, along which there are windows."""
        return tuple(axis for axis in range(rank) if axis not in self.update_window_dims)

    def windows(self, rank: int) -> Mapping[int, int]:
        """`{axis of input 0, which has so many: axis of input 2}` of windows."""
        kept = (axis for axis in range(rank) if axis not in self.inserted_window_dims)
        return dict(zip(kept, self.update_window_dims, strict=True))

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


@operator
@dataclass(frozen=True)
class StablehloScatter(WindowScattering):
    """A scattering in which an element becomes what a subgraph makes of it and of an update."""

    name: ClassVar[str] = "STABLEHLO_SCATTER"
    table: ClassVar[str | None] = "StablehloScatterOptions"
    update_computation_subgraph_index: int = -1

    def calls(self) -> tuple[Callee, ...]:
        return (Callee("update computation", self.update_computation_subgraph_index, is_mapped=True),)

    def check_callee(self, callee: Callee, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor],
                     interface: Interface) -> None:
        found = [each.dtype for each in (*interface.inputs, *interface.outputs)]
        if found != [outputs[0].dtype] * 3:
            raise ShapeError(f"expected an update computation of two elements of {outputs[0].dtype.value} that gives "
                             f"one, found {[each.value for each in found]}")


@dataclass(frozen=True)
class ScatterWindows(WindowScattering):
    """A scattering that combines elements and updates in a way of its own; no format has it."""

    name: ClassVar[str] = "SCATTER_WINDOWS"
    combine: Combine = Combine.REPLACE
