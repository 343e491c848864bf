"""Numpy rules of the operators on one input, of real values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import erf, pi, sqrt
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.arithmetic.quantization import is_quantized
from circlet.backends.cpu.quantized import NUMBERS, supports
from circlet.backends.cpu.quantized_unary import QUANTIZED
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, clamp, like
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import FLOATS, Array, DType
from circlet.runtime.ops import unary as ops

Body: TypeAlias = Callable[[Array, Array], Step]
"""Makes the step that computes an output buffer, which may be the input buffer, from an input buffer."""


def _ufunc(function: np.ufunc) -> Body:
    return lambda x, out: partial(function, x, out)


def _rounded(function: np.ufunc) -> Body:
    """The function computed in float64 and rounded once.

    A recurrent network that quantises its state in each turn amplifies the last bit of a float32 approximation.
    """
    return lambda x, out: partial(function, x, out, dtype=np.float64, casting="unsafe")


def _clamped(low: float, high: float) -> Body:
    return lambda x, out: chain(*clamp(x, low, high, out))


def _rsqrt(x: Array, out: Array) -> Step:
    return chain(partial(np.sqrt, x, out), partial(np.divide, like(out, 1), out, out))


def _logistic(x: Array, out: Array) -> Step:
    return chain(partial(np.negative, x, out), _rounded(np.exp)(out, out), partial(np.add, out, like(out, 1), out),
                 partial(np.reciprocal, out, out))


def _elu(x: Array, out: Array) -> Step:
    return lambda: np.copyto(out, np.where(x < 0, np.expm1(x), x))


def _hard_swish(x: Array, out: Array) -> Step:
    gate = np.empty_like(out)
    return chain(partial(np.add, x, like(out, 3), gate), *clamp(gate, 0, 6, gate), partial(np.multiply, x, gate, gate),
                 partial(np.divide, gate, like(out, 6), out))


_ERF_END = 4.0
_ERF_SLOPE = np.polynomial.Chebyshev.interpolate(
    np.vectorize(lambda square: erf(sqrt(square)) / sqrt(square)), 20, domain=[0.0, _ERF_END**2])
"""erf(r) / r as a function of r * r, to 2e-11; from r = _ERF_END on erf is 1 to 2e-8."""


def _gelu(x: Array, out: Array) -> Step:
    def run() -> None:
        root = np.clip(x * sqrt(0.5), -_ERF_END, _ERF_END).astype(np.float64)
        share = np.where(x > -_ERF_END / sqrt(0.5), 0.5 + 0.5 * root * _ERF_SLOPE(root * root), 0.0)
        np.multiply(x, share, out, casting="unsafe")

    return run


def _silu(x: Array, out: Array) -> Step:
    work = np.empty(out.shape, out.dtype)
    return chain(_logistic(x, work), partial(np.multiply, x, work, out))


def _gelu_by_tanh(x: Array, out: Array) -> Step:
    def run() -> None:
        np.multiply(0.5 * x, 1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)), out)

    return run


def _fill_zeros(x: Array, out: Array) -> Step:
    return partial(out.fill, 0)


def _in_float32(body: Body) -> Body:
    """Computes half-precision values in single precision, rounded once."""
    def wrapped(x: Array, out: Array) -> Step:
        if out.dtype != np.float16:
            return body(x, out)
        work = np.empty(out.shape, np.float32)
        return chain(partial(np.copyto, work, x), body(work, work), partial(np.copyto, out, work, "unsafe"))

    return wrapped


def _define(op: type[Op], plain: Collection[DType], make: Callable[[Node[Any]], Body]) -> None:
    quantized = QUANTIZED.get(op)

    @rule(op, accepts=supports(plain, quantized.types if quantized else (), quantized.refuses if quantized else None))
    def bind(node: Node[Any]) -> Step:
        if quantized is not None and is_quantized(node.call.input(0)):
            return quantized.bind(node)
        return make(node)(node.input(0), node.out)


_SIGNED = NUMBERS - {DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64}
_BODIES: dict[type[Op], tuple[Collection[DType], Body]] = {
    ops.Abs: (_SIGNED, _ufunc(np.absolute)),
    ops.Neg: (_SIGNED, _ufunc(np.negative)),
    ops.Sign: (_SIGNED, _ufunc(np.sign)),
    ops.Square: (NUMBERS, _ufunc(np.square)),
    ops.Sqrt: (FLOATS, _ufunc(np.sqrt)),
    ops.Rsqrt: (FLOATS, _in_float32(_rsqrt)),
    ops.Exp: (FLOATS, _ufunc(np.exp)),
    ops.Log: (FLOATS, _ufunc(np.log)),
    ops.Sin: (FLOATS, _ufunc(np.sin)),
    ops.Cos: (FLOATS, _ufunc(np.cos)),
    ops.Tanh: (FLOATS, _rounded(np.tanh)),
    ops.Logistic: (FLOATS, _in_float32(_logistic)),
    ops.Silu: ({DType.FLOAT32}, _silu),
    ops.Floor: (FLOATS, _ufunc(np.floor)),
    ops.Ceil: (FLOATS, _ufunc(np.ceil)),
    ops.Round: (FLOATS, _ufunc(np.rint)),
    ops.Relu: (NUMBERS, _clamped(0, np.inf)),
    ops.Relu6: (NUMBERS, _clamped(0, 6)),
    ops.ReluN1To1: (_SIGNED, _clamped(-1, 1)),
    ops.Relu0To1: (NUMBERS, _clamped(0, 1)),
    ops.Elu: (FLOATS, _in_float32(_elu)),
    ops.HardSwish: (FLOATS, _in_float32(_hard_swish)),
    ops.LogicalNot: ({DType.BOOL}, _ufunc(np.logical_not)),
    ops.ZerosLike: (NUMBERS | {DType.BOOL}, _fill_zeros),
    ops.StablehloCbrt: (FLOATS, _ufunc(np.cbrt)),
}
_SYNONYMS: dict[type[Op], type[Op]] = {
    ops.StablehloAbs: ops.Abs,
    ops.StablehloNegate: ops.Neg,
    ops.StablehloRsqrt: ops.Rsqrt,
    ops.StablehloExponential: ops.Exp,
    ops.StablehloLog: ops.Log,
    ops.StablehloCosine: ops.Cos,
    ops.StablehloTanh: ops.Tanh,
    ops.StablehloLogistic: ops.Logistic,
    ops.StablehloFloor: ops.Floor,
}


def _leaky_relu(node: Node[ops.LeakyRelu]) -> Body:
    def body(x: Array, out: Array) -> Step:
        slope = out.dtype.type(node.op.alpha)
        return lambda: np.copyto(out, np.where(x > 0, x, x * slope))

    return body


def _constant(body: Body) -> Callable[[Node[Any]], Body]:
    return lambda node: body


for _op, (_plain, _body) in _BODIES.items():
    _define(_op, _plain, _constant(_body))
for _op, _same in _SYNONYMS.items():
    _define(_op, _BODIES[_same][0], _constant(_BODIES[_same][1]))
_define(ops.LeakyRelu, FLOATS, _leaky_relu)
_define(ops.Gelu, FLOATS - {DType.FLOAT64}, lambda node: _in_float32(_gelu_by_tanh if node.op.approximate else _gelu))
