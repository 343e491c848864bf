"""Loops that grow, in a subgraph that says less of its inputs than the one that calls it knows."""

from __future__ import annotations

import numpy as np

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallSubgraph, While
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.runtime.ops.shape import ExpandDims
from circlet.runtime.ops.unary import Tanh
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32
from tests.needs import NATIVE

pytestmark = NATIVE
F32 = DType.FLOAT32
WEIGHTS = f32([[0.5, -1.0, 0.25], [1.0, 0.5, -0.5], [-0.25, 0.75, 1.0]])
NUMBERS = [Tensor(name, DType.INT32, ()) for name in ("i", "n")]
STATE = Tensor("h", F32, (1, 3), (-1, 3))
VAGUE = Tensor("h", F32, (1, 1), (-1, -1))
"""What is said of the state within."""
ROW = Tensor("row", F32, (1, 1, 3), (-1, 1, 3))
STATES = Tensor("states", F32, (1, 1, 3), (-1, -1, 3))


def called() -> Model:
    """All states of h = tanh(h @ WEIGHTS), along axis 1."""
    b = ModelBuilder()
    main, apart, cond, body = (b.subgraph(name) for name in ("main", "apart", "cond", "body"))
    kinds = [*NUMBERS, VAGUE, STATES]
    i, n, _, _ = (cond.input(each.name, each.dtype, each.signature) for each in kinds)
    cond.output(g.less(cond, i, n))
    i, n, h, states = (body.input(each.name, each.dtype, each.signature) for each in kinds)
    h = body.apply(Tanh(), body.op(BatchMatMul(), h, body.constant(WEIGHTS), outputs=[STATE])[0])
    row = body.op(ExpandDims(), h, body.constant(i32(1)), outputs=[ROW])[0]
    body.output(g.plus(body, i), n, h, body.op(Concatenation(1), states, row, outputs=[STATES])[0])
    given = [apart.input(each.name, each.dtype, each.signature) for each in kinds[1:]]
    apart.output(apart.op(While(cond.index, body.index), apart.constant(0), *given, outputs=kinds)[3])
    given = [main.input(each.name, each.dtype, each.signature) for each in (NUMBERS[1], STATE, STATES)]
    main.output(main.op(CallSubgraph(apart.index), *given, outputs=[STATES])[0])
    return b.build()


def test_one_function_serves_all_lengths(folder: object, compiled: list[str]) -> None:
    session = circlet.Session(called(), "native")
    for n, batch in ((5, 2), (70, 3), (0, 2), (200, 4), (9, 5)):
        h = np.random.default_rng(n).normal(size=(batch, 3)).astype(np.float32)
        expected, state = [h[:, np.newaxis]], h
        for _ in range(n):
            state = np.tanh(state @ WEIGHTS)
            expected.append(state[:, np.newaxis])
        found = session.invoke(0, [i32(n), h, expected[0]])
        np.testing.assert_allclose(found[0], np.concatenate(expected, 1), 1e-4, 1e-5, strict=True)
    assert len(compiled) == 1
    assert set(session.backend_of(0)) == {"native"}
