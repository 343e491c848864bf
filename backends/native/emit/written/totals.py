"""Finds what the turns of a loop combine in a slot: sums, and the greatest and least of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

from llvmlite import ir

from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Total:
    """A number that each turn loads, combines with another one and stores, and does nothing else with."""

    load: ir.LoadInstr
    combined: ir.Instruction
    store: ir.StoreInstr
    nothing: float | int
    """What changes no number that it is combined with."""

    @property
    def slot(self) -> ir.Value:
        """The address that it has between turns."""
        return self.load.operands[0]


def totals(instructions: Sequence[ir.Instruction]) -> Mapping[int, Total]:
    """Those of a turn, in any order of whose numbers the outcome is as good, by `id` of what loads and what stores
    them."""
    found: dict[int, Total] = {}
    for store in instructions:
        if not isinstance(store, ir.StoreInstr) or not isinstance(store.operands[1], ir.AllocaInstr):
            continue
        value, slot = store.operands
        loads = [each for each in instructions if isinstance(each, ir.LoadInstr) and each.operands[0] is slot]
        nothing = _nothing(value)
        if nothing is not None and len(loads) == 1 and (
                _uses(instructions, slot), _uses(instructions, loads[0]), _uses(instructions, value)) == (2, 1, 1) and (
                loads[0] in value.operands and instructions.index(loads[0]) < instructions.index(store)):
            total = Total(loads[0], value, store, nothing)
            found[id(loads[0])] = found[id(store)] = total
    return found


def _uses(instructions: Sequence[ir.Instruction], value: ir.Value) -> int:
    """How often instructions use a value."""
    return sum(each is value for instruction in instructions for each in instruction.operands)


def _nothing(value: ir.Value) -> float | int | None:
    """What changes no number that an instruction combines it with; None where numbers cannot be combined in another
    order."""
    if not isinstance(value, ir.Instruction):
        return None
    if value.opname == "fadd":
        return -0.0 if "reassoc" in value.flags else None
    if value.opname in ("add", "or"):
        return 0
    if not isinstance(value, ir.CallInstr) or not isinstance(value.callee, ir.Function):
        return None
    name = str(value.callee.name).removeprefix("llvm.").partition(".")[0]
    if name in ("maximumnum", "minimumnum"):
        return nan
    if name not in ("smax", "smin"):
        return None
    half = 1 << int(value.type.width) - 1
    return -half if name == "smax" else half - 1
