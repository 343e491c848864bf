"""Native rules of conversions between element types."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from circlet.backends.native.elementwise import elementwise
from circlet.backends.native.emitter import UNSIGNED, Emitter, is_real, register_type
from circlet.backends.native.rule import Node, fused, plain
from circlet.backends.native.value import Value
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.quantize import Cast


def _refuses(call: Call) -> bool:
    """Leaves conversions from real numbers to integers, which saturate, to the host."""
    source, result = call.input(0).dtype, call.outputs[0].dtype
    return plain(call) or (is_real(source) and not is_real(result) and result is not DType.BOOL)


@fused(Cast, _refuses)
def cast(node: Node[Cast]) -> tuple[Value]:
    result = node.call.outputs[0].dtype
    return elementwise(node, lambda e, dtype, v: convert(e, v[0], dtype, result))


def convert(e: Emitter, value: ir.Value, source: DType, result: DType) -> ir.Value:
    """The value as another type; to BOOL it is whether it differs from zero."""
    b: Any = e.builder
    if source is result:
        return value
    kind = register_type(result)
    if result is DType.BOOL:
        zero = e.constant(0, source)
        return b.fcmp_unordered("!=", value, zero) if is_real(source) else b.icmp_unsigned("!=", value, zero)
    unsigned = source in UNSIGNED or source is DType.BOOL
    if is_real(source):
        widens = result.numpy.itemsize > source.numpy.itemsize
        return b.fpext(value, kind) if widens else b.fptrunc(value, kind)
    if is_real(result):
        return b.uitofp(value, kind) if unsigned else b.sitofp(value, kind)
    if kind.width == value.type.width:
        return value
    if kind.width < value.type.width:
        return b.trunc(value, kind)
    return b.zext(value, kind) if unsigned else b.sext(value, kind)
