"""Operators that move elements to places known from shapes and parameters, without computing on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import ClassVar, TypeAlias

from circlet.runtime.ir.length import is_late
from circlet.runtime.ir.op import Count, Op, Operand, Operands, ShapeError, Unknown, at_least, exactly
from circlet.runtime.ir.position import clamped, is_empty, limited, steps
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops.operands import agreed_shape, expect_rank, normalize_axis, parts, replaced, scalar, vector
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

Index: TypeAlias = "tuple[slice | int | EllipsisType | None, ...]"
"""A basic index; it ends with `...`, so that applying it gives a view even where no axis is left."""
LONG = 10 ** 9
"""Longer than any axis: what TensorFlow's converters take for that."""
Values: TypeAlias = Sequence[int | None]
"""Parameter values; None where only a run can tell."""


def _values(operand: Operand, name: str, length: int) -> Values:
    try:
        return vector(operand, name, length)
    except Unknown:
        return (None,) * length


def permuted(shape: Shape, permutation: Sequence[int], name: str) -> tuple[int, ...]:
    """A permutation of the axes of `shape`, counted from the front."""
    axes = tuple(normalize_axis(axis, len(shape), name) for axis in permutation)
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(f"{name}: expected each axis of {shape} once, found {tuple(permutation)}")
    return axes


@operator
@dataclass(frozen=True)
class Transpose(Op):
    """Axis k of the output is axis `input 1 [k]` of input 0."""

    name: ClassVar[str] = "TRANSPOSE"
    table: ClassVar[str | None] = "TransposeOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        size = args[0].shape
        return (tuple(size[axis] for axis in permuted(size, vector(args[1], "permutation", len(size)), "permutation")),)


@operator
@dataclass(frozen=True)
class StablehloTranspose(Op):
    """Axis k of the output is axis `permutation[k]` of the input."""

    name: ClassVar[str] = "STABLEHLO_TRANSPOSE"
    table: ClassVar[str | None] = "StablehloTransposeOptions"
    permutation: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        return (tuple(shape[axis] for axis in permuted(shape, self.permutation, "permutation")),)


