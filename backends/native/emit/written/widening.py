"""Computes several turns of a loop at a time, by vectors.

LLVM would find them too, in thirty passes over the function, which take longer than all else that becomes of a short
loop. A turn that is one block of arithmetic on neighbouring elements needs none of them: each instruction becomes one
on vectors, or stays as it is where it computes the same in all turns or an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, LONG_LOOP, Emitter
from circlet.backends.native.emit.written.release import release
from circlet.backends.native.emit.written.totals import Total
from circlet.backends.native.emit.written.turn import Loop, NotWidened, Turn, arguments, intrinsic_of, size_of
from circlet.backends.native.targets.constants import Uniform, lane_numbers
from circlet.backends.native.targets.target import Goal
from circlet.runtime.records import dataclass

_BESIDE = (4, 2, 1)
"""How many vectors are computed side by side: what LLVM chooses for short turns."""
_FEWEST = 4
"""Elements that a vector is worth: a choice."""


@dataclass(frozen=True)
class Cut:
    """How turns are taken together."""

    lanes: int
    """How many are a vector."""
    several: int
    """Vectors that are computed side by side."""
    is_forced: bool = False
    """Whether LLVM is to do it where it expects nothing of it."""
    is_masked: bool = False
    """Whether vectors have masks, so that any number of turns below 256 is taken; else they are whole vectors side by
    side."""
    is_rolled: bool = False
    """Whether LLVM must not unroll the loop first."""
    is_single: bool = False
    """Whether one vector has all turns."""


def widened(e: Emitter, latch: ir.Block, count: ir.Value | int, several: int | None, has_masks: bool,
            mark: Callable[[ir.Block], None], cut: Cut | None = None) -> bool:
    """Makes vectors of the loop that a block ends, none of whose turns writes what another one reads or writes; whether
    it could, else all is as it was. Turns that fill no vector are computed with masks, or one by one where the
    processor has none. Code for other machines is left to LLVM, but for what turns combine, so that it has the same
    bits there.

    Args:
        e: writes the code, behind the loop.
        latch: the loop's only block besides its head.
        count: of turns.
        several: vectors that are computed side by side, if that is known.
        has_masks: whether vectors may be read and written in part.
        mark: is told of the blocks that end loops over vectors, and over what these leave.
        cut: how an unknown number of turns is cut, if that is said.
    """
    if e.target.goal is Goal.SIZE or e.target.vector_bytes < 16 or _is_of_runs(count):
        return False
    loop = Loop.of(latch, count)
    try:
        turn = Turn.of(loop)
        if e.target.goal is not Goal.HERE and not turn.totals:
            return False
        _Widening(e, loop, turn, several, has_masks, cut).write(mark)
    except NotWidened:
        return False
    return True


def _is_of_runs(count: ir.Value | int) -> bool:
    """Whether the loop is the inner one of those that `Emitter.loop` writes for very many turns."""
    turns = count.constant if isinstance(count, ir.Constant) else count
    return isinstance(turns, int) and turns >= LONG_LOOP


def _lanes(most: int, count: ir.Value | int) -> int:
    """How many elements vectors have: of few turns, so many that none is left over.

    Raises:
        NotWidened: there are too few turns, or none.
    """
    if not isinstance(count, int) or count >= 2 * most or (count and count % most == 0):
        return most
    found = next((each for each in (most // 2, most // 4, most // 8) if each >= _FEWEST and count % each == 0), None)
    if (found is None and count < most) or not count:
        raise NotWidened
    return found or most


class _Widening:
    """A loop on its way to vectors."""

    def __init__(self, e: Emitter, loop: Loop, turn: Turn, several: int | None, has_masks: bool,
                 cut: Cut | None) -> None:
        self._e = e
        self._has_masks = has_masks
        self._loop = loop
        self._turn = turn
        self._cut = cut
        count = loop.count
        if cut is not None:
            self._lanes, self._several = cut.lanes, cut.several
        else:
            self._lanes, self._several = self._chosen(count, several)
        self._outer: dict[int, ir.Value] = {}
        """What stands before the loop for values that are the same in all turns, by `id`."""
        self._splats: dict[int, ir.Value] = {}
        """Those as vectors."""
        self._narrow: dict[int, ir.Value] = {}
        """As vectors those of which such numbers are widened; see `_is_widened`."""
        self._slots = {id(each): [e.slot(self._wide(each.load.type)) for _ in range(self._several)]
                       for each in self._totals}
        """Where vectors are combined side by side, by `id` of what they come to together."""

    @property
    def _totals(self) -> Sequence[Total]:
        """What turns combine."""
        return [each for key, each in self._turn.totals.items() if key == id(each.load)]

    def _chosen(self, count: ir.Value | int, several: int | None) -> tuple[int, int]:
        """How many elements a vector has, and how many vectors are side by side, where that is not said."""
        lanes = _lanes(self._e.target.vector_bytes // self._turn.widest, count)
        beside = _BESIDE if several is None else (several, 2, 1)
        return lanes, next(k for k in beside if not isinstance(count, int) or count // lanes % k == 0)

    def write(self, mark: Callable[[ir.Block], None]) -> None:
        """Writes the loop over vectors, and takes away or shortens the one that there was."""
        e, b, loop = self._e, self._e.builder, self._loop
        block = self._lanes * self._several
        end = b.block
        _reopen(loop.before)
        b.position_at_end(loop.before)
        total, known = e.register(loop.count), loop.count
        if self._turn.needs_turns and not isinstance(known, int):
            self._leave_unless(b.icmp_signed(">", total, e.number(0)))
        for each in self._turn.same:
            self._outer[id(each)] = self._copied(each, self._outer)
        for each in self._turn.varying:
            for value in arguments(each):
                self._prepare(value)
        self._begin_totals()
        if self._cut is not None:
            self._in_place(total, mark)
        else:
            whole = e.number(known // block * block) if isinstance(known, int) else b.and_(total, e.number(-block))
            self._rolled(e.number(0), whole, block, partial(self._vectors, self._several), mark)
            self._rest(whole, total, mark)
        b.position_at_end(end)

    def _in_place(self, total: ir.Value, mark: Callable[[ir.Block], None]) -> None:
        """One loop of vectors over all turns, or the only vector."""
        assert self._cut is not None, "it is said how turns are cut"

        def masked(begin: ir.Value) -> None:
            self._masked(begin, self._e.builder.sub(total, begin))

        if self._cut.is_single:
            self._masked(self._e.number(0), total)
        else:
            self._rolled(self._e.number(0), total, self._lanes * self._several,
                         masked if self._cut.is_masked else partial(self._vectors, self._several), mark)
        self._leave()

    def _leave(self) -> None:
        """Goes on behind the loop there was, which is none any more."""
        loop, function = self._loop, self._loop.head.function
        self._bring_home()
        self._e.builder.branch(loop.after)
        function.blocks = [each for each in function.blocks if each not in (loop.head, loop.body)]
        release((loop.head, loop.body))

    def _begin_totals(self) -> None:
        """Writes nothing to the slots of what turns combine."""
        for each in self._totals:
            for slot in self._slots[id(each)]:
                self._e.builder.store(Uniform(self._wide(each.load.type), each.nothing), slot)

    def _bring_home(self) -> None:
        """Combines all lanes of the vectors in slots with the number that there was before the loop."""
        for each in self._totals:
            b = self._e.builder
            values = [b.load(slot, typ=self._wide(each.load.type)) for slot in self._slots[id(each)]]
            while len(values) > 1:
                values = [self._combined(each, *values[k:k + 2]) for k in range(0, len(values), 2)]
            (value,), width = values, self._lanes
            while width > 1:
                width //= 2
                low, high = (ir.Constant(ir.VectorType(I32, width), list(range(k, k + width))) for k in (0, width))
                value = self._combined(each, *(b.shuffle_vector(value, value, half) for half in (low, high)))
            before = b.load(each.slot, typ=each.load.type)
            b.store(self._combined(each, before, b.extract_element(value, I32(0))), each.slot)

    def _combined(self, total: Total, one: ir.Value, other: ir.Value) -> ir.Value:
        """Two numbers, or vectors of them, combined as a turn does it."""
        name, each = intrinsic_of(total.combined), total.combined
        if name is not None:
            return self._e.intrinsic(name, one, other, flags=tuple(each.fastmath))
        return self._made(each, [one, other], one.type)

    def _leave_unless(self, condition: ir.Value) -> None:
        """Goes on behind the loop where a condition does not hold."""
        b, inside = self._e.builder, self._loop.head.function.append_basic_block("turns")
        b.cbranch(condition, inside, self._loop.after)
        b.position_at_end(inside)

    def _rest(self, whole: ir.Value, total: ir.Value, mark: Callable[[ir.Block], None]) -> None:
        """The turns that are left, if there are any. One that is known to be the only one has no mask: of a vector that
        is narrowed, LLVM 22 stores the first element as wide as it was where the mask is that of one lane."""
        b, loop, lanes = self._e.builder, self._loop, self._lanes
        is_known = isinstance(loop.count, int)
        is_single = is_known and loop.count % lanes == 1
        if not is_known and self._several > 1 and (self._turn.totals or not self._has_masks):
            begin, whole = whole, b.and_(total, self._e.number(-lanes))
            self._rolled(begin, whole, lanes, partial(self._vectors, 1), mark)
        if is_single or ((not is_known or loop.count % lanes) and not self._has_masks):
            self._bring_home()
            b.branch(loop.head)
            loop.index.incomings[0] = (whole, b.block)
            mark(loop.body)
            return
        if not is_known:
            self._rolled(whole, total, lanes, lambda begin: self._masked(begin, b.sub(total, begin)), mark)
        elif loop.count % lanes:
            self._masked(whole, b.sub(total, whole))
        self._leave()

    def _rolled(self, first: ir.Value, last: ir.Value, step: int, turn: Callable[[ir.Value], None],
                mark: Callable[[ir.Block], None]) -> None:
        """A loop from `first` to `last` by steps: a block that ends with the look whether there are more, behind
        another look unless it is known that there is one."""
        e, b = self._e, self._e.builder
        before, function = b.block, self._loop.head.function
        body, after = (function.append_basic_block(name) for name in ("vectors", "after"))
        if isinstance(self._loop.count, int):
            b.branch(body)
        else:
            b.cbranch(b.icmp_signed("<", first, last), body, after)
        b.position_at_end(body)
        index = b.phi(e.index)
        index.add_incoming(first, before)
        turn(index)
        following = b.add(index, e.number(step), flags=("nuw", "nsw"))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, last), body, after)
        mark(b.block)
        b.position_at_end(after)

    def _masked(self, begin: ir.Value, count: ir.Value) -> None:
        """A vector of which some lanes count: the first ones, as many as are left where that is a byte."""
        e, b, numbers = self._e, self._e.builder, lane_numbers(self._lanes)
        left = e.intrinsic("smin", count, e.number(self._lanes)) if self._cut is None else count
        left = b.trunc(left, numbers.type.element) if numbers.type.element.width < left.type.width else left
        self._vectors(1, begin, b.icmp_unsigned("<", numbers, self._in_every_lane(left, numbers.type)))

    def _vectors(self, several: int, begin: ir.Value, mask: ir.Value | None = None) -> None:
        """Vectors side by side, from a turn on."""
        scalars = {**self._outer, id(self._loop.index): begin}
        found: list[dict[int, ir.Value]] = [{} for _ in range(several)]
        varying = set(map(id, self._turn.varying))
        for each in self._loop.turn:
            if id(each) in self._turn.totals:
                self._at_total(each, self._turn.totals[id(each)], found, mask)
            elif id(each) in varying:
                for number, values in enumerate(found):
                    values[id(each)] = self._vector(each, scalars, values, number, mask)
            elif id(each) not in scalars:
                scalars[id(each)] = self._copied(each, scalars)

    def _at_total(self, each: ir.Instruction, total: Total, vectors: Sequence[dict[int, ir.Value]],
                  mask: ir.Value | None) -> None:
        """Loads or stores what vectors side by side combine; where there is a mask, lanes without it stay."""
        b = self._e.builder
        for slot, values in zip(self._slots[id(total)], vectors, strict=False):
            if each is total.load:
                values[id(each)] = b.load(slot, typ=self._wide(each.type))
                continue
            value = values[id(total.combined)]
            b.store(value if mask is None else b.select(mask, value, values[id(total.load)]), slot)

    def _vector(self, each: ir.Instruction, scalars: dict[int, ir.Value], vectors: dict[int, ir.Value], number: int,
                mask: ir.Value | None) -> ir.Value:
        """An instruction on vectors, of those side by side the one of a number."""
        if isinstance(each, (ir.LoadInstr, ir.StoreInstr)):
            return self._moved(each, scalars, vectors, number, mask)
        name = intrinsic_of(each)
        values = [self._operand(value, scalars, vectors, number) for value in arguments(each)]
        if name is not None:
            return self._e.intrinsic(name, *values, flags=tuple(each.fastmath))
        return self._made(each, values, self._wide(each.type))

    def _moved(self, each: ir.Instruction, scalars: dict[int, ir.Value], vectors: dict[int, ir.Value], number: int,
               mask: ir.Value | None) -> ir.Value:
        """A vector from memory or to it."""
        e, b = self._e, self._e.builder
        is_load = isinstance(each, ir.LoadInstr)
        kind = each.type if is_load else each.operands[0].type
        if self._has_room(each.operands[-1]):
            mask = None
        place = e.address(scalars.get(id(each.operands[-1]), each.operands[-1]), kind, number * self._lanes)
        if is_load:
            return b.load(place, typ=self._wide(kind), align=size_of(kind)) if mask is None else e.load_masked(
                place, mask, ir.Constant(self._wide(kind), None), size_of(kind))
        value = self._operand(each.operands[0], scalars, vectors, number)
        if mask is not None:
            e.store_masked(value, place, mask, size_of(kind))
            return value
        return b.store(value, place, align=size_of(kind))

    def _has_room(self, place: ir.Value) -> bool:
        """Whether a whole vector may be read and written at an element's address, which the processor need not wait for
        where it reads what it wrote before."""
        return isinstance(place, ir.GEPInstr) and place.pointer in self._e.roomy

    def _operand(self, value: ir.Value, scalars: dict[int, ir.Value], vectors: dict[int, ir.Value],
                 number: int) -> ir.Value:
        """A value as a vector."""
        if id(value) in vectors:
            return vectors[id(value)]
        if self._turn.step(value):
            return self._counted(scalars[id(value)], self._turn.step(value), number)
        if id(value) in self._narrow:
            return self._e.builder.sext(self._narrow[id(value)], self._wide(value.type))
        return self._splats[id(value)]

    def _counted(self, first: ir.Value, step: int, number: int) -> ir.Value:
        """Numbers that grow by a step from lane to lane."""
        kind = self._wide(first.type)
        steps = ir.Constant(kind, [(number * self._lanes + k) * step for k in range(self._lanes)])
        return self._e.builder.add(self._in_every_lane(first, kind), steps)

    def _prepare(self, value: ir.Value) -> None:
        """Writes a value that is the same in all turns in every lane, once."""
        if id(value) in self._splats or self._turn.differs(value) or isinstance(value.type, ir.PointerType):
            return
        if _is_widened(value):
            (narrow,) = value.operands
            self._narrow[id(value)] = self._in_every_lane(self._outer.get(id(narrow), narrow), self._wide(narrow.type))
            return
        if type(value) is ir.Constant and value.constant is not None and _is_plain(value):
            self._splats[id(value)] = Uniform(self._wide(value.type), value.constant)
        else:
            self._splats[id(value)] = self._in_every_lane(self._outer.get(id(value), value), self._wide(value.type))

    def _in_every_lane(self, value: ir.Value, kind: ir.VectorType) -> ir.Value:
        """A vector of equal elements."""
        b, empty = self._e.builder, Uniform(kind, ir.Undefined)
        return b.shuffle_vector(b.insert_element(empty, value, I32(0)), empty,
                                ir.Constant(ir.VectorType(I32, kind.count), None))

    def _wide(self, kind: ir.Type) -> ir.VectorType:
        """A vector of elements of a type."""
        return ir.VectorType(kind, self._lanes)

    def _copied(self, each: ir.Instruction, values: dict[int, ir.Value]) -> ir.Value:
        """The same instruction, where the block at hand ends."""
        operands = [values.get(id(value), value) for value in each.operands]
        b = self._e.builder
        if isinstance(each, ir.CallInstr):
            return b.call(operands[0], operands[1:], fastmath=tuple(each.fastmath))
        if isinstance(each, ir.LoadInstr):
            return b.load(operands[0], typ=each.type, align=each.align)
        if isinstance(each, ir.GEPInstr):
            return b.gep(operands[0], operands[1:], inbounds=each.inbounds, source_etype=each.source_etype)
        return self._made(each, operands, each.type)

    def _made(self, each: ir.Instruction, operands: Sequence[ir.Value], kind: ir.Type) -> ir.Instruction:
        """Writes an instruction that does the same with other operands, and gives a value of a type."""
        b = self._e.builder
        if isinstance(each, ir.CompareInstr):
            made = type(each)(b.block, each.op, *operands, flags=each.flags)
        elif isinstance(each, ir.CastInstr):
            made = ir.CastInstr(b.block, each.opname, *operands, kind)
            made.flags = list(each.flags)
        elif isinstance(each, ir.SelectInstr):
            made = ir.SelectInstr(b.block, *operands, flags=each.flags)
        else:
            made = ir.Instruction(b.block, kind, each.opname, list(operands), flags=each.flags)
        b._insert(made)
        return made


def _is_widened(value: ir.Value) -> bool:
    """Whether a number is one of half as many bits. It is widened beside what it is multiplied by, so that LLVM sees
    that processors' products of half as many bits do."""
    return isinstance(value, ir.CastInstr) and value.opname == "sext" and value.type.width == 64 and (
        value.operands[0].type.width == I32.width)


def _is_plain(value: ir.Constant) -> bool:
    """Whether a constant is a number."""
    return isinstance(value.constant, (int, float))


def _reopen(block: ir.Block) -> None:
    """Lets a block be continued."""
    block.instructions.pop()
    block.terminator = None
