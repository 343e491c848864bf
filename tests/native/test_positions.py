"""Positions that were divided into an index are not put together again."""

from __future__ import annotations

import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.load import llvm


@pytest.fixture
def e() -> Emitter:
    module = ir.Module()
    return Emitter(module, ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), "f"), llvm.host())


def counted(e: Emitter) -> int:
    return sum(len(each.instructions) for each in e.function.blocks)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 7), (1, 3, 5), (3, 1, 5), (3, 5, 1)])
def test_a_position_is_found_again(e: Emitter, shape: tuple[int, ...]) -> None:
    position = e.function.args[0]
    index = e.delinear(position, shape)
    before = counted(e)
    assert e.linear(index, shape) is position
    assert counted(e) == before


def test_a_position_is_part_of_others(e: Emitter) -> None:
    position, column = e.function.args
    index = e.delinear(position, (3, 5))
    before = counted(e)
    e.linear([*index, column], (3, 5, 8))
    assert counted(e) == before + 2
    e.linear([column, *index], (8, 3, 5))
    assert counted(e) == before + 4


def test_other_shapes_and_indices_are_put_together(e: Emitter) -> None:
    position, other = e.function.args
    index = e.delinear(position, (3, 5))
    assert e.linear(index, (3, 6)) is not position
    assert e.linear([index[0], other], (3, 5)) is not position
    assert e.linear(index[:1], (3,)) is index[0]


def test_what_was_divided_is_not_known_apart(e: Emitter) -> None:
    position = e.function.args[0]
    index = e.delinear(position, (3, 5))
    with e.apart():
        assert e.linear(index, (3, 5)) is not position
        e.delinear(position, (3, 5))
    assert e.linear(index, (3, 5)) is position
