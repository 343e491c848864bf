"""What small integer operators make of lengths, so that shapes which contain them are understood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.elementwise import Add, Sub
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, Pack, Slice, StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.reduce import ReduceProd
from circlet.runtime.ops.shape import Alias, ExpandDims, Reshape, Squeeze
from circlet.runtime.passes.transforms.growth.state import Length, NotKnown
from circlet.runtime.passes.transforms.growth.step import follows


@follows(Cast, Alias)
def same(op: Op, given: Sequence[Array]) -> Array:
    """Another integer type; of other types nobody asks."""
    return given[0]


@follows(Squeeze)
def squeeze(op: Op, given: Sequence[Array]) -> Array:
    """One number without its axes."""
    return given[0].reshape(()) if given[0].size == 1 else given[0]


@follows(ExpandDims)
def expand_dims(op: Op, given: Sequence[Array]) -> Array:
    """Another axis of size 1."""
    return np.expand_dims(given[0], numbers(given[1])[0])


@follows(Reshape)
def reshape(op: Op, given: Sequence[Array]) -> Array:
    """The same integers in another shape."""
    assert isinstance(op, Reshape)
    target = numbers(given[1]) if len(given) == 2 else op.new_shape
    return given[0].reshape(op.resolve(given[0].shape, target))


@follows(Concatenation)
def concatenation(op: Op, given: Sequence[Array]) -> Array:
    """Vectors joined."""
    return np.concatenate(given)


@follows(Pack)
def pack(op: Op, given: Sequence[Array]) -> Array:
    """Numbers, or vectors, stacked."""
    assert isinstance(op, Pack)
    return np.stack(given, op.axis)


@follows(Slice)
def slice_(op: Op, given: Sequence[Array]) -> Array:
    """Some of the numbers."""
    assert isinstance(op, Slice)
    begin, size = (numbers(each) for each in given[1:])
    return np.asarray(given[0][op.index(given[0].shape, begin, size)], object)


@follows(StridedSlice)
def strided_slice(op: Op, given: Sequence[Array]) -> Array:
    """Some of the numbers, or one."""
    assert isinstance(op, StridedSlice)
    begin, end, strides = (numbers(each) for each in given[1:])
    plan = op.plan(given[0].ndim, len(begin))
    return np.asarray(given[0][op.index(given[0].shape, plan, begin, end, strides)], object)


@follows(Gather)
def gather(op: Op, given: Sequence[Array]) -> Array:
    """Numbers at known places."""
    assert isinstance(op, Gather)
    return np.asarray(np.take(given[0], np.reshape(numbers(given[1]), given[1].shape), op.axis), object)


@follows(Add)
def add(op: Op, given: Sequence[Array]) -> Array:
    """A length and a number are another length."""
    return _combined(given, 1)


@follows(Sub)
def sub(op: Op, given: Sequence[Array]) -> Array:
    """A length without a number is another length."""
    return _combined(given, -1)


@follows(ReduceProd)
def product(op: Op, given: Sequence[Array]) -> Array:
    """All numbers of a vector multiplied, where all but a length are 1."""
    others = [each for each in given[0].reshape(-1).tolist() if each != 1]
    found = others[0] if len(others) == 1 else None if others else 1
    assert isinstance(op, ReduceProd)
    return _objects([found]).reshape((1,) if op.keep_dims else ()) if given[0].ndim == 1 else given[0]


def _combined(given: Sequence[Array], sign: int) -> Array:
    pairs = np.broadcast(*given)
    return _objects([_sum(one, other, sign) for one, other in pairs]).reshape(pairs.shape)


def numbers(value: Array) -> list[int]:
    """The integers of a parameter.

    Raises:
        NotKnown: some are lengths.
    """
    found = [each for each in value.reshape(-1).tolist() if isinstance(each, int)]
    if len(found) != value.size:
        raise NotKnown
    return found


def _objects(values: Sequence[int | Length | None]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _sum(one: int | Length | None, other: int | Length | None, sign: int) -> int | Length | None:
    if isinstance(one, Length) and isinstance(other, int):
        return one.plus(sign * other)
    if isinstance(one, int) and isinstance(other, Length) and sign == 1:
        return other.plus(one)
    return one + sign * other if isinstance(one, int) and isinstance(other, int) else None
