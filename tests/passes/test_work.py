"""What operators cost, against counts made by hand."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import circlet
import circlet.runtime.ops
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op, Opaque, Operand
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops import (
    comparison,
    conv,
    detection,
    elements,
    elementwise,
    index,
    layout,
    lookup,
    matmul,
    normalize,
    pool,
    quantize,
    recurrent,
    reduce,
    reduce_window,
    resample,
    resize,
    scatter,
    shape,
    sort,
    spectral,
    unary,
)
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.registry import OPERATORS
from circlet.runtime.passes.analyses.flops import flops, formula
from circlet.runtime.passes.analyses.work import Estimator, Work, declared_shapes, operator_work
from tests.passes.specialized import specializer_of

F32, I8, I32, BOOL = DType.FLOAT32, DType.INT8, DType.INT32, DType.BOOL


def t(*dims: int, dtype: DType = F32, known: object = None) -> Operand:
    """A tensor."""
    return Operand(dtype, dims, None if known is None else np.asarray(known))


@dataclass(frozen=True)
class Cost:
    """An operator on operands, and what it is to cost."""

    op: Op
    inputs: Sequence[Operand | None]
    outputs: Sequence[Operand]
    flops: int
    read: int
    written: int


def lstm_inputs(batch: int, cells: int, inputs: int) -> list[Operand | None]:
    """Of a plain LSTM over 5 times: four gates with weights, recurrent weights and biases, and two states."""
    weights, recurrent_weights = t(cells, inputs), t(cells, cells)
    absent: list[Operand | None] = [None] * 3
    return [t(batch, 5, inputs), *[weights] * 4, *[recurrent_weights] * 4, *absent, *[t(cells)] * 4, None, None,
            t(batch, cells), t(batch, cells)]


COSTS = {
    # 2 * (1*4*4*8) * (3*3*3) + a bias and an activation for each of 128 results
    "conv": Cost(conv.Conv2D(fused_activation_function=Activation.RELU), [t(1, 8, 8, 3), t(8, 3, 3, 3), t(8)],
                 [t(1, 4, 4, 8)], 2 * 128 * 27 + 128 + 128, 4 * (192 + 216 + 8), 4 * 128),
    "conv of 2 groups": Cost(conv.Conv2D(), [t(1, 4, 4, 6), t(8, 1, 1, 3)], [t(1, 4, 4, 8)], 2 * 128 * 3,
                             4 * (96 + 24), 512),
    "depthwise": Cost(conv.DepthwiseConv2D(), [t(1, 8, 8, 4), t(1, 3, 3, 8), None], [t(1, 8, 8, 8)], 2 * 512 * 9,
                      4 * (256 + 72), 2048),
    "conv 3d": Cost(conv.Conv3D(), [t(1, 4, 4, 4, 2), t(2, 2, 2, 2, 5)], [t(1, 3, 3, 3, 5)], 2 * 135 * 16,
                    4 * (128 + 80), 540),
    # each of 2*2*3 elements meets 3*3 positions of 5 channels
    "transposed": Cost(conv.TransposeConv(), [t(4, dtype=I32), t(5, 3, 3, 3), t(1, 2, 2, 3)], [t(1, 4, 4, 5)],
                       2 * 12 * 45, 16 + 4 * (135 + 12), 320),
    "transposed with a bias": Cost(conv.BiasedTransposeConv(stride_h=2, stride_w=2), [
        t(1, 2, 3, 3), t(5, 3, 3, 3), t(5)], [t(1, 4, 6, 5)], 2 * 18 * 45 + 120, 4 * (18 + 135 + 5), 480),
    "windows": Cost(reduce_window.CombineWindow((1, 3)), [t(4, 8), t()], [t(4, 6)], 24 * 3, 4 * 33, 96),
    "transposed 3d": Cost(conv.Conv3DTranspose(), [t(5, dtype=I32), t(2, 2, 2, 4, 3), t(1, 2, 2, 2, 3)],
                          [t(1, 4, 4, 4, 4)], 2 * 24 * 32, 20 + 4 * (96 + 24), 1024),
    "fully connected": Cost(matmul.FullyConnected(), [t(2, 10), t(4, 10), t(4)], [t(2, 4)], 2 * 8 * 10 + 8,
                            4 * (20 + 40 + 4), 32),
    "int4 weights": Cost(matmul.FullyConnected(), [t(1, 5, dtype=I8), t(3, 5, dtype=DType.INT4), None],
                         [t(1, 3, dtype=I8)], 30, 5 + 8, 3),
    "blocks of weights": Cost(matmul.BlockFullyConnected(), [t(2, 10), t(4, 10, dtype=I8), t(4, 5), t(4)], [t(2, 4)],
                              2 * 8 * (10 + 5) + 8, 4 * 20 + 40 + 4 * (20 + 4), 32),
    "batch matmul": Cost(matmul.BatchMatMul(), [t(6, 2, 3), t(6, 3, 5)], [t(6, 2, 5)], 2 * 60 * 3, 4 * (36 + 90), 240),
    "batch matmul of a transposed": Cost(matmul.BatchMatMul(adj_x=True), [t(3, 2), t(3, 5)], [t(2, 5)], 60, 4 * 21, 40),
    "embedding of blocks": Cost(matmul.BlockEmbeddingLookup(), [
        t(2, dtype=I32), t(10, 8, dtype=I8), t(10, 4)], [t(2, 8)], 16, 8 + 16 + 32, 64),
    "embedding": Cost(matmul.EmbeddingLookup(), [t(2, dtype=I32), t(1000, 8)], [t(2, 8)], 0, 8 + 64, 64),
    "embedding of sparse ids": Cost(
        lookup.EmbeddingLookupSparse(), [t(3, dtype=I32), t(3, 2, dtype=I32), t(2, dtype=I32), t(3), t(1000, 8)],
        [t(2, 8)], 48, 12 + 24 + 8 + 12 + 96, 64),
    "hashes": Cost(lookup.LshProjection(), [t(2, 5), t(3, 4, dtype=I32)], [t(2, dtype=I32)], 10 * 18, 40 + 48, 8),
    "add": Cost(elementwise.Add(), [t(3, 4), t(4)], [t(3, 4)], 12, 64, 48),
    "add n": Cost(elementwise.AddN(), [t(5), t(5), t(5)], [t(5)], 10, 60, 20),
    "less": Cost(comparison.Less(), [t(6), t(6)], [t(6, dtype=BOOL)], 6, 48, 6),
    "tanh": Cost(unary.Tanh(), [t(7)], [t(7)], 7, 28, 28),
    "dequantize": Cost(quantize.Dequantize(), [t(7, dtype=I8)], [t(7)], 14, 7, 28),
    "sum": Cost(reduce.Sum(), [t(3, 4), t(1, dtype=I32)], [t(3)], 12, 52, 12),
    "mean": Cost(reduce.Mean(), [t(3, 4), t(1, dtype=I32)], [t(3)], 15, 52, 12),
    "softmax": Cost(normalize.Softmax(), [t(2, 5)], [t(2, 5)], 50, 40, 40),
    "local response": Cost(normalize.LocalResponseNormalization(radius=1), [t(1, 1, 1, 8)], [t(1, 1, 1, 8)], 8 * 8,
                           32, 32),
    "average pool": Cost(pool.AveragePool2D(filter_height=2, filter_width=3), [t(1, 4, 6, 2)], [t(1, 2, 2, 2)],
                         8 * 7, 192, 32),
    "max pool": Cost(pool.MaxPool2D(filter_height=2, filter_width=3), [t(1, 4, 6, 2)], [t(1, 2, 2, 2)], 8 * 6, 192, 32),
    "l2 pool": Cost(pool.L2Pool2D(filter_height=2, filter_width=2), [t(1, 2, 2, 1)], [t(1, 1, 1, 1)], 10, 16, 4),
    "top k": Cost(sort.TopKV2(), [t(3, 8), t(dtype=I32)], [t(3, 2), t(3, 2, dtype=I32)], 24 * 3, 100, 48),
    "bilinear": Cost(resize.ResizeBilinear(), [t(1, 2, 2, 1), t(2, dtype=I32)], [t(1, 4, 4, 1)], 128, 24, 64),
    "cubic": Cost(resample.Resample(axes=(1,), interpolation=resample.Interpolation.CUBIC), [t(1, 4), t(1)], [t(1, 8)],
                  64, 20, 32),
    "rfft 2d": Cost(spectral.Rfft2D(), [t(4, 8), t(2, dtype=I32, known=[4, 8])],
                    [t(4, 5, dtype=DType.COMPLEX64)], 400, 136, 160),
    "dft": Cost(spectral.Dft(), [t(3, 8, 2), None, t(dtype=DType.INT64, known=1)], [t(3, 8, 2)], 3 * 120, 200, 192),
    # 100 boxes, of which at the most 10 are compared with all: 12 * 1000, and sorting by 7 comparisons each
    "boxes": Cost(detection.NonMaxSuppressionV4(), [t(100, 4), t(100), t(dtype=I32), t(), t()],
                  [t(10, dtype=I32), t(dtype=I32)], 12_700, 1600 + 400 + 12, 44),
    # 18 for each of 100 boxes, 1 for each of 300 scores, and pairs as before; or those for each class
    "detections": Cost(detection.DetectionPostProcess(10, 1, num_classes=3), [t(1, 100, 4), t(1, 100, 3), t(100, 4)],
                       [t(1, 10, 4), t(1, 10), t(1, 10), t(1)], 1800 + 300 + 12_700,
                       1600 + 1200 + 1600, 160 + 40 + 40 + 4),
    "detections of each class": Cost(
        detection.DetectionPostProcess(10, 1, 10, True, num_classes=3), [t(1, 100, 4), t(1, 100, 3), t(100, 4)],
        [t(1, 10, 4), t(1, 10), t(1, 10), t(1)], 1800 + 3 * 12_700, 1600 + 1200 + 1600, 160 + 40 + 40 + 4),
    # for 2 batches and 5 times: 2 * (4*3*4 + 4*4*4 + 4*4) weights and 9 * 4 cells
    "lstm": Cost(recurrent.UnidirectionalSequenceLstm(), lstm_inputs(2, 4, 3), [t(2, 5, 4)],
                 10 * (2 * (48 + 64 + 16) + 36), 4 * (30 + 48 + 64 + 16 + 16), 160),
    "rnn": Cost(recurrent.Rnn(), [t(2, 3), t(4, 3), t(4, 4), t(4), t(2, 4)], [t(2, 4)], 2 * (2 * 32 + 4),
                4 * (6 + 12 + 16 + 4 + 8), 32),
    "basic lstm": Cost(recurrent.Lstm(kernel_type=1), [t(2, 3), t(2, 4), t(16, 7), t(16), t(2, 4)],
                       [t(2, 4), t(2, 4), t(2, 7), t(2, 16)], 2 * (2 * 112 + 2 * 16 + 36), 4 * (6 + 8 + 112 + 16 + 8),
                       4 * (8 + 8 + 14 + 32)),
    "svdf": Cost(recurrent.Svdf(rank=2), [t(1, 3), t(4, 3), t(4, 5), t(2), t(1, 20)], [t(1, 2)],
                 2 * 12 + 2 * 20 + 4 + 4, 4 * (3 + 12 + 20 + 2 + 20), 8),
    "transpose": Cost(layout.Transpose(), [t(2, 3), t(2, dtype=I32)], [t(3, 2)], 0, 32, 24),
    "reshape": Cost(shape.Reshape(), [t(2, 3), t(1, dtype=I32)], [t(6)], 0, 4, 0),
    "shape": Cost(shape.ShapeOf(), [t(2, 3)], [t(2, dtype=I32)], 0, 0, 8),
    "slice": Cost(layout.Slice(), [t(100), t(1, dtype=I32), t(1, dtype=I32)], [t(3)], 0, 20, 12),
    "update": Cost(index.DynamicUpdateSlice(), [t(100, 4), t(1, 4), t(2, dtype=I32)], [t(100, 4)], 0, 24, 16),
    "scatter": Cost(elements.ScatterElements(combine=elements.Combine.ADD), [t(100), t(3, dtype=DType.INT64), t(3)],
                    [t(100)], 3, 36, 12),
    "scatter windows": Cost(scatter.ScatterWindows((1,), (0,), (0,), 1, combine=elements.Combine.ADD),
                            [t(100, 4), t(3, 1, dtype=I32), t(3, 4)], [t(100, 4)], 12, 60, 48),
}


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_costs(cost: Cost) -> None:
    assert operator_work(cost.op, cost.inputs, cost.outputs) == Work(cost.flops, cost.read, cost.written)


def _concrete(kind: type[Op]) -> list[type[Op]]:
    """The operators that are derived from one, those of backends' own passes left out."""
    own = [kind] if "name" in vars(kind) and kind.__module__.startswith("circlet.runtime.ops.") else []
    return own + [each for derived in kind.__subclasses__() for each in _concrete(derived)]


