"""What functions of integers are written with. No passes of LLVM's run over them, which could make calls of them of
what they consist of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from circlet.runtime.records import dataclass

_POINTER = ir.PointerType()
Kind: TypeAlias = "int | ir.Type"
"""The width of an integer, or the type of a real number, whose pattern it is."""
Write: TypeAlias = "Callable[..., None]"
"""Writes a function, given its body and its arguments, words."""


@dataclass(frozen=True)
class Word:
    """An unsigned integer, or a bit; those of one operation are of one width."""

    builder: ir.IRBuilder
    value: ir.Value

    @property
    def bits(self) -> int:
        """How wide it is."""
        return int(self.value.type.width)

    def like(self, other: Word | int) -> ir.Value:
        """A number of this width."""
        return other.value if isinstance(other, Word) else ir.Constant(self.value.type, other)

    def _of(self, value: ir.Value) -> Word:
        return Word(self.builder, value)

    def __add__(self, other: Word | int) -> Word:
        return self._of(self.builder.add(self.value, self.like(other)))

    def __sub__(self, other: Word | int) -> Word:
        return self._of(self.builder.sub(self.value, self.like(other)))

    def __mul__(self, other: Word | int) -> Word:
        return self._of(self.builder.mul(self.value, self.like(other)))

    def __floordiv__(self, other: Word | int) -> Word:
        return self._of(self.builder.udiv(self.value, self.like(other)))

    def __and__(self, other: Word | int) -> Word:
        return self._of(self.builder.and_(self.value, self.like(other)))

    def __or__(self, other: Word | int) -> Word:
        return self._of(self.builder.or_(self.value, self.like(other)))

    def __xor__(self, other: Word | int) -> Word:
        return self._of(self.builder.xor(self.value, self.like(other)))

    def __lshift__(self, other: Word | int) -> Word:
        return self._of(self.builder.shl(self.value, self.like(other)))

    def __rshift__(self, other: Word | int) -> Word:
        return self._of(self.builder.lshr(self.value, self.like(other)))

    def __invert__(self) -> Word:
        return self ^ -1

    def __neg__(self) -> Word:
        return self._of(self.builder.neg(self.value))

    def shifted(self, count: Word | int) -> Word:
        """To the right, as a signed number."""
        return self._of(self.builder.ashr(self.value, self.like(count)))

    def equals(self, other: Word | int) -> Word:
        """A bit."""
        return self._of(self.builder.icmp_unsigned("==", self.value, self.like(other)))

    def differs(self, other: Word | int) -> Word:
        """A bit."""
        return ~self.equals(other)

    def below(self, other: Word | int) -> Word:
        """A bit, of unsigned numbers."""
        return self._of(self.builder.icmp_unsigned("<", self.value, self.like(other)))

    def less(self, other: Word | int) -> Word:
        """A bit, of signed numbers."""
        return self._of(self.builder.icmp_signed("<", self.value, self.like(other)))

    def wide(self, bits: int) -> Word:
        """The same number."""
        return self if bits == self.bits else self._of(self.builder.zext(self.value, ir.IntType(bits)))

    def low(self, bits: int) -> Word:
        """The last bits."""
        return self if bits == self.bits else self._of(self.builder.trunc(self.value, ir.IntType(bits)))

    def high(self, bits: int) -> Word:
        """The first bits."""
        return (self >> self.bits - bits).low(bits)

    def beside(self, low: Word) -> Word:
        """This number in the first half of one twice as wide, and another one in the last."""
        return (self.wide(2 * self.bits) << self.bits) | low.wide(2 * self.bits)

    def choose(self, one: Word, other: Word | int) -> Word:
        """The first number if this bit is set, else the second."""
        return self._of(self.builder.select(self.value, one.value, one.like(other)))

    def leading_zeros(self) -> Word:
        """Of a number that is not 0."""
        kind = self.value.type
        name, signature = f"llvm.ctlz.i{self.bits}", ir.FunctionType(kind, [kind, ir.IntType(1)])
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(module, signature, name)
        return self._of(self.builder.call(function, [self.value, ir.Constant(ir.IntType(1), 1)]))


_PATTERNS = {ir.FloatType(): ir.IntType(32), ir.DoubleType(): ir.IntType(64)}
"""What the bits of real numbers are as integers."""


def _type(kind: Kind) -> ir.Type:
    return ir.IntType(kind) if isinstance(kind, int) else kind


@dataclass(frozen=True)
class Function:
    """A function of integers.

    Attributes:
        name: by which it is called.
        results: of several, a struct.
        arguments: that it takes.
        write: writes it, given the arguments.
    """

    name: str
    results: tuple[Kind, ...]
    arguments: tuple[Kind, ...]
    write: Write


class Body:
    """A function that is being written.

    Attributes:
        word: the width of an address.
        is_small: whether it is to be small rather than fast.
    """

    def __init__(self, module: ir.Module, function: Function, word: int, is_small: bool) -> None:
        """Writes a function."""
        self.word = word
        self.is_small = is_small
        results, arguments = ([_type(each) for each in some] for some in (function.results, function.arguments))
        result = results[0] if len(results) == 1 else ir.LiteralStructType(results)
        self.function = ir.Function(module, ir.FunctionType(result, arguments), function.name)
        self.function.linkage = "internal"
        self.function.attributes.add("nounwind")
        if function.name.startswith("__aeabi_"):
            self.function.calling_convention = "arm_aapcscc"
        if isinstance(result, ir.IntType):
            self.function.return_value.add_attribute("signext")
        self._builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        function.write(self, *map(self._word, self.function.args))

    def _as(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """The same bits."""
        return value if value.type == kind else self._builder.bitcast(value, kind)

    def _word(self, value: ir.Value) -> Word:
        """An integer, or the bits of a real number."""
        return Word(self._builder, self._as(value, _PATTERNS.get(value.type, value.type)))

    def number(self, value: int, bits: int) -> Word:
        """A constant."""
        return Word(self._builder, ir.Constant(ir.IntType(bits), value))

    def leave(self, *results: Word) -> None:
        """Ends the function."""
        if len(results) == 1:
            self._builder.ret(self._as(results[0].value, self.function.function_type.return_type))
            return
        made: ir.Value = ir.Constant(self.function.function_type.return_type, ir.Undefined)
        for k, each in enumerate(results):
            made = self._builder.insert_value(made, each.value, k)
        self._builder.ret(made)

    @contextmanager
    def when(self, condition: Word) -> Iterator[None]:
        """What is written inside, which leaves the function, is done if a bit is set."""
        inside, after = (self.function.append_basic_block(each) for each in ("when", "else"))
        self._builder.cbranch(condition.value, inside, after)
        self._builder.position_at_end(inside)
        yield
        self._builder.position_at_end(after)

    def repeat(self, state: Sequence[Word], goes_on: Callable[..., Word], turn: Callable[..., Sequence[Word]]
               ) -> list[Word]:
        """`while goes_on(*state): state = turn(*state)`."""
        b, before = self._builder, self._builder.block
        head, inside, after = (self.function.append_basic_block(each) for each in ("head", "turn", "after"))
        b.branch(head)
        b.position_at_end(head)
        found = [Word(b, b.phi(each.value.type)) for each in state]
        b.cbranch(goes_on(*found).value, inside, after)
        b.position_at_end(inside)
        for phi, first, later in zip(found, state, turn(*found), strict=True):
            phi.value.add_incoming(first.value, before)
            phi.value.add_incoming(later.value, b.block)
        b.branch(head)
        b.position_at_end(after)
        return found

    def call(self, function: Function, *arguments: Word) -> list[Word]:
        """The results of another function, which is written if it is not there."""
        module, b = self._builder.module, self._builder
        called = module.globals.get(function.name) or Body(module, function, self.word, self.is_small).function
        given = [self._as(each.value, one.type) for each, one in zip(arguments, called.args, strict=True)]
        made = b.call(called, given, cconv=called.calling_convention)
        if len(function.results) == 1:
            return [self._word(made)]
        return [Word(b, b.extract_value(made, k)) for k in range(len(function.results))]

    def call_library(self, name: str, *arguments: Word) -> None:
        """Calls a function of the C library that takes words."""
        module, kinds = self._builder.module, [each.value.type for each in arguments]
        function = module.globals.get(name) or ir.Function(module, ir.FunctionType(kinds[0], kinds), name)
        self._builder.call(function, [each.value for each in arguments])

    def load(self, address: Word, bits: int) -> Word:
        """A number in memory."""
        place = self._builder.inttoptr(address.value, _POINTER)
        return Word(self._builder, self._builder.load(place, typ=ir.IntType(bits), align=bits // 8))

    def store(self, value: Word, address: Word) -> None:
        """Writes a number to memory."""
        place = self._builder.inttoptr(address.value, _POINTER)
        self._builder.store(value.value, place, align=value.bits // 8)
