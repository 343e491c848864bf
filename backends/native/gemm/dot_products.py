"""Dot products of the parts of words, i32, by the processor's instructions or, where it has none, by several others.

Each function takes vectors `left`, `right` and `total` of i32 and gives, in each lane, `total` plus the products of the
parts of the words of the others.
"""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.targets.constants import Uniform

I16 = ir.IntType(16)
"""Half of a word."""
OFFSET = 128
"""What is added to stored activations to make them unsigned."""


def dot(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By four unsigned bytes and four signed ones."""
    found = e.target.dot_bytes(total.type.count)
    return _by_halves(e, left, right, total) if found is None else found(e, left, right, total)


def _by_halves(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By products of 16 bits: of the even bytes and of the odd ones."""
    b, pairs = e.builder, ir.VectorType(I16, 2 * total.type.count)
    left, right = b.bitcast(left, pairs), b.bitcast(right, pairs)
    eight, low = (Uniform(pairs, value) for value in (8, 255))
    even = _add_pairs(e, b.and_(left, low), b.ashr(b.shl(right, eight), eight))
    odd = _add_pairs(e, b.lshr(left, eight), b.ashr(right, eight))
    return b.add(b.add(total, even), odd)


def dot_of_bytes(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By four signed bytes each."""
    found = e.target.dot_signed(total.type.count)
    if found is not None:
        return found(e, left, right, total)
    if total.type.count == 1:
        return _one_by_one(e, left, right, total)
    b, pairs = e.builder, ir.VectorType(I16, 2 * total.type.count)
    left, right, eight = b.bitcast(left, pairs), b.bitcast(right, pairs), Uniform(pairs, 8)
    even = _add_pairs(e, *(b.ashr(b.shl(each, eight), eight) for each in (left, right)))
    odd = _add_pairs(e, *(b.ashr(each, eight) for each in (left, right)))
    return b.add(b.add(total, even), odd)


def _one_by_one(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By four signed bytes each, of a single lane."""
    b, only = e.builder, ir.Constant(I32, 0)
    one, other, found = (b.extract_element(each, only) for each in (left, right, total))
    for k in range(4):
        factors = (b.ashr(b.shl(each, ir.Constant(I32, 24 - 8 * k)), ir.Constant(I32, 24)) for each in (one, other))
        found = b.add(found, b.mul(*factors))
    return b.insert_element(Uniform(total.type, ir.Undefined), found, only)


def dot_of_pairs(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By two signed 16-bit integers."""
    found = e.target.dot_pairs(total.type.count)
    if found is not None:
        return found(e, left, right, total)
    pairs = ir.VectorType(I16, 2 * total.type.count)
    products = _add_pairs(e, e.builder.bitcast(left, pairs), e.builder.bitcast(right, pairs))
    return e.builder.add(total, products)


def dot_of_magnitudes(e: Emitter, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """By four bytes, `OFFSET` taken from the left ones, and four that are at least -127; for targets that can."""
    b, quads = e.builder, ir.VectorType(I8, 4 * total.type.count)
    left, right = b.bitcast(left, quads), b.bitcast(right, quads)
    left = b.xor(left, Uniform(quads, -OFFSET))
    found = e.target.dot_magnitudes(total.type.count)
    assert found is not None, "`form_of` asks the target first"
    return found(e, left, right, total)


def _add_pairs(e: Emitter, one: ir.Value, other: ir.Value) -> ir.Value:
    """The sums of two neighbouring products of vectors of 2 n i16, n i32: by the processor's instruction or in 32
    bits."""
    b, count = e.builder, one.type.count // 2
    found = e.target.add_pairs(count)
    if found is not None:
        return found(e, one, other)
    wide, order = ir.VectorType(I32, 2 * count), ir.VectorType(I32, count)
    products = b.mul(b.sext(one, wide), b.sext(other, wide))
    even, odd = (b.shuffle_vector(products, Uniform(wide, ir.Undefined),
                                  ir.Constant(order, list(range(first, wide.count, 2)))) for first in (0, 1))
    return b.add(even, odd)
