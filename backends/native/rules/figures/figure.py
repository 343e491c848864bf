"""The numbers that code of quantised operators computes with: multipliers, zero points, limits.

Where the function of an operator may be called for others like it, its numbers are in a table, another one for each of
them, and are loaded where the function begins; else they are constants. What code hangs on of a number, such as whether
there is anything to be added, is what code *looks* at: it is the same for operators that are alike, and code must look
at nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantized_range
from circlet.backends.native.emit.emitter import I32, I64, UNSIGNED, Emitter, register_type
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.rule import Looks, Node
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.records import dataclass, field

_WORD = 8
"""Bytes of a number in a table."""


@dataclass(frozen=True, eq=False)
class _Table:
    """The numbers of an operator in memory."""

    memory: ir.Value
    loaded: dict[tuple[ir.Function, int, str], ir.Value] = field(default_factory=dict)
    """Those that functions have loaded."""

    def number(self, e: Emitter, position: int, kind: ir.Type) -> ir.Value:
        """One of them."""
        key = e.function, position, str(kind)
        if key not in self.loaded:
            builder = e.entry.builder()
            place = builder.gep(self.memory, [e.number(position)], source_etype=I64)
            self.loaded[key] = builder.load(place, typ=kind, align=_WORD)
        return self.loaded[key]


@dataclass(frozen=True, eq=False)
class Figure:
    """Something that code computes with.

    Attributes:
        numbers: of which it consists; of real ones the bits.
        looks: what code looks at of them.
        table: where they are, and from which one on; None where they are constants.
    """

    numbers: tuple[int, ...]
    looks: Hashable = None
    table: tuple[_Table, int] | None = None

    def number(self, e: Emitter, position: int = 0, kind: ir.Type = I32) -> ir.Value:
        """One of the numbers."""
        if self.table is not None:
            table, begin = self.table
            return table.number(e, begin + position, kind)
        known = self.numbers[position]
        return ir.Constant(kind, known if isinstance(kind, ir.IntType) else _real_of(known, kind))


Figures: TypeAlias = Callable[[Call], Sequence[Figure]]
"""Those of an operator: how many there are, and of how many numbers, hangs on nothing but what they look at."""


def figured(node: Node[Any], figures: Figures) -> tuple[Figure, ...]:
    """Those of an operator, where they are."""
    found = figures(node.call)
    if not node.function.is_repeatable:
        return tuple(found)
    begins = accumulate((len(each.numbers) for each in found), initial=0)

    def numbers(call: Call) -> np.ndarray[Any, Any]:
        return np.array([number for each in figures(call) for number in each.numbers], np.int64)

    table = _Table(Made(node.call, numbers).memory(node.function))
    return tuple(Figure(each.numbers, each.looks, (table, begin)) for each, begin in zip(found, begins, strict=False))


def looking_at(figures: Figures) -> Looks:
    """What code hangs on of the figures of an operator."""
    return lambda call, target: tuple(each.looks for each in figures(call))


def quantization(tensor: Tensor) -> Quantization:
    """That of a tensor which the numpy backend refuses without one."""
    assert tensor.quantization is not None
    return tensor.quantization


def widened(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """A stored value as an i32."""
    if value.type.width == 32:
        return value
    return e.builder.zext(value, I32) if dtype in UNSIGNED else e.builder.sext(value, I32)


def real(value: float, is_known: bool, kind: ir.Type = SINGLE) -> Figure:
    """A real number; code looks at one that is known."""
    bits = np.float64(value).view(np.int64) if kind is DOUBLE else np.float32(value).view(np.int32)
    return Figure((int(bits),), value if is_known else None)


def real_number(e: Emitter, figure: Figure, kind: ir.Type = SINGLE) -> ir.Value:
    """That of `real`."""
    return figure.number(e, kind=kind) if figure.looks is None else ir.Constant(kind, figure.looks)


def _real_of(bits: int, kind: ir.Type) -> float:
    """The number that has them."""
    return float(np.int64(bits).view(np.float64) if kind is DOUBLE else np.int32(bits).view(np.float32))


def zero_of(tensor: Tensor) -> Figure:
    """The zero point of a tensor; `without` and `beyond` it look at whether it is 0."""
    found = quantization(tensor).zero_point
    return Figure((found,), found == 0)


def without(e: Emitter, value: ir.Value, zero: Figure) -> ir.Value:
    """An i32 less a zero point."""
    return value if zero.looks else e.builder.sub(value, zero.number(e))


def beyond(e: Emitter, value: ir.Value, zero: Figure) -> ir.Value:
    """An i32 and a zero point."""
    return value if zero.looks else e.builder.add(value, zero.number(e))


def limits_of(tensor: Tensor, activation: Activation = Activation.NONE) -> Figure:
    """The stored values that an activation leaves."""
    low, high = quantized_range(activation, quantization(tensor), tensor.dtype)
    most = np.iinfo(tensor.dtype.numpy)
    return Figure((low, high), (None if low > most.min else int(most.min), None if high < most.max else int(most.max)))


def within(e: Emitter, value: ir.Value, limits: Figure, dtype: DType) -> ir.Value:
    """An i32 as a stored value: the nearest one between limits."""
    b, looks = e.builder, limits.looks
    assert isinstance(looks, tuple), "limits look at what is known of them"
    for relation, position in (("<", 0), (">", 1)):
        known = looks[position]
        if register_type(dtype).width == I32.width and known is not None:
            continue
        limit = limits.number(e, position) if known is None else ir.Constant(I32, known)
        value = b.select(b.icmp_signed(relation, value, limit), limit, value)
    return b.trunc(value, register_type(dtype))


def offset(e: Emitter, value: ir.Value, tensor: Tensor) -> ir.Value:
    """A stored value without its zero point, a constant, as an i32."""
    return without(e, widened(e, value, tensor.dtype), zero_of(tensor))


def stored(e: Emitter, value: ir.Value, tensor: Tensor, activation: Activation = Activation.NONE) -> ir.Value:
    """An i32 without zero point, a constant, as a stored value, after a fused activation."""
    return within(e, beyond(e, value, zero_of(tensor)), limits_of(tensor, activation), tensor.dtype)
