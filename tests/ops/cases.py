"""Operator cases as data, and what runs them: every case on every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.activation import Activation, Variables
from circlet.runtime.exec.kernel import Backend, Call
from circlet.runtime.ir.model import Tensor
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.types import DType, Quantization

BACKENDS: dict[str, Backend] = {"cpu": CpuBackend()}


@dataclass(frozen=True)
class T:
    """A tensor of a case: its value and, where numpy does not tell, its type and quantisation."""

    value: npt.ArrayLike
    dtype: DType | None = None
    """By default numpy's type of `value`; Python floats are float32, Python integers int32."""
    q: Quantization | None = None
    constant: bool = False
    """A constant of the model rather than an input."""

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
        return Tensor("", self.dtype or DType.of(array.dtype), array.shape, data=array if self.constant else None,
                      quantization=self.q)


def q(scale: float, zero_point: int = 0) -> Quantization:
    """Per-tensor quantisation."""
    return Quantization((float(np.float32(scale)),), (zero_point,))


@dataclass(frozen=True)
class Case:
    """One operator applied to inputs, and what it must give."""

    id: str
    op: Op
    inputs: Sequence[T | npt.ArrayLike | None]
    outputs: Sequence[T | npt.ArrayLike]
    tolerance: float | None = None
    """Relative and, of the largest output, absolute; None: equal to the bit."""
    error: str | None = None
    """The message that computing the case must raise instead of giving `outputs`."""


def as_t(value: T | npt.ArrayLike) -> T:
    return value if isinstance(value, T) else T(value)


def evaluate(case: Case, backend: Backend) -> list[npt.NDArray[Any]]:
    """Computes a case through shape rule and kernel; runs the step twice to show that it keeps no state."""
    given = [None if each is None else as_t(each) for each in case.inputs]
    declared = [as_t(each).tensor for each in case.outputs]
    operands = Operands(tuple(
        None if each is None else Operand(each.tensor.dtype, each.array.shape, each.array, each.q) for each in given
    ), len(declared))
    try:
        shapes = case.op.infer(operands)
    except Unknown:
        shapes = tuple(each.shape for each in declared)
    kinds = case.op.types(operands)
    assert all(kind in (None, each.dtype) for kind, each in zip(kinds, declared, strict=True)), kinds
    if case.error is None:
        assert shapes == tuple(each.shape for each in declared)
    call = Call(case.op, tuple(None if each is None else each.tensor for each in given), tuple(declared))
    refusal = backend.refuses(call)
    assert refusal is None, refusal
    inputs = [None if each is None else each.array for each in given]
    outputs = [np.zeros(shape, each.dtype.numpy) for shape, each in zip(shapes, declared, strict=True)]
    step = backend.kernel(call).bind(inputs, outputs, Activation(Variables()))
    with np.errstate(all="ignore"):
        step()
        step()
    return outputs


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
