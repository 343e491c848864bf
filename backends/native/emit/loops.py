"""Loops that tell LLVM what it cannot find out, or should not do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I32, Emitter
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.whole import Truth, Whole
from circlet.backends.native.emit.written.widening import Cut, widened
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.length import is_length, may_differ
from circlet.runtime.ir.types import Shape

Carried: TypeAlias = "list[ir.Value]"
"""The values that a loop hands from turn to turn, each in a register."""
Turn: TypeAlias = "Callable[[ir.Value], None]"
"""Emits a turn of a loop, given its number."""
Hints: TypeAlias = "Sequence[Sequence[Any]]"
"""What is said of a loop to LLVM: names, and numbers as constants behind them."""


class _Distinct(ir.MDValue):  # type: ignore[misc]  # llvmlite is untyped
    """A metadata node that equals no other one; if it names a loop it begins with itself."""

    def __init__(self, module: ir.Module, operands: Sequence[Any], is_loop: bool) -> None:
        super().__init__(module, module._fix_metadata_operands(operands), str(len(module.metadata)))
        self._is_loop = is_loop

    def __eq__(self, other: object) -> bool:
        """llvmlite takes nodes of equal operands for one, and what refers to them."""
        return self is other

    def __hash__(self) -> int:
        return id(self)

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


def not_unrolled(e: Emitter) -> None:
    """Hints that the loop which the block at hand ends is not unrolled."""
    _hint(e.builder.block, e.module, ["llvm.loop.unroll.disable"])


def _keep_rolled(e: Emitter, latch: ir.Block) -> None:
    """Hints that the loop which a block ends is neither unrolled nor made vectors of."""
    _hint(latch, e.module, ["llvm.loop.unroll.disable"], ["llvm.loop.vectorize.enable", ir.Constant(I1, 0)])


def _mark(module: ir.Module, latch: ir.Block) -> None:
    """Says of the loop that a block ends that it is made of vectors already, or has what these leave over."""
    _hint(latch, module, ["llvm.loop.isvectorized", ir.Constant(I32, 1)], ["llvm.loop.unroll.disable"])


@contextmanager
def leftover(e: Emitter, count: ir.Value | int) -> Iterator[ir.Value]:
    """`for index in range(count)`, of what vectors leave over, which LLVM leaves as it is."""
    with e.loop(count) as index:
        yield index
    if e.latch is not None:
        _mark(e.module, e.latch)


def is_of_vectors(latch: ir.Block) -> bool:
    """Whether the loop that a block ends was made of vectors here, or has what these leave over."""
    hints = latch.terminator.metadata.get("llvm.loop")
    return hints is not None and any(isinstance(each, ir.MDValue) and isinstance(each.operands[0], ir.MetaDataString)
                                     and each.operands[0].string == "llvm.loop.isvectorized" for each in hints.operands)


_BESIDE = 2
"""How many vectors of a loop are computed side by side where only a run knows its number of turns. For a softmax of
rows of 100, 128 and 1000 on AVX-512, 1, 2 and 4 are within 8 % of each other, 2 within 3 % of the best."""
_LEFT = 2
"""What part of a register the vectors with masks are. Of 2000 rows of 8 on AVX-512, a softmax takes a quarter less time
with half registers than with whole ones, TANH two fifths; with rows of 13 a softmax takes a seventh more, from 32 to
1000 it is within 7 %."""
_NARROW = (1, 2, 4)
"""What parts of a register rows of few elements are taken for; whole ones with masks are slower where they reach into
another line of the cache."""
_TINY = 16
"""Turns below which LLVM makes no vectors unless it is forced to (its option `vectorizer-min-trip-count`)."""
_LONG = 24
"""Instructions of a turn, before LLVM's passes, that are too many for the processor to look far beyond it. Of 0, 12,
24, 48 and no limit, with 8192 floats on AVX-512, the first three make EXP, LOG, TANH and LOGISTIC take 11 to 16 % less
time than the others, on AVX2 8 to 18 %; SQRT and ABS, which are shorter, take the same time with any."""


@contextmanager
def independent(e: Emitter, count: ir.Value | int, width: int | None = None, cut: Cut | None = None,
                rereads: bool = False) -> Iterator[ir.Value]:
    """`for index in range(count)`, of turns none of which writes what another one reads or writes. They become vectors
    as they are written (`written/widening.py`), without masks if the loop `rereads` what one before it stored, or one
    behind it will, for which the processor would wait.

    Where they cannot, LLVM computes `width` of them at a time, or as many as it likes, without checking addresses. It
    would write the turns of a short loop one after the other before it looks for vectors, so that is forbidden. It
    complains on stderr of a width that it cannot use, so there is none for fewer turns, or if the turns branch; and of
    loops that it is forced to make vectors of where none are left in the end, as when it moves the hints of a loop to
    one around it, so it is forced only where it must be. If turns are long, it is told to compute several vectors side
    by side. Where turns do not branch, `cut` says how they are cut in place of all that."""
    blocks = len(e.function.blocks)
    with e.loop(count) as index:
        first = e.builder.block
        yield index
    latch = e.latch
    if latch is None:
        return
    instructions = [each for block in e.function.blocks[blocks:] for each in block.instructions]
    several, has_masks = _beside(e, count, instructions), e.target.has_masks and not rereads
    if latch is first and widened(e, latch, count, several, has_masks, partial(_mark, e.module), cut):
        return
    group = _accesses(e, instructions)
    wanted: Hints = ()
    if latch is first:
        wanted = (*_vectors(e, count, width), *_several(e, count, instructions)) if cut is None else _vectors_of(cut)
    rolled_up = [["llvm.loop.unroll.disable"]] if cut is None else []
    _hint(latch, e.module, ["llvm.loop.parallel_accesses", group], *rolled_up, *wanted)


def _accesses(e: Emitter, instructions: Iterable[ir.Instruction]) -> ir.MDValue:
    """A group of all accesses to memory but to slots of the stack, of which no turn of a loop writes what another one
    reads or writes."""
    group = _Distinct(e.module, [], is_loop=False)
    for each in instructions:
        if each.opname in ("load", "store") and not isinstance(each.operands[-1], ir.AllocaInstr):
            each.set_metadata("llvm.access.group", group)
    return group


def _is_plain(e: Emitter) -> bool:
    """Whether LLVM makes no vectors of loops, so that it would complain of hints."""
    return e.target.goal is Goal.SIZE or e.target.vector_bytes == 4


def _vectors(e: Emitter, count: ir.Value | int, width: int | None) -> Hints:
    """The hints that ask for vectors of a width."""
    if width is None or (isinstance(count, int) and count < width) or _is_plain(e):
        return ()
    forced = [["llvm.loop.vectorize.enable", ir.Constant(I1, 1)]] if isinstance(count, int) and count < _TINY else []
    return (*forced, ["llvm.loop.vectorize.width", ir.Constant(I32, width)])


def _several(e: Emitter, turns: ir.Value | int, instructions: Sequence[ir.Instruction]) -> Hints:
    """The hint that says how many vectors are to be computed side by side, if several are.

    4 or 2, counted in vectors of 32-bit elements, whichever leaves no turn over, and 4 where only a run knows how many
    turns there are; a turn of an elementary function is a chain of 80 to 150 cycles, of which the processor sees two or
    three at a time by itself.

    Args:
        e: writes the code.
        turns: their number.
        instructions: those of a turn.
    """
    several = _beside(e, turns, instructions)
    if several in (1, None) or _is_plain(e):
        return ()
    return (["llvm.loop.interleave.count", ir.Constant(I32, several)],)


def _beside(e: Emitter, turns: ir.Value | int, instructions: Sequence[ir.Instruction]) -> int | None:
    """How many vectors `_several` asks for; None where turns are so short that it does not matter."""
    if len(instructions) < _LONG:
        return None
    lanes = e.target.vector_bytes // 4
    return next((k for k in (4, 2) if not isinstance(turns, int) or turns % (k * lanes) == 0), 1)


_FOLDED = range(8, 65)
"""Numbers of turns that LLVM would unroll, though some can be taken at a time. A softmax of 64 rows on AVX-512 gains 22
% with rows of 16 and 37 % with rows of 32, on AVX2 13 and 31 %; with 4, 8, 128 or 256 elements it takes the same time
either way, with 64 on AVX2 8 % more."""


@contextmanager
def folded(e: Emitter, count: ir.Value | int, cut: Cut | None = None, is_apart: bool = False) -> Iterator[ir.Value]:
    """`for index in range(count)`, of turns that combine elements in a register. Where only a run knows how many there
    are they become vectors as they are written, if they can. LLVM makes vectors of others, of a short loop too, which
    it would else unroll first, and combine element by element. `cut` is as for `independent`. If turns are `apart`,
    none writes memory that another one reads or writes, so that LLVM compares no addresses."""
    blocks = len(e.function.blocks)
    with e.loop(count) as index:
        first = e.builder.block
        yield index
    latch, hints = e.latch, []
    instructions = [each for block in e.function.blocks[blocks:] for each in block.instructions]
    if latch is None or (_is_written(count, cut) and latch is first and widened(
            e, latch, count, _several_sums(instructions), e.target.has_masks, partial(_mark, e.module), cut)):
        return
    if cut is not None:
        hints = [*_vectors_of(cut)] if latch is first else []
    elif isinstance(count, int):
        unrolled = [["llvm.loop.unroll.disable"]] if count in _FOLDED else []
        hints = [*unrolled, *_several(e, count, instructions)]
    if is_apart and latch is first:
        hints = [["llvm.loop.parallel_accesses", _accesses(e, instructions)], *hints]
    if hints:
        _hint(latch, e.module, *hints)


def _is_written(count: ir.Value | int, cut: Cut | None) -> bool:
    """Whether turns that combine elements become vectors as they are written."""
    return not isinstance(count, int) if cut is None else cut.is_single


def _several_sums(instructions: Sequence[ir.Instruction]) -> int | None:
    """How many vectors side by side such turns are; None for what `widened` chooses."""
    return _BESIDE if len(instructions) >= _LONG else None


_EITHER = 2
"""Turns of a loop whose number LLVM makes a truth, first or not, so that it finds no sum in it, and complains."""


def fold(e: Emitter, count: int, turn: Turn, rereads: bool = False, size: int = 1, most: int | None = None) -> None:
    """`for index in range(count): turn(index)`, as `folded`. Known turns that are few are cut in whole vectors and one
    with a mask, half as wide, as LLVM takes them one by one where it keeps elements meanwhile: the exponentials of a
    softmax of rows of 3 to 20 took 1.2 to 3 times as long. There are no masks if it `rereads` what a loop before it
    stored, for which the processor would wait: with rows of 5 that took 1.7 times as long. Turns read and write
    elements of `size` bytes or more; `most` is as `by_length` tells it."""
    if is_length(count) and e.target.has_masks:
        with folded(e, *cut_for(e, count, most)) as k:
            turn(k)
        return
    lanes = e.target.vector_bytes // 4
    rest = 0 if is_length(count) or count >= _BESIDE * lanes or not e.target.has_masks else count % lanes
    if not rest:
        _in_two(e, count, turn, partial(folded, is_apart=True), e.target.masks(size))
        return
    width = next((each for each in (lanes // _LEFT, lanes // 4) if rest % each == 0), lanes // _LEFT)
    is_masked = rest % width > 0
    if is_masked and rereads:
        _in_two(e, count, turn, partial(folded, is_apart=True), e.target.masks(size))
        return
    if count > rest:
        with folded(e, count - rest, is_apart=True) as k:
            turn(k)
    few = Cut(width, 1, is_forced=True, is_masked=is_masked, is_rolled=True)
    with folded(e, rest, few if rest != _EITHER else None, is_apart=True) as k:
        turn(e.builder.add(e.number(count - rest), k))


def spread(e: Emitter, count: int, turn: Turn, most: int | None = None) -> None:
    """`for index in range(count): turn(index)`, as `independent`, cut into whole vectors and what is left; `most` is as
    `by_length` tells it."""
    if most is None:
        _in_two(e, count, turn, independent, e.target.has_masks)
        return
    turns, cut = cut_for(e, count, most)
    with independent(e, turns, cut=cut) as k:
        turn(k)


def cut_for(e: Emitter, count: ir.Value | int, most: int | None) -> tuple[ir.Value, Cut | None]:
    """How many turns there are, and how they are cut where a vector has them, as `by_length` tells it."""
    if most is None:
        return e.register(count), None
    turns = e.intrinsic("smin", e.register(count), e.number(most))
    return turns, Cut(most, 1, is_forced=True, is_masked=True, is_single=True)


def narrowest(e: Emitter, count: int) -> int | None:
    """The narrowest part of a register that holds a row of so many elements; None if none does."""
    lanes = e.target.vector_bytes // 4
    return next((lanes // parts for parts in reversed(_NARROW) if count <= lanes // parts), None)


def by_length(e: Emitter, count: int, write: Callable[[int | None], None]) -> None:
    """Code for rows of a number of elements that only a run knows: `write` emits it for rows of at most so many, which
    one vector holds, and, given None, for rows of any length. Where the length is known, the processor has no masks, or
    code is to be small, for any alone."""
    chosen = partial(write, None)
    if is_length(count) and e.target.has_masks and e.target.goal is not Goal.SIZE:
        lanes = e.target.vector_bytes // 4
        for most in (lanes // parts for parts in _NARROW):
            chosen = partial(branch, e, Whole(e, count).compare("<=", most), partial(write, most), chosen)
    chosen()


def _in_two(e: Emitter, count: int, turn: Turn, loop: Callable[..., AbstractContextManager[ir.Value]],
            has_masks: bool) -> None:
    """A loop, or one of whole vectors and one of what is left."""
    if not is_length(count) or not has_masks:
        with loop(e, count) as k:
            turn(k)
        return
    lanes, total = e.target.vector_bytes // 4, e.number(count)
    rest = e.builder.and_(total, e.number(_BESIDE * lanes - 1))
    whole = e.builder.sub(total, rest)
    with loop(e, whole, cut=Cut(lanes, _BESIDE)) as k:
        turn(k)
    with loop(e, rest, cut=Cut(lanes // _LEFT, 1, is_forced=True, is_masked=True)) as k:
        turn(e.builder.add(whole, k))


def _vectors_of(cut: Cut) -> Hints:
    """The hints that ask LLVM for that."""
    asked = {"llvm.loop.vectorize.enable": cut.is_forced, "llvm.loop.vectorize.predicate.enable": cut.is_masked}
    numbers = {"llvm.loop.vectorize.width": cut.lanes, "llvm.loop.interleave.count": cut.several}
    rolled_up = [["llvm.loop.unroll.disable"]] if cut.is_rolled else []
    return (*rolled_up, *([name, ir.Constant(I1, 1)] for name, each in asked.items() if each),
            *([name, ir.Constant(I32, each)] for name, each in numbers.items()))


@contextmanager
def every(e: Emitter, shape: Shape) -> Iterator[tuple[ir.Value, ...]]:
    """Loops over the elements of a shape, as `Emitter.nest`; the turns of the innermost one are independent."""
    last = max((axis for axis, size in enumerate(shape) if may_differ(size, 1)), default=None)
    if last is None:
        yield tuple(e.number(0) for _ in shape)
        return
    with rolled_nest(e, shape[:last]) as outer, independent(e, shape[last]) as each:
        yield (*outer, each, *(e.number(0) for _ in shape[last + 1:]))


def spread_every(e: Emitter, shape: Shape, turn: Callable[[Index], None]) -> None:
    """Loops over the elements of a shape, given the index of each; the innermost one is cut as `spread` does it."""
    last = max((axis for axis, size in enumerate(shape) if may_differ(size, 1)), default=None)
    if last is None:
        turn([e.number(0) for _ in shape])
        return
    with rolled_nest(e, shape[:last]) as outer:
        spread(e, shape[last], lambda k: turn([*outer, k, *(e.number(0) for _ in shape[last + 1:])]))


def search(e: Emitter, count: ir.Value, is_found: Callable[[ir.Value], ir.Value], most: int | None = None) -> ir.Value:
    """The first index below `count` for which a condition, an i1, holds; `count` where there is none. At most `most`
    turns are metered, if that is known."""
    b, before = e.builder, e.builder.block
    with nullcontext() if e.meter is None else e.meter.turn(most) as span:
        head, body, after = (e.function.append_basic_block(name) for name in ("look", "looked", "found"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(e.index)
        index.add_incoming(e.number(0), before)
        b.cbranch(b.icmp_signed("<", index, count), body, after)
        b.position_at_end(body)
        found = is_found(index)
    index.add_incoming(b.add(index, e.number(1), flags=("nuw", "nsw")), b.block)
    b.cbranch(found, after, head)
    b.position_at_end(after)
    if e.meter is not None and span is not None:
        e.meter.spend_loop(span, index)
    return index


def carry(e: Emitter, count: ir.Value, values: Sequence[ir.Value],
          body: Callable[[ir.Value, Carried], Carried], is_settled: bool = False) -> Carried:
    """`for index in range(count): values = body(index, values)`, which stays rolled; gives the last values. A loop that
    `is_settled` is not worth LLVM's passes over loops.

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
    _mark(e.module, latch) if is_settled else _keep_rolled(e, latch)
    b.position_at_end(after)
    return list(phis[1:])


