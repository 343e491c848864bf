"""What the rules that move elements share: parts of tensors, checked indices, copies into windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emitter import I1, I64, UNSIGNED, Emitter, Index, memory_type
from circlet.backends.native.rule import Node
from circlet.backends.native.value import Value, computed, in_memory
from circlet.backends.native.whole import Truth, Whole, both
from circlet.runtime.ir.types import Array, DType, Shape


def parameter(node: Node[Any], index: int) -> Array:
    """The value of an input that the rule declares as a parameter."""
    known = node.input(index).known
    assert known is not None, f"input {index} of {node.op.name} is declared as a parameter"
    return known


def wholes(e: Emitter, value: Value) -> list[Whole]:
    """The elements of a tensor of integers, in row-major order."""
    if value.known is not None:
        return [Whole(e, int(each)) for each in value.known.reshape(-1).tolist()]
    return [Whole(e, extended(e, value.linear(e, e.number(k)), value.dtype)) for k in range(value.size)]


def extended(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """An integer as an i64."""
    if value.type == I64:
        return value
    return e.builder.zext(value, I64) if dtype in UNSIGNED else e.builder.sext(value, I64)


def expect(node: Node[Any], condition: Truth, message: str, *numbers: Whole) -> None:
    """Leaves the function unless a condition holds; the message has a `{}` for each number."""
    if isinstance(condition, bool):
        if condition:
            return
        condition = ir.Constant(I1, False)
    node.function.fail_unless(condition, node.place, message, *(each.register for each in numbers))


def expect_inside(node: Node[Any], positions: Sequence[Whole], sizes: Shape) -> None:
    """Leaves the function unless each position is inside its axis."""
    e = node.function.e
    inside = [each.is_in(0, size - 1) for each, size in zip(positions, sizes, strict=True)]
    found = "{}" if len(sizes) == 1 else _numbers(len(sizes), "[]")
    axis = f"of size {sizes[0]}" if len(sizes) == 1 else f"of sizes {sizes}"
    expect(node, reduce(lambda one, other: both(e, one, other), inside, True),
           f"index {found} is out of range for an axis {axis}", *positions)


def expect_shape(node: Node[Any], sizes: Sequence[Whole]) -> bool:
    """Leaves the function unless the result has the shape that the model declares; False if it is known not to."""
    e = node.function.e
    right = [each.compare("==", size) for each, size in zip(sizes, node.shape, strict=False)]
    holds = reduce(lambda one, other: both(e, one, other), right, len(sizes) == len(node.shape))
    found = "({},)" if len(sizes) == 1 else _numbers(len(sizes), "()")
    expect(node, holds, f"the result has shape {found}, the model declares {node.shape}", *sizes)
    return holds is not False


def _numbers(count: int, brackets: str) -> str:
    return brackets[0] + ", ".join(["{}"] * count) + brackets[1]


def impossible(node: Node[Any], message: str) -> Value:
    """The result of an operator that fails whenever it is reached."""
    expect(node, False, message)
    return unreached(node)


def unreached(node: Node[Any]) -> Value:
    """The result of an operator in code that is never reached."""
    dtype = node.call.outputs[0].dtype
    return filled(node.shape, dtype, node.function.e.constant(0, dtype))


def filled(shape: Shape, dtype: DType, element: ir.Value) -> Value:
    """A tensor of equal elements."""
    return computed(shape, dtype, lambda e, index: element, lambda e, position: element)


def part(e: Emitter, x: Value, starts: Sequence[Whole], sizes: Shape, steps: Sequence[int] | None = None) -> Value:
    """`sizes` elements of each axis, `steps` apart (by default 1), from `starts` on, all of which are there."""
    strides = steps or (1,) * len(sizes)

    def element(e: Emitter, index: Index) -> ir.Value:
        return x.element(e, [(start + Whole(e, each) * step).register
                             for start, each, step in zip(starts, index, strides, strict=True)])

    if not x.flat or not _is_run(x.shape, sizes, strides):
        return computed(sizes, x.dtype, element)
    offset = _offset(e, starts, x.shape)
    if x.memory is not None:
        return in_memory(e.address(x.memory, memory_type(x.dtype), offset.register), sizes, x.dtype)
    return computed(sizes, x.dtype, element, lambda e, position: x.linear(e, (offset + Whole(e, position)).register))


def _offset(e: Emitter, starts: Sequence[Whole], shape: Shape) -> Whole:
    """The row-major position of an index."""
    terms = [start * prod(shape[axis + 1:]) for axis, start in enumerate(starts)]
    return reduce(Whole.__add__, terms, Whole(e, 0))


def _is_run(shape: Shape, sizes: Shape, steps: Sequence[int]) -> bool:
    """Whether a part of a tensor is one run of elements."""
    cut = next((axis for axis, size in enumerate(sizes) if size > 1), len(sizes))
    in_order = all(step == 1 for size, step in zip(sizes, steps, strict=True) if size > 1)
    return in_order and sizes[cut + 1:] == shape[cut + 1:]


def overwrite(e: Emitter, home: ir.Value, shape: Shape, window: Value, starts: Sequence[Whole]) -> None:
    """Writes a tensor into a window of another one of the given shape in memory."""
    if _is_run(shape, window.shape, (1,) * len(shape)):
        window.write(e, e.address(home, memory_type(window.dtype), _offset(e, starts, shape).register))
        return
    with e.nest(window.shape) as index:
        place = [(start + Whole(e, each)).register for start, each in zip(starts, index, strict=True)]
        e.store(window.element(e, index), home, window.dtype, e.linear(place, shape))
