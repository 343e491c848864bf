"""What is known of shapes before a run."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op, ShapeError
from circlet.runtime.ir.probe import Outline, merged, result_shapes
from circlet.runtime.ir.types import DType, Padding, Shape
from circlet.runtime.ops import (
    conv,
    detection,
    elements,
    elementwise,
    layout,
    matmul,
    pool,
    reduce,
    shape,
    sort,
    spatial,
)
from circlet.runtime.ops.ranks import open_shape


def outline(*dims: int, rank: bool = True) -> Outline:
    return Outline(DType.FLOAT32, dims if rank else None)


def vector(*values: int) -> Outline:
    return Outline(DType.INT32, (len(values),), np.array(values, np.int32))


@pytest.mark.parametrize(("op", "given", "expected"), [
    (elementwise.Add(), [outline(-1, 3), outline(1, 3)], (-1, 3)),
    (elementwise.Add(), [outline(-1), outline(7)], (7,)),
    (elementwise.Add(), [outline(-1, 3), outline(rank=False)], None),
    (matmul.BatchMatMul(), [outline(-1, 4, 5), outline(5, 6)], (-1, 4, 6)),
    (shape.Reshape(), [outline(-1, 6), vector(2, -1)], (2, -1)),
    (shape.Reshape(), [outline(-1, 6), Outline(DType.INT32, (3,))], (-1, -1, -1)),
    (reduce.Sum(), [outline(-1, 6), vector(0)], (6,)),
    (layout.Split(1), [Outline(DType.INT32, (), np.int32(0)), outline(-1, 5)], (-1, 5)),
    (layout.Concatenation(2), [outline(-1, 4, -1, 8), outline(-1, -1, -1, -1)], (-1, 4, -1, 8)),
    (layout.Concatenation(-1), [outline(-1, -1, 1), outline(-1, 20, 1)], (-1, 20, 2)),
    (elements.ScatterElements(1), [outline(-1, 4, 8), outline(-1, 1, 8), outline(-1, -1, -1)], (-1, 4, 8)),
    (layout.Concatenation(1), [outline(-1, -1), outline(20, 3)], (20, -1)),
    (conv.Conv2D(Padding.VALID, 128, 1), [outline(1, 1, -1, 1), outline(258, 1, 256, 1)], (1, 1, -1, 258)),
    (conv.Conv2D(Padding.VALID, 3, 3), [outline(-1, -1, -1, -1), outline(4, 2, 3, 2)], (-1, -1, -1, 4)),
    (conv.DepthwiseConv2D(Padding.VALID, 1, 1), [outline(-1, -1, -1, -1), outline(1, 2, 3, 4)], (-1, -1, -1, 4)),
    (matmul.BatchMatMul(), [outline(-1, -1, -1), outline(5, 6)], (-1, -1, 6)),
    (matmul.BatchMatMul(adj_y=True), [outline(-1, -1, -1, -1), outline(7, -1, 6, 5)], (-1, -1, -1, 6)),
    (sort.TopKV2(), [outline(-1, 4, 9), Outline(DType.INT32, ())], (-1, 4, -1)),
    (pool.MaxPool2D(Padding.SAME, 128, 1, filter_width=3, filter_height=1), [outline(1, 1, -1, 2)], (1, 1, -1, 2)),
    (detection.SelectBoxes(), [outline(-1, -1, 4), outline(-1, 80, -1)], (-1, 3)),
    (detection.SelectBoxes(), [outline(1, 9, 4), outline(1, 80, 9)], (-1, 3)),
    (detection.SelectBoxes(), [outline(rank=False), outline(1, 80, 9)], None),
    (sort.UniqueSlices(1), [outline(-1, -1, 4)], (-1, -1, 4)),
    (layout.StridedSlice(), [outline(-1, 5, 4), *[Outline(DType.INT32, (1,))] * 3], (-1, 5, 4)),
    (layout.StridedSlice(shrink_axis_mask=1, new_axis_mask=2), [outline(-1, 5, 4), *[Outline(DType.INT32, (3,))] * 3],
     (1, -1, 4)),
    (layout.StridedSlice(ellipsis_mask=1), [outline(7, -1, 4), *[Outline(DType.INT32, (2,))] * 3], (7, -1, -1)),
    (layout.StridedSlice(), [outline(-1, 5), *[Outline(DType.INT32, (-1,))] * 3], (-1, -1)),
    (spatial.SpaceToDepth(35), [outline(1, 70, -1, 2)], (1, 2, -1, 2450)),
    (conv.TransposeConv(Padding.VALID, 1, 1),
     [Outline(DType.INT32, (4,)), outline(32, 1, 3, 16), outline(2, 1, -1, 16)], (2, -1, -1, 32)),
    (conv.TransposeConv(Padding.VALID, 1, 1),
     [Outline(DType.INT32, (4,)), outline(rank=False), outline(-1, 1, -1, 16)], (-1, -1, -1, -1)),
    (conv.Conv3DTranspose(Padding.VALID, 1, 1, 1),
     [Outline(DType.INT32, (5,)), outline(1, 2, 3, 8, 16), outline(-1, 1, 1, -1, 16)], (-1, -1, -1, -1, 8)),
    (conv.TransposeConv(Padding.VALID, 1, 1), [Outline(DType.INT32, (4,)), outline(), outline(-1, 1, -1, 16)],
     (-1, -1, -1, -1)),
    (conv.DepthwiseConv2D(Padding.VALID, 1, 1), [outline(-1, -1, -1, -1), outline(1, 2)], (-1, -1, -1, -1)),
    (shape.Squeeze((1, -2)), [outline(-1, -1, 5, -1, 32)], (-1, 5, 32)),
    (shape.Squeeze((3,)), [outline(-1, -1)], None),
    (shape.Squeeze(), [outline(-1, 4)], None),
])
def test_results(op: Op, given: list[Outline], expected: Shape | None) -> None:
    assert result_shapes(op, given, 1, open_shape)[0] == expected


def test_each_result_has_a_rank_of_its_own() -> None:
    found = result_shapes(sort.UniqueSlices(0), [outline(-1, 5)], 4, open_shape)
    assert found == [(-1, 5), (-1,), (-1,), (-1,)]


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(ShapeError):
        result_shapes(elementwise.Add(), [outline(2), outline(3)], 1)
    assert result_shapes(elementwise.Add(), [outline(2, -1), outline(3, -1)], 1, open_shape) == ((-1, -1),)


def test_merged() -> None:
    assert merged([(1, 2), (1, 3)]) == (1, -1)
    assert merged([(1, 2), (1, 2)], sure=False) == (-1, -1)
    assert merged([(1,), (1, 2)]) is None
    assert merged([None, (1,)]) is None


def test_a_built_model_declares_what_is_open() -> None:
    main = ModelBuilder().subgraph()
    x = main.input("x", np.float32, (-1, 3))
    y = main.apply(elementwise.Add(), x, x)
    tensor = main.build().tensors[y.index]
    assert (tensor.shape, tensor.shape_signature) == ((1, 3), (-1, 3))
