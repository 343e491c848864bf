"""Writes functions in LLVM's language: what `str` gives, in a third of the time, and with numbers for names, which LLVM
reads sooner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir
from llvmlite.ir import instructions as kinds

_Line: TypeAlias = "Callable[[_Writer, ir.Instruction], str]"
"""Writes an instruction without its result and what is attached to it."""
_NO_NAME = "."
"""What the names begin with that llvmlite gives to values without one."""


def function_text(function: ir.Function) -> str:
    """A function with a body; the same for two that differ in names of values alone, but for those that were given."""
    try:
        return _Writer(function).text()
    except KeyError:  # an instruction that no rule here writes
        return str(function)


class _Writer:
    """Writes one function."""

    def __init__(self, function: ir.Function) -> None:
        self._function = function
        self._types: dict[int, str] = {}
        """Their texts, by `id`: all of them live as long as the function."""
        self._values: dict[int, str] = {}
        """What they are called, by `id`."""
        self._number()

    def text(self) -> str:
        """In LLVM's language."""
        found: list[str] = []
        self._function.descr_prototype(found)
        found.append("{\n")
        for block in self._function.blocks:
            found.append(f"{block._format_name()}:\n")
            found += [self._line(each) for each in block.instructions]
        found.append("}\n")
        return "".join(found)

    def kind(self, kind: ir.Type) -> str:
        """A type."""
        found = self._types.get(id(kind))
        if found is None:
            found = self._types[id(kind)] = str(kind)
        return found

    def value(self, value: ir.Value) -> str:
        """What a value is called, or the constant that it is."""
        found = self._values.get(id(value))
        if found is None:
            if type(value) is ir.Constant and type(value.constant) is int and value.type.__class__ is ir.IntType:
                found = str(value.constant)
            else:
                found = value.get_reference()
            self._values[id(value)] = found
        return found

    def typed(self, value: ir.Value) -> str:
        """A value after its type."""
        kind = value.type
        return f"{self._types.get(id(kind)) or self.kind(kind)} {self._values.get(id(value)) or self.value(value)}"

    def all_typed(self, values: Sequence[ir.Value]) -> str:
        """Values after their types."""
        return ", ".join([self.typed(each) for each in values])

    def all(self, values: Sequence[ir.Value]) -> str:
        """Values without their types."""
        known = self._values
        return ", ".join([known.get(id(each)) or self.value(each) for each in values])

    def _number(self) -> None:
        """Numbers results in the order in which they are written, as LLVM wants it of those without names."""
        number = 0
        for block in self._function.blocks:
            for each in block.instructions:
                if each.type.__class__ is not ir.VoidType and each.name.startswith(_NO_NAME):
                    self._values[id(each)] = f"%{number}"
                    number += 1

    def _line(self, instruction: ir.Instruction) -> str:
        """An instruction, with all that belongs to it."""
        text = _LINES[instruction.__class__](self, instruction)
        if instruction.metadata:
            text += instruction._stringify_metadata(leading_comma=True)
        if instruction.type.__class__ is ir.VoidType:
            return f"  {text}\n"
        return f"  {self._values.get(id(instruction)) or self.value(instruction)} = {text}\n"


def _named(instruction: ir.Instruction) -> str:
    """What an instruction does, with its flags."""
    return " ".join((instruction.opname, *instruction.flags)) if instruction.flags else str(instruction.opname)


def _plain(w: _Writer, each: ir.Instruction) -> str:
    return f"{_named(each)} {w.kind(each.operands[0].type)} {w.all(each.operands)}"


def _typed(w: _Writer, each: ir.Instruction) -> str:
    return f"{each.opname} {w.all_typed(each.operands)}"


def _selected(w: _Writer, each: ir.Instruction) -> str:
    return f"{_named(each)} {w.all_typed(each.operands)}"


