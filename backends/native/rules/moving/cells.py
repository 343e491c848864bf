"""The memory of variables in this process: two halves, so that a run that fails can be taken back."""

from __future__ import annotations

from math import prod

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I64, Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.parts import Cell, Holder, Marks, RunNumber
from circlet.backends.native.rules.function import Function
from circlet.runtime.errors import Place
from circlet.runtime.exec.state.cell import BLOCK
from circlet.runtime.exec.state.store import BEFORE, CHANGED, NOW
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class CellCode:
    """Where the values of a variable lie that have a type and shape."""

    handle: int
    shape: Shape
    dtype: DType
    halves: tuple[ir.Value, ...]
    words: ir.Value
    """`NOW`, `BEFORE` and `CHANGED`."""
    function: Function

    @classmethod
    def of(cls, function: Function, handle: int, shape: Shape, dtype: DType) -> CellCode:
        """The cell of a variable."""
        halves = (function.external(memory, Cell(handle, shape, dtype, half))
                  for half, memory in enumerate(function.variables.reserve(handle, shape, dtype).halves))
        words = function.external(function.variables.holder(handle), Holder(handle))
        return cls(handle, shape, dtype, tuple(halves), words, function)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.numpy.itemsize

    def is_in(self, half: int, word: int) -> ir.Value:
        """Whether a word is the address of a half."""
        e = self.function.e
        return e.builder.icmp_signed("==", e.load(self.words, DType.INT64, word),
                                     e.builder.ptrtoint(self.halves[half], I64))

    def chosen(self, word: int) -> tuple[ir.Value, ir.Value]:
        """The half that a word is the address of, and the other one."""
        is_first, b = self.is_in(0, word), self.function.e.builder
        return b.select(is_first, *self.halves), b.select(is_first, *reversed(self.halves))

    def value(self, place: Place) -> ir.Value:
        """The half that holds the value; leaves the function if neither does."""
        return self.halves_by_value(place)[0]

    def assign(self, value: Value) -> None:
        """Writes a value to the half that did not hold one before the run, so that this can be taken back, and the
        address to the word of the variable."""
        e, (old, free) = self.function.e, self.chosen(BEFORE)
        if self.handle in self.function.variables.updated:
            _take_back(e, self, old, free)
        self.function.write(value, free)
        e.store(e.builder.ptrtoint(free, I64), self.words, DType.INT64, NOW)

    def halves_by_value(self, place: Place) -> tuple[ir.Value, ir.Value]:
        """The half that holds the value, and the other one; leaves the function if neither does."""
        self.function.fail_unless(self.function.e.builder.or_(self.is_in(0, NOW), self.is_in(1, NOW)), place,
                                  f"variable {self.function.variables.name_of(self.handle)!r} is read before it is "
                                  f"assigned a {self.dtype.value} of shape {self.shape}")
        return self.chosen(NOW)

    def run(self) -> ir.Value:
        """The number of the run."""
        function = self.function
        return function.e.load(function.external(function.variables.number, RunNumber()), DType.INT64)

    def marks(self) -> ir.Value:
        """Where the marks of blocks lie."""
        found = self.function.variables.reserve(self.handle, self.shape, self.dtype)
        return self.function.external(found.marks, Marks(self.handle, self.shape, self.dtype))

    def copy_block(self, block: ir.Value, target: ir.Value, source: ir.Value) -> None:
        """Copies a block from its place in one half to that in the other."""
        e = self.function.e
        begin = e.builder.mul(block, e.number(BLOCK))
        size = e.intrinsic("umin", e.number(BLOCK), e.builder.sub(e.number(self.nbytes), begin))
        e.copy(e.address(target, I8, begin), e.address(source, I8, begin), size)

    def is_kept(self, block: ir.Value) -> ir.Value:
        """Whether the run has kept a block."""
        e = self.function.e
        return e.builder.icmp_signed("==", e.load(self.marks(), DType.INT64, block), self.run())


def _take_back(e: Emitter, cell: CellCode, old: ir.Value, kept: ir.Value) -> None:
    """Puts back what the run wrote over of the value before it, as what was kept makes room for another value."""
    b = e.builder
    is_changed = b.icmp_signed("==", e.load(cell.words, DType.INT64, CHANGED), cell.run())
    with b.if_then(is_changed, likely=False):
        with e.loop(-(-cell.nbytes // BLOCK)) as block, b.if_then(cell.is_kept(block), likely=False):
            cell.copy_block(block, old, kept)
        e.store(e.wide(0), cell.words, DType.INT64, CHANGED)
