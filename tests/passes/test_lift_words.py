"""Text that results take of constant tables is looked up behind a subgraph that gives integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import lifted_variables
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.reduce import ArgMax
from circlet.runtime.ops.shape import Alias, Reshape
from circlet.runtime.passes.transforms.lift_words import lift_words

Body: TypeAlias = Callable[[SubgraphBuilder, Value], Sequence[Value]]
NAMES = ["no", "yes", "perhaps"]


def apply(m: SubgraphBuilder, op: Op, *inputs: Value, dtype: DType = DType.STRING) -> Value:
    return m.op(op, *inputs, outputs=[Tensor("", dtype, (), has_rank=False)])[0]


def table(m: SubgraphBuilder, *shape: int) -> Value:
    return m.constant(np.array([each.encode() for each in NAMES], object).reshape(shape or 3))


def greatest(m: SubgraphBuilder, x: Value) -> Value:
    return apply(m, ArgMax(DType.INT32), x, m.constant(np.int32(1)), dtype=DType.INT32)


def looked_up(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """A name for each row, and the row twice."""
    return [apply(m, Gather(), table(m), greatest(m, x)), apply(m, Add(), x, x, dtype=DType.FLOAT32)]


def of_a_row(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    names = apply(m, Gather(1), table(m, 1, 3), greatest(m, x))
    return [greatest(m, x), apply(m, Reshape(), names, m.constant(np.array([-1], np.int32)))]


def twice(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """Two results of the same integers, which are a result as well."""
    found = greatest(m, x)
    column = apply(m, Reshape(), apply(m, Gather(-1), table(m, 1, 3), found), m.constant(np.array([-1, 1], np.int32)))
    return [apply(m, Gather(), table(m), found), column, found]


def by_input(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """Names by integers that may be beyond the table."""
    return [apply(m, Gather(), table(m), apply(m, Alias(), m.input("places", DType.INT32, (-1,)), dtype=DType.INT32)),
            apply(m, Add(), x, x, dtype=DType.FLOAT32)]


def read_again(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    found = apply(m, Gather(), table(m), greatest(m, x))
    return [found, apply(m, Gather(), found, m.constant(np.array([0], np.int32)))]


def reshaped_otherwise(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    return [apply(m, Reshape(), apply(m, Gather(), table(m), greatest(m, x)), m.constant(np.array([1, 2], np.int32)))]


def at_constants(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    return [apply(m, Gather(), table(m), m.constant(np.array([1, 1], np.int32))),
            apply(m, Add(), x, x, dtype=DType.FLOAT32)]


def of_an_input(m: SubgraphBuilder, x: Value) -> Sequence[Value]:
    return [apply(m, Gather(), m.input("names", DType.STRING, (-1,)), greatest(m, x))]


LIFTED, LEFT = (looked_up, of_a_row, twice), (read_again, reshaped_otherwise, at_constants, of_an_input)


def naming(body: Body) -> Model:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    main.output(*body(main, main.input("x", DType.FLOAT32, (-1, 3))))
    return builder.build()


@pytest.mark.parametrize("body", LEFT, ids=lambda body: body.__name__)
def test_what_is_left(body: Body) -> None:
    made = naming(body)
    assert lift_words(made) is made


@pytest.mark.parametrize("body", LIFTED, ids=lambda body: body.__name__)
def test_operators_keep_their_places(body: Body) -> None:
    made = naming(body)
    lifted = lift_words(made)
    op = lifted_variables(lifted.subgraphs[0])
    assert op is not None
    before, after = made.subgraphs[0].operators, lifted.subgraphs[op.subgraph].operators
    assert [new for new, old in zip(after, before, strict=True) if new is not old and new.name != "SKIP"] == []
    assert lifted.subgraphs[op.plain_subgraph].operators == before
    assert lift_words(lifted) is lifted
