"""Gives the elements beyond a length a value that makes no difference."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import FLOATS, INTEGERS, DType
from circlet.runtime.ops.comparison import Less, LogicalAnd, SelectV2
from circlet.runtime.ops.shape import Range, Reshape
from circlet.runtime.passes.transforms.growth.state import COUNTER, Refused
from circlet.runtime.passes.transforms.growth.step import Callee, capacity
from circlet.runtime.passes.transforms.loops.layout import like


def masked(c: Callee, position: int, axes: Iterable[int], fill: float) -> Value:
    """An operand with `fill` beyond its lengths along the given axes."""
    s, x, declared = c.s, c.given(position), c.step.tensor(position)
    flags = [_within(c, position, axis) for axis in axes]
    if not flags:
        return x
    inside = flags[0]
    for each in flags[1:]:
        inside = s.op(LogicalAnd(), inside, each, outputs=[Tensor("inside", DType.BOOL, (), has_rank=False)])[0]
    constant = s.constant(np.array(fill).astype(declared.dtype.numpy), declared.dtype)
    return s.op(SelectV2(), inside, x, constant, outputs=[like(declared, "masked")])[0]


def places(s: SubgraphBuilder, count: Value) -> Value:
    """0, 1, 2, ..., so many of them."""
    zero, one = (s.constant(np.array(each, COUNTER.numpy)) for each in (0, 1))
    return s.op(Range(), zero, count, one, outputs=[Tensor("places", COUNTER, (1,), (-1,))])[0]


def _within(c: Callee, position: int, axis: int) -> Value:
    """Whether each place along an axis is within the length, in a shape that broadcasts to that of the operand."""
    rank, state = len(c.step.signature(position)), c.step.state(position)
    assert state is not None, "only padded operands are masked"
    shape = tuple(-1 if each == axis else 1 for each in range(rank))
    target = c.s.constant(np.array(shape, np.int32))
    along = Tensor("places", COUNTER, (1,) * rank, shape)
    count = capacity(c.s, c.given(position), axis)
    spread = c.s.op(Reshape(), places(c.s, count), target, outputs=[along])[0]
    flag = Tensor("inside", DType.BOOL, (1,) * rank, shape)
    return c.s.op(Less(), spread, c.length(state.axes[axis]), outputs=[flag])[0]


def expect_plain(*tensors: Tensor) -> None:
    """Raises Refused for elements that stand for other values than themselves, or are no numbers."""
    for each in tensors:
        quantized = each.quantization is not None and (each.quantization.scales or each.quantization.blockwise)
        if quantized or each.dtype not in FLOATS | INTEGERS | {DType.BOOL}:
            raise Refused(f"{each.name!r} has elements that cannot be masked")


def least(dtype: DType) -> float:
    """The least element of a type."""
    return -np.inf if dtype in FLOATS else 0 if dtype is DType.BOOL else int(np.iinfo(dtype.numpy).min)


def greatest(dtype: DType) -> float:
    """The greatest element of a type."""
    return np.inf if dtype in FLOATS else 1 if dtype is DType.BOOL else int(np.iinfo(dtype.numpy).max)
