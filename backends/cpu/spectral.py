"""Numpy rules of operators on complex numbers and of Fourier transforms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, all_of, only, rule
from circlet.backends.cpu.steps import guarded
from circlet.runtime.exec.kernel import Step
from circlet.runtime.ir.types import DType
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
