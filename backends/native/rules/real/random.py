"""Native rule of the operator that makes random bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from circlet.backends.cpu.random import ROTATIONS
from circlet.backends.native.emit.emitter import I32, I64, Emitter
from circlet.backends.native.emit.parallel import parallel_run
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.runtime.ir.length import alike, may_differ
from circlet.runtime.ops.random import StablehloRngBitGenerator

_WORK = 40
"""That of making a word, as `parallel.portion` counts it: a choice."""


@nest(StablehloRngBitGenerator, movable, memory_inputs=frozenset({0}))
def rng_bit_generator(node: Node[StablehloRngBitGenerator], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a state (2,) or (3,): the next one, and a tensor of bits. A loop over the blocks that the result has in whole
    stores the numbers of each; of one that it has in part, the first numbers are stored. Blocks are shared out."""
    b, given, (after, shape), dtype = e.builder, node.input(0), node.shapes, node.call.outputs[1].dtype
    if not alike(after, given.shape):
        expect(node, False, f"the model declares a state of shape {after} after one of {given.shape}")
        return
    state = [given.element(e, [e.number(k)]) for k in range(after[0])]
    count, each = prod(shape), 4 * node.op.words // dtype.numpy.itemsize

    def numbers(block: ir.Value) -> Sequence[ir.Value]:
        found = _block(node, state, b.add(state[1], _wide(e, block)))
        if dtype.numpy.itemsize == 4:
            return found
        wide = [b.zext(word, I64) for word in found]
        return [b.or_(low, b.shl(high, e.wide(32))) for low, high in zip(wide[::2], wide[1::2], strict=True)]

    def put(position: ir.Value, number: ir.Value) -> None:
        if sinks[1].memory is not None:
            e.store(number, sinks[1].memory, dtype, position)
        else:
            sinks[1](e, e.delinear(position, shape), number)

    with parallel_run(e, count // each, _WORK * count) as block:
        for k, number in enumerate(numbers(block)):
            put(b.add(b.mul(block, e.number(each)), e.number(k)), number)
    whole = Whole(e, count // each)
    rest = Whole(e, count) - whole * each
    if may_differ(count % each, 0):
        for k, number in enumerate(numbers(whole.register)[:-1]):
            with b.if_then(b.icmp_signed("<", e.number(k), rest.register)):
                put((whole * each + k).register, number)
    made = _wide(e, e.number(-(-count // each)))
    for k, value in enumerate([state[0], b.add(state[1], made), *state[2:]]):
        sinks[0](e, [e.number(k)], value)


def _block(node: Node[StablehloRngBitGenerator], state: Sequence[ir.Value], position: ir.Value) -> list[ir.Value]:
    """The words at a position: of i64 each, the key, what was made before, and perhaps more of the counter."""
    e = node.function.e
    key, counter = _halves(e, state[0]), _halves(e, position)
    if node.op.words == 2:
        return _threefry(e, key, counter)
    return _philox(e, key, [*counter, *_halves(e, state[-1] if len(state) > 2 else state[0])])


def _halves(e: Emitter, number: ir.Value) -> list[ir.Value]:
    """The low and the high word of an i64."""
    return [e.builder.trunc(each, I32) for each in (number, e.builder.lshr(number, e.wide(32)))]


def _wide(e: Emitter, index: ir.Value) -> ir.Value:
    """A number that is not negative as an i64."""
    return index if index.type == I64 else e.builder.zext(index, I64)


def _word(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


def _philox(e: Emitter, key: Sequence[ir.Value], counter: Sequence[ir.Value]) -> list[ir.Value]:
    """See `cpu.random.philox`."""
    words, (low, high) = list(counter), key
    b = e.builder
    for _ in range(10):
        products = [_halves(e, b.mul(b.zext(words[k], I64), e.wide(factor)))
                    for k, factor in ((0, 0xD2511F53), (2, 0xCD9E8D57))]
        words = [b.xor(b.xor(products[1][1], words[1]), low), products[1][0],
                 b.xor(b.xor(products[0][1], words[3]), high), products[0][0]]
        low, high = b.add(low, _word(0x9E3779B9)), b.add(high, _word(0xBB67AE85))
    return words


def _threefry(e: Emitter, key: Sequence[ir.Value], counter: Sequence[ir.Value]) -> list[ir.Value]:
    """See `cpu.random.threefry`."""
    b = e.builder
    keys = [*key, b.xor(b.xor(key[0], key[1]), _word(0x1BD11BDA))]
    first, second = (b.add(word, each) for word, each in zip(counter, key, strict=True))
    for turn in range(5):
        for distance in ROTATIONS[turn % 2]:
            first = b.add(first, second)
            turned = b.or_(b.shl(second, _word(distance)), b.lshr(second, _word(32 - distance)))
            second = b.xor(turned, first)
        first = b.add(first, keys[(turn + 1) % 3])
        second = b.add(b.add(second, keys[(turn + 2) % 3]), _word(turn + 1))
    return [first, second]
