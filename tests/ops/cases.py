"""Operator cases as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization, Shape


@dataclass(frozen=True)
class T:
    """A tensor of a case: its value and, where numpy does not tell, its type and quantisation."""

    value: npt.ArrayLike
    dtype: DType | None = None
    """By default numpy's type of `value`; Python floats are float32, Python integers int32."""
    q: Quantization | None = None
    constant: bool = False
    """A constant of the model rather than an input."""
    variable: bool = False
    """State of the model rather than an input; `value` is its start, real zeros."""
    shape: Shape | None = None
    """The declared shape where `value` is packed, by default that of `value`."""

    @property
    def array(self) -> npt.NDArray[Any]:
        if self.dtype is not None:
            return np.array(self.value, dtype=self.dtype.numpy)
        array = np.array(self.value)
        if isinstance(self.value, (np.ndarray, np.generic)):
            return array
        return array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))

    @property
    def tensor(self) -> Tensor:
        array = self.array
        return Tensor("", self.dtype or DType.of(array.dtype), array.shape if self.shape is None else self.shape,
                      data=array if self.constant else None, quantization=self.q, is_variable=self.variable)


def q(scale: float, zero_point: int = 0) -> Quantization:
    """Per-tensor quantisation."""
    return Quantization((float(np.float32(scale)),), (zero_point,))


@dataclass(frozen=True)
class Case:
    """One operator applied to inputs, and what it must give: where it has a state, when it runs the second time."""

    id: str
    op: Op
    inputs: Sequence[T | npt.ArrayLike | None]
    outputs: Sequence[T | npt.ArrayLike]
    tolerance: float | None = None
    """Relative and, of the largest output, absolute; None: equal to the bit."""
    error: str | None = None
    """The message that computing the case must raise instead of giving `outputs`."""
    intermediates: Sequence[T] = ()
    """Tensors that say how values inside of the operator are quantised."""

    @property
    def given(self) -> list[T | None]:
        return [None if each is None else as_t(each) for each in self.inputs]

    @property
    def expected(self) -> list[T]:
        return [as_t(each) for each in self.outputs]

    def operands(self) -> Operands:
        """The inputs as shape rules see them where all values are known."""
        return Operands(tuple(
            None if each is None else Operand(each.tensor.dtype, each.tensor.shape, each.array, each.q)
            for each in self.given
        ), len(self.outputs))

    def shapes(self) -> tuple[Shape, ...] | None:
        """What the shape rule gives where all values are known; None where only running the operator tells."""
        try:
            return self.op.infer(self.operands())
        except Unknown:
            return None


def as_t(value: T | npt.ArrayLike) -> T:
    return value if isinstance(value, T) else T(value)


def check(actual: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float | None) -> None:
    """Compares a result with what it must be.

    Floats are equal to the bit too (NaN equal to NaN) unless a tolerance is given.
    """
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if tolerance is None:
        np.testing.assert_array_equal(actual, expected)
    else:
        bound = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)) * tolerance
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=bound)
