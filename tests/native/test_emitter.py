"""Indices of reshaped tensors divide only what is really cut; what leaves a function is part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, POINTER, Emitter
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.emit.outlined import taken_out
from circlet.backends.native.emit.polling import Meter
from circlet.backends.native.emit.sharing import Sharing
from circlet.backends.native.load.llvm import host
from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Shape

OPEN = Scope([9, 11])
N, M = OPEN.symbol(0), OPEN.symbol(1)
H, W = N // 4, M // 4


class _Sevens:
    """Open lengths, each of which is 7."""

    def register(self, terms: Terms, builder: ir.IRBuilder, around: Sequence[object]) -> ir.Value:
        return I64(7)


@pytest.mark.parametrize(("shape", "target", "kept"), [
    ((H * W, 96), (1, H, W, 96), {1: 3}),
    ((1, H, W, 96), (H * W, 96), {3: 1}),
    ((N, M, 6), (N, M, 2, 3), {0: 0, 1: 1}),
    ((H, W * 6, 5), (H, W, 6, 1, 5), {0: 0, 2: 4}),
    ((4, 6, 5), (2, 2, 6, 5), {1: 2, 2: 3}),
], ids=["rows", "pixels", "heads", "columns", "known"])
def test_axes_that_are_the_same_keep_their_index(shape: Shape, target: Shape, kept: dict[int, int]) -> None:
    module = ir.Module("written")
    e = Emitter(module, ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(shape)), "written"), host())
    e.lengths = cast(Lengths, _Sevens())
    index = list(e.function.args)
    found = e.reindex(index, shape, target)
    assert len(found) == len(target)
    for axis, other in kept.items():
        assert found[other] is index[axis]


@pytest.mark.parametrize("leaves", [False, True])
def test_what_leaves_a_function_is_not_taken_out_of_it(leaves: bool) -> None:
    module = ir.Module("written")
    e = Emitter(module, ir.Function(module, ir.FunctionType(I32, [POINTER]), "written"), host())
    nothing = ir.Constant(POINTER, None)
    meter = Meter(e, nothing, nothing, lambda status: None)
    e.sharing = Sharing(nothing, nothing, meter, lambda status: None, exit=e.function.append_basic_block("exit"))
    place, b = e.function.args[0], e.builder
    with taken_out(e, "epilogue", 4):
        for number in range(8):
            b.store(b.add(b.load(place, typ=I32), I32(number)), place)
        if leaves:
            with b.if_then(b.icmp_signed("==", b.load(place, typ=I32), I32(3))):
                b.branch(e.sharing.exit)
    assert len(module.functions) == (1 if leaves else 2)
    assert all(target in e.function.blocks for block in e.function.blocks for each in block.instructions
               if each.opname == "br" for target in each.operands if isinstance(target, ir.Block))
