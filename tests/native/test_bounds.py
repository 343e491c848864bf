"""Bounds assertions find wrong accesses, and none in the code of the rules."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.check.bounds import Watch
from circlet.backends.native.check.watched import OUTSIDE, VARIABLE, BoundsError
from circlet.backends.native.emit.emitter import I8, I32, I64, POINTER, Emitter
from circlet.backends.native.gemm.functions import internal_function
from circlet.backends.native.gemm.vectors import Vectors
from circlet.backends.native.load.library import ENTRY
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.errors import Place
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from tests.native import long_models

FLOAT = DType.FLOAT32
SIZE = 64
"""Bytes of the buffer that the wrong accesses leave; the memory around it is valid too."""


def load_behind(e: Emitter, buffer: ir.Value) -> None:
    e.load(buffer, FLOAT, SIZE // 4)


def load_before(e: Emitter, buffer: ir.Value) -> None:
    e.load(buffer, FLOAT, -1)


def store_across_the_end(e: Emitter, buffer: ir.Value) -> None:
    e.builder.store(ir.Constant(I32, 1), e.address(buffer, I8, SIZE - 2), align=1)


def store_misaligned(e: Emitter, buffer: ir.Value) -> None:
    e.builder.store(ir.Constant(I32, 1), e.address(buffer, I8, 2))


def loop_of_one_turn_too_many(e: Emitter, buffer: ir.Value) -> None:
    with e.loop(SIZE // 4 + 1) as k:
        e.store(e.constant(1.0, FLOAT), buffer, FLOAT, k)


def vector_too_long(e: Emitter, buffer: ir.Value) -> None:
    Vectors(e, ir.FloatType(), 4).load(e.address(buffer, I8, SIZE - 12))


def lanes_too_many(e: Emitter, buffer: ir.Value) -> None:
    vectors = Vectors(e, ir.FloatType(), 4)
    vectors.store_some(vectors.splat(1), e.address(buffer, I8, SIZE - 8), e.number(3))


def copy_from_too_much(e: Emitter, buffer: ir.Value) -> None:
    e.copy(e.slot(I8, 128), buffer, SIZE + 1)


def copy_to_too_much(e: Emitter, buffer: ir.Value) -> None:
    e.copy(buffer, e.slot(I8, 128), SIZE + 1)


def slot_too_small(e: Emitter, buffer: ir.Value) -> None:
    e.copy(e.slot(I8, SIZE - 1), buffer, SIZE)


def selected(e: Emitter, buffer: ir.Value) -> None:
    address = e.select(ir.Constant(ir.IntType(1), 1), buffer, e.address(buffer, FLOAT_KIND, 0))
    e.store(e.constant(1.0, FLOAT), address, FLOAT, SIZE // 4)


def moving_along(e: Emitter, buffer: ir.Value) -> None:
    b, before = e.builder, e.builder.block
    body, after = (e.function.append_basic_block() for _ in range(2))
    b.branch(body)
    b.position_at_end(body)
    address, k = b.phi(POINTER), b.phi(I64)
    address.add_incoming(buffer, before)
    k.add_incoming(e.number(0), before)
    e.store(e.constant(1.0, FLOAT), address, FLOAT)
    address.add_incoming(e.address(address, FLOAT_KIND, 1), body)
    k.add_incoming(b.add(k, e.number(1)), body)
    b.cbranch(b.icmp_signed("<", k, e.number(SIZE // 4)), body, after)
    b.position_at_end(after)


def in_an_inner_function(e: Emitter, buffer: ir.Value) -> None:
    function = internal_function(e, "inner", [POINTER])
    inner = Emitter(e.module, function, e.target)
    inner.load(function.args[0], FLOAT, SIZE // 4)
    inner.builder.ret_void()
    e.builder.call(function, [buffer])


def last_of_everything(e: Emitter, buffer: ir.Value) -> None:
    """Nothing wrong."""
    vectors = Vectors(e, ir.FloatType(), 4)
    value = vectors.load_some(e.address(buffer, I8, SIZE - 8), e.number(2))
    vectors.store(value, e.address(buffer, I8, SIZE - 16))
    vectors.store_some(value, e.address(buffer, I8, SIZE), e.number(-1))
    e.copy(e.slot(I8, SIZE), buffer, SIZE)
    e.store(e.load(buffer, FLOAT, SIZE // 4 - 1), buffer, FLOAT)
    bits = ir.VectorType(ir.IntType(1), 12)
    e.builder.store(ir.Constant(bits, None), e.address(buffer, I8, SIZE - 2))


FLOAT_KIND = ir.FloatType()
WRONG = (load_behind, load_before, store_across_the_end, store_misaligned, loop_of_one_turn_too_many, vector_too_long,
         lanes_too_many, copy_from_too_much, copy_to_too_much, slot_too_small, selected, moving_along,
         in_an_inner_function)


def status_of(access: Callable[[Emitter, ir.Value], None]) -> tuple[int, BoundsError | None, bool]:
    """What a function that makes an access returns, its error, and whether the memory around the buffer changed."""
    module = ir.Module(name=ENTRY)
    module.triple, module.data_layout = host().triple, host().data_layout
    function = ir.Function(module, ir.FunctionType(I32, [POINTER, POINTER]), ENTRY)
    e, watch = Emitter(module, function, host()), Watch(module)
    buffer = e.address(function.args[0], I8, SIZE)
    watch.buffer(buffer, ir.Constant(I64, SIZE))
    watch.buffer(function.args[1], ir.Constant(I64, 5 * 8))
    watch.enter(e.builder, Place(0, "main", 7, "ADD"))
    access(e, buffer)
    e.builder.ret(ir.Constant(I32, 0))
    watch.guard(function, function.args[1])
    library = link([object_code(Piece(str(module)), host())], ENTRY)
    raw, evidence = np.zeros(4 * SIZE, np.uint8), np.zeros(5, np.int64)
    start = -raw.ctypes.data % SIZE
    memory = raw[start:start + 3 * SIZE]
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.address)
    status = entry(memory.ctypes.data, evidence.ctypes.data)
    around = bool(memory[:SIZE].any() or memory[2 * SIZE:].any())
    return status, watch.watched(()).error(evidence.tolist()) if status else None, around


@pytest.mark.parametrize("access", WRONG)
def test_a_wrong_access_is_reported_and_harms_nothing(access: Callable[[Emitter, ir.Value], None]) -> None:
    status, error, around = status_of(access)
    assert status == OUTSIDE
    assert not around
    assert str(error).startswith("subgraph 0 ('main'), operator 7 (ADD): ")


def test_accesses_up_to_the_last_byte_are_right() -> None:
    assert status_of(last_of_everything)[0] == 0


def test_a_session_whose_code_is_wrong_says_which_operator_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", FLOAT, (5,))
    main.output(*main.op(Add(), x, x))
    model, right = b.build(), Emitter.load

    def load(e: Emitter, base: ir.Value, dtype: DType, offset: ir.Value | int = 0) -> ir.Value:
        return right(e, base, dtype, e.builder.add(offset, e.number(1)) if isinstance(offset, ir.Value) else offset)

    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    monkeypatch.setenv(VARIABLE, "1")
    session = circlet.Session(model, backend="native")
    np.testing.assert_array_equal(session.invoke(0, [np.ones(5, np.float32)])[0], np.full(5, 2, np.float32))
    monkeypatch.setattr(Emitter, "load", load)
    with pytest.raises(BoundsError, match=r"operator 0 \(ADD\): load float .*: 4 bytes at 20 of a buffer of 20 bytes"):
        circlet.Session(model, backend="native").invoke(0, [np.ones(5, np.float32)])


def test_code_that_looks_whether_it_must_stop_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    monkeypatch.setenv(VARIABLE, "1")
    model, inputs = long_models.recurrence()
    session = circlet.Session(model, backend="native", limits=circlet.Limits(max_iterations=2))
    with pytest.raises(circlet.LimitError, match="max_iterations=2"):
        session.run(inputs)
