"""Native pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.backends.native.rules.rule import Rule, rule_of
from circlet.runtime.exec.kernel import NOWHERE, Call
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.types import Activation, Padding
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.pool import AveragePool2D, L2Pool2D, MaxPool2D, Pool
from tests.native.against_cpu import agree, applied, seeds, values
from tests.native.native_cases import model_of, native_test
from tests.ops.cases import Case
from tests.ops.test_pool import AVERAGE, L2, MAX

test_pool = native_test([each for each in (*AVERAGE, *MAX, *L2) if each.error is None])


@pytest.mark.parametrize("case", [each for each in MAX if each.error is None], ids=lambda case: case.id)
def test_maxima_need_no_host_call(case: Case) -> None:
    main = model_of(case)[0].subgraphs[0]
    assert isinstance(rule_of(Call.of(main, main.operators[0], NOWHERE)), Rule)


SIZES = st.integers(1, 4)
LENGTHS = st.sampled_from([4, 5, 6, 9])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([AveragePool2D, MaxPool2D, L2Pool2D]), st.sampled_from(Padding),
       st.sampled_from([Activation.NONE, Activation.RELU, Activation.RELU6]), st.tuples(SIZES, SIZES, SIZES, SIZES),
       st.tuples(st.integers(0, 2), LENGTHS, LENGTHS, st.sampled_from([1, 2, 3, 16, 21, 150])), st.booleans(), seeds)
def test_window_of_any_size(op: type[Pool], padding: Padding, activation: Activation,
                            window: tuple[int, int, int, int], image: tuple[int, int, int, int], special: bool,
                            seed: int) -> None:
    stride_w, stride_h, width, height = window
    pool = op(padding, stride_w, stride_h, activation, width, height)
    agree(applied(pool), values(image, np.float32, seed, special and op is MaxPool2D))


@pytest.mark.parametrize("op", [AveragePool2D, MaxPool2D, L2Pool2D])
def test_epilogue(op: type[Pool]) -> None:
    def formula(g: SubgraphBuilder, x: Value, scale: Value) -> Sequence[Value]:
        pooled = g.apply(op(Padding.SAME, 2, 2, Activation.NONE, 3, 3), x)
        return [g.apply(Mul(), pooled, scale)]

    agree(formula, values((1, 5, 6, 7), np.float32, 1), values((7,), np.float32, 2))
