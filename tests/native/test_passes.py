"""What passes functions are worth: tiles none, loops of vectors and those around tiles few, all others all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, POINTER, Emitter
from circlet.backends.native.emit.loops import carry
from circlet.backends.native.gemm.functions import Microkernel, VectorLoop, internal_function
from circlet.backends.native.load.llvm import host
from circlet.backends.native.lower.passes import Passes, passes_for
from circlet.backends.native.lower.pieces import pieces
from circlet.backends.native.targets.constants import Uniform


def emitter() -> Emitter:
    """Writes a function of two arguments, memory and a number, in a module of its own."""
    module = ir.Module("test")
    module.triple, module.data_layout = host().triple, host().data_layout
    return Emitter(module, ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, I64]), "outer"), host())


def tile(e: Emitter) -> ir.Function:
    """A function that is written as it is to run, with a loop."""
    function = internal_function(e, "tile", [POINTER, I64], Microkernel)
    inner = Emitter(e.module, function, e.target)
    store(inner)
    inner.builder.ret_void()
    return function


def nothing(e: Emitter) -> None:
    """No loop."""


def store(e: Emitter) -> None:
    """A loop that writes elements."""
    with e.loop(e.function.args[1]) as k:
        e.builder.store(k, e.address(e.function.args[0], I64, k))


def drive(e: Emitter) -> None:
    """Loops around calls of a tile."""
    function = tile(e)
    with e.loop(e.function.args[1]), e.loop(3):
        e.builder.call(function, e.function.args)


def drive_and_store(e: Emitter) -> None:
    """A loop of which each turn calls a tile and writes elements in a loop of its own."""
    function = tile(e)
    with e.loop(e.function.args[1]):
        e.builder.call(function, e.function.args)
        store(e)


def branch_and_store(e: Emitter) -> None:
    """A loop that only one case of a switch comes to."""
    first, other = (e.function.append_basic_block(name) for name in ("first", "other"))
    e.builder.switch(e.function.args[1], other).add_case(0, first)
    e.builder.position_at_end(first)
    store(e)
    e.builder.branch(other)
    e.builder.position_at_end(other)


def add_vectors(e: Emitter) -> None:
    """A loop that reads and writes vectors in a slot and elsewhere."""
    kind = ir.VectorType(I64, 4)
    total, b = e.slot(kind), e.builder
    with e.loop(e.function.args[1]) as k:
        each = b.load(e.address(e.function.args[0], I64, k), typ=kind, align=8)
        b.store(b.add(each, b.load(total, typ=kind)), total)


def store_vectors(e: Emitter) -> None:
    """A loop that writes a vector in memory, and an element beside it."""
    place, count = e.function.args
    with e.loop(count) as k:
        e.builder.store(e.builder.load(place, typ=ir.VectorType(I64, 4), align=8), e.address(place, I64, k), align=8)
        e.builder.store(k, place)


def combine_vectors(e: Emitter) -> None:
    """A loop that changes a vector in a slot, and writes an element to memory."""
    place, count = e.function.args
    total = e.slot(ir.VectorType(I64, 4))
    with e.loop(count) as k:
        e.builder.store(e.builder.load(e.address(place, I64, k), typ=ir.VectorType(I64, 4), align=8), total)
        e.builder.store(k, place)


def take_rows(e: Emitter) -> None:
    """A loop that writes an element of a vector that it reads."""
    place, count = e.function.args
    with e.loop(count) as k:
        row = e.builder.load(e.address(place, I64, k), typ=ir.VectorType(I64, 4), align=8)
        e.builder.store(e.builder.extract_element(row, I64(3)), place)


def sum_vectors(e: Emitter) -> None:
    """A loop that sums up vectors in a register."""
    place, count = e.function.args
    kind = ir.VectorType(I64, 4)
    (total,) = carry(e, count, [ir.Constant(kind, None)], lambda k, totals: [
        e.builder.add(totals[0], e.builder.load(e.address(place, I64, k), typ=kind, align=8))])
    e.builder.store(e.builder.extract_element(total, I64(3)), place)


def copy(e: Emitter) -> None:
    """A loop that copies memory."""
    place, count = e.function.args
    with e.loop(count) as k:
        e.copy(place, e.address(place, I64, k), count)


def fill(e: Emitter) -> None:
    """A loop that fills memory."""
    place, count = e.function.args
    with e.loop(count) as k:
        e.fill(e.address(place, I64, k), 0, count)


def fill_and_copy(e: Emitter) -> None:
    """A loop that fills memory, and copies it."""
    place, count = e.function.args
    with e.loop(count) as k:
        e.fill(e.address(place, I64, k), 0, 24)
        e.copy(place, e.address(place, I64, k), 24)


def copy_and_store(e: Emitter) -> None:
    """A loop that copies memory, and writes an element."""
    place, count = e.function.args
    with e.loop(count) as k:
        e.copy(place, e.address(place, I64, k), count)
        e.builder.store(k, place)


@pytest.mark.parametrize(("body", "expected"), [
    (add_vectors, Passes.FOLDING), (store_vectors, Passes.FOLDING), (combine_vectors, Passes.ALL),
    (take_rows, Passes.FOLDING), (sum_vectors, Passes.ALL),
    (copy, Passes.FOLDING), (copy_and_store, Passes.ALL),
    (fill, Passes.HASTY), (fill_and_copy, Passes.FOLDING),
    (nothing, Passes.HASTY), (store, Passes.ALL), (drive, Passes.HASTY), (drive_and_store, Passes.ALL),
    (branch_and_store, Passes.ALL),
])
def test_a_function_gets_the_passes_that_it_is_worth(body: Callable[[Emitter], None], expected: Passes) -> None:
    e = emitter()
    body(e)
    e.builder.ret_void()
    assert passes_for(e.function) is expected
    found = {each.passes for each in pieces(e.module)}
    assert found == {expected, *(Passes.NONE for each in e.module.functions if isinstance(each, Microkernel))}


def test_loops_of_vectors_are_only_folded() -> None:
    e = emitter()
    inner = Emitter(e.module, internal_function(e, "vectors", [POINTER, I64], VectorLoop), e.target)
    store(inner)
    inner.builder.ret_void()
    assert passes_for(inner.function) is Passes.FOLDING


def test_a_piece_holds_what_its_functions_refer_to_alone() -> None:
    e = emitter()
    drive(e)
    e.builder.ret_void()
    texts = {each.passes: each.text for each in pieces(e.module)}
    assert "define hidden void @\"tile\"" in texts[Passes.NONE]
    assert "outer" not in texts[Passes.NONE]
    assert "declare hidden void @\"tile\"" in texts[Passes.HASTY]


@pytest.mark.parametrize(("kind", "value", "text"), [
    (ir.IntType(32), 7, "splat (i32 7)"), (ir.IntType(8), -128, "splat (i8 -128)"),
    (ir.FloatType(), ir.Undefined, "undef"),
])
def test_a_constant_of_all_lanes_is_a_word(kind: ir.Type, value: object, text: str) -> None:
    vector = Uniform(ir.VectorType(kind, 16), value)
    assert vector.get_reference() == text
    assert len(vector.constant) == 16
