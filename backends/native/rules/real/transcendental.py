"""Native rules of the functions of real numbers that no flatbuffer format has operators for."""

from __future__ import annotations

from functools import partial

from circlet.backends.native.emit import hyperbolic, math, trigonometry
from circlet.backends.native.emit.lanes import Function
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import single_or_half
from circlet.backends.native.rules.rule import fused
from circlet.runtime.ir.op import Op
from circlet.runtime.ops import transcendental as ops

_FUNCTIONS: dict[type[Op], Function] = {
    ops.Erf: math.erf,
    ops.Tan: trigonometry.tan,
    ops.Asin: trigonometry.asin,
    ops.Acos: trigonometry.acos,
    ops.Atan: trigonometry.atan,
    ops.Sinh: hyperbolic.sinh,
    ops.Cosh: hyperbolic.cosh,
    ops.Asinh: hyperbolic.asinh,
    ops.Acosh: hyperbolic.acosh,
    ops.Atanh: hyperbolic.atanh,
}


def _define(op: type[Op], function: Function) -> None:
    """Registers the rule of a function of each element."""
    fused(op, single_or_half)(partial(elementwise, combine=lambda e, dtype, values: function(e, values[0])))


for _op, _function in _FUNCTIONS.items():
    _define(_op, _function)
