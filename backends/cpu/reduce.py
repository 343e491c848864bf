"""Numpy rules of the operators that combine elements along axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.arithmetic.fixed_point import (
    quantize_multiplier,
    rescaler,
    rescaler_64,
    round_half_away,
    stored_value,
)
from circlet.backends.arithmetic.quantization import is_quantized
from circlet.backends.cpu.quantized import NUMBERS, one_quantization, supports
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, like, rebound, saturating
from circlet.backends.refusal import all_of, names
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import INTEGERS, QUANTIZABLE, Array, DType, Quantization
from circlet.runtime.ops import reduce as ops

Prepare: TypeAlias = Callable[[Node[Any]], Step]
"""Makes a step for the present value of the axes in input 1."""

ADDABLE = INTEGERS | {DType.FLOAT32, DType.FLOAT64}


def by_axes(prepare: Prepare) -> Prepare:
    """A rule that prepares its step once if the axes are constant, else before each run."""
    return lambda node: rebound(node, (1,), lambda: prepare(node))


def _axes(node: Node[Any]) -> tuple[int, ...]:
    return ops.reduced_axes(node.input(1), node.input(0).ndim)


def _count(node: Node[Any]) -> int:
    """How many elements go into each result."""
    return prod(node.input(0).shape[axis] for axis in _axes(node))


def mean(x: Array, *axes: int) -> Array:
    """The mean of floats along axes, which stay with length 1; NaN where they are empty, of which `np.mean` warns."""
    count = x.dtype.type(prod(x.shape[each] for each in axes))
    return np.asarray(np.add.reduce(x, axes, keepdims=True) / count)


def _reduce(function: np.ufunc) -> Prepare:
    def prepare(node: Node[ops.Reduction]) -> Step:
        x, out = node.input(0), node.out
        if not x.size:
            return partial(out.fill, identity(function, out.dtype))
        return partial(function.reduce, x, axis=_axes(node), out=out, keepdims=node.op.keep_dims)

    return prepare


def identity(function: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """The result of combining nothing; for fmax and fmin the value that no finite one falls below or exceeds."""
    if function.identity is not None:
        return function.identity
    least = function is np.fmax
    if dtype.kind == "b":
        return not least
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return limits.min if least else limits.max


def _mean(node: Node[ops.Mean]) -> Step:
    x, out, axes, count = node.input(0), node.out, _axes(node), _count(node)
    work = out if x.dtype.kind == "f" else np.empty(out.shape, np.uint64 if x.dtype.kind == "u" else np.int64)
    add = partial(np.add.reduce, x, axis=axes, out=work, keepdims=node.op.keep_dims)

    def divide() -> None:
        add()
        np.divide(out, count, out)

    divisor, most = like(work, count), like(work, max(count - 1, 0))

    def divide_truncating() -> None:
        add()
        np.floor_divide(np.where(work < 0, work + most, work), divisor, out, casting="unsafe")

    return divide if work is out else divide_truncating


def _parameters(node: Node[Any]) -> tuple[Quantization, Quantization]:
    return node.quantization(), node.output_quantization()


def _quantized_sum(node: Node[ops.Sum]) -> Step:
    """As LiteRT's reference kernel for uint8; that kernel misreads other types, which follow its optimised one."""
    source, target = _parameters(node)
    if node.dtype() is DType.UINT8:
        return _rescaled_sum(node, rescaler(*quantize_multiplier(source.scale / target.scale)))
    scale = np.float32(source.scale) / np.float32(target.scale)
    return _rescaled_sum(node, lambda total: round_half_away(total.astype(np.float32) * scale))


