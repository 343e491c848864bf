"""Native rules of the operators on variables, for those whose values have one type and shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I64, Emitter
from circlet.backends.native.emit.value import Value, in_memory, in_register
from circlet.backends.native.parts import Cell, Holder, Marks, RunNumber
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.errors import Place
from circlet.runtime.exec.state.cell import BLOCK
from circlet.runtime.exec.state.variables import BEFORE, CHANGED, NOW
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.runtime.records import dataclass


@fused(VarHandle)
def var_handle(node: Node[VarHandle]) -> tuple[Value]:
    """The number of the handle is known when the code is made."""
    number = node.function.variables.handle(node.op.container, node.op.shared_name)
    known = np.array(number, DType.RESOURCE.numpy).reshape(node.shape)
    return (in_register(node.function.e.constant(number, DType.RESOURCE), node.shape, DType.RESOURCE, known),)


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
    def of(cls, node: Node[Any], shape: Shape, dtype: DType) -> CellCode:
        """The cell of a variable, which is known when the code is made."""
        known, function = node.input(0).known, node.function
        assert known is not None, "the handle is a parameter"
        handle = int(known.item())
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

    def value(self, place: Place) -> tuple[ir.Value, ir.Value]:
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


def _read(node: Node[ReadVariable]) -> Value:
    """Of a handle: the value in its cell; leaves the function unless this cell holds it."""
    cell = CellCode.of(node, node.shape, node.call.outputs[0].dtype)
    return in_memory(cell.value(node.place)[0], cell.shape, cell.dtype)


@nest(ReadVariable, movable, parameters=frozenset({0}), is_last=True, lends=_read)
def read_variable(node: Node[ReadVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle: the value, copied from its cell."""
    value = _read(node)
    assert sinks[0].memory is not None, "nothing follows a rule that is the last one"
    e.copy(sinks[0].memory, value.memory, value.nbytes)


@nest(AssignVariable, movable, parameters=frozenset({0}), is_last=True)
def assign_variable(node: Node[AssignVariable], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a handle and a value: writes the value to the half of its cell that did not hold one before the run, so that
    this can be taken back, and the address to the word of the variable."""
    value = node.input(1)
    cell = CellCode.of(node, value.shape, value.dtype)
    old, free = cell.chosen(BEFORE)
    if cell.handle in node.function.variables.updated:
        _take_back(e, cell, old, free)
    node.function.write(value, free)
    e.store(e.builder.ptrtoint(free, I64), cell.words, DType.INT64, NOW)


def _take_back(e: Emitter, cell: CellCode, old: ir.Value, kept: ir.Value) -> None:
    """Puts back what the run wrote over of the value before it, as what was kept makes room for another value."""
    b = e.builder
    is_changed = b.icmp_signed("==", e.load(cell.words, DType.INT64, CHANGED), cell.run())
    with b.if_then(is_changed, likely=False):
        with e.loop(-(-cell.nbytes // BLOCK)) as block, b.if_then(cell.is_kept(block), likely=False):
            cell.copy_block(block, old, kept)
        e.store(e.wide(0), cell.words, DType.INT64, CHANGED)
