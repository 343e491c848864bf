"""Elementary functions as native code, against double precision."""

from __future__ import annotations

import ctypes
import math as reference
import re
from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from circlet.backends.native.emit import hyperbolic, math, trigonometry
from circlet.backends.native.emit.emitter import I64, POINTER, Emitter, register_type
from circlet.backends.native.emit.lanes import Function
from circlet.backends.native.load.llvm import assembly, host, link, object_code
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.ir.types import DType

Array: TypeAlias = npt.NDArray[Any]
Reference: TypeAlias = Callable[..., Array]

_NUMBERS = count()
NAN, INF = np.nan, np.inf
LEAST, TINY, MOST = 1e-45, 1.1754944e-38, 3.4028235e38
SPECIAL = np.array([0.0, -0.0, INF, -INF, NAN, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e-8, -1e-8, 1 / 3, 16777217, 1e9, -1e9,
                    1.0000001, 0.9999999, LEAST, -LEAST, TINY, -TINY, MOST, -MOST, 88.72283, 88.72284, -87.4, -103.97,
                    -103.98], np.float32)
DENSE = np.concatenate([np.arange(0, 2**32, 4093, dtype=np.uint64).astype(np.uint32).view(np.float32), SPECIAL])
"""A million numbers of all exponents."""


def module(function: Function, arity: int, dtype: DType, symbol: str) -> str:
    """`for k in range(count): out[k] = function(*(each[k] for each in inputs))`."""
    unit = ir.Module(name=symbol)
    unit.triple, unit.data_layout = host().triple, host().data_layout
    entry = ir.Function(unit, ir.FunctionType(ir.VoidType(), [POINTER] * (arity + 1) + [I64]), symbol)
    for each in entry.args[:-1]:
        each.add_attribute("noalias")
    e = Emitter(unit, entry, host())
    *inputs, out, total = entry.args
    with e.loop(total) as k:
        e.store(function(e, *(e.load(each, dtype, k) for each in inputs)), out, dtype, k)
    e.builder.ret_void()
    return str(unit)


def applied(function: Function, *inputs: Array) -> Array:
    """The function of every element."""
    symbol, dtype = f"function_{next(_NUMBERS)}", DType.of(inputs[0].dtype)
    library = link([object_code(Piece(module(function, len(inputs), dtype, symbol)), host())], symbol)
    arrays = [*map(np.ascontiguousarray, inputs), np.empty_like(inputs[0])]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
    kind(library.address)(*(each.ctypes.data for each in arrays), inputs[0].size)
    return arrays[-1]


def errors(found: Array, expected: Array) -> Array:
    """In units in the last place of float32; infinite where one is not finite, or a zero of another sign, alone."""
    nearest = expected.astype(np.float32)
    finite = np.isfinite(found) & np.isfinite(nearest)
    unit = np.spacing(np.abs(np.where(finite, nearest, 1)).astype(np.float32))
    error = np.abs(found.astype(np.float64) - expected) / unit
    same = (np.isnan(found) & np.isnan(nearest)) | ((found == nearest) & (np.signbit(found) == np.signbit(nearest)))
    return np.where(same, 0.0, np.where(finite & ((found != 0) | (nearest != 0)), error, INF))


def erf(x: Array) -> Array:
    found: Array = np.vectorize(reference.erf, otypes=[np.float64])(x)
    return found


def normal_share(x: Array) -> Array:
    found: Array = np.vectorize(reference.erfc, otypes=[np.float64])(x * -np.sqrt(0.5))
    return found / 2


UNARY: dict[Function, tuple[Reference, float]] = {
    math.exp: (np.exp, 1.6),
    math.expm1: (np.expm1, 1.5),
    math.log: (np.log, 1.0),
    math.tanh: (np.tanh, 0.50001),
    math.logistic: (lambda x: 1 / (1 + np.exp(-x)), 2.5),
    math.erf: (erf, 1.5),
    math.sqrt: (np.sqrt, 0.5),
    math.rsqrt: (lambda x: 1 / np.sqrt(x), 1.5),
    math.cbrt: (np.cbrt, 0.50001),
    trigonometry.sin: (np.sin, 0.50001),
    trigonometry.cos: (np.cos, 0.50001),
    trigonometry.tan: (np.tan, 0.501),
    trigonometry.asin: (np.arcsin, 0.501),
    trigonometry.acos: (np.arccos, 0.501),
    trigonometry.atan: (np.arctan, 0.501),
    hyperbolic.sinh: (np.sinh, 0.501),
    hyperbolic.cosh: (np.cosh, 0.501),
    hyperbolic.asinh: (np.arcsinh, 0.51),
    hyperbolic.acosh: (np.arccosh, 0.51),
    hyperbolic.atanh: (np.arctanh, 0.51),
}
"""The reference of each function and its bound, as the documentation states it."""
BINARY: dict[Function, Reference] = {math.power: np.power, trigonometry.atan2: np.arctan2}


