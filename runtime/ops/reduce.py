"""Operators that combine the elements along axes."""

from __future__ import annotations

from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operand, Operands, ShapeError, exactly
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.operands import expect_one, normalize_axis
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass

AXIS_TYPES = frozenset({DType.INT32, DType.INT64})


def reduced_axes(axes: Array, rank: int) -> tuple[int, ...]:
    """The axes to reduce, each once and in order; a scalar input has none, whatever `axes` says.

    Raises:
        ShapeError: an axis is not in [-rank, rank).
    """
    return tuple(sorted({normalize_axis(axis, rank) for axis in axes.ravel().tolist()})) if rank else ()


def reduced_shape(shape: Shape, axes: tuple[int, ...], keep_dims: bool) -> Shape:
    """The shape that remains, with 1 in place of each reduced axis if `keep_dims`."""
    if keep_dims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def single_axis(args: Operands) -> Operand:
    """Input 1 as one axis of input 0.

    Raises:
        ShapeError: input 0 is a scalar, or input 1 is not one integer.
    """
    if args[0].rank == 0:
        raise ShapeError("input 0 is a scalar: expected at least one axis")
    axis = _axis_operand(args)
    expect_one(axis, "input 1 is the axis")
    return axis


def _axis_operand(args: Operands) -> Operand:
    axis = args[1]
    if axis.dtype not in AXIS_TYPES or axis.rank > 1:
        raise ShapeError("input 1 names axes: expected a scalar or vector of int32 or int64, "
                         f"found shape {axis.shape} of {axis.dtype.value}")
    return axis


@dataclass(frozen=True)
class Reduction(Op):
    """Base: input 0 reduced over the axes in input 1, a scalar or a vector; over none, it is unchanged.

    Axes may be negative and may repeat.
    """

    table: ClassVar[str | None] = "ReducerOptions"
    inputs: ClassVar[Count] = exactly(2)
    keep_dims: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        axes = reduced_axes(_axis_operand(args).value, args[0].rank)
        return (reduced_shape(args[0].shape, axes, self.keep_dims),)


@operator
@dataclass(frozen=True)
class Sum(Reduction):
    """The sum, 0 of nothing; integers wrap, of booleans it is the disjunction."""

    name: ClassVar[str] = "SUM"


@operator
@dataclass(frozen=True)
class Mean(Reduction):
    """The mean; that of integers is truncated towards zero. The mean of nothing is NaN, of integers 0."""

    name: ClassVar[str] = "MEAN"


@operator
@dataclass(frozen=True)
class ReduceProd(Reduction):
    """The product, 1 of nothing; integers wrap, of booleans it is the conjunction."""

    name: ClassVar[str] = "REDUCE_PROD"


@operator
@dataclass(frozen=True)
class ReduceMax(Reduction):
    """The greatest element that is not NaN; of nothing, the least finite value of the type."""

    name: ClassVar[str] = "REDUCE_MAX"


@operator
@dataclass(frozen=True)
class ReduceMin(Reduction):
    """The least element that is not NaN; of nothing, the greatest finite value of the type."""

    name: ClassVar[str] = "REDUCE_MIN"


@operator
@dataclass(frozen=True)
class ReduceAny(Reduction):
    """Whether any element is true."""

    name: ClassVar[str] = "REDUCE_ANY"


@operator
@dataclass(frozen=True)
class ReduceAll(Reduction):
    """Whether all elements are true."""

    name: ClassVar[str] = "REDUCE_ALL"


@dataclass(frozen=True)
class Arg(Op):
    """Base: where along one axis, which disappears, an extreme element lies; the first of equal ones.

    NaN is less extreme than any number.
    """

    inputs: ClassVar[Count] = exactly(2)
    output_type: DType = DType.FLOAT32
    """INT32 or INT64."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = args[0].shape
        axis = normalize_axis(int(single_axis(args).value.item()), len(shape))
        result = reduced_shape(shape, (axis,), keep_dims=False)
        if shape[axis] == 0 and 0 not in result:
            raise ShapeError(f"axis {axis} of input 0 is empty: expected at least one element")
        return (result,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (self.output_type,)


@operator
@dataclass(frozen=True)
class ArgMax(Arg):
    """The index of the greatest element."""

    name: ClassVar[str] = "ARG_MAX"
    table: ClassVar[str | None] = "ArgMaxOptions"


@operator
@dataclass(frozen=True)
class ArgMin(Arg):
    """The index of the least element."""

    name: ClassVar[str] = "ARG_MIN"
    table: ClassVar[str | None] = "ArgMinOptions"


@operator
@dataclass(frozen=True)
class Cumsum(Op):
    """The sums of the elements up to each along one axis; integers wrap."""

    name: ClassVar[str] = "CUMSUM"
    table: ClassVar[str | None] = "CumsumOptions"
    inputs: ClassVar[Count] = exactly(2)
    exclusive: bool = False
    """The element itself does not count."""
    reverse: bool = False
    """From each element to the end."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        axis = single_axis(args)
        if axis.known is not None:
            normalize_axis(int(axis.known.item()), args[0].rank)
        return (args[0].shape,)


@dataclass(frozen=True)
class Cumprod(Cumsum):
    """The products of the elements up to each along one axis. No flatbuffer format has it."""

    name: ClassVar[str] = "CUMPROD"
    table: ClassVar[str | None] = None
