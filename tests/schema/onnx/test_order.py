"""Graphs whose nodes are in another order than that in which they can be computed."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.errors import ModelError
from tests.needs import NATIVE
from tests.schema.onnx.graphs import Case, check, f32, load

BACKWARDS = "g (float[n] x) => (float[n] y) { y = Add(b, a) b = Neg(a) a = Abs(x) }"
CAUGHT = """g (float[n] x, bool on) => (float[n] y) {
    y = If(on) <then_branch = t () => (float[n] p) { p = Neg(late) }, else_branch = e () => (float[n] late) { }>
    late = Abs(x) }"""
CYCLE = "g (float[n] x) => (float[n] y) { y = Add(x, b) b = Neg(a) a = Abs(b) }"

X = f32([-1, 2, -3])
CASES = [
    Case("backwards", BACKWARDS, {"x": X}, [0 * X]),
    Case("read by a branch", CAUGHT, {"x": X, "on": np.array(True)}, [-abs(X)]),
    Case("given by a branch", CAUGHT, {"x": X, "on": np.array(False)}, [abs(X)]),
]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_any_order(case: Case, backend: str) -> None:
    check(case, backend)


def test_nodes_that_need_each_other_are_refused() -> None:
    with pytest.raises(ModelError, match=r"node 0 \(Add\): 'b' is read, but nothing defines it before"):
        load(CYCLE)
