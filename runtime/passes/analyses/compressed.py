"""Finds which constants operators make of integers, zero points and scales."""

from __future__ import annotations

from functools import cached_property
from math import gcd, prod

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.elementwise import Mul, Sub
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.shape import Alias, ExpandDims, Reshape, Squeeze
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass

Floats = npt.NDArray[np.float32]
LEAST = 1 << 16
"""Bytes of a constant that is looked at: below, it fits into the cache."""
CACHED = 4 << 20
"""Bytes that fit into caches together. Products there take up to 30 % longer of integers: one row by 768 x 768 takes
38 us of four bits with zero points, 31 of bytes and 30 of float32 on AVX-512."""
_AT_A_TIME = 1 << 16
"""Numbers that are looked at at a time, so that they stay in the cache; the first ones mostly tell."""
_FAR = 1 << 20
"""Zero points are less: sums with them are exact."""
_MOVED, _CONVERTED = (Alias, ExpandDims, Reshape, Squeeze), (Alias, Cast)


@dataclass(frozen=True, eq=False)
class Compressed:
    """What a matrix is made of: (stored - zeros) * scales.

    Attributes:
        stored: integers, int8 or uint8, in the shape of the matrix.
        scales, zeros: of blocks, as many along each axis as these have elements, all of one size.
        bits: of an integer, 4 or 8.
    """

    stored: Array
    scales: Floats
    zeros: Floats
    bits: int

    @property
    def shifts(self) -> bool:
        """Whether there are zero points."""
        return bool(self.zeros.any())


class Compression:
    """The constants of a subgraph."""

    def __init__(self, spec: Specialization) -> None:
        self._spec = spec

    @cached_property
    def _makers(self) -> dict[int, tuple[Op, tuple[int, ...]]]:
        """The operator that gives each tensor, in a group or not, and what it reads."""
        return {each: (op, inputs) for operator in self._spec.subgraph.operators
                for op, inputs, outputs in operator.op.joined() or [(operator.op, operator.inputs, operator.outputs)]
                for each in outputs}

    @cached_property
    def is_large(self) -> bool:
        """Whether the constants that a run reads do not fit into caches."""
        known = self._spec.known
        read = {each for operator in self._spec.subgraph.operators if not known.keys() >= set(operator.outputs)
                for each in operator.inputs if each in known}
        return sum({known[each].ctypes.data: known[each].nbytes for each in read}.values()) >= CACHED

    def of(self, tensor: int) -> Compressed | None:
        """What a constant is made of, if that is RESHAPE(MUL(SUB(integers, zero points), scales)) or less, and a
        matrix."""
        known = self._spec.known[tensor]
        *outer, rows, columns = (1, *known.shape)
        product, factors = self._maker(self._through(tensor, _MOVED))
        if prod(outer) != 1 or not isinstance(product, Mul):
            return None
        whole: int = factors[0]
        zero: Array | None = np.zeros((), np.float32)
        difference, terms = self._maker(self._through(whole, _CONVERTED))
        if isinstance(difference, Sub):
            whole, zero = terms[0], self._converted(terms[1])
        numbers, scale = self._converted(whole), self._converted(factors[1])
        if numbers is None or zero is None or scale is None:
            return None
        stored, zero, scale = _bytes(numbers), zero.astype(np.float32), scale.astype(np.float32)
        if stored is None or not _makes(stored, zero, scale, known):
            return None
        blocks = _blocks(stored.shape, (rows, columns), zero, scale)
        return None if blocks is None else _narrowed(stored.reshape(rows, columns), *blocks)

    def _converted(self, tensor: int) -> Array | None:
        """The constant that a tensor is, as it was before conversions."""
        return self._spec.known.get(self._through(tensor, _CONVERTED))

    def _maker(self, tensor: int) -> tuple[Op | None, tuple[int, ...]]:
        return self._makers.get(tensor, (None, ()))

    def _through(self, tensor: int, kinds: tuple[type[Op], ...]) -> int:
        """What operators of some kinds make a tensor of."""
        op, inputs = self._maker(tensor)
        while isinstance(op, kinds):
            tensor = inputs[0]
            op, inputs = self._maker(tensor)
        return tensor


