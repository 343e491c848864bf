"""Loops that are made vectors of here give what they say, for any number of turns, and touch nothing else."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, I64, POINTER, Emitter
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.written.widening import Cut
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.passes import Passes, passes_for
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.targets.target import Goal, Target
from circlet.runtime.ir.types import DType

Array = npt.NDArray[Any]
Turn = Callable[[Emitter, Sequence[ir.Value], ir.Value], None]
"""Emits a turn, given the addresses of two arrays that are read and one that is written, and its number."""
COUNTS = (4, 5, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 200, 257, 1000)
SPARE = 7
"""Elements behind those that are written."""
FEATURES = [each for each in host().features.split(",") if "avx512" not in each]
PROCESSORS = [pytest.param(host(), id="host")]
if host().has_masks:
    narrow = replace(host(), cpu="haswell", features=",".join([*FEATURES, "-avx512f"]))
    PROCESSORS.append(pytest.param(narrow, id="avx2"))


def _emitted(turn: Turn, target: Target, count: int | None, cut: Cut | None = None,
             rereads: bool = False) -> tuple[str, ir.Function]:
    """`void written(one, other, out, count)`, whose turns are as many as is known, or as it is given."""
    module = ir.Module("written")
    module.triple, module.data_layout = target.triple, target.data_layout
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 3 + [I64]), "written")
    e = Emitter(module, function, target)
    with independent(e, function.args[3] if count is None else count, cut=cut, rereads=rereads) as index:
        turn(e, function.args[:3], index)
    e.builder.ret_void()
    return str(module), function


def _ran(turn: Turn, target: Target, known: int | None, given: int, one: Array, other: Array, kind: Any,
         cut: Cut | None = None) -> Array:
    text, function = _emitted(turn, target, known, cut)
    library = link([object_code(Piece(text, passes_for(function)), target)], "written")
    out = np.full(given + SPARE, 99, kind)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(library.address)
    call(one.ctypes.data, other.ctypes.data, out.ctypes.data, given)
    return out


def _sum(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    one, other, out = arrays
    value = e.builder.fadd(e.load(one, DType.FLOAT32, k), e.load(other, DType.FLOAT32, k))
    e.store(e.intrinsic("fabs", value), out, DType.FLOAT32, k)


def _scaled(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """By a number that each turn reads, and one that the turn's number gives."""
    one, other, out = arrays
    value = e.builder.fmul(e.load(one, DType.FLOAT32, k), e.load(other, DType.FLOAT32))
    number = e.builder.sitofp(e.builder.mul(k, e.number(3)), ir.FloatType())
    e.store(e.builder.fadd(value, number), out, DType.FLOAT32, k)


