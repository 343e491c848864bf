"""Bounds assertions: a pass over a finished module that checks every access to memory before it is made.

Each address is derived from one buffer: a part of the arena, an array of the table, a constant, a slot of the stack.
`Origins` carries the beginning and the length of that buffer beside the address. An access must stay within them, and
have the alignment that it claims. One that does not is made where it harms nothing, and reported when the function
returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llvmlite import ir
from llvmlite.ir import instructions as ins

from circlet.backends.native.check.origins import Origins, is_address, replace_operand, size_of
from circlet.backends.native.check.watched import NUMBERS, OUTSIDE, Watched
from circlet.backends.native.emit.emitter import I1, I8, I32, I64, POINTER
from circlet.backends.native.targets.target import MATRIX_BYTES, MatrixAccess
from circlet.runtime.errors import Place
from circlet.runtime.records import dataclass

_MOVING = (ins.GEPInstr, ins.SelectInstr, ins.CallInstr)
"""What takes an address without touching the memory there; a call's callee is checked itself, or is the host."""
_WRAPPING = frozenset({"nsw", "nuw"})
"""Flags that make an overflow poison, so that LLVM might take a check of the result for true."""
_HINTS = "llvm.loop"
"""LLVM complains on stderr if a loop is to become vector code, and calls a function."""
_SPARE_BYTES, _ALIGNMENT = 4096, 64
"""Where wrong accesses are made: as many bytes as any access has that is no copy, and an alignment that does for all
vectors."""


@dataclass(frozen=True, eq=False)
class _Access:
    """Memory that an instruction touches."""

    operand: int
    """The position of the address among the operands."""
    align: int = 1
    size: int | None = None
    """In bytes; None where an operand says it."""
    length: int | None = None
    """The position of that operand."""
    mask: int | None = None
    """The position of a mask, which says how much of it is touched."""
    distance: int | None = None
    """The position of the distance of rows, all of which are touched."""


