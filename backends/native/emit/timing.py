"""Where compiled code reads the processor's counter, and what becomes of the readings.

A function that is timed has memory for its regions, words of 64 bits: a head, then `REGION` words for each region. The
loops have `LOOP` words each, in memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from circlet.backends.native.timed import (
    CAPACITY,
    CLASSES,
    COUNT,
    COUNTS,
    EMPTY,
    EVENT,
    EVENTS,
    FIRST,
    FIRST_TICKS,
    HEAD,
    LOOP,
    REGION,
    TICKS,
    TIMED,
    TURN_TICKS,
    TURNS_TIMED,
    USED,
)
from circlet.runtime.exec.observe.regions import MOST_ACTIVATIONS, OCTAVE

_I64, _POINTER, _VOID = ir.IntType(64), ir.PointerType(), ir.VoidType()
_NOTE = ir.FunctionType(_VOID, [_POINTER, _I64, _I64, _I64, _I64])
"""`void note(regions*, region, begin, end, turn)`."""
_PART = _NOTE
"""`void note_part(regions*, region, begin, end, participant)`."""
_TURNED = ir.FunctionType(_I64, [_POINTER, _I64, _I64, _I64, _I64])
"""`i64 turned(loops*, loop, ticks, is first, readings)`; how many turns are to pass until one is timed again."""
_COST = 192
"""Ticks that a turn takes longer for each reading in it, 60 to 80 ns at 2 to 3 GHz, measured on loops of LSTM cells:
the reading and what becomes of it take 64, the others are what the processor can no longer do at the same time."""
_SHARE = 50
"""Of the time that turns take, readings may take one in so many parts, 2 %; with 5 % runs of 6 us that append to what
they carry took 5 % longer, with this 1 to 3 %."""
_LONGEST = 1 << 12
"""Ticks of a reading: in more of them, 1 to 2 us, something else had the processor, and that for milliseconds, which
were as much as 10 ns for each of thousands of runs. A choice."""
_SELDOM = 1 << 14
"""Turns from one that is timed to the next where a turn is too short to be told from its readings. A choice."""


def _number(value: int) -> ir.Value:
    return ir.Constant(_I64, value)


def _function(module: ir.Module, name: str, kind: ir.FunctionType,
              write: Callable[[ir.Function, ir.IRBuilder], None]) -> ir.Function:
    """A function of the module, written when it is first asked for."""
    found = module.globals.get(name)
    if isinstance(found, ir.Function):
        return found
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    write(function, ir.IRBuilder(function.append_basic_block("entry")))
    return function


def note(module: ir.Module) -> ir.Function:
    """Adds a region's time, and keeps it as an event if there is room."""
    return _function(module, "circlet_note", _NOTE, _write_note)


def note_part(module: ir.Module) -> ir.Function:
    """Keeps what a thread of a team other than the caller did of a region as an event, if there is room."""
    return _function(module, "circlet_note_part", _PART, _write_note_part)


def turned(module: ir.Module) -> ir.Function:
    """Adds a turn's time; says when the next one is to be timed, so that readings take little of all."""
    return _function(module, "circlet_turned", _TURNED, _write_turned)


def add(b: ir.IRBuilder, memory: ir.Value, word: ir.Value, value: ir.Value) -> None:
    """Adds to a word of memory."""
    place = b.gep(memory, [word], source_etype=_I64)
    b.store(b.add(b.load(place, typ=_I64), value), place)


def _write_note(function: ir.Function, b: ir.IRBuilder) -> None:
    regions, region, begin, end, turn = function.args
    base = b.add(b.mul(region, _number(REGION)), _number(HEAD))
    add(b, regions, b.add(base, _number(TIMED)), _number(1))
    add(b, regions, b.add(base, _number(TICKS)), b.sub(end, begin))
    capacity, used = (b.gep(regions, [_number(each)], source_etype=_I64) for each in (CAPACITY, USED))
    number = b.load(used, typ=_I64)
    with b.if_then(b.icmp_unsigned("<", number, b.load(capacity, typ=_I64)), likely=False):
        _keep(b, regions, number, (region, begin, end, turn, _number(0)))
    b.store(b.add(number, _number(1)), used)
    b.ret_void()


