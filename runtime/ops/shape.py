"""Operators about shapes: the same elements under another shape, shapes as values, and tensors made from a shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod
from typing import ClassVar

import numpy as np

from circlet.runtime.ir.length import is_late, lowest, may_differ
from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, between, exactly
from circlet.runtime.ir.position import promised_quotient
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.operands import (
    agreed,
    expect_one,
    expect_rank,
    integer,
    normalize_axis,
    scalar,
    shape_value,
    sized,
    sizes,
    vector,
)
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class View(Op):
    """Base of the operators whose output is input 0 under another shape, element by element in row-major order."""

    def views(self) -> Mapping[int, int]:
        return {0: 0}


@operator
@dataclass(frozen=True)
class Reshape(View):
    """Gives a tensor the shape that input 1 names if it is there and of rank 1, otherwise that of `new_shape`.

    One size may be -1: it is chosen so that the number of elements stays. If the tensor has no elements and another
    size is 0, the zeros are left out of that division.
    """

    name: ClassVar[str] = "RESHAPE"
    table: ClassVar[str | None] = "ReshapeOptions"
    inputs: ClassVar[Count] = between(1, 2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    optional: ClassVar[frozenset[int]] = frozenset({1})
    new_shape: tuple[int, ...] = ()
    """`(0,)` means `()` for a tensor that has elements: old files write a scalar's shape so."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        given, shape = args.get(1), args[0].shape
        if given is not None and given.rank == 1:
            return (self.resolve(shape, vector(given, "shape")),)
        scalar_in_old_files = self.new_shape == (0,) and prod(shape) > 0
        return (self.resolve(shape, () if scalar_in_old_files else self.new_shape),)

    def resolve(self, shape: Shape, target: Sequence[int]) -> Shape:
        """`target` with its -1 replaced."""
        fixed = [size for size in target if size != -1]
        if len(target) - len(fixed) > 1 or any(size < 0 for size in fixed):
            raise ShapeError(f"shape: expected sizes that are not negative and at most one -1, found {tuple(target)}")
        result = tuple(fixed) if len(fixed) == len(target) else tuple(
            self._rest(shape, fixed) if size == -1 else size for size in target)
        if agreed(prod(result), prod(shape)) is None:
            raise ShapeError(f"cannot reshape {shape} ({prod(shape)} elements) to {tuple(target)}")
        return result

    def _rest(self, shape: Shape, fixed: Sequence[int]) -> int:
        """What -1 stands for beside other sizes."""
        if 0 in fixed and 0 in shape:
            return prod(size for size in shape if size) // prod(size for size in fixed if size)
        count = prod(fixed)
        if not is_late(count):
            return prod(shape) // max(count, 1)
        found, others = _without_common(shape, fixed)
        if any(is_late(size) and lowest(size) < 1 for size in found):
            found, others = [prod(shape)], [count]  # 0 of the run is 0 of both
        whole, by = prod(found), prod(others)
        exact = promised_quotient(whole, by)
        return whole // by if exact is None else exact


