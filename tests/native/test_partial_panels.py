"""What is left of a row behind whole vectors is written without masks, and nothing behind it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.emit.emitter import I32, I64, POINTER, Emitter
from circlet.backends.native.gemm.vectors import WORD, Vectors
from circlet.backends.native.load.library import ENTRY
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.against_cpu import values

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