def _bytes(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """Of wide sums, clamped; a comparison chooses."""
    b, (one, other, out) = e.builder, arrays
    x, y = (b.sext(e.load(each, DType.INT8, k), I32) for each in (one, other))
    total = b.ashr(b.add(b.mul(x, I32(77)), b.mul(y, I32(-5))), I32(6))
    least = e.intrinsic("smax", e.intrinsic("smin", total, I32(127)), I32(-128))
    e.store(b.trunc(b.select(b.icmp_signed("<", x, y), least, x), I8), out, DType.INT8, k)


def _narrowed(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """Products of 64 bits, of which 8 are kept."""
    b, (one, other, out) = e.builder, arrays
    x, y = (b.sext(e.load(each, DType.INT32, k), I64) for each in (one, other))
    e.store(b.trunc(b.ashr(b.mul(x, y), I64(20)), I8), out, DType.INT8, k)


def _doubles(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """Where all are read behind the first one."""
    b, (one, _, out) = e.builder, arrays
    at = b.add(b.udiv(b.mul(e.function.args[3], e.number(0)), e.number(5)), b.add(k, e.number(2)))
    value = b.fpext(e.load(one, DType.FLOAT32, at), ir.DoubleType())
    e.store(e.intrinsic("sqrt", b.fmul(value, value)), out, DType.FLOAT64, k)


def _truths(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    one, other, out = arrays
    x, y = (e.load(each, DType.FLOAT32, k) for each in (one, other))
    e.store(e.builder.fcmp_ordered("<", x, y), out, DType.BOOL, k)


def _float(of: Callable[[Array, Array, int], Array]) -> Callable[[Array, Array, int], Array]:
    return lambda one, other, n: of(one.view(np.float32), other.view(np.float32), n)


def _expected_bytes(one: Array, other: Array, n: int) -> Array:
    x, y = (each.view(np.int8)[:n].astype(np.int32) for each in (one, other))
    found: Array = np.where(x < y, np.clip((x * 77 + y * -5) >> 6, -128, 127), x)
    return found


def _expected_narrowed(one: Array, other: Array, n: int) -> Array:
    x, y = (each.view(np.int32)[:n].astype(np.int64) for each in (one, other))
    found: Array = (x * y >> 20).astype(np.int8)
    return found


CASES = [
    pytest.param(_sum, np.float32, _float(lambda x, y, n: np.abs(x[:n] + y[:n])), id="sum"),
    pytest.param(_scaled, np.float32, _float(
        lambda x, y, n: x[:n] * y[0] + (3 * np.arange(n)).astype(np.float32)), id="scaled"),
    pytest.param(_bytes, np.int8, _expected_bytes, id="bytes"),
    pytest.param(_narrowed, np.int8, _expected_narrowed, id="narrowed"),
    pytest.param(_doubles, np.float64, _float(lambda x, _, n: np.abs(x[2:n + 2].astype(np.float64))), id="doubles"),
    pytest.param(_truths, np.bool_, _float(lambda x, y, n: x[:n] < y[:n]), id="truths"),
]


@pytest.mark.parametrize("target", PROCESSORS)
@pytest.mark.parametrize(("turn", "kind", "expected"), CASES)
def test_turns_give_the_same_by_vectors(turn: Turn, kind: Any, expected: Callable[[Array, Array, int], Array],
                                        target: Target) -> None:
    """To the bit, whether the number of turns is known or not."""
    random = np.random.default_rng(3)
    for count in (0, 1, *COUNTS):
        one, other = (random.normal(size=count + 2).astype(np.float32) for _ in range(2))
        wanted = np.full(count + SPARE, 99, kind)
        wanted[:count] = expected(one, other, count)
        for known in (None, count):
            found = _ran(turn, target, known, count, one, other, kind)
            assert np.array_equal(found, wanted), f"{count} turns, {known} known"


@pytest.mark.parametrize("target", PROCESSORS)
@pytest.mark.parametrize(("turn", "kind", "expected"), CASES)
def test_turns_that_are_cut_as_is_said(turn: Turn, kind: Any, expected: Callable[[Array, Array, int], Array],
                                       target: Target) -> None:
    """As many whole vectors side by side as it comes to, or any number that a byte holds with masks."""
    random = np.random.default_rng(4)
    lanes = target.vector_bytes // 4
    cuts: list[tuple[Cut, Sequence[int]]] = [(Cut(lanes, 2), range(0, 9 * lanes, 2 * lanes))]
    if target.has_masks:
        cuts.append((Cut(lanes // 2, 1, is_forced=True, is_masked=True), (0, 1, *COUNTS[:-2], 255)))
        cuts.append((Cut(lanes // 2, 1, is_masked=True, is_single=True), range(lanes // 2 + 1)))
    for cut, counts in cuts:
        assert cut.is_single or passes_for(_emitted(turn, target, None, cut)[1]) is Passes.FOLDING
        for count in counts:
            one, other = (random.normal(size=count + 2).astype(np.float32) for _ in range(2))
            wanted = np.full(count + SPARE, 99, kind)
            wanted[:count] = expected(one, other, count)
            found = _ran(turn, target, None, count, one, other, kind, cut)
            assert np.array_equal(found, wanted), f"{count} turns, {cut}"


def test_what_vectors_leave_over_needs_few_passes() -> None:
    """Where there are no masks it is taken turn by turn."""
    _, function = _emitted(_sum, host(), None, rereads=True)
    assert passes_for(function) is Passes.FOLDING


@pytest.mark.parametrize(("turn", "kind", "expected"), CASES)
def test_vectors_need_few_passes(turn: Turn, kind: Any, expected: object) -> None:
    for count in (None, 64, 100):
        text, function = _emitted(turn, host(), count)
        assert re.search(r"load <\d+ x", text)
        assert passes_for(function) is Passes.FOLDING


def _apart(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """Elements that are no neighbours."""
    one, _, out = arrays
    e.store(e.load(one, DType.FLOAT32, e.builder.mul(k, e.number(2))), out, DType.FLOAT32, k)


def _divided(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """Integers by integers, of which lanes that are left over would be 0."""
    one, other, out = arrays
    e.store(e.builder.sdiv(e.load(one, DType.INT32, k), e.load(other, DType.INT32, k)), out, DType.INT32, k)


def _looked_up(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    one, other, out = arrays
    at = e.builder.sext(e.load(other, DType.INT32, k), I64)
    e.store(e.load(one, DType.INT32, at), out, DType.INT32, k)


def _kept(e: Emitter, arrays: Sequence[ir.Value], k: ir.Value) -> None:
    """One place that all turns write."""
    one, _, out = arrays
    e.store(e.load(one, DType.INT32, k), out, DType.INT32)


@pytest.mark.parametrize("turn", [_apart, _divided, _looked_up, _kept])
def test_other_loops_are_left_to_llvm(turn: Turn) -> None:
    text, function = _emitted(turn, host(), 64)
    assert "<" not in text.partition("define")[2].partition("!0")[0]
    assert passes_for(function) is Passes.ALL


def test_code_for_other_machines_is_left_as_it_is() -> None:
    """It is to be small, or vectors are none."""
    for goal in (Goal.SPEED, Goal.SIZE):
        text, _ = _emitted(_sum, replace(host(), goal=goal), 64)
        assert "x float>" not in text