def branch(e: Emitter, condition: Truth, one: Callable[[], None], other: Callable[[], None]) -> None:
    """What `one` emits where a condition holds, else what `other` does."""
    if isinstance(condition, bool):
        (one if condition else other)()
        return
    with e.builder.if_else(condition) as (then, otherwise):
        with then:
            one()
        with otherwise:
            other()


def choose(e: Emitter, condition: Truth, one: Callable[[], ir.Value], other: Callable[[], ir.Value]) -> ir.Value:
    """As `branch`, of values of one type, in a register."""
    if isinstance(condition, bool):
        return one() if condition else other()
    found: list[tuple[ir.Value, ir.Block]] = []
    branch(e, condition, *(partial(_append, e, found, each) for each in (one, other)))
    phi = e.builder.phi(found[0][0].type)
    for each in found:
        phi.add_incoming(*each)
    return phi


def _append(e: Emitter, found: list[tuple[ir.Value, ir.Block]], emit: Callable[[], ir.Value]) -> None:
    """A value, and the block in which it is known."""
    found.append((emit(), e.builder.block))


def dispatch(e: Emitter, selector: ir.Value, blocks: Sequence[ir.Block]) -> None:
    """Goes to the block that a selector, i1 or i32, names: a conditional branch or a switch; the last block takes all
    other numbers."""
    if selector.type == ir.IntType(1):
        e.builder.cbranch(selector, blocks[0], blocks[1])
        return
    switch = e.builder.switch(selector, blocks[-1])
    for number, block in enumerate(blocks[:-1]):
        switch.add_case(ir.Constant(selector.type, number), block)


def is_other(e: Emitter, selector: ir.Value, branch: int, count: int) -> ir.Value:
    """Whether a selector, i1 or i32, names another branch than one; the last one takes all other numbers."""
    if selector.type == ir.IntType(1):
        return e.builder.not_(selector) if branch == 0 else selector
    last = ir.Constant(selector.type, count - 1)
    if branch == count - 1:
        return e.builder.icmp_unsigned("<", selector, last)
    return e.builder.icmp_signed("!=", selector, ir.Constant(selector.type, branch))
