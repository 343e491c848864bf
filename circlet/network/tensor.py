"""The values of a network, with Python's operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import ClassVar, NoReturn, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from circlet.network.layer import Result
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import INTEGERS, Array, DType
from circlet.runtime.ops.comparison import (
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalOr,
    NotEqual,
)
from circlet.runtime.ops.elementwise import Add, BitwiseXor, Div, FloorDiv, FloorMod, Mul, Pow, RightShift, Sub
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import (
    ArgMax,
    ArgMin,
    Mean,
    ReduceAll,
    ReduceAny,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    Reduction,
    Sum,
)
from circlet.runtime.ops.shape import ExpandDims, Reshape, Squeeze
from circlet.runtime.ops.unary import Abs, LogicalNot, Neg

Like: TypeAlias = Union["Tensor", npt.ArrayLike]
"""A tensor, or what becomes a constant: Python numbers and lists take the element type of what they meet."""
Axes: TypeAlias = int | Sequence[int] | None
Index: TypeAlias = Union[int, slice, EllipsisType, "Tensor", Array, None]

LOGICAL = frozenset({DType.BOOL})


class Recorder(Protocol):
    """Where operators on tensors are recorded."""

    def apply(self, op: Op, *operands: Tensor, dtype: DType | None = None, name: str = "") -> Tensor:
        """Applies an operator that has one output."""
        ...

    def constant(self, array: Array | np.generic, name: str = "") -> Tensor:
        """A constant of the element type and shape of an array."""
        ...

    def tensor(self, value: Like, dtype: DType | None = None, name: str = "") -> Tensor:
        """A tensor as it is; anything else as a constant."""
        ...

    def aligned(self, *values: Like) -> tuple[Tensor, ...]:
        """Tensors of one element type."""
        ...

    def select(self, x: Tensor, index: tuple[Index, ...]) -> Tensor:
        """`x[index]`."""
        ...


@dataclass(frozen=True, eq=False)
class Tensor(Result):
    """A value that a network computes. Operators on it, and its methods, add layers to the network.

    Operands broadcast by numpy's rules and must have one element type; Python numbers and lists take the type of what
    they meet. Comparisons give tensors of booleans, so a tensor has no truth value.
    """

    graph: Recorder

    __array_ufunc__: ClassVar[None] = None
    """Makes numpy leave `array + tensor` to the tensor."""

    @property
    def ndim(self) -> int:
        """The number of axes.

        Raises:
            ModelError: only a run can tell.
        """
        if self.shape is None:
            raise ModelError(f"{self.name}: expected a known number of axes, found a tensor of unknown rank")
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<Tensor {self}>"

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no truth value while the network is built: branch with net.cond(...) or "
                        "net.conditional(...), repeat with net.while_loop(...) or net.loop(), choose elements with "
                        "net.where(...), join conditions with & | ~")

    def __array__(self, *args: object, **options: object) -> NoReturn:
        raise TypeError(f"{self} has no value while the network is built: apply the functions of the network, "
                        "not those of numpy")

    def __index__(self) -> NoReturn:
        raise TypeError(f"{self} has no value while the network is built")

    def __len__(self) -> int:
        if not self.shape or self.shape[0] < 0:
            raise TypeError(f"{self} has no length that is known while the network is built")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape or self.shape[0] < 0:
            raise TypeError(f"{self} has no length that is known while the network is built: "
                            "iterate with net.loop() and loop.iterator(...)")
        return (self[k] for k in range(self.shape[0]))

    def __add__(self, other: Like) -> Tensor:
        return self._binary(Add(), other)

    def __radd__(self, other: Like) -> Tensor:
        return self._reflected(Add(), other)

    def __sub__(self, other: Like) -> Tensor:
        return self._binary(Sub(), other)

    def __rsub__(self, other: Like) -> Tensor:
        return self._reflected(Sub(), other)

    def __mul__(self, other: Like) -> Tensor:
        return self._binary(Mul(), other)

    def __rmul__(self, other: Like) -> Tensor:
        return self._reflected(Mul(), other)

    def __truediv__(self, other: Like) -> Tensor:
        return self._floats("/")._binary(Div(), other)

    def __rtruediv__(self, other: Like) -> Tensor:
        return self._floats("/")._reflected(Div(), other)

    def __floordiv__(self, other: Like) -> Tensor:
        return self._binary(FloorDiv(), other)

    def __rfloordiv__(self, other: Like) -> Tensor:
        return self._reflected(FloorDiv(), other)

    def __mod__(self, other: Like) -> Tensor:
        return self._binary(FloorMod(), other)

    def __rmod__(self, other: Like) -> Tensor:
        return self._reflected(FloorMod(), other)

    def __pow__(self, other: Like) -> Tensor:
        return self._binary(Pow(), other)

    def __rpow__(self, other: Like) -> Tensor:
        return self._reflected(Pow(), other)

    def __rshift__(self, other: Like) -> Tensor:
        return self._of(INTEGERS, ">>")._binary(RightShift(), other)

    def __matmul__(self, other: Like) -> Tensor:
        return matmul(self, self.graph.aligned(self, other)[1])

    def __rmatmul__(self, other: Like) -> Tensor:
        return matmul(self.graph.aligned(other, self)[0], self)

    def __neg__(self) -> Tensor:
        return self.graph.apply(Neg(), self)

    def __abs__(self) -> Tensor:
        return self.graph.apply(Abs(), self)

    def __invert__(self) -> Tensor:
        return self.graph.apply(LogicalNot(), self._of(LOGICAL, "~"))

    def __and__(self, other: Like) -> Tensor:
        return self._of(LOGICAL, "&")._binary(LogicalAnd(), other)

    def __rand__(self, other: Like) -> Tensor:
        return self._of(LOGICAL, "&")._reflected(LogicalAnd(), other)

    def __or__(self, other: Like) -> Tensor:
        return self._of(LOGICAL, "|")._binary(LogicalOr(), other)

    def __ror__(self, other: Like) -> Tensor:
        return self._of(LOGICAL, "|")._reflected(LogicalOr(), other)

    def __xor__(self, other: Like) -> Tensor:
        return self._of(LOGICAL | INTEGERS, "^")._binary(self._xor(), other)

    def __rxor__(self, other: Like) -> Tensor:
        return self._of(LOGICAL | INTEGERS, "^")._reflected(self._xor(), other)

    def __lt__(self, other: Like) -> Tensor:
        return self._binary(Less(), other)

    def __le__(self, other: Like) -> Tensor:
        return self._binary(LessEqual(), other)

    def __gt__(self, other: Like) -> Tensor:
        return self._binary(Greater(), other)

    def __ge__(self, other: Like) -> Tensor:
        return self._binary(GreaterEqual(), other)

    def __eq__(self, other: Like) -> Tensor:  # type: ignore[override]
        return self._binary(Equal(), other)

    def __ne__(self, other: Like) -> Tensor:  # type: ignore[override]
        return self._binary(NotEqual(), other)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Tensor:
        """numpy's basic indexing, and at most one tensor of integers, which selects along its axis and is checked
        when the model runs; there a negative index is an error."""
        return self.graph.select(self, index if isinstance(index, tuple) else (index,))

    def astype(self, dtype: DType | npt.DTypeLike) -> Tensor:
        """The values in another element type; floats become integers by truncation."""
        target = as_dtype(dtype)
        return self.graph.apply(Cast(self.dtype, target), self, dtype=target)

    def reshape(self, shape: int | Sequence[int] | Tensor, *more: int) -> Tensor:
        """The elements under another shape: sizes, one of which may be -1, or a vector of integers."""
        if isinstance(shape, Tensor):
            return self.graph.apply(Reshape(), self, shape)
        sizes = (shape, *more) if isinstance(shape, int) else tuple(shape)
        return self.graph.apply(Reshape(sizes), self, self.graph.constant(np.array(sizes, np.int32)))

    def transpose(self, *axes: int) -> Tensor:
        """Axis k of the result is axis `axes[k]`; without arguments their order is reversed."""
        order = axes or tuple(reversed(range(self.ndim)))
        return self.graph.apply(Transpose(), self, self.graph.constant(np.array(order, np.int32)))

    @property
    def T(self) -> Tensor:  # noqa: N802  # numpy's name
        """All axes in reverse order."""
        return self.transpose()

    def expand_dims(self, axis: int) -> Tensor:
        """Inserts an axis of size 1."""
        return self.graph.apply(ExpandDims(), self, self.graph.constant(np.int32(axis)))

    def squeeze(self, *axes: int) -> Tensor:
        """Removes the given axes of size 1, or all of them."""
        return self.graph.apply(Squeeze(axes), self)

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._reduce(Sum(keepdims), axis)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._floats("mean")._reduce(Mean(keepdims), axis)

    def prod(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._reduce(ReduceProd(keepdims), axis)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._reduce(ReduceMax(keepdims), axis)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._reduce(ReduceMin(keepdims), axis)

    def any(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._of(LOGICAL, "any")._reduce(ReduceAny(keepdims), axis)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        return self._of(LOGICAL, "all")._reduce(ReduceAll(keepdims), axis)

    def argmax(self, axis: int = -1) -> Tensor:
        """Where the greatest element of each row along an axis lies, as int32; the first of equal ones."""
        return self.graph.apply(ArgMax(DType.INT32), self, self.graph.constant(np.int32(axis)))

    def argmin(self, axis: int = -1) -> Tensor:
        """Where the least element of each row along an axis lies, as int32; the first of equal ones."""
        return self.graph.apply(ArgMin(DType.INT32), self, self.graph.constant(np.int32(axis)))

    def _binary(self, op: Op, other: Like) -> Tensor:
        return self.graph.apply(op, *self.graph.aligned(self, other))

    def _reflected(self, op: Op, other: Like) -> Tensor:
        return self.graph.apply(op, *self.graph.aligned(other, self))

    def _reduce(self, op: Reduction, axis: Axes) -> Tensor:
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        return self.graph.apply(op, self, self.graph.constant(np.array(list(axes), np.int32)))

    def _of(self, allowed: frozenset[DType], symbol: str) -> Tensor:
        """The tensor itself, if an operator is defined on its element type."""
        if self.dtype not in allowed:
            names = ", ".join(sorted(each.value for each in allowed))
            raise ModelError(f"{symbol} of {self}: expected elements of {names}, found {self.dtype.value}")
        return self

    def _floats(self, symbol: str) -> Tensor:
        if self.dtype in INTEGERS | LOGICAL:
            raise ModelError(f"{symbol} of {self}: expected floats, found {self.dtype.value}; cast first, or divide "
                             "integers with //")
        return self

    def _xor(self) -> Op:
        return NotEqual() if self.dtype is DType.BOOL else BitwiseXor()


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The product of matrices, batch dimensions broadcast; a vector on either side is a row or a column."""
    if 0 in (x.ndim, y.ndim):
        raise ModelError(f"@ of {x} and {y}: expected at least one axis of each")
    rows = x.expand_dims(0) if x.ndim == 1 else x
    columns = y.expand_dims(1) if y.ndim == 1 else y
    product = x.graph.apply(BatchMatMul(), rows, columns)
    dropped = [-2] * (x.ndim == 1) + [-1] * (y.ndim == 1)
    return product.squeeze(*(product.ndim + axis for axis in dropped)) if dropped else product


def as_dtype(dtype: DType | npt.DTypeLike) -> DType:
    return dtype if isinstance(dtype, DType) else DType.of(dtype)