def name(function: object) -> str:
    return getattr(function, "__name__", "")


@pytest.mark.parametrize("function", UNARY, ids=name)
@np.errstate(all="ignore")
def test_error_over_all_exponents(function: Function) -> None:
    expected, bound = UNARY[function]
    found = errors(applied(function, DENSE), expected(DENSE.astype(np.float64)))
    worst = int(np.argmax(found))
    assert found[worst] <= bound, DENSE[worst]


@np.errstate(all="ignore")
def test_silu() -> None:
    """Below -88 the exponential is infinite, and the result 0 rather than some 1e-37."""
    found, expected = applied(math.silu, DENSE), DENSE / (1 + np.exp(-DENSE.astype(np.float64)))
    usual = ~(DENSE < -88)
    assert errors(found[usual], expected[usual]).max() <= 2.6
    low = DENSE < -88
    assert np.nanmax(np.abs(found[low & np.isfinite(DENSE)])) < 1e-36


def pairs(kind: str) -> tuple[Array, Array]:
    random, size = np.random.default_rng(0), 1 << 18
    if kind == "special":
        one, other = np.meshgrid(SPECIAL, SPECIAL)
        return one.ravel(), other.ravel()
    if kind == "all":
        one, other = random.integers(0, 2**32, (2, size), np.uint32).view(np.float32)
        return one, other
    if kind == "whole":
        return -random.lognormal(0, 2, size).astype(np.float32), random.integers(-30, 30, size).astype(np.float32)
    return (1 + random.normal(0, 1e-4, size)).astype(np.float32), random.uniform(-1e5, 1e5, size).astype(np.float32)


@pytest.mark.parametrize("kind", ["special", "all", "whole", "near one"])
@pytest.mark.parametrize("function", BINARY, ids=name)
@np.errstate(all="ignore")
def test_error_of_functions_of_two_numbers(function: Function, kind: str) -> None:
    x, y = pairs(kind)
    expected = BINARY[function](x.astype(np.float64), y.astype(np.float64))
    found = errors(applied(function, x, y), expected)
    worst = int(np.argmax(found))
    assert found[worst] <= 0.501, (x[worst], y[worst])


@pytest.mark.parametrize("function", [math.gelu, math.gelu_by_tanh], ids=name)
@np.errstate(all="ignore")
def test_gelu(function: Function) -> None:
    x = np.linspace(-12, 12, 100001, dtype=np.float32)
    real = x.astype(np.float64)
    by_tanh = 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (real + 0.044715 * real**3)))
    expected = real * (normal_share(real) if function is math.gelu else by_tanh)
    found = applied(function, x)
    np.testing.assert_allclose(found, expected, rtol=4e-7, atol=4e-7)
    np.testing.assert_array_equal(applied(function, np.array([INF, -INF, NAN, 0], np.float32)), [INF, NAN, NAN, 0])


@np.errstate(all="ignore")
def test_tanh_is_correctly_rounded() -> None:
    x = np.random.default_rng(0).uniform(-10, 10, 1 << 20).astype(np.float32)
    np.testing.assert_array_equal(applied(math.tanh, x), np.tanh(x.astype(np.float64)).astype(np.float32))


@np.errstate(all="ignore")
def test_logistic_has_the_bits_of_the_numpy_kernel() -> None:
    x = np.random.default_rng(0).uniform(-88, 20, 1 << 20).astype(np.float32)
    grown = np.exp(-x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(applied(math.logistic, x), np.float32(1) / (grown + np.float32(1)))


@pytest.mark.parametrize("function", UNARY, ids=name)
@np.errstate(all="ignore")
def test_half_precision_is_single_precision_rounded(function: Function) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    expected = applied(function, x.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(applied(function, x), expected)


def by_fours(function: Function) -> Function:
    """The function of explicit vectors of four equal lanes."""
    def emit(e: Emitter, x: ir.Value) -> ir.Value:
        vector = ir.Constant(ir.VectorType(register_type(DType.FLOAT32), 4), [0.0] * 4)
        for lane in (ir.Constant(ir.IntType(32), k) for k in range(4)):
            vector = e.builder.insert_element(vector, x, lane)
        return e.builder.extract_element(function(e, vector), ir.Constant(ir.IntType(32), 3))

    return emit


@pytest.mark.parametrize("function", UNARY, ids=name)
def test_explicit_vectors(function: Function) -> None:
    np.testing.assert_array_equal(applied(by_fours(function), DENSE[::101]), applied(function, DENSE[::101]))


@pytest.mark.parametrize("function", [*UNARY, *BINARY], ids=name)
def test_loops_become_vector_code_without_calls(function: Function) -> None:
    text = module(function, 2 if function in BINARY else 1, DType.FLOAT32, "function")
    listing = assembly(Piece(text), host())
    assert not re.search(r"^\s+(call|bl)\s", listing, re.MULTILINE)
    if host().vector_bytes >= 32:
        assert re.search("%[yz]mm", listing)