def test_every_operator_has_a_formula() -> None:
    for each in pkgutil.iter_modules(circlet.runtime.ops.__path__):
        importlib.import_module(f"circlet.runtime.ops.{each.name}")
    found = _concrete(Op)  # type: ignore[type-abstract]
    assert {each.name for each in found} >= {*OPERATORS}
    assert [each.name for each in found if not formula(each)] == []


def test_what_is_unknown_has_no_estimate() -> None:
    assert flops(Opaque(code="CUSTOM:x"), [t(1)], [t(1)]) is None
    assert operator_work(Opaque(code="CUSTOM:x"), [t(1)], [t(1)]) is None
    assert formula(Opaque) == ""


def estimate(model: Model, *shapes: Shape, runs: bool = True) -> tuple[list[Work | None], Work, int]:
    estimator = Estimator(model, specializer_of(model).at if runs else None)
    found = estimator.at(0, shapes or declared_shapes(model.subgraphs[0]))
    return list(found.operators), found.total, found.unknown


def loop() -> Model:
    """A While whose body adds 1 to x (n,) and to a count, and whose condition compares that."""
    builder = circlet.ModelBuilder()
    main, cond, body = (builder.subgraph(name) for name in ("main", "cond", "body"))
    for graph in (main, cond, body):
        graph.input("k", np.int32)
        graph.input("x", np.float32, (-1,))
    (k, x), (ck, _), (bk, bx) = ((_input(graph, 0), _input(graph, 1)) for graph in (main, cond, body))
    cond.output(cond.apply(comparison.Less(), ck, cond.constant(5)))
    body.output(body.apply(elementwise.Add(), bk, body.constant(1)), body.apply(unary.Tanh(), bx))
    main.output(*main.op(While(cond.index, body.index), k, x, count=2))
    return builder.build()


