"""Native operators on one input: the cases, and extreme values of every type as the numpy backend has them."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary as ops
from circlet.runtime.ops.transcendental import Erf
from tests.native.against_cpu import Array, agree, applied
from tests.native.native_cases import native_test
from tests.ops.test_transcendental import CASES as TRANSCENDENTAL
from tests.ops.test_unary import CASES

test_unary = native_test(CASES)
test_transcendental = native_test(TRANSCENDENTAL)

EXACT = [ops.Abs(), ops.Neg(), ops.Sign(), ops.Square(), ops.Sqrt(), ops.Floor(), ops.Ceil(), ops.Round(), ops.Relu(),
         ops.Relu6(), ops.ReluN1To1(), ops.Relu0To1(), ops.LeakyRelu(0.3), ops.LogicalNot(), ops.ZerosLike(),
         ops.Rsqrt(), ops.StablehloAbs(), ops.StablehloNegate(), ops.StablehloFloor(), ops.StablehloRsqrt()]
NEAR = [Erf(), ops.Exp(), ops.Log(), ops.Sin(), ops.Cos(), ops.Tanh(), ops.Logistic(), ops.Silu(), ops.Elu(),
        ops.Gelu(), ops.Gelu(True), ops.HardSwish(), ops.StablehloCbrt(), ops.StablehloExponential(),
        ops.StablehloLog(), ops.StablehloCosine(), ops.StablehloTanh(), ops.StablehloLogistic()]
REALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-7, -1e-7, 3.0, -3.0, 7.25, -11.0, 20.0]
TYPES = [DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT8, DType.INT32, DType.INT64, DType.UINT8, DType.UINT32,
         DType.BOOL]


def extremes(dtype: DType) -> Array:
    """Values of a type, the greatest and the least among them; twenty times, so that loops have a vector part."""
    kind = dtype.numpy
    if kind.kind == "b":
        found = np.array([False, True])
    elif kind.kind == "f":
        limits = np.finfo(kind)
        found = np.array([*REALS, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal], kind)
    else:
        found = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1, 2, 5, 6, 7], kind)
    return np.tile(found, 20)


def supported(op: ops.Unary, dtype: DType) -> bool:
    tensor = Tensor("x", dtype, (1,))
    return CpuBackend().refuses(Call(op, (tensor,), (tensor,))) is None


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in EXACT for dtype in TYPES if supported(op, dtype)],
                         ids=lambda each: each.value if isinstance(each, DType) else each.name)
def test_exact_results_of_extreme_values(op: ops.Unary, dtype: DType) -> None:
    agree(applied(op), extremes(dtype), floats=0.0)


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in NEAR for dtype in TYPES if supported(op, dtype)],
                         ids=lambda each: each.value if isinstance(each, DType) else each.name)
def test_results_of_extreme_values(op: ops.Unary, dtype: DType) -> None:
    x = extremes(dtype)
    agree(applied(op), x[~(np.isfinite(x) & (np.abs(x) > 30))], floats=1e-3 if dtype is DType.FLOAT16 else 1e-6)
