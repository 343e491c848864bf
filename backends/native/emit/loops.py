"""Loops that tell LLVM what it cannot find out, or should not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I32, Emitter
from circlet.runtime.ir.length import divisor, may_differ
from circlet.runtime.ir.types import Shape

Carried: TypeAlias = "list[ir.Value]"
"""The values that a loop hands from turn to turn, each in a register."""


class _Distinct(ir.MDValue):  # type: ignore[misc]  # llvmlite is untyped
    """A metadata node that equals no other one; if it names a loop it begins with itself."""

    def __init__(self, module: ir.Module, operands: Sequence[Any], is_loop: bool) -> None:
        super().__init__(module, module._fix_metadata_operands(operands), str(len(module.metadata)))
        self._is_loop = is_loop

    def descr(self, buf: list[str]) -> None:
        """Writes the node in LLVM's language; llvmlite has none that names itself."""
        found = [self.get_reference()] if self._is_loop else []
        for each in self.operands:
            kind = "" if isinstance(each.type, ir.MetaDataType) else f"{each.type} "
            found.append(f"{kind}{each.get_reference()}")
        buf += (f"distinct !{{ {', '.join(found)} }}", "\n")


def _hint(latch: ir.Block, module: ir.Module, *hints: Sequence[Any]) -> None:
    """Attaches hints to the loop that a block ends."""
    latch.terminator.set_metadata("llvm.loop", _Distinct(module, [list(each) for each in hints], is_loop=True))


@contextmanager
def rolled(e: Emitter, count: ir.Value | int) -> Iterator[ir.Value]:
    """`for index in range(count)`, which LLVM neither unrolls nor turns into vector code."""
    with e.loop(count) as index:
        yield index
    if e.latch is not None:
        _keep_rolled(e, e.latch)


@contextmanager
def rolled_nest(e: Emitter, shape: Shape) -> Iterator[tuple[ir.Value, ...]]:
    """`rolled` for each axis; gives the index of the element."""
    if not shape:
        yield ()
        return
    with rolled(e, shape[0]) as first, rolled_nest(e, shape[1:]) as rest:
        yield (first, *rest)


def _keep_rolled(e: Emitter, latch: ir.Block) -> None:
    """Hints that the loop which a block ends is neither unrolled nor made vectors of."""
    _hint(latch, e.module, ["llvm.loop.unroll.disable"], ["llvm.loop.vectorize.enable", ir.Constant(I1, 0)])


_TINY = 16
"""Turns below which LLVM makes no vectors unless it is forced to (its option `vectorizer-min-trip-count`)."""
_LONG = 24
"""Instructions of a turn, before LLVM's passes, that are too many for the processor to look far beyond it. Of 0, 12,
24, 48 and no limit, with 8192 floats on AVX-512, the first three make EXP, LOG, TANH and LOGISTIC take 11 to 16 % less
time than the others, on AVX2 8 to 18 %; SQRT and ABS, which are shorter, take the same time with any."""


@contextmanager
def independent(e: Emitter, count: ir.Value | int, width: int | None = None,
                multiple: int = 1) -> Iterator[ir.Value]:
    """`for index in range(count)`, of turns none of which writes what another one reads or writes: LLVM computes
    `width` of them at a time, or as many as it likes, without checking addresses. It would write the turns of a short
    loop one after the other before it looks for vectors, so that is forbidden. It complains on stderr of a width that
    it cannot use, so there is none for fewer turns, or if the turns branch; and of loops that it is forced to make
    vectors of where none are left in the end, as when it moves the hints of a loop to one around it, so it is forced
    only where it must be. If turns are long, it is told to compute several vectors side by side, where nothing is left
    over: `multiple` is what a count that only a run knows is a multiple of."""
    blocks = len(e.function.blocks)
    with e.loop(count) as index:
        first = e.builder.block
        yield index
    latch = e.latch
    if latch is None:
        return
    group = _Distinct(e.module, [], is_loop=False)
    instructions = [each for block in e.function.blocks[blocks:] for each in block.instructions]
    for instruction in instructions:
        if instruction.opname in ("load", "store"):
            instruction.set_metadata("llvm.access.group", group)
    wanted = () if latch is not first else _vectors(count, width)
    _hint(latch, e.module, ["llvm.loop.parallel_accesses", group], ["llvm.loop.unroll.disable"], *wanted,
          *_several(e, multiple if isinstance(count, ir.Value) else divisor(count),
                    instructions if latch is first else ()))