def _keep(b: ir.IRBuilder, regions: ir.Value, number: ir.Value, words: Sequence[ir.Value]) -> None:
    """Writes the words of an event."""
    events = b.load(b.gep(regions, [_number(EVENTS)], source_etype=_I64), typ=_POINTER)
    place = b.mul(number, _number(EVENT))
    for offset, value in enumerate(words):
        b.store(value, b.gep(events, [b.add(place, _number(offset))], source_etype=_I64))


def note_empty(b: ir.IRBuilder, regions: ir.Value, ticks: ir.Value) -> None:
    """Adds the time of the empty region that tells what a reading takes."""
    base = HEAD + EMPTY * REGION
    umin = _intrinsic(b.module, "llvm.umin.i64", [_I64, _I64])
    add(b, regions, _number(base + TICKS), b.call(umin, [ticks, _number(_LONGEST)]))
    add(b, regions, _number(base + TIMED), _number(1))


def _write_note_part(function: ir.Function, b: ir.IRBuilder) -> None:
    regions, region, begin, end, participant = function.args
    capacity, used = (b.gep(regions, [_number(each)], source_etype=_I64) for each in (CAPACITY, USED))
    room = b.load(capacity, typ=_I64)
    is_wanted = b.and_(b.icmp_unsigned("!=", participant, _number(0)), b.icmp_unsigned("!=", room, _number(0)))
    with b.if_then(is_wanted, likely=False):
        number = b.atomic_rmw("add", used, _number(1), "monotonic")
        with b.if_then(b.icmp_unsigned("<", number, room)):
            _keep(b, regions, number, (region, begin, end, _number(-1), participant))
    b.ret_void()


def _write_turned(function: ir.Function, b: ir.IRBuilder) -> None:
    loops, loop, ticks, is_first, readings = function.args
    base = b.mul(loop, _number(LOOP))

    def total(word: int, value: ir.Value) -> None:
        add(b, loops, b.add(base, _number(word)), value)

    total(TURNS_TIMED, _number(1))
    total(TURN_TICKS, ticks)
    total(FIRST, is_first)
    total(FIRST_TICKS, b.mul(ticks, is_first))
    some = b.or_(ticks, _number(1))
    zeros = b.call(_intrinsic(function.module, "llvm.ctlz.i64", [_I64, ir.IntType(1)]), [some, ir.IntType(1)(0)])
    exponent = b.sub(_number(63), zeros)
    part = b.and_(b.lshr(b.shl(some, _number(2)), exponent), _number(OCTAVE - 1))
    total_class = b.add(b.mul(exponent, _number(OCTAVE)), part)
    add(b, loops, b.add(b.add(base, _number(CLASSES)), total_class), _number(1))
    cost = b.mul(readings, _number(_COST))
    left = b.sub(ticks, cost)
    is_short = b.icmp_signed("<", left, b.lshr(ticks, _number(2)))
    wait = b.udiv(b.mul(cost, _number(_SHARE)), b.or_(left, _number(1)))
    most = b.call(_intrinsic(function.module, "llvm.umin.i64", [_I64, _I64]), [wait, _number(_SELDOM)])
    b.ret(b.select(is_short, _number(_SELDOM), most))


def _intrinsic(module: ir.Module, name: str, arguments: list[ir.Type]) -> ir.Function:
    found = module.globals.get(name)
    return found if isinstance(found, ir.Function) else ir.Function(module, ir.FunctionType(_I64, arguments), name)


def keep_activation(b: ir.IRBuilder, loops: ir.Value, loop: int, turns: ir.Value) -> None:
    """Keeps how often a loop turned, if it is among its first `MOST_ACTIVATIONS` activations."""
    base = loop * LOOP
    place = b.gep(loops, [_number(base + COUNT)], source_etype=_I64)
    number = b.load(place, typ=_I64)
    with b.if_then(b.icmp_unsigned("<", number, _number(MOST_ACTIVATIONS))):
        b.store(turns, b.gep(loops, [b.add(number, _number(base + COUNTS))], source_etype=_I64))
    b.store(b.add(number, _number(1)), place)
