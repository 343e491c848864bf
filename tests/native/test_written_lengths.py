"""What follows from lengths that a function computes is written once, behind what it follows from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.load.llvm import host, object_code
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.ir.length import Scope

SCOPE = Scope([9])
N = SCOPE.symbol(0)
J, K = (SCOPE.computed(1000) for _ in range(2))


class _Function:
    """A function that computes J, then K, each in a block of its own."""

    def __init__(self) -> None:
        self.module = ir.Module("written")
        kind = ir.FunctionType(I64, [ir.PointerType(), I64])
        self.e = Emitter(self.module, ir.Function(self.module, kind, "written"), host())
        self.e.lengths = Lengths(self.e.entry, self.e.function.args[0], I64)
        self.define(J)
        self.go_on()
        self.define(K)
        self.go_on()

    def define(self, length: int) -> None:
        e = self.e
        e.define(length, e.builder.add(e.function.args[1], I64(1)))

    def go_on(self) -> None:
        """The next block, to which two ways lead."""
        b = self.e.builder
        with b.if_then(b.icmp_signed("<", self.e.function.args[1], I64(5))):
            pass

    def finished(self) -> Sequence[str]:
        """What the instructions do, if they are valid."""
        self.e.builder.ret(I64(0))
        assert object_code(Piece(str(self.module)), host())
        return [each.opname for block in self.e.function.blocks for each in block.instructions]


def _in_two_blocks(f: _Function, length: int) -> None:
    f.e.number(length)
    f.go_on()
    f.e.number(length)


def _in_ways_that_part(f: _Function, length: int) -> None:
    b = f.e.builder
    with b.if_else(b.icmp_signed("<", f.e.function.args[1], I64(7))) as ways:
        for way in ways:
            with way:
                f.e.number(length)


def _computed_again(f: _Function, length: int) -> None:
    f.e.number(length)
    f.define(J)
    f.e.number(length)


@pytest.mark.parametrize(("write", "length", "quotients"), [
    (_in_two_blocks, J // 32, 1),
    (_in_two_blocks, (J // 32) * (K // 32) + N, 2),
    (_in_two_blocks, (J + K) // 32 + 3 * ((J + K) // 32) * N, 1),
    (_in_two_blocks, N // 32, 1),
    (_in_two_blocks, 100 // (J + 1), 2),
    (_in_ways_that_part, (J + K) // 32, 1),
    (_in_ways_that_part, 100 // (J + 1), 2),
    (_computed_again, (J + K) // 32, 2),
    (_computed_again, (K + 1) // 32, 1),
], ids=["one", "product", "twice", "open", "divisor", "ways", "divisor in ways", "again", "other again"])
def test_quotients_are_written_once(write: Callable[[_Function, int], None], length: int, quotients: int) -> None:
    f = _Function()
    write(f, length)
    found = f.finished()
    assert found.count("sdiv") + found.count("udiv") == quotients