def _quantized_mean(node: Node[ops.Mean]) -> Step:
    """The multiplier is divided by the count, after gaining as many bits as the count has."""
    source, target = _parameters(node)
    multiplier, shift = quantize_multiplier(source.scale / target.scale)
    count = _count(node)
    if count == 0:
        return partial(node.out.fill, 0)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    return _rescaled_sum(node, rescaler((multiplier << more) // count, shift - more))


def _rescaled_sum(node: Node[Any], rescale: Callable[[Array], Array]) -> Step:
    total, store = np.empty(node.out.shape, np.int64), saturating(node.out)
    source, target = _parameters(node)
    zero = _count(node) * source.zero_point
    add = partial(np.add.reduce, node.input(0), axis=_axes(node), out=total, keepdims=node.op.keep_dims)

    def step() -> None:
        add()
        store(rescale(total - zero) + target.zero_point)

    return step


def _quantized_product(node: Node[ops.ReduceProd]) -> Step:
    """The product in the order of the elements, each factor rescaled by the count-th root of the output's scale."""
    axes, count = _axes(node), _count(node)
    source, target = _parameters(node)
    kept = ops.reduced_shape(node.input(0).shape, axes, keep_dims=False)
    store = saturating(node.out.reshape(kept))
    if count == 0:
        return partial(store, np.array(stored_value(1.0, target)))
    rescale = rescaler_64(*quantize_multiplier(source.scale / target.scale ** (1 / count)))
    factors = np.moveaxis(node.input(0), axes, range(len(axes)))

    def step() -> None:
        product = np.ones(kept, np.int64)
        for number, index in enumerate(np.ndindex(factors.shape[:len(axes)])):
            factor = factors[index].astype(np.int64) - source.zero_point
            product = rescale(product * factor).astype(np.int64) if number else factor
        store(rescale(product) + target.zero_point)

    return step


def _define(op: type[ops.Reduction], plain: Prepare, quantized: Prepare, accepts: Callable[[Call], str | None]) -> None:
    @rule(op, accepts=accepts)
    @by_axes
    def bind(node: Node[Any]) -> Step:
        return (quantized if is_quantized(node.call.input(0)) else plain)(node)

_accepts_order = all_of(supports(NUMBERS | {DType.BOOL}, QUANTIZABLE), one_quantization)

_define(ops.Sum, _reduce(np.add), _quantized_sum, supports(ADDABLE | {DType.BOOL}, QUANTIZABLE))
_define(ops.Mean, _mean, _quantized_mean, supports(ADDABLE, QUANTIZABLE))
_define(ops.ReduceProd, _reduce(np.multiply), _quantized_product, supports(ADDABLE | {DType.BOOL}, QUANTIZABLE))
_define(ops.ReduceMax, _reduce(np.fmax), _reduce(np.fmax), _accepts_order)
_define(ops.ReduceMin, _reduce(np.fmin), _reduce(np.fmin), _accepts_order)
_define(ops.ReduceAny, _reduce(np.logical_or), _reduce(np.logical_or), supports({DType.BOOL}))
_define(ops.ReduceAll, _reduce(np.logical_and), _reduce(np.logical_and), supports({DType.BOOL}))


def _accepts_arg(call: Call) -> str | None:
    assert isinstance(call.op, ops.Arg)
    if call.op.output_type not in ops.AXIS_TYPES:
        return f"output type {call.op.output_type.value} (supported: {names(ops.AXIS_TYPES)})"
    return supports(NUMBERS | {DType.BOOL}, QUANTIZABLE)(call)


@by_axes
def _find_extreme(node: Node[Any]) -> Step:
    """Numpy ranks NaN before all numbers, so NaN is first replaced by what no number falls behind."""
    x, out, (axis,) = node.input(0), node.out, _axes(node)
    function, last, skip = (np.argmax, -np.inf, np.fmax) if isinstance(node.op, ops.ArgMax) \
        else (np.argmin, np.inf, np.fmin)
    if not out.size:
        return lambda: None
    if x.dtype.kind != "f":
        return lambda: np.copyto(out, function(x, axis), "unsafe")
    numbers = np.empty_like(x)

    def step() -> None:
        skip(x, last, numbers)
        np.copyto(out, function(numbers, axis), "unsafe")

    return step


rule(ops.ArgMax, accepts=_accepts_arg)(_find_extreme)
rule(ops.ArgMin, accepts=_accepts_arg)(_find_extreme)


@rule(ops.Cumsum, accepts=ADDABLE)
@by_axes
def cumsum(node: Node[ops.Cumsum]) -> Step:
    return _accumulated(node, np.add)


@rule(ops.Cumprod, accepts=ADDABLE)
@by_axes
def cumprod(node: Node[ops.Cumprod]) -> Step:
    return _accumulated(node, np.multiply)


def _accumulated(node: Node[Any], function: np.ufunc) -> Step:
    """Sums begin with 0, so that none is -0."""
    (axis,) = _axes(node)
    source, target = (np.moveaxis(array, axis, 0) for array in (node.input(0), node.out))
    if node.op.reverse:
        source, target = source[::-1], target[::-1]
    steps: list[Step] = []
    if node.op.exclusive:
        steps.append(partial(target[:1].fill, function.identity))
        source, made = source[:-1], target[1:]
    else:
        made = target
    steps.append(partial(function.accumulate, source, 0, None, made))
    if function is np.add and made.dtype.kind == "f":
        steps.append(partial(np.add, made, like(made, 0), made))
    return chain(*steps)
