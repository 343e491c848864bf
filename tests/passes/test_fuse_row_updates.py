"""`list[i] = row` as the converter spells it becomes one operator; what only looks like it does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Concatenation, Pack, Slice
from circlet.runtime.ops.shape import ExpandDims, Reshape
from circlet.runtime.passes.pipelines import INTERPRETED
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


def vector(b: SubgraphBuilder, scalar: Value, rest: Sequence[int], style: str) -> Value:
    if style == "pack":
        return b.apply(Pack(values_count=1 + len(rest)), scalar, *(b.constant(each) for each in rest))
    if style == "expand":
        first = b.apply(ExpandDims(), scalar, b.constant(0))
    else:
        first = b.apply(Reshape(), scalar, b.constant([1]))
    return b.apply(Concatenation(), first, b.constant(list(rest))) if rest else first


def model(style: str = "reshape", step: int = 1, head_start: int = 0, tail_size: int = -1,
          other: bool = False) -> Model:
    """`rows[i] = row`; the further arguments spoil the idiom."""
    b = ModelBuilder()
    m = b.subgraph("main")
    rows, row = m.input("rows", DType.FLOAT32, (4, 2)), m.input("row", DType.FLOAT32, (2,))
    i = m.input("i", DType.INT32)
    unknown = Tensor("part", DType.FLOAT32, (1, 1), (-1, -1))
    head = m.op(Slice(), rows, m.constant([head_start, 0]), vector(m, i, [-1], style), outputs=[unknown])[0]
    after = m.apply(Add(), i, m.constant(step))
    source = m.apply(Add(), rows, m.constant(0.0)) if other else rows
    tail = m.op(Slice(), source, vector(m, after, [0], style), m.constant([tail_size, -1]), outputs=[unknown])[0]
    middle = m.apply(Reshape(), row, m.constant([1, 2]))
    m.output(*m.op(Concatenation(), head, middle, tail, outputs=[Tensor("y", DType.FLOAT32, (4, 2))]))
    return b.build()


def names(model: Model) -> list[str]:
    return [each.name for each in INTERPRETED.run(model).subgraphs[0].operators if each.name != "SKIP"]


@pytest.mark.parametrize("elide", g.ELISION)
@pytest.mark.parametrize("style", ["reshape", "expand", "pack"])
def test_setting_a_row_is_one_operator(style: str, elide: bool) -> None:
    assert names(model(style)) == ["RESHAPE", "UPDATE_ROW"]
    session = circlet.Session(model(style), copy_elision=elide)
    for i in range(4):
        expected = ROWS.copy()
        expected[i] = [9, 8]
        g.assert_equal(g.run(session, [ROWS, f32([9, 8]), i32(i)]), [expected])


@pytest.mark.parametrize("i", [-2, -1, 4, 5])
def test_a_row_out_of_range_is_an_error(i: int) -> None:
    session = circlet.Session(model())
    with pytest.raises(circlet.ExecutionError, match=rf"CONCATENATION|UPDATE_ROW.*{i} is out of range for 4 rows"):
        g.run(session, [ROWS, f32([9, 8]), i32(i)])


@pytest.mark.parametrize("spoilt", [
    {"step": 2}, {"head_start": 1}, {"tail_size": 1}, {"other": True},
], ids=lambda spoilt: next(iter(spoilt)))
def test_what_only_looks_like_it_is_left_alone(spoilt: dict[str, Any]) -> None:
    assert "UPDATE_ROW" not in names(model(**spoilt))


@pytest.mark.parametrize("name", ["list_write", "scan_reverse", "lstm_sequence"])
def test_converter_written_lists_are_recognised(name: str) -> None:
    path = Path(__file__).parents[1] / "models" / f"{name}.tflite"
    optimised = INTERPRETED.run(circlet.load(path))
    assert any(each.name == "UPDATE_ROW" for subgraph in optimised.subgraphs for each in subgraph.operators)
