"""What the readers of all formats have in common."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import elementwise
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Program, constant

F32 = DType.FLOAT32


def test_constants_become_tensors_where_they_are_used() -> None:
    program = Program()
    g = program.graph("main")
    x = g.input(F32, (2,), "x")
    used, _ = constant([1.0, 2.0], name="used"), constant([3.0], name="unused")
    g.output(c.add(g, c.add(g, x, used), used))
    (main,) = program.subgraphs()
    assert [each.name for each in main.tensors if each.is_constant] == ["used"]


def test_values_of_a_surrounding_graph_are_captured_once_and_constants_shared() -> None:
    program = Program()
    outer = program.graph("outer")
    x, k = outer.input(F32, (2,), "x"), constant(np.ones(2, np.float32))
    middle = program.graph("middle", outer)
    inner = program.graph("inner", middle)
    inner.output(c.add(inner, c.multiply(inner, x, x), k))
    assert list(middle.captures) == [x]
    assert list(inner.captures) == list(middle.captures.values())
    with pytest.raises(ModelError, match="is not inside of another graph"):
        outer.capture(inner.outputs[0])


def test_what_cannot_be_computed_is_refused_where_it_is_run() -> None:
    program = Program()
    main = program.graph("main")
    x, y = main.input(F32, (2,), "x"), main.input(F32, (3,), "y")
    with pytest.raises(ShapeError, match="do not broadcast"):
        c.add(main, x, y)
    assert c.add(program.graph("branch", main), x, y).shape == (-1,)


def test_a_declaration_adds_to_what_is_known() -> None:
    program = Program()
    g = program.graph("main")
    y = g.declare(c.add(g, g.input(F32, (-1, 3), "x"), constant(np.float32(1))), "y", (2, -1))
    g.output(y)
    assert (y.name, y.shape) == ("y", (2, 3))
    main = program.subgraphs()[0]
    assert main.tensors[main.outputs[0]].type_text == "float32[2,3]"


def test_constants_are_computed_with() -> None:
    g = Program().graph("main")
    shape = constant([2, 3])
    assert c.multiply(g, shape, shape).data is not None
    assert c.unsqueeze(g, shape, [0, -1]).shape == (1, 2, 1)
    joined = c.concatenate(g, [constant(np.zeros(1, np.uint16), DType.BFLOAT16)] * 2)
    assert (joined.dtype, joined.shape) == (DType.BFLOAT16, (2,))
    assert c.cast(g, constant(np.array([0x3F80], np.uint16), DType.BFLOAT16), F32).data == 1
    with pytest.raises(ShapeError, match="axis"):
        c.unsqueeze(g, shape, [7])


def test_the_shape_of_a_value_is_asked_for_once() -> None:
    program = Program()
    g = program.graph("main")
    x = g.input(F32, (-1, -1), "x")
    assert c.shape_of(g, x) is c.shape_of(g, x)


def test_more_than_a_file_may_need() -> None:
    program = Program(2)
    program.charge(2)
    with pytest.raises(UnsupportedError, match="the 2 that a file of this size may need"):
        program.charge()
    with pytest.raises(UnsupportedError, match="a table of"):
        c.like(0, constant([1.0]), (1 << 20, 1 << 20))


def test_graphs_are_forgotten() -> None:
    program = Program()
    main = program.graph("main")
    program.graph("tried", main)
    program.discard(1)
    x = main.input(F32, (), "x")
    main.output(main.apply(elementwise.Add(), x, x))
    assert [each.name for each in program.subgraphs()] == ["main"]
    assert program.graph("next", main).index == 1
