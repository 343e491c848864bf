"""`x * logistic(x)` becomes one operator; what only looks like it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.unary import Logistic
from circlet.runtime.passes.transforms.fuse_silu import fuse_silu

X = np.array([-np.inf, -200, -90, -88, -3, -1e-30, 0, 0.5, 7, 200, np.inf, np.nan], np.float32)
Formula = Callable[[SubgraphBuilder, Value], Value]


def silu(m: SubgraphBuilder, x: Value) -> Value:
    return m.apply(Mul(), x, m.apply(Logistic(), x))


def read_twice(m: SubgraphBuilder, x: Value) -> Value:
    share = m.apply(Logistic(), x)
    return m.apply(Add(), m.apply(Mul(), x, share), share)


def of_another(m: SubgraphBuilder, x: Value) -> Value:
    return m.apply(Mul(), x, m.apply(Logistic(), m.apply(Add(), x, x)))


FUSED: Mapping[str, Formula] = {"first": silu, "second": lambda m, x: m.apply(Mul(), m.apply(Logistic(), x), x)}
KEPT: Mapping[str, Formula] = {
    "read twice": read_twice, "of another": of_another,
    "activation": lambda m, x: m.apply(Mul(Activation.RELU), x, m.apply(Logistic(), x)),
}


def model(formula: Formula, dtype: DType = DType.FLOAT32) -> circlet.Model:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(formula(main, main.input("x", dtype, X.shape)))
    return b.build()


def names(found: circlet.Model) -> list[str]:
    return [each.name for each in found.subgraphs[0].operators]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("name", FUSED)
def test_fused(name: str, backend: str) -> None:
    plain, changed = model(FUSED[name]), fuse_silu(model(FUSED[name]))
    assert names(changed) == ["SKIP", "SILU"]
    expected, found = (circlet.Session(each, kind).invoke(0, [X])[0]
                       for each, kind in ((plain, "cpu"), (changed, backend)))
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-36)


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    plain = model(KEPT[name])
    assert fuse_silu(plain) is plain


def test_other_types_are_kept() -> None:
    plain = model(silu, DType.FLOAT16)
    assert fuse_silu(plain) is plain


def test_a_logistic_that_is_a_result_is_kept() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, X.shape)
    share = main.apply(Logistic(), x)
    main.output(share, main.apply(Mul(), x, share))
    plain = b.build()
    assert fuse_silu(plain) is plain