def _compared(w: _Writer, each: ir.Instruction) -> str:
    one, other = each.operands
    return f"{_named(each)} {each.op} {w.typed(one)}, {w.value(other)}"


def _cast(w: _Writer, each: ir.Instruction) -> str:
    return f"{_named(each)} {w.typed(each.operands[0])} to {w.kind(each.type)}"


def _aligned(each: ir.Instruction) -> str:
    return "" if each.align is None else f", align {each.align}"


def _loaded(w: _Writer, each: ir.Instruction) -> str:
    return f"load {w.kind(each.type)}, {w.typed(each.operands[0])}{_aligned(each)}"


def _loaded_at_once(w: _Writer, each: ir.Instruction) -> str:
    return f"load atomic {w.kind(each.type)}, {w.typed(each.operands[0])} {each.ordering}{_aligned(each)}"


def _stored(w: _Writer, each: ir.Instruction) -> str:
    return f"store {w.all_typed(each.operands)}{_aligned(each)}"


def _reserved(w: _Writer, each: ir.Instruction) -> str:
    count = "".join(f", {w.typed(value)}" for value in each.operands)
    return f"alloca {w.kind(each.allocated_type)}{count}{_aligned(each)}"


def _addressed(w: _Writer, each: ir.Instruction) -> str:
    bounded = " inbounds" if each.inbounds else ""
    return f"getelementptr{bounded} {w.kind(each.source_etype)}, {w.all_typed((each.pointer, *each.indices))}"


def _joined(w: _Writer, each: ir.Instruction) -> str:
    pairs = ", ".join([f"[{w.value(value)}, {w.value(block)}]" for value, block in each.incomings])
    return f"{_named(each)} {w.kind(each.type)} {pairs}"


def _called(w: _Writer, each: ir.Instruction) -> str:
    callee, *arguments = each.operands
    kind = callee.function_type
    if each.attributes or each.arg_attributes or each.cconv or kind.var_arg:
        raise KeyError(each.opname)
    flags = "".join(f" {flag}" for flag in sorted(each.fastmath)) if each.fastmath else ""
    tail = f"{each.tail} " if each.tail else ""
    return f"{tail}call{flags} {w.kind(kind.return_type)} {w.value(callee)}({w.all_typed(arguments)})"


def _returned(w: _Writer, each: ir.Instruction) -> str:
    return f"ret {w.typed(each.operands[0])}" if each.operands else "ret void"


def _switched(w: _Writer, each: ir.Instruction) -> str:
    cases = " ".join(f"{w.typed(value)}, {w.typed(block)}" for value, block in each.cases)
    return f"switch {w.typed(each.value)}, {w.typed(each.default)} [{cases}]"


def _exchanged(w: _Writer, each: ir.Instruction) -> str:
    return f"atomicrmw {each.operation} {w.all_typed(each.operands)} {each.ordering}"


def _unreachable(_: _Writer, __: ir.Instruction) -> str:
    return "unreachable"


_LINES: dict[type[ir.Instruction], _Line] = {
    ir.Instruction: _plain,
    ir.CompareInstr: _compared,
    ir.ICMPInstr: _compared,
    ir.FCMPInstr: _compared,
    ir.CastInstr: _cast,
    ir.LoadInstr: _loaded,
    kinds.LoadAtomicInstr: _loaded_at_once,
    ir.StoreInstr: _stored,
    ir.AllocaInstr: _reserved,
    ir.GEPInstr: _addressed,
    ir.PhiInstr: _joined,
    ir.CallInstr: _called,
    ir.SelectInstr: _selected,
    kinds.ExtractElement: _typed,
    kinds.InsertElement: _typed,
    kinds.ShuffleVector: _typed,
    ir.Branch: _typed,
    ir.ConditionalBranch: _typed,
    ir.SwitchInstr: _switched,
    ir.Ret: _returned,
    kinds.AtomicRMW: _exchanged,
    kinds.Unreachable: _unreachable,
}
"""How each instruction is written."""
