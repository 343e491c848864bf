"""What turns combine in a slot comes to the same by vectors, for any number of turns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, POINTER, Emitter
from circlet.backends.native.emit.loops import folded
from circlet.backends.native.emit.written.widening import Cut
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.passes import Passes, passes_for
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.targets.target import Goal
from circlet.runtime.ir.types import DType

Array = npt.NDArray[Any]
Combine = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
COUNTS = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 200, 257, 1000)


def _sum(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.builder.fadd(total, value, flags=("reassoc", "contract"))


def _exact_sum(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.builder.fadd(total, value)


def _largest(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.intrinsic("maximumnum", total, value, flags=("nsz",))


def _integers(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.builder.add(value, total)


def _least(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.intrinsic("smin", total, value)


def _any(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    return e.builder.or_(total, value)


def _twice(e: Emitter, total: ir.Value, value: ir.Value) -> ir.Value:
    """Uses what there is so far for something else as well."""
    return e.builder.add(e.builder.shl(total, ir.Constant(total.type, 1)), e.builder.add(total, value))


def _emitted(combine: Combine, dtype: DType, start: int, cut: Cut | None = None,
             goal: Goal = Goal.HERE) -> tuple[str, ir.Function]:
    """`void written(values, out, count)`."""
    target = replace(host(), goal=goal)
    module = ir.Module("written")
    module.triple, module.data_layout = target.triple, target.data_layout
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64]), "written")
    e = Emitter(module, function, target)
    kind = ir.FloatType() if dtype is DType.FLOAT32 else ir.IntType(32)
    slot = e.slot(kind)
    e.builder.store(ir.Constant(kind, start), slot)
    with folded(e, function.args[2], cut) as k:
        value = e.load(function.args[0], dtype, k)
        e.builder.store(combine(e, e.builder.load(slot, typ=kind), value), slot)
    e.store(e.builder.load(slot, typ=kind), function.args[1], dtype)
    e.builder.ret_void()
    return str(module), function


def _ran(text: str, function: ir.Function, values: Array) -> Any:
    library = link([object_code(Piece(text, passes_for(function)), host())], "written")
    out = np.zeros(1, values.dtype)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address)
    call(values.ctypes.data, out.ctypes.data, len(values))
    return out[0]


CASES = [
    pytest.param(_sum, DType.FLOAT32, 3, lambda x: 3 + x.sum(dtype=np.float64), id="sum"),
    pytest.param(_largest, DType.FLOAT32, -2, lambda x: np.fmax.reduce(x, initial=-2), id="largest"),
    pytest.param(_integers, DType.INT32, 5, lambda x: 5 + x.sum(), id="integers"),
    pytest.param(_least, DType.INT32, 9, lambda x: min([9, *x]), id="least"),
    pytest.param(_any, DType.INT32, 0, lambda x: np.bitwise_or.reduce(x, initial=0), id="any"),
]


def _values(dtype: DType, count: int) -> Array:
    random = np.random.default_rng(count)
    if dtype is DType.FLOAT32:
        return random.normal(size=count).astype(np.float32)
    return random.integers(0, 1000, count).astype(np.int32)


@pytest.mark.parametrize(("combine", "dtype", "start", "expected"), CASES)
def test_turns_come_to_the_same_by_vectors(combine: Combine, dtype: DType, start: int,
                                           expected: Callable[[Array], Any]) -> None:
    text, function = _emitted(combine, dtype, start)
    assert "> %" in text
    for count in COUNTS:
        values = _values(dtype, count)
        assert np.isclose(_ran(text, function, values), expected(values), rtol=1e-5, atol=1e-5), f"{count} turns"


@pytest.mark.parametrize(("combine", "dtype", "start", "expected"), CASES)
def test_turns_that_one_vector_has(combine: Combine, dtype: DType, start: int,
                                   expected: Callable[[Array], Any]) -> None:
    if not host().has_masks:
        pytest.skip("no masks")
    text, function = _emitted(combine, dtype, start, Cut(8, 1, is_masked=True, is_single=True))
    for count in range(9):
        values = _values(dtype, count)
        assert np.isclose(_ran(text, function, values), expected(values), rtol=1e-5, atol=1e-5), f"{count} turns"


def test_code_for_other_machines_has_the_same_vectors_unless_it_is_to_be_small() -> None:
    here, speed, size = (_emitted(_sum, DType.FLOAT32, 0, goal=each)[0] for each in (Goal.HERE, Goal.SPEED, Goal.SIZE))
    assert here == speed
    assert "> %" not in size


@pytest.mark.parametrize(("combine", "dtype"), [(_exact_sum, DType.FLOAT32), (_twice, DType.INT32)])
def test_what_hangs_on_the_order_is_left_to_llvm(combine: Combine, dtype: DType) -> None:
    text, function = _emitted(combine, dtype, 0)
    assert "> %" not in text
    assert passes_for(function) is Passes.ALL