class Watch:
    """Notes the buffers and the operators of a function while it is written; then adds the checks."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._places: list[Place] = []
        self._accesses: list[str] = []
        self._buffers: list[tuple[ir.Value, ir.Value]] = []
        self._place = _variable(module, "circlet_place", I64)

    def buffer(self, address: ir.Value, size: ir.Value) -> None:
        """What is reached from an address must lie within so many bytes of it, an i64 that is known at the beginning of
        the function."""
        self._buffers.append((address, size))

    def enter(self, builder: ir.IRBuilder, place: Place) -> None:
        """What is emitted from here on belongs to an operator."""
        builder.store(ir.Constant(I64, len(self._places)), self._place)
        self._places.append(place)

    def watched(self, sizes: Iterable[int | None]) -> Watched:
        """What was noted; `sizes` are the bytes of the arrays in the table, None where they differ from run to run."""
        return Watched(tuple(self._places), tuple(self._accesses), tuple(sizes))

    def guard(self, entry: ir.Function, evidence: ir.Value) -> None:
        """Adds the checks to all functions; `entry` leaves at `evidence` what it has to say of the first failure."""
        functions = [each for each in self._module.functions if each.blocks]
        instructions = [each for function in functions for each in _instructions(function)]
        inner = {id(each) for each in functions if each is not entry}
        origins, runtime = Origins(self._buffers), _Runtime(self._module, self._place)
        for function in functions:
            if id(function) in inner:
                origins.extend(function)
        for each in instructions:
            each.flags = [flag for flag in each.flags if flag not in _WRAPPING]
            each.metadata.pop(_HINTS, None)
            if isinstance(each, ins.CallInstr) and id(each.callee) in inner:
                origins.pass_on(each)
            for access in _accesses(each):
                self._check(origins, runtime, each, access)
        for each in instructions:
            if isinstance(each, ins.Ret) and each.function is entry:
                builder = ir.IRBuilder()
                builder.position_before(each)
                replace_operand(each, 0, builder.call(runtime.leave, [each.operands[0], evidence]))

    def _check(self, origins: Origins, runtime: _Runtime, instruction: ins.Instruction, access: _Access) -> None:
        """Puts a check before an instruction, and what it gives in the place of the address; of a copy, also of its
        length."""
        address = instruction.operands[access.operand]
        if _is_evident(address, access):
            return
        begin, length = origins.of(address)
        b = ir.IRBuilder()
        b.position_before(instruction)
        self._accesses.append(f"{_description(instruction, address)}, aligned to {access.align}")
        safe = b.call(runtime.check, [address, _size(b, instruction, access), ir.Constant(I64, access.align), begin,
                                      length, ir.Constant(I64, len(self._accesses))])
        replace_operand(instruction, access.operand, safe)
        if access.length is not None:
            is_right = b.icmp_unsigned("!=", safe, runtime.spare)
            given = instruction.operands[access.length]
            replace_operand(instruction, access.length, b.select(is_right, given, ir.Constant(I64, 0)))
        if access.distance is not None:
            is_right = b.icmp_unsigned("!=", safe, runtime.spare)
            given = instruction.operands[access.distance]
            replace_operand(instruction, access.distance, b.select(is_right, given, ir.Constant(I64, MATRIX_BYTES)))


def _instructions(function: ir.Function) -> Iterator[ins.Instruction]:
    """All instructions of a function; comments are none."""
    for block in function.blocks:
        yield from (each for each in block.instructions if isinstance(each, ins.Instruction))


def _is_evident(address: ir.Value, access: _Access) -> bool:
    """Whether the address is that of a slot of the stack as large as the access."""
    return (isinstance(address, ins.AllocaInstr) and not address.operands and access.size is not None
            and access.size <= size_of(address.allocated_type))


def _description(instruction: ins.Instruction, address: ir.Value) -> str:
    """`store float at %.12 in tile_6x2, aligned to 4`."""
    callee = getattr(instruction, "callee", None)
    kind = instruction.operands[0].type if isinstance(instruction, ins.StoreInstr) else instruction.type
    name = f"{instruction.opname} {kind}" if callee is None else callee.name
    return f"{name} at {address.get_reference()} in {instruction.function.name}"


def _accesses(instruction: ins.Instruction) -> tuple[_Access, ...]:
    """What an instruction touches."""
    if isinstance(instruction, ins.StoreInstr):
        kind = instruction.operands[0].type
        return (_Access(1, instruction.align or _natural_alignment(kind), size_of(kind)),)
    if isinstance(instruction, (ins.LoadInstr, ins.LoadAtomicInstr)):
        return (_Access(0, instruction.align or _natural_alignment(instruction.type), size_of(instruction.type)),)
    if isinstance(instruction, MatrixAccess):
        return (_Access(instruction.place, distance=instruction.distance),)
    if isinstance(instruction, ins.CallInstr) and isinstance(instruction.callee, ir.Function):
        return _of_call(instruction, instruction.callee.name)
    takes_address = any(isinstance(each.type, ir.PointerType) for each in instruction.operands)
    is_harmless = isinstance(instruction, _MOVING) or instruction.opname in ("ptrtoint", "icmp")
    assert not takes_address or is_harmless, f"nobody checks {instruction}"
    return ()


def _of_call(call: ins.CallInstr, name: str) -> tuple[_Access, ...]:
    """What a call of an intrinsic touches."""
    if name.startswith(("llvm.memmove.", "llvm.memcpy.")):
        return _Access(1, length=3), _Access(2, length=3)
    if name.startswith("llvm.memset."):
        return (_Access(1, length=3),)
    if name.startswith("llvm.masked.load."):
        return (_Access(1, call.operands[2].constant, size_of(call.type), mask=3),)
    if name.startswith("llvm.masked.store."):
        return (_Access(2, call.operands[3].constant, size_of(call.operands[1].type), mask=4),)
    takes_address = any(map(is_address, call.args))
    is_known = call.callee.blocks or name.startswith(("llvm.prefetch.", "clock_gettime"))
    assert not takes_address or is_known, f"nobody checks {name}"
    return ()


def _natural_alignment(kind: ir.Type) -> int:
    """The alignment that LLVM assumes of a type where none is given."""
    element = kind.element if isinstance(kind, ir.ArrayType) else kind
    return 1 << (size_of(element) - 1).bit_length()


def _size(b: ir.IRBuilder, instruction: ins.Instruction, access: _Access) -> ir.Value:
    """How many bytes from the address on are touched."""
    if access.length is not None:
        return instruction.operands[access.length]
    if isinstance(instruction, MatrixAccess):
        return _extent(b, instruction, access)
    assert access.size is not None
    assert access.size <= _SPARE_BYTES
    if access.mask is None:
        return ir.Constant(I64, access.size)
    mask = instruction.operands[access.mask]
    above = b.ctlz(b.bitcast(mask, ir.IntType(mask.type.count)), ir.Constant(I1, 0))
    touched = b.sub(ir.Constant(I64, mask.type.count), b.zext(above, I64))
    return b.mul(touched, ir.Constant(I64, access.size // mask.type.count))


def _extent(b: ir.IRBuilder, instruction: MatrixAccess, access: _Access) -> ir.Value:
    """How many bytes rows take that are so far apart."""
    if access.distance is None:
        return instruction.width
    steps = b.sub(instruction.rows, ir.Constant(I64, 1))
    return b.add(b.mul(steps, instruction.operands[access.distance]), instruction.width)


def _variable(module: ir.Module, name: str, kind: ir.Type) -> ir.GlobalVariable:
    """Memory of the module's own, zero at first."""
    found = ir.GlobalVariable(module, kind, name)
    found.linkage, found.initializer = "internal", ir.Constant(kind, None)
    return found