def _bytes(numbers: Array) -> Array | None:
    """Numbers as bytes; None where they are none that bytes can hold."""
    if numbers.dtype in (np.int8, np.uint8):
        return numbers
    if numbers.dtype.kind not in "iuf" or not numbers.size:
        return None
    low, high = numbers.min(), numbers.max()
    kind = np.uint8 if 0 <= low <= high <= 255 else np.int8
    return numbers.astype(kind) if np.iinfo(kind).min <= low <= high <= np.iinfo(kind).max else None


def _makes(stored: Array, zero: Array, scale: Array, known: Array) -> bool:
    """Whether a constant is (stored - zero) * scale, to the bit: looks at some numbers, then at all."""
    zero, scale = (np.atleast_1d(each) if each.ndim < stored.ndim else each for each in (zero, scale))
    wanted = known.reshape(stored.shape).view(np.uint32)
    step = max(_AT_A_TIME // max(stored[0].size, 1), 1)

    def is_made(rows: slice) -> bool:
        mine = (each[rows] if each.ndim == stored.ndim and len(each) > 1 else each for each in (zero, scale))
        real = (stored[rows].astype(np.float32) - next(mine)) * next(mine)
        return real.shape == wanted[rows].shape and bool((real.view(np.uint32) == wanted[rows]).all())

    return all(is_made(slice(k, k + step)) for k in range(0, len(stored), step))


def _blocks(made_in: Shape, shape: Shape, *parameters: Array) -> list[Floats] | None:
    """Zero points and scales of numbers of a shape as those of blocks of the matrix that these become; None where they
    are of no blocks."""
    found = [each.reshape((1,) * (len(made_in) - each.ndim) + each.shape) for each in parameters]
    axis = _joined(made_in, shape)
    if axis is not None and all(each.shape[axis] == 1 for each in found):
        found = [each.squeeze(axis) for each in found]
    elif made_in != shape:
        return None
    whole = np.broadcast_shapes(*(each.shape for each in found))
    found = [np.broadcast_to(each, whole) for each in found]
    for axis in range(2):
        size = _equal(found, axis)
        found = [each.take(range(0, each.shape[axis], size), axis) for each in found]
    return found


def _joined(made_in: Shape, shape: Shape) -> int | None:
    """The axis of three that belongs to the one before it, where these become two."""
    if len(made_in) != 3:
        return None
    first, second, third = made_in
    return 2 if (first, second * third) == shape else 1 if (first * second, third) == shape else None


def _equal(parameters: list[Floats], axis: int) -> int:
    """How many elements along an axis are equal in each of their blocks."""
    size = int(parameters[0].shape[axis])
    for each in parameters:
        lines = each if axis == 0 else each.T
        changes = np.flatnonzero((lines[1:] != lines[:-1]).any(axis=1)) + 1
        size = gcd(size, *changes.tolist())
    return size


def _narrowed(stored: Array, zeros: Floats, scales: Floats) -> Compressed:
    """With four bits where these are enough, and without zero points where all are one that bytes may be moved by."""
    if (zeros != np.rint(zeros)).any() or np.abs(zeros).max() >= _FAR:
        return Compressed(stored, scales, zeros, 8)
    low, high, zero = int(stored.min()), int(stored.max()), int(zeros.flat[0])
    if (zeros == zero).all() and low - zero >= -128 and high - zero < 128:
        moved = (stored.astype(np.int16) - zero).astype(np.int8)
        return Compressed(moved, scales, np.zeros_like(zeros), 4 if low - zero >= -8 and high - zero < 8 else 8)
    begin = min(low, 0) and -8
    if begin <= low and high < begin + 16:
        return Compressed((stored - begin).astype(np.uint8), scales, zeros - np.float32(begin), 4)
    return Compressed(stored, scales, zeros, 8)