def _input(graph: SubgraphBuilder, number: int) -> Value:
    return Value(graph.index, number)


@pytest.mark.parametrize("length", [1, 6])
def test_a_loop_costs_one_turn(length: int) -> None:
    """Its condition is 1 operation on 8 bytes; the count's sum is 1 on 8; x is read and written."""
    works, total, unknown = estimate(loop(), (), (length,))
    assert works == [Work(1 + 1 + length, 8 + 8 + 4 * length, 1 + 4 + 4 * length)] == [total]
    assert unknown == 0
    assert total.bytes == 21 + 8 * length
    assert total.intensity == (2 + length) / (21 + 8 * length)


def test_a_branch_costs_the_dearer_one() -> None:
    builder = circlet.ModelBuilder()
    main, then, other = (builder.subgraph(name) for name in ("main", "then", "else"))
    c, x = main.input("c", np.bool_), main.input("x", np.float32, (8,))
    y = then.input("y", np.float32, (8,))
    then.output(then.apply(unary.Exp(), then.apply(unary.Exp(), y)))
    other.output(other.apply(unary.Neg(), other.input("z", np.float32, (8,))))
    main.output(main.apply(If(then.index, other.index), c, x))
    assert estimate(builder.build()) == ([Work(16, 64, 64)], Work(16, 64, 64), 0)


def test_what_is_unknown_is_counted() -> None:
    builder = circlet.ModelBuilder()
    main, inner = builder.subgraph("main"), builder.subgraph("inner")
    y = inner.input("y", np.float32, (2,))
    z, = inner.op(Opaque(code="CUSTOM:x"), y, outputs=[Tensor("z", F32, (2,))])
    inner.output(inner.apply(unary.Neg(), z))
    x = main.input("x", np.float32, (2,))
    called, = main.op(CallSubgraph(inner.index), x, outputs=[Tensor("called", F32, (2,))])
    main.output(called)
    works, total, unknown = estimate(builder.build(), runs=False)
    assert works == [Work(2, 8, 8)] == [total]
    assert unknown == 1
