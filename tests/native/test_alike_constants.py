"""Operators that differ in small constants alone: the second one has these in memory, and so have those that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlet.backends.native.program import EMBEDDED_BYTES
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import comparison, conv, elementwise, matmul, normalize, unary
from tests.exec import graphs as g
from tests.exec.graphs import Array
from tests.native.test_alike import Body, X, numbers, stack, written
from tests.native.test_budget import compare

NARROW = EMBEDDED_BYTES // 4
"""How many numbers code has."""


def soft(s: SubgraphBuilder, v: Value) -> Value:
    """What nothing before is computed together with."""
    return s.apply(normalize.Softmax(beta=1.0), v)


def combined(kind: type[elementwise.Binary]) -> Body:
    """A number of its own in each layer."""
    return lambda s, v, k: soft(s, s.apply(kind(), v, s.constant(np.float32(k + 0.5))))


def chosen(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """What is less than a number, else another one."""
    is_less = s.apply(comparison.Less(), v, s.constant(np.float32(k / 64)))
    return soft(s, s.apply(comparison.SelectV2(), is_less, v, s.constant(np.float32(k))))


def product(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A product with a short bias."""
    return s.apply(matmul.FullyConnected(), v, s.constant(numbers(NARROW, NARROW, seed=k)),
                   s.constant(numbers(NARROW, seed=k)))


def filtered(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A convolution with a short bias."""
    return s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), v,
                   s.constant(numbers(NARROW, 3, 3, NARROW, seed=k)), s.constant(numbers(NARROW, seed=k)))


BODIES: Mapping[str, tuple[Body, Array]] = {
    **{each.name: (combined(each), X) for each in (elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Div,
                                                   elementwise.Maximum, elementwise.SquaredDifference)},
    "choice": (chosen, X), "bias": (product, numbers(5, NARROW)), "filter": (filtered, numbers(1, 6, 5, NARROW)),
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("body", "x"), BODIES.values(), ids=BODIES)
def test_layers_are_written_once(body: Body, x: Array, is_open: bool) -> None:
    few, many = (written(stack(body, count, is_open, x), x) for count in (4, 9))
    assert 0 < few == many


SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, 0.1)
_PAIRS = st.lists(st.tuples(*[st.integers(0, len(SPECIAL) - 1)] * 2), min_size=3, max_size=6)
_KINDS = st.sampled_from((elementwise.Add, elementwise.Mul, elementwise.Div, elementwise.Minimum))


@given(_PAIRS, _KINDS, st.booleans())
def test_each_has_its_numbers(pairs: list[tuple[int, int]], kind: type[elementwise.Binary], is_shared: bool) -> None:
    """Whether or not the two numbers of an operator are one tensor, or lie at one place."""
    stored = np.array(SPECIAL, np.float32)
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (3, 7))
    shared = [main.constant(stored[k]) for k in range(len(SPECIAL))]
    for one, other in pairs:
        by, more = (shared[k] if is_shared else main.constant(stored[k]) for k in (one, other))
        main.output(g.add(main, soft(main, main.apply(kind(), main.apply(unary.Sin(), x), by)), more),
                    main.apply(kind(), g.add(main, x, by), more))
    with np.errstate(all="ignore"):
        compare(b.build(), [np.linspace(-2, 2, 21, dtype=np.float32).reshape(3, 7)])


def test_in_loops() -> None:
    def turn(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        found = v[1]
        for k in range(20):
            found = combined(elementwise.Mul)(s, found, k)
        return [g.plus(s, v[0]), found]

    compare(g.while_model(g.at_most(2), turn, [g.i32(0), X]), [g.i32(0), X])


def test_numbers_of_a_file_that_lie_nowhere_else() -> None:
    """Constants of one element with several axes, and of several with one."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v = main.tensor(Tensor("x", DType.FLOAT32, X.shape))
    main.feed(v)
    for k in range(4):
        v = soft(main, main.apply(elementwise.Mul(), v, main.constant(np.full((1, 1), k + 2, np.float32))))
        v = soft(main, main.apply(elementwise.Mul(), v, main.constant(numbers(5, 1, seed=k))))
    main.output(v)
    assert written(b.build()) < 8
