"""Indices of reshaped tensors divide only what is really cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.lengths import Lengths
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
