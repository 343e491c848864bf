"""What a turn of a loop computes, as far as vectors of turns are concerned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from circlet.backends.native.emit.written.totals import Total, totals
from circlet.runtime.records import dataclass

_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}
"""How the names of intrinsics on real numbers end."""
_EACH = frozenset(("fabs", "sqrt", "floor", "ceil", "trunc", "rint", "nearbyint", "roundeven", "fma", "fmuladd",
                   "copysign", "minnum", "maxnum", "minimum", "maximum",
                   "minimumnum", "maximumnum", "smin", "smax", "umin", "umax", "fshl"))
"""Intrinsics that compute each lane from the same one of their arguments, all of one type."""
_PURE = frozenset(("add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "fadd", "fsub", "fmul", "fdiv",
                   "fneg"))
"""Instructions that any numbers can be given to."""
_QUOTIENTS = frozenset(("udiv", "urem", "sdiv", "srem"))
"""Instructions that only some numbers can be given to."""
_LONGEST = 240
"""Instructions of a turn that are too many to be written several times: a choice."""


class NotWidened(Exception):
    """An instruction that vectors do not serve."""

@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of one block, as `Emitter.loop` writes it."""

    before: ir.Block
    head: ir.Block
    body: ir.Block
    after: ir.Block
    index: ir.PhiInstr
    count: ir.Value | int

    @classmethod
    def of(cls, latch: ir.Block, count: ir.Value | int) -> Loop:
        """That which a block ends."""
        (head,) = latch.terminator.operands
        index, _, leave = head.instructions
        return cls(index.incomings[0][1], head, latch, leave.operands[2], index, count)

    @property
    def turn(self) -> Sequence[ir.Instruction]:
        """What a turn does, but for counting."""
        return self.body.instructions[:-2]  # type: ignore[no-any-return]  # llvmlite is untyped

class Turn:
    """What the values of a turn are: the same in all turns; a number or an address that grows by as much from turn to
    turn; or one of a vector."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        """By how much values grow, in bytes if they are addresses, by `id`."""
        self.varying: list[ir.Instruction] = []
        """What vectors hold."""
        self.same: list[ir.Instruction] = []
        """What is the same in all turns."""
        self.needs_turns = False
        """Whether some of that can be computed only if there is a turn."""
        self.totals: Mapping[int, Total] = {}
        """What turns combine, by `id` of what loads and what stores it."""
        self._vectors: set[int] = set()

    @classmethod
    def of(cls, loop: Loop) -> Turn:
        """That of a loop.

        Raises:
            NotWidened: there are no vectors for it.
        """
        found = cls()
        found.steps[id(loop.index)] = 1
        found.totals = totals(loop.turn)
        for each in loop.turn:
            found._look(each)
        if not found.varying or len(found.varying) > _LONGEST:
            raise NotWidened
        return found

    def is_vector(self, value: ir.Value) -> bool:
        """Whether it differs from turn to turn other than by a step."""
        return id(value) in self._vectors

    def differs(self, value: ir.Value) -> bool:
        """Whether it is not the same in all turns."""
        return self.is_vector(value) or self.step(value) != 0

    def step(self, value: ir.Value) -> int:
        """By how much a value grows from turn to turn."""
        return self.steps.get(id(value), 0)

    @property
    def widest(self) -> int:
        """Bytes of the widest elements of vectors."""
        return max(size_of(each.operands[0].type if isinstance(each, ir.StoreInstr) else each.type)
                   for each in self.varying)

    def _look(self, each: ir.Instruction) -> None:
        """Tells what an instruction gives."""
        if id(each) in self.totals:
            self._vectors.add(id(each))
        elif isinstance(each, (ir.LoadInstr, ir.StoreInstr)):
            self._look_at_memory(each)
        elif any(map(self.is_vector, each.operands)) or (
                any(map(self.step, each.operands)) and not self._grows(each)):
            _check(each)
            self._add(each)
        elif not self.step(each):
            self._keep(each, _is_pure(each) or each.opname in _QUOTIENTS)

    def _look_at_memory(self, each: ir.Instruction) -> None:
        place = each.operands[-1]
        kind = each.type if isinstance(each, ir.LoadInstr) else each.operands[0].type
        if self.is_vector(place):
            raise NotWidened
        if not self.step(place):
            self._keep(each, isinstance(each, ir.LoadInstr))
        elif isinstance(kind, (ir.PointerType, ir.VectorType)) or self.step(place) != size_of(kind):
            raise NotWidened
        else:
            self._add(each)

    def _keep(self, each: ir.Instruction, can_be: bool) -> None:
        """Takes an instruction for one that gives the same in all turns."""
        if not can_be:
            raise NotWidened
        self.needs_turns = self.needs_turns or not _is_pure(each)
        self.same.append(each)

    def _add(self, each: ir.Instruction) -> None:
        self._vectors.add(id(each))
        self.varying.append(each)

    def _grows(self, each: ir.Instruction) -> bool:
        """Whether an instruction gives what grows by as much from turn to turn; its step then is noted."""
        step = None
        if isinstance(each, ir.GEPInstr) and len(each.indices) == 1:
            step = self.step(each.pointer) + self.step(each.indices[0]) * size_of(each.source_etype)
        elif each.opname == "add":
            step = sum(map(self.step, each.operands))
        elif each.opname == "sub":
            step = self.step(each.operands[0]) - self.step(each.operands[1])
        elif each.opname == "mul":
            for one, other in (each.operands, each.operands[::-1]):
                if type(other) is ir.Constant and isinstance(other.constant, int):
                    step = self.step(one) * other.constant
        if not step:
            return False
        self.steps[id(each)] = step
        return True

def size_of(kind: ir.Type) -> int:
    """Bytes of an element."""
    if isinstance(kind, ir.IntType):
        return max(int(kind.width) // 8, 1)
    found = {"half": 2, "float": 4, "double": 8}.get(str(kind))
    if found is None:
        raise NotWidened
    return found


def _is_pure(each: ir.Instruction) -> bool:
    """Whether an instruction may be carried out where it need not be."""
    if each.opname in _QUOTIENTS:
        divisor = each.operands[1]
        return type(divisor) is ir.Constant and isinstance(divisor.constant, int) and divisor.constant > 0
    return each.opname in _PURE or isinstance(
        each, (ir.GEPInstr, ir.CastInstr, ir.CompareInstr, ir.SelectInstr)) or intrinsic_of(each) is not None


def _check(each: ir.Instruction) -> None:
    """Raises NotWidened for what there is no instruction on vectors for."""
    if isinstance(each, ir.GEPInstr) or each.opname in _QUOTIENTS or not _is_pure(each) or any(
            isinstance(value.type, (ir.PointerType, ir.VectorType)) for value in (each, *arguments(each))):
        raise NotWidened


def arguments(each: ir.Instruction) -> Sequence[ir.Value]:
    """What an instruction computes with."""
    found: Sequence[ir.Value] = each.operands[1:] if isinstance(each, ir.CallInstr) else each.operands
    return found


def intrinsic_of(each: ir.Instruction) -> str | None:
    """The name of what is called, if that computes each lane by itself."""
    if not isinstance(each, ir.CallInstr) or not isinstance(each.callee, ir.Function):
        return None
    _, _, name = str(each.callee.name).partition("llvm.")
    name, _, suffix = name.partition(".")
    whole = _SUFFIXES.get(str(each.type), str(each.type))
    return name if name in _EACH and suffix == whole else None
