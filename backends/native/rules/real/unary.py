"""Native rules of elementwise operators on one input, of real values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit import math, trigonometry
from circlet.backends.native.emit.emitter import Emitter, is_real
from circlet.backends.native.emit.lanes import Function, Lanes, single
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.real.elementwise import Combine, clamp, compare, elementwise, mul
from circlet.backends.native.rules.refusals import plain, real, single_or_half
from circlet.backends.native.rules.rule import Node, fused
from circlet.backends.refusal import Refusal
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import unary as ops

Transform: TypeAlias = Callable[[Emitter, DType, ir.Value], ir.Value]
"""Emits a result from one element of the given type."""


def _of_one(transform: Transform) -> Combine:
    """A function of one element, as one of a list."""
    return lambda e, dtype, values: transform(e, dtype, values[0])


def _real(function: Function) -> Transform:
    """A function of lanes of real numbers, of any type that it takes."""
    return lambda e, dtype, x: function(e, x)


def _wide(function: Function, name: str) -> Transform:
    """The same, and of doubles the C library's function that LLVM has an intrinsic for."""
    return lambda e, dtype, x: e.intrinsic(name, x) if dtype is DType.FLOAT64 else function(e, x)


def _intrinsic(name: str) -> Transform:
    """LLVM's intrinsic of a name."""
    return lambda e, dtype, x: e.intrinsic(name, x)


def _clamped(low: float | None, high: float | None) -> Transform:
    """Limits an element to an interval whose bounds may be None."""
    return lambda e, dtype, x: clamp(e, x, dtype, low, high)


def _negative(e: Emitter, dtype: DType, x: ir.Value) -> ir.Value:
    """The sign turned over, also that of zero and NaN; integers wrap."""
    return e.builder.fneg(x) if is_real(dtype) else e.builder.neg(x)


def _absolute(e: Emitter, dtype: DType, x: ir.Value) -> ir.Value:
    """Without the sign; the least integer stays."""
    if is_real(dtype):
        return e.intrinsic("fabs", x)
    return e.select(compare(e, dtype, "<", x, e.constant(0, dtype)), e.builder.neg(x), x)


def _sign(e: Emitter, dtype: DType, x: ir.Value) -> ir.Value:
    """-1, 1 or the element itself where it is zero or NaN."""
    zero = e.constant(0, dtype)
    found = e.select(compare(e, dtype, "==", x, zero), zero, x)
    for relation, sign in (("<", -1), (">", 1)):
        found = e.select(compare(e, dtype, relation, x, zero), e.constant(sign, dtype), found)
    return found


@single
def _elu(x: Lanes) -> Lanes:
    """x, or exp(x) - 1 where it is negative."""
    return (x < 0.0).where(Lanes(x.e, math.expm1(x.e, x.value)), x)


@single
def _hard_swish(x: Lanes) -> Lanes:
    """x * relu6(x + 3) * (1 / 6)."""
    return x * (x + 3.0).clamp(0.0, 6.0) * (1 / 6)


_GENERAL: dict[type[Op], Transform] = {
    ops.Abs: _absolute,
    ops.Neg: _negative,
    ops.Sign: _sign,
    ops.Square: lambda e, dtype, x: mul(e, dtype, [x, x]),
    ops.Sqrt: _intrinsic("sqrt"),
    ops.Floor: _intrinsic("floor"),
    ops.Ceil: _intrinsic("ceil"),
    ops.Round: _intrinsic("rint"),
    ops.Relu: _clamped(0, None),
    ops.Relu6: _clamped(0, 6),
    ops.ReluN1To1: _clamped(-1, 1),
    ops.Relu0To1: _clamped(0, 1),
    ops.LogicalNot: lambda e, dtype, x: e.builder.not_(x),
    ops.ZerosLike: lambda e, dtype, x: e.constant(0, dtype),
}
"""Of all numbers that the operators take."""
_SINGLE: dict[type[Op], Function] = {
    ops.Rsqrt: math.rsqrt,
    ops.Exp: math.exp,
    ops.Log: math.log,
    ops.Sin: trigonometry.sin,
    ops.Cos: trigonometry.cos,
    ops.Tanh: math.tanh,
    ops.Logistic: math.logistic,
    ops.Silu: math.silu,
    ops.Elu: _elu,
    ops.HardSwish: _hard_swish,
    ops.StablehloCbrt: math.cbrt,
}
"""Of single and half precision."""
_OF_DOUBLES: dict[type[Op], str] = {ops.Exp: "exp", ops.Log: "log", ops.Sin: "sin", ops.Cos: "cos"}
"""Those that are computed of doubles as well, by the intrinsic of a name."""
_SYNONYMS: dict[type[Op], type[Op]] = {
    ops.StablehloAbs: ops.Abs,
    ops.StablehloNegate: ops.Neg,
    ops.StablehloFloor: ops.Floor,
    ops.StablehloRsqrt: ops.Rsqrt,
    ops.StablehloExponential: ops.Exp,
    ops.StablehloLog: ops.Log,
    ops.StablehloCosine: ops.Cos,
    ops.StablehloTanh: ops.Tanh,
    ops.StablehloLogistic: ops.Logistic,
}
"""Operators that compute what another one does."""


def _define(op: type[Op], refuses: Refusal, transform: Transform) -> None:
    """Registers an elementwise rule."""
    fused(op, refuses)(partial(elementwise, combine=_of_one(transform)))


_ALL: dict[type[Op], tuple[Refusal, Transform]] = {
    **{op: (plain, transform) for op, transform in _GENERAL.items()},
    **{op: (single_or_half, _real(function)) for op, function in _SINGLE.items()},
    **{op: (real, _wide(_SINGLE[op], name)) for op, name in _OF_DOUBLES.items()},
}
"""What each operator refuses, and what it computes."""
for _op, (_refuses, _transform) in _ALL.items():
    _define(_op, _refuses, _transform)
for _op, _same in _SYNONYMS.items():
    _define(_op, *_ALL[_same])


@fused(ops.LeakyRelu)
def leaky_relu(node: Node[ops.LeakyRelu]) -> tuple[Value]:
    """Of x, each element, times alpha where it is not above zero."""
    def transform(e: Emitter, dtype: DType, x: ir.Value) -> ir.Value:
        scaled = e.builder.fmul(x, e.constant(dtype.numpy.type(node.op.alpha), dtype))
        return e.select(compare(e, dtype, ">", x, e.constant(0, dtype)), x, scaled)

    return elementwise(node, _of_one(transform))


@fused(ops.Gelu, single_or_half)
def gelu(node: Node[ops.Gelu]) -> tuple[Value]:
    """Of x, gelu of each element, by tanh where the operator says so."""
    return elementwise(node, _of_one(_real(math.gelu_by_tanh if node.op.approximate else math.gelu)))
