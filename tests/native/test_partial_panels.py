"""What is left of a row behind whole vectors is written without masks, and nothing behind it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.emit.emitter import I8, I32, I64, POINTER, Emitter
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.gemm.microkernel import FLOAT32
from circlet.backends.native.gemm.packing import transpose_panels
from circlet.backends.native.gemm.plan import Plan
from circlet.backends.native.gemm.vectors import WORD, Vectors
from circlet.backends.native.load.library import ENTRY
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.against_cpu import values
from tests.native.compiled import call_of

ROWS, GAP = 3, 20
"""Vectors that are stored, and the words between their places."""


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("element", [ir.FloatType(), I32])
def test_the_first_lanes_of_vectors_are_stored(lanes: int, element: ir.Type) -> None:
    module = ir.Module(name=ENTRY)
    module.triple, module.data_layout = host().triple, host().data_layout
    function = ir.Function(module, ir.FunctionType(I32, [POINTER, POINTER, I64]), ENTRY)
    e = Emitter(module, function, host())
    vectors = Vectors(e, element, lanes)
    given, memory, count = function.args
    rows = [vectors.load(vectors.address(given, k * lanes * WORD)) for k in range(ROWS)]
    vectors.store_first(rows, [vectors.address(memory, k * GAP * WORD) for k in range(ROWS)], count)
    e.builder.ret(ir.Constant(I32, 0))
    library = link([object_code(Piece(str(module)), host())], ENTRY)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address)
    words = np.arange(1, ROWS * lanes + 1, dtype=np.int32).reshape(ROWS, lanes)
    for some in range(-2, lanes + 3):
        found, wanted = (np.zeros((ROWS, GAP), np.int32) for _ in range(2))
        entry(words.ctypes.data, found.ctypes.data, some)
        kept = min(max(some, 0), lanes)
        wanted[:, :kept] = words[:, :kept]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("columns", range(1, 20))
@pytest.mark.parametrize("rows", [50, -1])
def test_products_whose_last_panel_is_not_full(columns: int, rows: int) -> None:
    """Of whole numbers, so that sums are exact in any order."""
    weights = values((columns, 7), np.int8, 1).astype(np.float32)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (rows, 7))
    main.output(main.apply(FullyConnected(keep_num_dims=True), x, main.constant(weights)))
    session = circlet.Session(b.build(), "native")
    for count in (50, 13, 12, 1) if rows < 0 else (rows,):
        given = values((count, 7), np.int8, 2).astype(np.float32)
        np.testing.assert_array_equal(session.invoke(0, [given])[0], given @ weights.T)


def test_what_lies_behind_the_columns_of_an_open_number_is_not_multiplied() -> None:
    """Tiles read whole panels: numbers below the least normal one, left there, would take ten times as long."""
    columns, depth = Scope([40]).symbol(0), 5
    plan = Plan.of(host(), FLOAT32, columns, columns, depth)

    def pack(e: Emitter, given: ir.Value, made: ir.Value) -> None:
        e.lengths = Lengths(e.entry, given, I64)
        transpose_panels(e, plan, e.address(given, I8, I64.width // 8), made)

    packed = call_of(pack)
    for count in range(1, 3 * plan.panel + 2):
        panels = -(-count // plan.panel)
        matrix = values((count, depth), np.int8, count).astype(np.float32)
        found = np.full((panels + 1, depth, plan.panel), 1e-42, np.float32)
        packed(np.append(np.array([count]).view(np.float32), matrix), found)
        assert (found[panels] == np.float32(1e-42)).all()
        found = found[:panels].transpose(0, 2, 1).reshape(-1, depth)
        np.testing.assert_array_equal(found[:count], matrix)
        assert not (np.abs(found[count:]) == np.float32(1e-42)).any()
