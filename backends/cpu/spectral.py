"""Numpy rules of operators on complex numbers and of Fourier transforms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import guarded, promised
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import FLOATS, Array, DType
from circlet.runtime.ops import spectral as ops

_COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)


@rule(ops.Real, accepts=_COMPLEX)
def real(node: Node[ops.Real]) -> Step:
    return partial(np.copyto, node.out, node.input(0).real)


@rule(ops.Imag, accepts=_COMPLEX)
def imag(node: Node[ops.Imag]) -> Step:
    return partial(np.copyto, node.out, node.input(0).imag)


@rule(ops.ComplexAbs, accepts=_COMPLEX)
def complex_abs(node: Node[ops.ComplexAbs]) -> Step:
    return partial(np.absolute, node.input(0), node.out)


@rule(ops.Rfft2D, accepts=all_of(only({DType.FLOAT32}), only({DType.INT32, DType.INT64}, operand=1)))
def rfft2d(node: Node[Any]) -> Step:
    """Computed in double precision."""
    x, lengths, out = node.input(0), node.input(1), node.out
    return guarded(node, (1,), lambda: np.copyto(out, np.fft.rfft2(x.astype(np.float64), lengths.tolist()), "unsafe"))


@rule(ops.Dft, accepts=FLOATS)
def dft(node: Node[ops.Dft]) -> Step:
    op, x, out, length, along = node.op, node.input(0), node.out, node.optional(1), node.input(2)
    check = promised(node)

    def step() -> None:
        check()
        axis = along.item() % x.ndim
        numbers = _numbers(x) if x.shape[-1] == 2 else x[..., 0]
        if op.inverse and op.onesided:
            out[..., 0] = np.fft.irfft(numbers, out.shape[axis], axis)
            return
        count = numbers.shape[axis] if length is None else length.item()
        found = (np.fft.ifft if op.inverse else np.fft.fft)(numbers, count, axis)
        found = found.take(range(out.shape[axis]), axis)
        out[..., 0], out[..., 1] = found.real, found.imag

    return step


def _numbers(x: Array) -> Array:
    """Complex numbers of their parts; a product with the imaginary unit would spread NaN and infinities to both."""
    found: Array = np.empty(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    found.real, found.imag = x[..., 0], x[..., 1]
    return found
