"""Loops that grow what they multiply as bytes are loops of one native function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.quantize import Dequantize, Quantize
from tests.exec import graphs as g
from tests.exec.graphs import i32
from tests.native.test_growing import Body, compare, joined, looping, op
from tests.needs import NATIVE
from tests.ops.cases import q

pytestmark = NATIVE
DEPTH = 8
GIVEN = q(0.02, 5)


def stored(s: SubgraphBuilder, kind: Op, *inputs: Value, quantization: Quantization = GIVEN) -> Value:
    """An operator whose result is bytes."""
    return s.op(kind, *inputs, outputs=[Tensor("", DType.INT8, (1, 1), (-1, -1), quantization=quantization)])[0]


def attending(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """A row that attends to all before it; the second product is as deep as there are rows."""
    row, kept = v
    kept = joined(s, kept, row, rank=2)
    x, y = (stored(s, Quantize(), each) for each in (row, kept))
    scores = stored(s, Softmax(1.0), stored(s, BatchMatMul(adj_y=True), x, y, quantization=q(0.05, 2)),
                    quantization=q(1 / 256, -128))
    return [op(s, Dequantize(), stored(s, BatchMatMul(), scores, y), rank=2), kept]


def related(s: SubgraphBuilder, k: Value, v: Sequence[Value]) -> Sequence[Value]:
    """Sums over all rows so far of the products of their columns."""
    row, kept = v
    kept = joined(s, kept, row, rank=2)
    y = stored(s, Quantize(), kept)
    products = stored(s, BatchMatMul(adj_x=True), y, y, quantization=q(0.6, -3))
    weights = stored(s, Quantize(), s.constant(np.full((1, DEPTH), 0.3, np.float32)))
    return [op(s, Dequantize(), stored(s, FullyConnected(), weights, products), rank=2), kept]


def values(rows: int) -> Sequence[Array]:
    random = np.random.default_rng(rows)
    return [random.standard_normal((each, DEPTH)).astype(np.float32) for each in (1, rows)]


@pytest.mark.parametrize("body", [attending, related])
def test_products_grow(body: Body, folder: object, compiled: list[str]) -> None:
    compare(looping(body, values(1), False), [[i32(turns), *values(rows)] for turns, rows in (
        (3, 5), (0, 2), (90, 7), (1, 1), (33, 31))])
    assert len(compiled) <= 2, "one, and another for lengths of 1"


def test_rows_that_become_too_long_leave_the_run() -> None:
    """Sums of more than 32768 products may not fit into 32 bits."""
    model = looping(attending, values(1), False)
    native, cpu = (circlet.Session(model, each) for each in ("native", "cpu"))
    for rows in (32765, 32767, 4):
        given = [i32(2), *values(rows)]
        g.assert_equal(native.invoke(0, given), cpu.invoke(0, given))
