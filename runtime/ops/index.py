"""Operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from circlet.runtime.ir.length import is_length
from circlet.runtime.ir.op import Count, Op, OpenResults, Operand, Operands, ShapeError, Unknown, at_least, exactly
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.operands import agreed_shape, expect_one, expect_rank, normalize_axis, sized, sizes
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


def _expect_within(indices: Operand, size: int) -> None:
    """Checks indices that are known before a run against an axis of known size."""
    known = indices.known
    if known is None or known.dtype.hasobject or is_length(size):
        return
    wrong = known[(known < 0) | (known >= size)]
    if wrong.size:
        raise ShapeError(f"index {wrong[0]} is out of range for an axis of size {size}")


@operator
@dataclass(frozen=True)
class Gather(Op):
    """The slices of input 0 along `axis` that the indices in input 1 name.

    The first `batch_dims` axes of both inputs go together. An index that is negative or too large is an error.
    """

    name: ClassVar[str] = "GATHER"
    table: ClassVar[str | None] = "GatherOptions"
    inputs: ClassVar[Count] = exactly(2)
    axis: int = 0
    batch_dims: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, indices = args[0].shape, args[1].shape
        axis, batch = self.axes(len(data), len(indices))
        if agreed_shape(data[:batch], indices[:batch]) is None:
            raise ShapeError(f"batch_dims: expected inputs that agree in {batch} axes, found {data} and {indices}")
        return ((*data[:axis], *indices[batch:], *data[axis + 1:]),)

    def checked(self, args: Operands) -> tuple[Shape, ...]:
        found = self.infer(args)
        axis, _ = self.axes(args[0].rank, args[1].rank)
        _expect_within(args[1], args[0].shape[axis])
        return found

    def axes(self, rank: int, index_rank: int) -> tuple[int, int]:
        """The axis and the number of batch axes, counted from the front."""
        axis = normalize_axis(self.axis, rank)
        batch = self.batch_dims + index_rank if self.batch_dims < 0 else self.batch_dims
        if not 0 <= batch <= min(axis, index_rank):
            raise ShapeError(f"batch_dims: expected at most axis {axis} and the rank of the indices {index_rank}, "
                             f"found {self.batch_dims}")
        return axis, batch


@operator
@dataclass(frozen=True)
class GatherNd(Op):
    """The slices of input 0 (d0, d1, ...) that the rows of input 1 (..., k) name by indices into its first k axes.

    An index that is negative or too large is an error.
    """

    name: ClassVar[str] = "GATHER_ND"
    table: ClassVar[str | None] = "GatherNdOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        data, indices = args[0].shape, args[1].shape
        if not data or not indices or indices[-1] > len(data):
            raise ShapeError(f"expected at least rank 1 of both inputs, and indices into the axes of input 0, "
                             f"found {data} and {indices}")
        return ((*indices[:-1], *data[indices[-1]:]),)


@operator
@dataclass(frozen=True)
class ScatterNd(Op):
    """Zeros of the shape in input 2, to which the slices in input 1 are added where the rows of input 0 (..., k) say.

    Slices for one place add up, in order; integers wrap, booleans are or-ed. An index that is negative or too large is
    an error.
    """

    name: ClassVar[str] = "SCATTER_ND"
    table: ClassVar[str | None] = "ScatterNdOptions"
    inputs: ClassVar[Count] = exactly(3)
    sizes: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        indices, updates = args[0].shape, args[1].shape
        if not indices:
            raise ShapeError("indices: expected at least rank 1, found a scalar")
        shape = sizes(args[2], "shape")
        if indices[-1] > len(shape) or agreed_shape(updates, (*indices[:-1], *shape[indices[-1]:])) is None:
            raise ShapeError(f"cannot scatter updates {updates} into {shape} by indices {indices}")
        return (shape,)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (sized(args[2], computed),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[1].dtype,)


@operator
@dataclass(frozen=True)
class SparseToDense(Op):
    """The default in input 3 in the shape of input 1, with the values in input 2 where the indices in input 0 say.

    The indices are (n, rank), or (n,) or a scalar for a result of rank 1; the values (n,), or one for all. Of several
    values for one place the last one stays. An index that is negative or too large is an error.
    """

    name: ClassVar[str] = "SPARSE_TO_DENSE"
    table: ClassVar[str | None] = "SparseToDenseOptions"
    inputs: ClassVar[Count] = exactly(4)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    validate_indices: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        indices, values = args[0].shape, args[2].shape
        expect_one(args[3], "default value")
        count = indices[0] if indices else 1
        if len(indices) > 2 or (values and agreed_shape(values, (count,)) is None):
            raise ShapeError(f"expected indices of at most rank 2 and as many values, found {indices} and {values}")
        shape = sizes(args[1], "shape")
        if len(shape) != (indices[1] if len(indices) == 2 else 1):
            raise ShapeError(f"indices: expected one number for each axis of {shape}, found shape {indices}")
        return (shape,)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (sized(args[1], computed),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[2].dtype,)


@operator
@dataclass(frozen=True)
class Where(Op):
    """The indices (n, rank), int64, of the elements of input 0 that are not zero, in row-major order."""

    name: ClassVar[str] = "WHERE"
    table: ClassVar[str | None] = "WhereOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if not args[0].shape:
            raise ShapeError("condition: expected at least rank 1, found a scalar")
        return ((int(np.count_nonzero(args[0].value)), args[0].rank),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return ((computed(prod(args[0].shape)), args[0].rank),) if args[0].shape else None

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)


def expect_window(shape: Shape, window: Shape, name: str) -> None:
    """Raises ShapeError unless a tensor of `shape` has room for the window."""
    if len(window) != len(shape) or any(length > size for length, size in zip(window, shape, strict=True)):
        raise ShapeError(f"{name}: expected one that fits into {shape}, found {window}")


@operator
@dataclass(frozen=True)
class DynamicUpdateSlice(Op):
    """Input 0 with the elements from the indices in input 2 on replaced by input 1.

    Indices move to where the update fits.
    """

    name: ClassVar[str] = "DYNAMIC_UPDATE_SLICE"
    table: ClassVar[str | None] = "DynamicUpdateSliceOptions"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_window(args[0].shape, args[1].shape, "update")
        if args[2].shape != (args[0].rank,):
            raise ShapeError(f"start indices: expected shape {(args[0].rank,)}, found {args[2].shape}")
        return (args[0].shape,)

    def open_results(self, inputs: Sequence[Array | None], evaluate: OpenResults) -> Sequence[Array] | None:
        """Of numbers, such as a shape of which one is exchanged, where the place is known."""
        values, update, starts = inputs
        if values is None or update is None or starts is None or starts.dtype.hasobject:
            raise Unknown
        found = np.array(values, np.object_)
        found[tuple(slice(begin, begin + size) for begin, size in zip(
            np.clip(starts, 0, np.subtract(values.shape, update.shape)).tolist(), update.shape, strict=True))] = update
        return (found,)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


@dataclass(frozen=True)
class UpdateRow(Op):
    """`x[i] = row`: input 0 with its row at the scalar index in input 2 replaced by input 1, of shape (1, ...).

    No format has this operator; a pass makes it. An index out of range is an error.
    """

    name: ClassVar[str] = "UPDATE_ROW"
    inputs: ClassVar[Count] = exactly(3)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if not args[0].rank or agreed_shape(args[1].shape, (1, *args[0].shape[1:])) is None:
            raise ShapeError(f"row: expected shape {(1, *args[0].shape[1:])}, found {args[1].shape}")
        expect_one(args[2], "index")
        return (args[0].shape,)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


def _expect_starts(args: Operands, first: int) -> None:
    if len(args) - first != args[0].rank:
        raise ShapeError(f"start indices: expected one for each axis of {args[0].shape}, found {len(args) - first}")
    for k in range(first, len(args)):
        expect_rank(args[k], 0, "start index")


@operator
@dataclass(frozen=True)
class StablehloDynamicUpdateSlice(Op):
    """Input 0 with the elements from the indices on replaced by input 1; each index is a scalar input of its own.

    Indices move to where the update fits.
    """

    name: ClassVar[str] = "STABLEHLO_DYNAMIC_UPDATE_SLICE"
    inputs: ClassVar[Count] = at_least(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_window(args[0].shape, args[1].shape, "update")
        _expect_starts(args, 2)
        return (args[0].shape,)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}


@operator
@dataclass(frozen=True)
class StablehloDynamicSlice(Op):
    """`slice_sizes` elements of input 0 from the indices on; each index is a scalar input of its own.

    Indices move to where the slice fits.
    """

    name: ClassVar[str] = "STABLEHLO_DYNAMIC_SLICE"
    table: ClassVar[str | None] = "StablehloDynamicSliceOptions"
    inputs: ClassVar[Count] = at_least(1)
    slice_sizes: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_window(args[0].shape, self.slice_sizes, "slice_sizes")
        _expect_starts(args, 1)
        return (self.slice_sizes,)


@operator
@dataclass(frozen=True)
class StablehloGather(Op):
    """Slices of input 0, of `slice_sizes`, from the places on that input 1 has along the axis `index_vector_dim`.

    Its number j is where the slice begins along axis `start_index_map[j]`, moved to where the slice fits; along other
    axes it begins at 0. The result has the slices' axes, without the collapsed ones, at `offset_dims`, and the other
    axes of input 1 elsewhere.
    """

    name: ClassVar[str] = "STABLEHLO_GATHER"
    table: ClassVar[str | None] = "StablehloGatherOptions"
    inputs: ClassVar[Count] = exactly(2)
    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    slice_sizes: tuple[int, ...] = ()
    indices_are_sorted: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, rank = args[0].shape, args[1].rank
        expect_window(shape, self.slice_sizes, "slice_sizes")
        if not 0 <= self.index_vector_dim <= rank:
            raise ShapeError(f"index_vector_dim: expected 0 to {rank}, found {self.index_vector_dim}")
        count = args[1].shape[self.index_vector_dim] if self.index_vector_dim < rank else 1
        axes, collapsed = self.start_index_map, self.collapsed_slice_dims
        if count != len(axes) or not are_axes(axes, len(shape)):
            raise ShapeError(f"start_index_map: expected {count} axes of input 0, found {list(axes)}")
        if not are_axes(collapsed, len(shape)) or any(self.slice_sizes[each] != 1 for each in collapsed):
            raise ShapeError(f"collapsed_slice_dims: expected axes along which slices have one element, found "
                             f"{list(collapsed)} of {self.slice_sizes}")
        batch, kept = self.batch(args[1].shape), self.kept(len(shape))
        if len(self.offset_dims) != len(kept) or not are_axes(self.offset_dims, len(batch) + len(kept)):
            raise ShapeError(f"offset_dims: expected {len(kept)} axes of {len(batch) + len(kept)}, found "
                             f"{list(self.offset_dims)}")
        rest = iter(batch)
        places = {axis: self.slice_sizes[each] for axis, each in zip(self.offset_dims, kept, strict=True)}
        return (tuple(places[k] if k in places else next(rest) for k in range(len(batch) + len(kept))),)

    def batch(self, indices: Shape) -> Shape:
        """How many slices there are, along the axes of input 1."""
        return (*indices[:self.index_vector_dim], *indices[self.index_vector_dim + 1:])

    def kept(self, rank: int) -> tuple[int, ...]:
        """The axes of slices that the result has."""
        return tuple(axis for axis in range(rank) if axis not in self.collapsed_slice_dims)


def are_axes(found: Sequence[int], rank: int) -> bool:
    """Whether these are different axes."""
    return len({*found}) == len(found) and all(0 <= each < rank for each in found)