def _without_common(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes of two shapes without those that are in both, for any lengths."""
    left, right = [], list(other)
    for size in one:
        same = next((position for position, each in enumerate(right) if not may_differ(size, each)), None)
        if same is None:
            left.append(size)
        else:
            del right[same]
    return left, right


@operator
@dataclass(frozen=True)
class ExpandDims(View):
    """Inserts an axis of size 1 before axis `input 1` of the result."""

    name: ClassVar[str] = "EXPAND_DIMS"
    table: ClassVar[str | None] = "ExpandDimsOptions"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(scalar(args[1], "axis"), len(shape) + 1)
        return ((*shape[:axis], 1, *shape[axis:]),)


@operator
@dataclass(frozen=True)
class Squeeze(View):
    """Removes the given axes of size 1, or all of them if none is given."""

    name: ClassVar[str] = "SQUEEZE"
    table: ClassVar[str | None] = "SqueezeOptions"
    squeeze_dims: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        if not self.squeeze_dims:
            if any(map(is_late, shape)):
                raise Unknown
            return (tuple(size for size in shape if size != 1),)
        removed = {normalize_axis(axis, len(shape), "squeeze_dims") for axis in self.squeeze_dims}
        for axis in removed:
            if shape[axis] != 1:
                raise ShapeError(f"squeeze_dims: expected size 1 of axis {axis}, found shape {shape}")
        return (tuple(size for axis, size in enumerate(shape) if axis not in removed),)


@operator
@dataclass(frozen=True)
class StablehloReshape(View):
    """Gives a tensor the shape that the model declares for the result."""

    name: ClassVar[str] = "STABLEHLO_RESHAPE"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        raise Unknown


@operator
@dataclass(frozen=True)
class Bitcast(View):
    """The bytes of a tensor as elements of the type that the model declares: wider ones take the place of the last
    axis, narrower ones are along a new one."""

    name: ClassVar[str] = "BITCAST"
    table: ClassVar[str | None] = "BitcastOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if not args.declared:
            raise Unknown
        shape, had, made = args[0].shape, args[0].dtype.numpy.itemsize, args.declared[0].numpy.itemsize
        if made == had:
            return (shape,)
        if made < had:
            return ((*shape, had // made),)
        if not shape or shape[-1] != made // had:
            raise Unknown  # of as many bytes, it has the shape that the model declares
        return (shape[:-1],)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)


@dataclass(frozen=True)
class Alias(View):
    """The input itself. No format has this operator; a pass makes it of operators that change nothing."""

    name: ClassVar[str] = "ALIAS"
    elementwise: ClassVar[bool] = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)


@operator
@dataclass(frozen=True)
class Densify(View):
    """The input itself. A pass gives constants that are stored as sparse ones all their elements before."""

    name: ClassVar[str] = "DENSIFY"
    table: ClassVar[str | None] = "DensifyOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return (args[0].shape,)


@operator
@dataclass(frozen=True)
class ShapeOf(Op):
    """The shape of a tensor as (rank,) of int32 or int64."""

    name: ClassVar[str] = "SHAPE"
    table: ClassVar[str | None] = "ShapeOptions"
    out_type: DType = DType.FLOAT32

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if self.out_type not in (DType.INT32, DType.INT64):
            raise ShapeError(f"out_type: expected int32 or int64, found {self.out_type.value}")
        return ((args[0].rank,),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.out_type,)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        return (shape_value(args[0].shape, self.out_type.numpy),)


@operator
@dataclass(frozen=True)
class Rank(Op):
    """The rank of a tensor, an int32 scalar."""

    name: ClassVar[str] = "RANK"
    table: ClassVar[str | None] = "RankOptions"

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        return ((),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT32,)

    def from_shapes(self, args: Operands) -> tuple[Array, ...] | None:
        return (np.array(args[0].rank, np.int32),)


@operator
@dataclass(frozen=True)
class Fill(Op):
    """A tensor of the shape in input 0, each element the scalar in input 1."""

    name: ClassVar[str] = "FILL"
    table: ClassVar[str | None] = "FillOptions"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({0})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_rank(args[1], 0, "value")
        return (sizes(args[0], "dims"),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (sized(args[0], computed),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[1].dtype,)


@operator
@dataclass(frozen=True)
class Range(Op):
    """`start`, `start + delta`, ... up to but without `limit`: int32, int64 or float32 scalars.

    It has ceil((limit - start) / delta) elements, which float32 inputs compute in float32.
    """

    name: ClassVar[str] = "RANGE"
    table: ClassVar[str | None] = "RangeOptions"
    inputs: ClassVar[Count] = exactly(3)
    sizes: ClassVar[frozenset[int]] = frozenset({0, 1, 2})
    starts: ClassVar[frozenset[int]] = frozenset({0})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        for index, name in enumerate(("start", "limit", "delta")):
            expect_rank(args[index], 0, name)
        start, limit, delta = (args[index].value[()] for index in range(3))
        if not ((delta < 0 and start >= limit) or (delta > 0 and start <= limit)):
            raise ShapeError(f"delta: expected a step from start {start} towards limit {limit}, found {delta}")
        if args[0].dtype is not DType.FLOAT32:
            return ((-((integer(start) - integer(limit)) // integer(delta)),),)
        with np.errstate(all="ignore"):
            count = (limit - start) / delta
        if not np.isfinite(count):
            raise ShapeError(f"limit: expected one that steps of {delta} from {start} reach, found {limit}")
        return ((ceil(count),),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return ((computed(None),),)


@operator
@dataclass(frozen=True)
class OneHot(Op):
    """`on` (input 2) where the new axis of `depth` (input 1) positions meets its index, `off` (input 3) elsewhere."""

    name: ClassVar[str] = "ONE_HOT"
    table: ClassVar[str | None] = "OneHotOptions"
    inputs: ClassVar[Count] = exactly(4)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    axis: int = 0
    """Where the new axis goes; -1 is behind the others."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        for index, name in ((2, "on value"), (3, "off value")):
            expect_one(args[index], name)
        axis = normalize_axis(self.axis, len(shape) + 1)
        depth = scalar(args[1], "depth")
        if depth < 0:
            raise ShapeError(f"depth: expected a size that is not negative, found {depth}")
        return ((*shape[:axis], depth, *shape[axis:]),)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        shape = args[0].shape
        axis = normalize_axis(self.axis, len(shape) + 1)
        return ((*shape[:axis], computed(None), *shape[axis:]),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[2].dtype,)


@operator
@dataclass(frozen=True)
class BroadcastTo(Op):
    """Input 0 repeated along new leading axes and axes of size 1 until it has the shape in input 1."""

    name: ClassVar[str] = "BROADCAST_TO"
    table: ClassVar[str | None] = "BroadcastToOptions"
    inputs: ClassVar[Count] = exactly(2)
    sizes: ClassVar[frozenset[int]] = frozenset({1})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape, target = args[0].shape, sizes(args[1], "shape")
        aligned = (1,) * (len(target) - len(shape)) + shape
        if len(aligned) != len(target) or any(
                may_differ(a, 1) and a not in (b, 1) and agreed(a, b) is None
                for a, b in zip(aligned, target, strict=True)):
            raise ShapeError(f"cannot broadcast {shape} to {target}")
        return (target,)

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return (sized(args[1], computed),)


@operator
@dataclass(frozen=True)
class BroadcastArgs(Op):
    """The shape that two shapes broadcast to; all of them are values of rank 1."""

    name: ClassVar[str] = "BROADCAST_ARGS"
    inputs: ClassVar[Count] = exactly(2)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        expect_rank(args[0], 1, "shape 0")
        expect_rank(args[1], 1, "shape 1")
        return ((max(args[0].shape[0], args[1].shape[0]),),)

    def resolve(self, first: Array, second: Array) -> Array:
        """The broadcast of two shapes."""
        rank = max(len(first), len(second))
        a, b = (np.concatenate([np.ones(rank - len(shape), shape.dtype), shape]) for shape in (first, second))
        if np.any((a != b) & (a != 1) & (b != 1)):
            raise ShapeError(f"cannot broadcast {tuple(first.tolist())} with {tuple(second.tolist())}")
        return np.where(a == 1, b, a)


@operator
@dataclass(frozen=True)
class StablehloBroadcastInDim(Op):
    """Input 0, whose axis k becomes axis `broadcast_dimensions[k]`, repeated to the shape that the model declares."""

    name: ClassVar[str] = "STABLEHLO_BROADCAST_IN_DIM"
    table: ClassVar[str | None] = "StablehloBroadcastInDimOptions"
    broadcast_dimensions: tuple[int, ...] = ()

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if len(set(self.broadcast_dimensions)) != len(self.broadcast_dimensions) or \
                len(self.broadcast_dimensions) != args[0].rank:
            raise ShapeError(f"broadcast_dimensions: expected one for each axis of {args[0].shape}, all different, "
                             f"found {self.broadcast_dimensions}")
        raise Unknown

    def align(self, shape: Shape, target: Shape) -> Shape:
        """`shape` with axes of size 1 where `target` has axes that the input lacks."""
        aligned = [1] * len(target)
        for axis, size in zip(self.broadcast_dimensions, shape, strict=True):
            if not 0 <= axis < len(target) or size not in (1, target[axis]):
                raise ShapeError(f"cannot broadcast {shape} to {target} along axes {self.broadcast_dimensions}")
            aligned[axis] = size
        return tuple(aligned)


@operator
@dataclass(frozen=True)
class StablehloIota(Op):
    """Each element is its index along `iota_dimension`; shape and type are what the model declares."""

    name: ClassVar[str] = "STABLEHLO_IOTA"
    table: ClassVar[str | None] = "StablehloIotaOptions"
    inputs: ClassVar[Count] = exactly(0)
    iota_dimension: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        raise Unknown

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (None,)