def _vectors(count: ir.Value | int, width: int | None) -> Sequence[Sequence[Any]]:
    """The hints that ask for vectors of a width."""
    if width is None or (isinstance(count, int) and count < width):
        return ()
    forced = [["llvm.loop.vectorize.enable", ir.Constant(I1, 1)]] if isinstance(count, int) and count < _TINY else []
    return (*forced, ["llvm.loop.vectorize.width", ir.Constant(I32, width)])


def _several(e: Emitter, turns: int, instructions: Sequence[ir.Instruction]) -> Sequence[Sequence[Any]]:
    """The hint that says how many vectors are to be computed side by side, if several are.

    4 or 2, counted in vectors of 32-bit elements, whichever leaves no turn over; a turn of an elementary function is a
    chain of 80 to 150 cycles, of which the processor sees two or three at a time by itself.

    Args:
        e: writes the code.
        turns: a number that the number of turns is a multiple of.
        instructions: those of a turn.
    """
    several = next((k for k in (4, 2) if turns % (k * e.target.vector_bytes // 4) == 0), 1)
    if several == 1 or len(instructions) < _LONG:
        return ()
    return (["llvm.loop.interleave.count", ir.Constant(I32, several)],)


_FOLDED = range(8, 65)
"""Numbers of turns that LLVM would unroll, though some can be taken at a time. A softmax of 64 rows on AVX-512 gains 22
% with rows of 16 and 37 % with rows of 32, on AVX2 13 and 31 %; with 4, 8, 128 or 256 elements it takes the same time
either way, with 64 on AVX2 8 % more."""


@contextmanager
def folded(e: Emitter, count: ir.Value | int) -> Iterator[ir.Value]:
    """`for index in range(count)`, of turns that combine elements in a register: LLVM makes vectors of a short loop
    too, which it would else unroll first, and combine element by element."""
    blocks = len(e.function.blocks)
    with e.loop(count) as index:
        yield index
    latch = e.latch
    if not isinstance(count, int) or latch is None:
        return
    hints = [["llvm.loop.unroll.disable"]] if count in _FOLDED else []
    found = [*hints, *_several(e, count, [each for block in e.function.blocks[blocks:] for each in block.instructions])]
    if found:
        _hint(latch, e.module, *found)


@contextmanager
def every(e: Emitter, shape: Shape) -> Iterator[tuple[ir.Value, ...]]:
    """Loops over the elements of a shape, as `Emitter.nest`; the turns of the innermost one are independent."""
    last = max((axis for axis, size in enumerate(shape) if may_differ(size, 1)), default=None)
    if last is None:
        yield tuple(e.number(0) for _ in shape)
        return
    with rolled_nest(e, shape[:last]) as outer, independent(e, shape[last]) as each:
        yield (*outer, each, *(e.number(0) for _ in shape[last + 1:]))


def carry(e: Emitter, count: ir.Value, values: Sequence[ir.Value],
          body: Callable[[ir.Value, Carried], Carried]) -> Carried:
    """`for index in range(count): values = body(index, values)`, which stays rolled; gives the last values.

    Written are three blocks: a head with a phi for the index and for each value, the body, and what comes after.
    """
    b, before = e.builder, e.builder.block
    head, inside, after = (e.function.append_basic_block(name) for name in ("head", "loop", "after"))
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(each.type) for each in (count, *values)]
    for phi, each in zip(phis, (e.number(0), *values), strict=True):
        phi.add_incoming(each, before)
    b.cbranch(b.icmp_signed("<", phis[0], count), inside, after)
    b.position_at_end(inside)
    results = body(phis[0], list(phis[1:]))
    following = [b.add(phis[0], e.number(1), flags=("nuw", "nsw")), *results]
    for phi, each in zip(phis, following, strict=True):
        phi.add_incoming(each, b.block)
    latch = b.block
    b.branch(head)
    _keep_rolled(e, latch)
    b.position_at_end(after)
    return list(phis[1:])