@operator
@dataclass(frozen=True)
class Slice(Op):
    """`size` (input 2) elements of each axis, from `begin` (input 1) on; size -1 goes to the end."""

    name: ClassVar[str] = "SLICE"
    table: ClassVar[str | None] = "SliceOptions"
    inputs: ClassVar[Count] = exactly(3)
    parts_from: ClassVar[frozenset[int]] = frozenset({1, 2})
    sizes: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        begin, size = (_values(args[k + 1], name, len(shape)) for k, name in enumerate(("begin", "size")))
        return (tuple(map(self._length, shape, begin, size)),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        shape = args[0].shape
        begin, size = (_values(args[k + 1], name, len(shape)) for k, name in enumerate(("begin", "size")))
        result: list[int] = []
        for dim, first, count in zip(shape, begin, size, strict=True):
            try:
                result.append(self._length(dim, first, count))
            except Unknown:
                result.append(computed(dim))
        return (tuple(result),)

    def index(self, shape: Shape, begin: Sequence[int], size: Sequence[int]) -> Index:
        """The index of the slice in a tensor of `shape`."""
        return (*(slice(first, first + self._length(dim, first, count))
                  for dim, first, count in zip(shape, begin, size, strict=True)), ...)

    def _length(self, dim: int, begin: int | None, size: int | None) -> int:
        if size is None or (begin is None and size == -1):
            raise Unknown
        first = 0 if begin is None else begin
        length = dim - first if size == -1 else size
        if not all(is_late(each) or each >= 0 for each in (first, length, dim - first - length)):  # code asks late ones
            raise ShapeError(f"begin {begin} and size {size} leave an axis of size {dim}")
        return length


@operator
@dataclass(frozen=True)
class StridedSlice(Op):
    """Inputs 1 to 3 are `begin`, `end` and `strides`, one entry for each of the first axes; bit k of a mask is entry k.

    `begin` and `end` count from the end of an axis where negative, and are clamped to it. With `offset`, `end` is
    relative to where the slice begins, and the slice must not leave the axis. `ellipsis_mask` marks the entry that
    stands for as many full axes as are left, `new_axis_mask` those that insert an axis of size 1 (they lose to the
    ellipsis), `shrink_axis_mask` those that take one index and drop the axis (they lose to both).
    `begin_mask` and `end_mask` mark bounds that are ignored; `offset` takes precedence over `end_mask`.
    """

    name: ClassVar[str] = "STRIDED_SLICE"
    table: ClassVar[str | None] = "StridedSliceOptions"
    inputs: ClassVar[Count] = exactly(4)
    sizes: ClassVar[frozenset[int]] = frozenset({3})
    least_size: ClassVar[int] = 1
    parts_from: ClassVar[frozenset[int]] = frozenset({1, 2})
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0
    offset: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if args[1].rank != 1:
            raise ShapeError(f"begin: expected rank 1, found shape {args[1].shape}")
        count = args[1].shape[0]
        values = [_values(args[k + 1], name, count) for k, name in enumerate(("begin", "end", "strides"))]
        result: list[int] = []
        for axis, entry in self.plan(args[0].rank, count):
            if axis is None:
                result.append(1)
            elif entry is None:
                result.append(args[0].shape[axis])
            else:
                result += self._extent(entry, args[0].shape[axis], *(each[entry] for each in values))
        return (tuple(result),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        by = args[3].known
        if args[1].rank != 1 or self.offset or (by is not None and (by.dtype.hasobject or not by.all())):
            return None
        count = args[1].shape[0]
        values = [_values(args[k + 1], name, count) for k, name in enumerate(("begin", "end", "strides"))]
        result: list[int] = []
        for axis, entry in self.plan(args[0].rank, count):
            dim = 1 if axis is None else args[0].shape[axis]
            if axis is None or entry is None:
                result.append(dim)
                continue
            try:
                result += self._extent(entry, dim, *(each[entry] for each in values))
            except Unknown:
                stride = values[2][entry]
                result.append(computed(1 if stride is not None and stride >= LONG else dim))
        return (tuple(result),)

    def plan(self, rank: int, count: int) -> tuple[tuple[int | None, int | None], ...]:
        """For each axis of the indexing the input axis (None: a new one) and the entry that selects from it (None: all
        of it), for `count` entries."""
        ellipsis = [k for k in range(count) if self.ellipsis_mask >> k & 1]
        if len(ellipsis) > 1:
            raise ShapeError(f"ellipsis_mask: expected at most one entry, found entries {ellipsis}")
        entries = [k for k in range(count) if k not in ellipsis]
        full = rank - sum(not self.new_axis_mask >> k & 1 for k in entries)
        if full < 0:
            raise ShapeError(f"begin: expected entries for at most {rank} axes, found {rank - full}")
        at = ellipsis[0] if ellipsis else count
        spread: list[int | None] = [k for k in entries if k < at]
        spread += [None] * full
        spread += [k for k in entries if k > at]
        axes = iter(range(rank))
        return tuple((None if k is not None and self.new_axis_mask >> k & 1 else next(axes), k) for k in spread)

    def index(self, shape: Shape, plan: Sequence[tuple[int | None, int | None]], begin: Sequence[int],
              end: Sequence[int], strides: Sequence[int]) -> Index:
        """The index of the slice in a tensor of `shape`, by `plan(rank, count)`."""
        index: list[slice | int | None] = []
        for axis, k in plan:
            if axis is None:
                index.append(None)
            elif k is None:
                index.append(slice(None))
            else:
                index.append(self._bounds(k, shape[axis], begin[k], end[k], strides[k]))
        return (*index, ...)

    def _extent(self, entry: int, dim: int, begin: int | None, end: int | None, stride: int | None) -> tuple[int, ...]:
        """The size of a sliced axis; () where it is dropped."""
        if begin is not None and end is not None and stride is not None:
            bounds = self._bounds(entry, dim, begin, end, stride)
            if not isinstance(bounds, slice):
                return ()
            last = -1 if bounds.stop is None else bounds.stop
            size = steps(bounds.start, last, stride)
            if stride >= LONG and is_late(size):
                raise Unknown  # whether there is an element
            return (size,)
        if self.shrink_axis_mask >> entry & 1:
            return ()
        if self.offset and end is not None and stride:
            return (max(steps(0, end, stride), 0),)
        if not self.offset and (self.begin_mask & self.end_mask) >> entry & 1 and stride:
            return (steps(0, dim, abs(stride)),)
        raise Unknown

    def _bounds(self, entry: int, dim: int, begin: int, end: int, stride: int) -> slice | int:
        if stride == 0:
            raise ShapeError(f"strides: expected none that is 0, found it in entry {entry}")
        lowest, highest = (0, dim) if stride > 0 else (-1, dim - 1)
        first, last = (lowest, highest) if stride > 0 else (highest, lowest)
        is_one = self.shrink_axis_mask >> entry & 1
        if not self.begin_mask >> entry & 1:
            first = (clamped if is_one else limited)(begin, dim, lowest, highest)
        if is_one:
            if stride < 0 or first == dim:
                raise ShapeError(f"index {begin} with stride {stride} does not select from an axis of size {dim}")
            return first
        if self.offset:
            last = first + end
        elif not self.end_mask >> entry & 1:
            last = limited(end, dim, lowest, highest)
        if is_empty(first, last, stride):
            return slice(0, 0, stride)
        if self.offset and not 0 <= first + (steps(first, last, stride) - 1) * stride < dim:
            raise ShapeError(f"offset {end} from {first} on leaves an axis of size {dim}")
        return slice(first, last if stride > 0 or last >= 0 else None, stride)


@operator
@dataclass(frozen=True)
class StablehloSlice(Op):
    """`start_indices` up to but without `limit_indices`, by `strides`, for each axis."""

    name: ClassVar[str] = "STABLEHLO_SLICE"
    table: ClassVar[str | None] = "StablehloSliceOptions"
    start_indices: tuple[int, ...] = ()
    limit_indices: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, bounds = args[0].shape, (self.start_indices, self.limit_indices, self.strides)
        if any(len(each) != len(shape) for each in bounds):
            raise ShapeError(f"expected start, limit and stride for each axis of {shape}, found {bounds}")
        for dim, start, limit, stride in zip(shape, *bounds, strict=True):
            if not 0 <= start <= limit <= dim or stride <= 0:
                raise ShapeError(f"start {start}, limit {limit} and stride {stride} do not fit an axis of size {dim}")
        return (tuple(map(len, map(range, *bounds))),)

    def index(self) -> Index:
        """The index of the slice."""
        return (*map(slice, self.start_indices, self.limit_indices, self.strides), ...)


@operator
@dataclass(frozen=True)
class Split(Op):
    """Input 1 cut along axis `input 0` into `num_splits` equal pieces."""

    name: ClassVar[str] = "SPLIT"
    table: ClassVar[str | None] = "SplitOptions"
    inputs: ClassVar[Count] = exactly(2)
    results: ClassVar[Count] = at_least(1)
    num_splits: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[1].shape
        if args.outputs != self.num_splits:
            raise ShapeError(f"num_splits: expected the number of outputs, {args.outputs}, found {self.num_splits}")
        axis = normalize_axis(scalar(args[0], "axis"), len(shape))
        if shape[axis] % self.num_splits:
            raise ShapeError(f"cannot split axis {axis} of {shape} into {self.num_splits} equal pieces")
        return (replaced(shape, axis, shape[axis] // self.num_splits),) * self.num_splits

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[1].dtype,) * args.outputs


@operator
@dataclass(frozen=True)
class SplitV(Op):
    """Input 0 cut along axis `input 2` into pieces of the sizes in input 1; one size may be -1: what is left."""

    name: ClassVar[str] = "SPLIT_V"
    table: ClassVar[str | None] = "SplitVOptions"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = at_least(1)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    num_splits: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(scalar(args[2], "axis"), len(shape))
        pieces = vector(args[1], "size_splits", args.outputs)
        found = parts(shape[axis], pieces)
        if found is None:
            raise ShapeError(f"size_splits: expected sizes that sum to {shape[axis]}, at most one of them -1, "
                             f"found {pieces}")
        return tuple(replaced(shape, axis, size) for size in found)


@operator
@dataclass(frozen=True)
class Pack(Op):
    """Tensors of one shape stacked along a new axis of the output."""

    name: ClassVar[str] = "PACK"
    lays_together: ClassVar[bool] = True
    table: ClassVar[str | None] = "PackOptions"
    inputs: ClassVar[Count] = at_least(1)
    values_count: int = 0
    axis: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        if len(args) != self.values_count:
            raise ShapeError(f"values_count: expected the number of inputs, {len(args)}, found {self.values_count}")
        for k in range(1, len(args)):
            if agreed_shape(args[k].shape, shape) is None:
                raise ShapeError(f"input {k}: expected the shape of input 0, {shape}, found {args[k].shape}")
        axis = normalize_axis(self.axis, len(shape) + 1)
        return ((*shape[:axis], len(args), *shape[axis:]),)


@operator
@dataclass(frozen=True)
class Unpack(Op):
    """The `num` slices along an axis, each without that axis."""

    name: ClassVar[str] = "UNPACK"
    table: ClassVar[str | None] = "UnpackOptions"
    results: ClassVar[Count] = at_least(1)
    num: int = 0
    axis: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(self.axis, len(shape))
        if not shape[axis] == self.num == args.outputs:
            raise ShapeError(f"num: expected the number of outputs, {args.outputs}, and the size of axis {axis} of "
                             f"{shape}, found {self.num}")
        return ((*shape[:axis], *shape[axis + 1:]),) * self.num


@dataclass(frozen=True)
class Joining(Op):
    """Base of the operators that join tensors along an axis they have."""

    inputs: ClassVar[Count] = at_least(1)

    @property
    @abstractmethod
    def along(self) -> int:
        """The axis, which may count from the end."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(self.along, len(shape))
        for k, given in enumerate(shapes := [args[k].shape for k in range(len(args))]):
            found = agreed_shape(shape, replaced(given, axis, shape[axis]))
            if found is None or len(given) != len(shape):
                raise ShapeError(f"input {k}: expected the shape of input 0, {shape}, but for axis {axis}, "
                                 f"found {given}")
            shape = found
        return (replaced(shape, axis, sum(each[axis] for each in shapes)),)

    def appends(self) -> Mapping[int, tuple[int, int]]:
        return {0: (0, self.along)}


@operator
@dataclass(frozen=True)
class Concatenation(Joining):
    """Tensors joined along an axis. uint8 inputs with another scale or zero point than the output are requantised."""

    name: ClassVar[str] = "CONCATENATION"
    table: ClassVar[str | None] = "ConcatenationOptions"
    axis: int = 0
    fused_activation_function: Activation = Activation.NONE

    @property
    def along(self) -> int:
        return self.axis


@operator
@dataclass(frozen=True)
class StablehloConcatenate(Joining):
    """Tensors joined along an axis."""

    name: ClassVar[str] = "STABLEHLO_CONCATENATE"
    table: ClassVar[str | None] = "StablehloConcatenateOptions"
    dimension: int = 0

    @property
    def along(self) -> int:
        return self.dimension


@operator
@dataclass(frozen=True)
class ReverseV2(Op):
    """Input 0 with the order along the axes in input 1 reversed."""

    name: ClassVar[str] = "REVERSE_V2"
    table: ClassVar[str | None] = "ReverseV2Options"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_rank(args[1], 1, "axes")
        if args[1].known is not None:
            self.index(args[0].shape, vector(args[1], "axes"))
        return (args[0].shape,)

    def index(self, shape: Shape, axes: Sequence[int]) -> Index:
        """The index of the reversed tensor in one of `shape`."""
        reverse = [normalize_axis(axis, len(shape), "axes") for axis in axes]
        if len(set(reverse)) != len(reverse):
            raise ShapeError(f"axes: expected each axis at most once, found {tuple(axes)}")
        return (*(slice(None, None, -1 if axis in reverse else None) for axis in range(len(shape))), ...)


@operator
@dataclass(frozen=True)
class ReverseSequence(Op):
    """Input 0 whose slice b of axis `batch_dim` has its first `input 1 [b]` entries of axis `seq_dim` reversed."""

    name: ClassVar[str] = "REVERSE_SEQUENCE"
    table: ClassVar[str | None] = "ReverseSequenceOptions"
    inputs: ClassVar[Count] = exactly(2)
    seq_dim: int = 0
    batch_dim: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        sequence, batch = self.axes(len(shape))
        if agreed_shape(args[1].shape, (shape[batch],)) is None:
            raise ShapeError(f"seq_lengths: expected shape {(shape[batch],)}, found {args[1].shape}")
        for length in () if args[1].known is None else args[1].known.tolist():
            if not 0 <= length <= shape[sequence]:
                raise ShapeError(f"seq_lengths: expected 0 to {shape[sequence]}, found {length}")
        return (shape,)

    def axes(self, rank: int) -> tuple[int, int]:
        """The sequence axis and the batch axis, counted from the front."""
        sequence = normalize_axis(self.seq_dim, rank, "seq_dim")
        batch = normalize_axis(self.batch_dim, rank, "batch_dim")
        if sequence == batch:
            raise ShapeError(f"seq_dim: expected another axis than batch_dim, found {sequence} for both")
        return sequence, batch


@operator
@dataclass(frozen=True)
class MatrixDiag(Op):
    """Matrices (..., n, n) of zeros but for the diagonals, which input 0 (..., n) holds."""

    name: ClassVar[str] = "MATRIX_DIAG"
    table: ClassVar[str | None] = "MatrixDiagOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if not args[0].shape:
            raise ShapeError("input 0: expected at least rank 1, found a scalar")
        return ((*args[0].shape, args[0].shape[-1]),)


@operator
@dataclass(frozen=True)
class MatrixSetDiag(Op):
    """Input 0 (..., m, n) with the diagonals replaced by input 1 (..., min(m, n))."""

    name: ClassVar[str] = "MATRIX_SET_DIAG"
    table: ClassVar[str | None] = "MatrixSetDiagOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        if len(shape) < 2:
            raise ShapeError(f"input 0: expected at least rank 2, found shape {shape}")
        expected = (*shape[:-2], min(shape[-2:]))
        if args[1].shape != expected:
            raise ShapeError(f"diagonal: expected shape {expected}, found {args[1].shape}")
        return (shape,)

    def overwrites(self) -> Mapping[int, int]:
        return {0: 0}