class _Runtime:
    """The functions that checked code calls, and the memory that they use."""

    def __init__(self, module: ir.Module, place: ir.GlobalVariable) -> None:
        self._module = module
        self._place = place
        self._numbers = [_variable(module, f"circlet_violation_{k}", I64) for k in range(NUMBERS)]
        self.spare = _variable(module, "circlet_spare", ir.ArrayType(I8, _SPARE_BYTES))
        """Where wrong accesses are made."""
        self.spare.align = _ALIGNMENT
        self.check = self._check()
        """`ptr check(address, size, alignment, begin of the buffer, its length, number of the access)`: the address,
        or `spare` if it is wrong."""
        self.leave = self._leave()
        """`i32 leave(status, evidence*)`: the status, or `OUTSIDE` if an access was wrong."""

    def _function(self, name: str, result: ir.Type, kinds: Sequence[ir.Type]) -> tuple[ir.Function, ir.IRBuilder]:
        """A new internal function, and what writes it."""
        function = ir.Function(self._module, ir.FunctionType(result, kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _check(self) -> ir.Function:
        """Writes `check`; the numbers of the first wrong access are left in the module's memory."""
        function, b = self._function("circlet_check", POINTER, [POINTER, *[I64] * 5])
        given, size, align, begin, length, number = function.args
        address = ins.Instruction(b.block, POINTER, "freeze", [given])
        b._insert(address)
        whole = b.ptrtoint(address, I64)
        offset = b.sub(whole, begin)
        fits = b.and_(b.icmp_unsigned("<=", size, length), b.icmp_unsigned("<=", offset, b.sub(length, size)))
        rest = b.and_(whole, b.sub(align, ir.Constant(I64, 1)))
        right = b.and_(fits, b.icmp_unsigned("==", rest, ir.Constant(I64, 0)))
        right = b.or_(right, b.icmp_unsigned("==", size, ir.Constant(I64, 0)))
        with b.if_then(b.not_(right)):
            is_first = b.icmp_unsigned("==", b.load(self._numbers[0], typ=I64), ir.Constant(I64, 0))
            with b.if_then(is_first):
                numbers = (number, b.load(self._place, typ=I64), offset, size, length)
                for each, variable in zip(numbers, self._numbers, strict=True):
                    b.store(each, variable)
            b.ret(self.spare)
        b.ret(address)
        return function

    def _leave(self) -> ir.Function:
        """Writes `leave`, which copies these numbers to `evidence`."""
        function, b = self._function("circlet_leave", I32, [I32, POINTER])
        status, evidence = function.args
        with b.if_then(b.icmp_unsigned("!=", b.load(self._numbers[0], typ=I64), ir.Constant(I64, 0))):
            for k, variable in enumerate(self._numbers):
                b.store(b.load(variable, typ=I64), b.gep(evidence, [ir.Constant(I64, k)], source_etype=I64))
            b.store(ir.Constant(I64, 0), self._numbers[0])
            b.ret(ir.Constant(I32, OUTSIDE))
        b.ret(status)
        return function
