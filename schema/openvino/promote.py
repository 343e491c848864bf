"""The element type that two inputs are converted to before something combines them."""

from __future__ import annotations

from circlet.runtime.ir.types import FLOATS, INTEGERS, DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer


@layer("ConvertPromoteTypes")
def convert_promote_types(node: Node) -> tuple[Value, Value]:
    """Both inputs in the type that holds the values of either, as far as there is one; with PyTorch's rule a scalar
    takes the type of a tensor of the same kind. Where `promote_unsafe` is false, OpenVINO refuses types that hold not
    all; of these here comes what it gives otherwise."""
    a, b = node.exactly(2)
    dtype = _common(node, a, b)
    first, second = (each if each.dtype is dtype else c.cast(node.graph, each, dtype) for each in (a, b))
    return first, second


def _common(node: Node, a: Value, b: Value) -> DType:
    one, other = a.dtype, b.dtype
    if one is other or other is DType.BOOL:
        return one
    if one is DType.BOOL:
        return other
    if not {one, other} <= FLOATS | INTEGERS:
        raise node.refusal(f"inputs of {one.value} and {other.value}")
    if (one in FLOATS) is not (other in FLOATS):
        return one if one in FLOATS else other
    if node.flag("pytorch_scalar_promotion", False):
        if a.rank is None or b.rank is None:
            raise node.refusal("an input of unknown rank")
        if (a.rank == 0) is not (b.rank == 0):
            return other if a.rank == 0 else one
    return _wider(node, one, other)


def _wider(node: Node, one: DType, other: DType) -> DType:
    """The type of two that are both of floats or both of integers."""
    narrow, wide = sorted((one, other), key=lambda each: (each.numpy.itemsize, each.numpy.kind == "u"))
    if narrow.numpy.kind == wide.numpy.kind or wide.numpy.kind == "i":
        return wide
    if wide is DType.UINT64:
        return node.dtype("u64_integer_promotion_target", "f32")
    return {1: DType.INT16, 2: DType.INT32, 4: DType.INT64}[wide.numpy.itemsize]
