"""Finds the buffer that each address in a module is derived from, and carries it beside the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir
from llvmlite.ir import instructions as ins

from circlet.backends.native.emit.emitter import I64

Origin: TypeAlias = "tuple[ir.Value, ir.Value]"
"""Where a buffer begins, as an i64, and how many bytes it has."""


def size_of(kind: ir.Type) -> int:
    """The bytes that a value takes in memory: elements of a vector lie side by side to the bit."""
    if isinstance(kind, ir.IntType):
        return -(-int(kind.width) // 8)
    if isinstance(kind, ir.VectorType) and isinstance(kind.element, ir.IntType):
        return -(-int(kind.count * kind.element.width) // 8)
    if isinstance(kind, (ir.VectorType, ir.ArrayType)):
        return int(kind.count) * size_of(kind.element)
    return 8 if isinstance(kind, ir.PointerType) else {"half": 2, "float": 4, "double": 8}[str(kind)]


def is_address(value: ir.Value) -> bool:
    """Whether a value leads to memory, and not to a function."""
    kind = value.type
    return isinstance(kind, ir.PointerType) and (kind.is_opaque or not isinstance(kind.pointee, ir.FunctionType))


def replace_operand(instruction: ins.Instruction, position: int, value: ir.Value) -> None:
    """Gives an instruction another operand."""
    operands = list(instruction.operands)
    operands[position] = value
    instruction.operands = operands


class Origins:
    """The origins of the addresses in a module."""

    def __init__(self, buffers: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """
        Args:
            buffers: addresses at which a buffer begins, and the buffer's size in bytes, an i64.
        """
        self._buffers = buffers
        self._sizes = {id(address): size for address, size in buffers}
        self._found: dict[int, Origin] = {}

    def of(self, address: ir.Value) -> Origin:
        """The origin of an address, to be used wherever the address is."""
        if id(address) not in self._found:
            self._found[id(address)] = self._find(address)
        return self._found[id(address)]

    def extend(self, function: ir.Function) -> None:
        """Makes a function take the origin of each address among its arguments."""
        addresses = [each for each in function.args if is_address(each)]
        added = [ir.Argument(function, I64) for _ in range(2 * len(addresses))]
        for k, each in enumerate(addresses):
            self._found[id(each)] = added[2 * k], added[2 * k + 1]
        function.args = (*function.args, *added)
        function.ftype = ir.FunctionType(function.ftype.return_type, [each.type for each in function.args])
        function.type = function.ftype.as_pointer()

    def pass_on(self, call: ins.CallInstr) -> None:
        """Gives a function that takes origins those of its arguments."""
        addresses = [each for each in call.args if is_address(each)]
        call.operands = [*call.operands, *(number for each in addresses for number in self.of(each))]

    def _find(self, address: ir.Value) -> Origin:
        """Where the buffer of an address begins, and its size, by what computed the address."""
        if id(address) in self._sizes:
            return self._begun(address, self._sizes[id(address)])
        if isinstance(address, ins.AllocaInstr):
            count = address.operands[0].constant if address.operands else 1
            return self._begun(address, ir.Constant(I64, count * size_of(address.allocated_type)))
        if isinstance(address, ir.GlobalVariable):
            return address.ptrtoint(I64), ir.Constant(I64, size_of(address.value_type))
        if isinstance(address, ins.GEPInstr):
            return self.of(address.pointer)
        if isinstance(address, ins.PhiInstr):
            return self._joined(address)
        if isinstance(address, ins.SelectInstr):
            return self._selected(address)
        assert isinstance(address, ir.Constant), f"nobody knows the buffer of {address}"
        return ir.Constant(I64, 0), ir.Constant(I64, 0)

    def _begun(self, address: ir.Value, size: ir.Value) -> Origin:
        """The origin of an address at which a buffer begins."""
        builder = ir.IRBuilder()
        if isinstance(address, ir.Argument):
            builder.position_at_start(address.parent.entry_basic_block)
        else:
            builder.position_after(address)
        return builder.ptrtoint(address, I64), size

    def _joined(self, phi: ins.PhiInstr) -> Origin:
        """The origin of a phi: a phi for each of its numbers."""
        builder = ir.IRBuilder()
        builder.position_after(phi)
        origin = builder.phi(I64), builder.phi(I64)
        self._found[id(phi)] = origin
        for value, block in phi.incomings:
            for each, number in zip(origin, self.of(value), strict=True):
                each.add_incoming(number, block)
        return origin

    def _selected(self, select: ins.SelectInstr) -> Origin:
        """The origin of a choice of two: a choice for each of its numbers."""
        condition, *choices = select.operands
        one, other = (self.of(each) for each in choices)
        builder = ir.IRBuilder()
        builder.position_after(select)
        begin, length = (builder.select(condition, *each) for each in zip(one, other, strict=True))
        return begin, length
