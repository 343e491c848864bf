"""Rows in memory that fit into a few vector registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, register_type
from circlet.backends.native.rules.row_vectors import RowVectors
from circlet.backends.native.targets.constants import Uniform
from circlet.runtime.ir.length import is_length
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Tiles:
    """A row in parts that fit into vector registers, all of one size."""

    dtype: DType
    length: int
    """Elements of the row."""
    size: int
    """Elements of a part: a power of two."""
    is_masked: bool = False
    """Whether the row is shorter than the only part."""

    @classmethod
    def of(cls, e: Emitter, dtype: DType, length: int) -> Tiles:
        """Parts that take at most a quarter of the registers."""
        most = e.target.vector_bytes // dtype.numpy.itemsize * (e.target.vector_registers // 4)
        return cls(dtype, length, 1 << max(min(length, most).bit_length() - 1, 0))

    @property
    def kind(self) -> ir.Type:
        """The vector that holds a part."""
        return ir.VectorType(register_type(self.dtype), self.size)

    @contextmanager
    def each(self, e: Emitter) -> Iterator[ir.Value]:
        """A loop over where the parts begin; the last one overlaps the one before where the row is no multiple."""
        if self.is_masked:
            yield e.number(0)
            return
        with e.loop(-(-self.length // self.size)) as number:
            start = e.builder.mul(number, e.number(self.size), flags=("nsw",))
            is_even = not is_length(self.length) and self.length % self.size == 0
            yield start if is_even else e.intrinsic("smin", start, e.number(self.length - self.size))

    def constant(self, value: float | int) -> ir.Value:
        """A number in every lane."""
        return Uniform(self.kind, value)

    def load(self, e: Emitter, memory: ir.Value, position: ir.Value) -> ir.Value:
        """The part from a position in memory on, in elements."""
        vectors = RowVectors(memory, self.dtype, self.size)
        if self.is_masked:
            return vectors.first(e, position, e.number(self.length), self.constant(0))
        return vectors.load(e, position)

    def store(self, e: Emitter, value: ir.Value, memory: ir.Value, position: ir.Value) -> None:
        """Writes a part from a position in memory on, where there is room for all of it."""
        place = e.address(memory, register_type(self.dtype), position)
        e.builder.store(value, place, align=self.dtype.numpy.itemsize)
