"""Code that becomes a function of its own, which brings along what it reads of the function around it.

The function's first argument is the address of a *context*, words with the values that were computed outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from circlet.backends.native.abi import DONE
from circlet.backends.native.emit.emitter import I32, I64, POINTER, Emitter
from circlet.backends.native.emit.lengths import Entry
from circlet.backends.native.targets.target import Goal

_WORD = 8
"""Bytes of a word."""
_FUNCTION = ir.FunctionType(I32, [POINTER])
"""`i32 function(context*)`; the result is `DONE` or what the function around returns instead."""


class OutlinedFunction(ir.Function):  # type: ignore[misc]  # llvmlite is untyped
    """A function whose name means nothing; equal ones are interchangeable."""


class Outlined:
    """A function that is called from one place, with a context."""

    may_fail = False
    """Whether it can return anything but `DONE`."""
    is_called = False
    """Whether anything was written, so that the function around calls it."""
    context: ir.Value | None = None
    """What it is called with."""

    def __init__(self, e: Emitter, kind: ir.FunctionType = _FUNCTION, name: str = "operator") -> None:
        self._e = e
        self.function = OutlinedFunction(e.module, kind, e.module.get_unique_name(name))
        self.function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            self.function.attributes.add(attribute)
        self._entry = Entry(self.function)
        self._known: dict[int, ir.Value] = {}
        self._numbers: dict[int, ir.Value] = {}
        self.captured: list[tuple[int, ir.Value]] = []
        """What the context holds, by the word where it begins."""
        self._words = 0

    @contextmanager
    def written(self) -> Iterator[None]:
        """Writes what is inside to the function."""
        with self._e.inside(self.function, self._entry):
            yield
            self._e.builder.ret(ir.Constant(I32, DONE))

    def call(self, leave_unless_done: Callable[[ir.Value], None], is_repeated: bool = False) -> None:
        """Calls the function, or drops it if nothing was written; what calls it for others in between, where it is
        called again and again, changes all of its context."""
        e = self._e
        if sum(len(each.instructions) for each in self.function.blocks) == len(("branch", "return")):
            del e.module.globals[self.function.name]
            return
        self.is_called = True
        self._finish()
        self.context = begun(e, self.captured, is_repeated)
        status = call(e, self.function, self.context)
        if self.may_fail:
            leave_unless_done(status)

    def take(self, blocks: Sequence[ir.Block]) -> None:
        """Takes blocks of the function around for its own, the first of which is where it begins. Functions that do the
        same become equal: blocks are named as they would have been here, and numbers by which indices are multiplied,
        such as how many channels there are, are read from the context."""
        self.function.blocks += blocks
        for block in blocks:
            block.parent = self.function
            block.name = block.name.partition(".")[0]
            for each in block.instructions:
                if each.opname == "mul" and each.type == self._e.index:
                    each.operands = [self._number(value) if type(value) is ir.Constant else value
                                     for value in each.operands]
        ir.IRBuilder(self._entry.body).branch(blocks[0])

    def _number(self, value: ir.Constant) -> ir.Value:
        """An index that is known, as a value of the context."""
        if value.constant not in self._numbers:
            self._numbers[value.constant] = self._brought(value)
        return self._numbers[value.constant]

    def filled_context(self) -> ir.Value:
        """The address of a context on the stack of the function around, filled with what this one reads; nothing more
        can be written to it then."""
        self._finish()
        found = context(self._e, self.captured)
        fill(self._e, self._e.builder, found, self.captured)
        return found

    def _finish(self) -> None:
        """Takes what was computed outside from the context."""
        for block in self.function.blocks:
            for instruction in block.instructions:
                _redirect(instruction, self._inner)

    def _inner(self, value: ir.Value) -> ir.Value:
        """What stands in the function for a value that an instruction of it uses."""
        if not self._is_outer(value):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = self._brought(value)
        return self._known[id(value)]

    def _is_outer(self, value: ir.Value) -> bool:
        """Whether a value was computed elsewhere."""
        if isinstance(value, ir.Instruction):
            return value.parent.parent is not self.function
        return isinstance(value, ir.Argument) and value.parent is not self.function

    def _brought(self, value: ir.Value) -> ir.Value:
        """A value of the context."""
        self.captured.append((self._words, value))
        builder = self._entry.front
        place = builder.gep(self.function.args[0], [I64(self._words)], source_etype=I64)
        self._words += _words(value.type)
        return builder.load(place, typ=value.type, align=_WORD)


@contextmanager
def taken_out(e: Emitter, name: str, least: int) -> Iterator[None]:
    """What is written inside becomes a function of its own if it has so many instructions, which others like it may
    have, too, and does not leave the function around. Nothing of it may be used outside but what it writes to memory.
    """
    around, before, count = e.function, e.builder.block, len(e.function.blocks)
    first = around.append_basic_block(name)
    e.builder.branch(first)
    e.builder.position_at_end(first)
    yield
    blocks = around.blocks[count:]
    instructions = [each for block in blocks for each in block.instructions]
    if e.sharing is None or e.target.goal is not Goal.HERE or len(instructions) < least:
        return
    left = e.sharing.exit
    if left is not None and any(left in (each.parent, *each.operands) for each in instructions):
        return
    found = Outlined(e, name=name)
    found.may_fail = any(isinstance(each, ir.Ret) for each in instructions)
    e.builder.ret(ir.Constant(I32, DONE))
    del around.blocks[count:], before.instructions[-1]
    before.terminator = None
    found.take(blocks)
    e.builder.position_at_end(before)
    e.latch = None
    found.call(e.sharing.meter.leave_unless_done)
    e.called += len(instructions)


def context(e: Emitter, read: Sequence[tuple[int, ir.Value]]) -> ir.Value:
    """The address of a context on the stack with room for values, each with the word where it begins."""
    found = e.slot(I64, max((word + _words(value.type) for word, value in read), default=1))
    found.type = POINTER  # llvmlite lets only what is no pointer to I64 hold other values
    return found


def begun(e: Emitter, read: Sequence[tuple[int, ir.Value]], is_repeated: bool) -> ir.Value:
    """The address of a context with values: those that last are written to it where the function around begins."""
    found = context(e, read)
    for begins in (True, False):
        fill(e, e.entry.builder() if begins else e.builder, found, [
            (word, value) for word, value in read if (lasts(e.function, value) and not is_repeated) is begins])
    return found


def fill(e: Emitter, builder: ir.IRBuilder, context: ir.Value, read: Sequence[tuple[int, ir.Value]]) -> None:
    """Writes values to a context where a builder is."""
    for word, value in read:
        place = builder.gep(context, [e.number(word)], source_etype=I64) if word else context
        builder.store(value, place, align=_WORD)


def lasts(function: ir.Function, value: ir.Value) -> bool:
    """Whether a value is there, and the same, wherever a function is."""
    if isinstance(value, ir.Constant):
        return True
    if isinstance(value, ir.Instruction):
        return value.parent is function.entry_basic_block and not isinstance(value, ir.AllocaInstr)
    return value in function.args


def call(e: Emitter, function: ir.Function, given: ir.Value) -> ir.Value:
    """Calls an outlined function with a context; gives what it returns. It counts as if it stood here, not as what is
    called."""
    called = e.called
    status = e.builder.call(function, [given])
    e.called = called
    return status


def _words(kind: ir.Type) -> int:
    """How many words of a context a value of a type takes."""
    if isinstance(kind, ir.VectorType):
        return _words(kind.element) * int(kind.count)
    assert not isinstance(kind, ir.Aggregate), f"{kind} is no value that code computes with"
    return -(-kind.width // (8 * _WORD)) if isinstance(kind, ir.IntType) else 1


def _redirect(instruction: ir.Instruction, inner: Callable[[ir.Value], ir.Value]) -> None:
    """Replaces the operands of an instruction."""
    instruction.operands = [inner(each) for each in instruction.operands]
    if isinstance(instruction, ir.PhiInstr):
        instruction.incomings = [(inner(each), block) for each, block in instruction.incomings]
    if isinstance(instruction, ir.GEPInstr):
        instruction.pointer, *instruction.indices = instruction.operands
