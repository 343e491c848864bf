"""Operators that change nothing become aliases; what only looks like it does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.layout import StridedSlice
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.passes.transforms.simplify_identities import simplify_identities
from tests.exec import graphs as g
from tests.exec.graphs import f32
from tests.needs import NATIVE

X = f32([[1, 2, 3], [4, 5, 6]])


def model(op: Op, parameters: Sequence[Sequence[int]], shape: tuple[int, ...] = X.shape,
          dtype: DType = DType.FLOAT32) -> Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, X.shape)
    main.output(main.op(op, x, *(main.constant(np.array(each, np.int32)) for each in parameters),
                        outputs=[g.declared("y", dtype, shape)])[0])
    return b.build()


MOST = np.iinfo(np.int32).max
WHOLE = ([0, 0], [0, 0], [1, 1])


@pytest.mark.parametrize(("op", "parameters"), [
    (Cast(), ()),
    (StridedSlice(begin_mask=3, end_mask=3), WHOLE),
    (StridedSlice(begin_mask=1, end_mask=1), ([1], [1], [1])),
    (StridedSlice(end_mask=2), ([0, 0], [MOST, 0], [1, 1])),
], ids=["cast", "slice", "first_axis", "to the largest number"])
def test_what_changes_nothing_costs_nothing(op: Op, parameters: Sequence[Sequence[int]]) -> None:
    built = model(op, parameters)
    ((operator,),) = (each.operators for each in simplify_identities(built).subgraphs)
    assert (operator.name, len(operator.inputs)) == ("ALIAS", 1)
    np.testing.assert_array_equal(circlet.Session(built, "cpu").run([X])["y"], X)


@pytest.mark.parametrize(("op", "parameters", "expected"), [
    (Cast(), (), X.astype(np.int32)),
    (StridedSlice(begin_mask=3, end_mask=1), ([0, 0], [0, 2], [1, 1]), X[:, :2]),
    (StridedSlice(begin_mask=1, end_mask=3), ([0, 1], [0, 0], [1, 1]), X[:, 1:]),
    (StridedSlice(begin_mask=3, end_mask=3), ([0, 0], [0, 0], [1, 2]), X[:, ::2]),
    (StridedSlice(begin_mask=3, end_mask=3), ([0, 0], [0, 0], [-1, 1]), X[::-1]),
    (StridedSlice(), ([0, 0], [2, 3], [1, 1]), X),
    (StridedSlice(), ([0, 1], [MOST, MOST], [1, 1]), X[:, 1:]),
    (StridedSlice(), ([0, 0], [MOST, -1], [1, 1]), X[:, :-1]),
    (StridedSlice(begin_mask=3, end_mask=3, shrink_axis_mask=1), WHOLE, X[0]),
    (StridedSlice(begin_mask=3, end_mask=3, new_axis_mask=1), WHOLE, X[None]),
], ids=["cast", "end", "begin", "stride", "backwards", "as long as declared", "begin alone", "end alone", "shrink",
        "new_axis"])
def test_what_changes_something_stays(op: Op, parameters: Sequence[Sequence[int]], expected: np.ndarray) -> None:
    built = model(op, parameters, expected.shape, DType.of(expected.dtype))
    assert simplify_identities(built) is built
    np.testing.assert_array_equal(circlet.Session(built, "cpu").run([X])["y"], expected)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("dtype", [np.bool_, np.float32])
def test_bounds_that_are_no_integers_are_refused(dtype: type[np.generic], backend: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    bounds = [main.constant(np.array(each).astype(dtype)) for each in ([0, 0], [1, 1], [1, 1])]
    x = main.input("x", DType.FLOAT32, X.shape)
    main.output(main.op(StridedSlice(), x, *bounds, outputs=[g.declared("y", DType.FLOAT32, X.shape)])[0])
    built = b.build()
    assert simplify_identities(built) is built
    with pytest.raises(circlet.CircletError, match="element type"):
        circlet.Session(built, backend)
