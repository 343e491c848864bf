"""Native rule of the error function; the host computes the functions beside it."""

from __future__ import annotations

from circlet.backends.native.emit import math
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import single_or_half
from circlet.backends.native.rules.rule import Node, fused
from circlet.runtime.ops.transcendental import Erf


@fused(Erf, single_or_half)
def error_function(node: Node[Erf]) -> tuple[Value]:
    """Of x, erf of each element."""
    return elementwise(node, lambda e, dtype, values: math.erf(e, values[0]))
