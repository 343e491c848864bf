"""What functions are written as is what LLVM's language has for them, and does not hang on names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I8, I32, I64, POINTER
from circlet.backends.native.emit.written.text import function_text
from circlet.backends.native.load.llvm import assembly, host
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece

FLOAT, FOUR, REALS = ir.FloatType(), ir.VectorType(I32, 4), ir.VectorType(ir.FloatType(), 4)
KIND = ir.FunctionType(I64, [POINTER, I64, FLOAT])


def _module(write: Callable[[ir.IRBuilder, ir.Function], None]) -> tuple[ir.Module, ir.Function]:
    module = ir.Module("written")
    module.triple, module.data_layout = host().triple, host().data_layout
    function = ir.Function(module, KIND, "written")
    function.args[0].add_attribute("noalias")
    function.attributes.add("noinline")
    write(ir.IRBuilder(function.append_basic_block("entry")), function)
    return module, function


def _arithmetic(b: ir.IRBuilder, f: ir.Function) -> None:
    _, n, x = f.args
    total = b.add(n, I64(3), flags=("nuw", "nsw"))
    y = b.fneg(b.fmul(x, FLOAT(0.5), flags=("contract",)))
    narrow = b.sext(b.trunc(b.fptosi(y, I32), I8), I64)
    b.ret(b.select(b.icmp_signed("<", n, total), b.xor(total, narrow), b.zext(b.fcmp_ordered("<", x, y), I64)))


def _memory(b: ir.IRBuilder, f: ir.Function) -> None:
    p, n, x = f.args
    slot, one = b.alloca(I64, I32(4)), b.alloca(FLOAT)
    b.store(n, b.gep(slot, [I32(1)]), align=8)
    b.store(x, one)
    b.atomic_rmw("add", b.gep(p, [n], source_etype=I64), n, "monotonic")
    found = b.load(b.gep(p, [I64(2)], inbounds=True, source_etype=I64), typ=I64, align=4)
    at_once = b.load_atomic(p, "monotonic", 8, typ=I64)
    b.ret(b.add(b.add(found, at_once), b.add(b.load(b.gep(slot, [I32(1)])), b.fptosi(b.load(one), I64))))


def _vectors(b: ir.IRBuilder, f: ir.Function) -> None:
    _, n, x = f.args
    low = b.insert_element(ir.Constant(FOUR, ir.Undefined), b.trunc(n, I32), I32(0))
    every = b.shuffle_vector(low, ir.Constant(FOUR, ir.Undefined), ir.Constant(FOUR, [0, 0, 1, 4]))
    less = b.icmp_signed("<", every, ir.Constant(FOUR, [1, 2, 3, 4]))
    reals = b.select(less, b.sitofp(every, REALS), ir.Constant(REALS, [1.5, -2.0, 0.1, float("nan")]))
    b.ret(b.fptosi(b.fadd(b.extract_element(reals, I32(3)), x), I64))


def _flow(b: ir.IRBuilder, f: ir.Function) -> None:
    """A loop with hints, a switch, calls by name and by address, and a block that is not reached."""
    p, n, x = f.args
    module = f.module
    other = ir.Function(module, KIND, "other")
    root = ir.Function(module, ir.FunctionType(FLOAT, [FLOAT]), "llvm.sqrt.f32")
    names = ("head", "odd name", "after", "one", "never")
    head, body, after, one, never = (f.append_basic_block(each) for each in names)
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64, name="turn")
    number.add_incoming(I64(0), f.entry_basic_block)
    b.cbranch(b.icmp_signed("<", number, n), body, after).set_weights([1, 99])
    b.position_at_end(body)
    b.call(other, [p, number, b.call(root, [x], fastmath=("nnan", "contract"))])
    number.add_incoming(b.add(number, I64(1)), body)
    hints = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    b.branch(head).set_metadata("llvm.loop", module.add_metadata([hints]))
    b.position_at_end(after)
    chosen = b.switch(number, never)
    chosen.add_case(I64(1), one)
    chosen.add_case(I64(2), one)
    b.position_at_end(never)
    b.unreachable()
    b.position_at_end(one)
    by_address = b.load(p, typ=ir.PointerType(KIND))
    b.ret(b.call(by_address, [p, n, x], tail=True))


def _attributes(b: ir.IRBuilder, f: ir.Function) -> None:
    """A call that no rule writes."""
    other = ir.Function(f.module, KIND, "other")
    b.ret(b.call(other, list(f.args), attrs=("nounwind",)))


@pytest.mark.parametrize("write", [_arithmetic, _memory, _vectors, _flow, _attributes])
def test_what_is_written_means_the_same(write: Callable[[ir.IRBuilder, ir.Function], None]) -> None:
    module, function = _module(write)
    text = str(module)
    assert (function_text(function) == str(function)) == (write is _attributes)
    written = text.replace(str(function), function_text(function))
    for passes in (Passes.NONE, Passes.ALL):
        assert assembly(Piece(written, passes), host()) == assembly(Piece(text, passes), host())


def test_results_without_names_are_numbered_as_they_are_written() -> None:
    """Whatever else was made meanwhile."""
    def spare(b: ir.IRBuilder, f: ir.Function) -> None:
        dropped = b.add(f.args[1], I64(7))
        b.remove(dropped)
        _arithmetic(b, f)

    one, other = (_module(each)[1] for each in (_arithmetic, spare))
    assert str(one) != str(other)
    assert function_text(one) == function_text(other)
    assert "  %0 = add nuw nsw i64 " in function_text(one)
    assert str(I1) in function_text(one)
